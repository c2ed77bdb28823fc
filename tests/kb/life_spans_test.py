"""Dates in brackets behind a name say when its owner was born and died."""

import numpy as np

from opql_jax.kb.text.life_spans import with_life_span
from opql_jax.models.reader import Reading, Span

from examples import table

TEXT = (
    'Maud Ellery: Maud Ellery (12 May 1911 in Hull – 1988) was a potter. Her sister Ruth Ellery '
    '(born 1915) kept bees, and married Jan van Dyk (c. 1900 – 3 June 1961). Low Tide (1931) is '
    'her vase. The vicar Bo Orr (d. 1790) told of it to Kay Lund (1998).'
)


@table("""
    question | date
    When was Maud Ellery born? | 12 May 1911
    In which year was Ruth Ellery born? | 1915
    When did Ruth Ellery die? |
    what year did Jan van Dyk die | 3 June 1961
    When did Bo Orr pass away? | 1790
    When was Bo Orr born? |
    When was Kay Lund born? |
    When was the sister of Maud Ellery born? |
    When was Low Tide made? |
""")
def test_they_answer_when_whom_they_are_of_was_born_or_died(question, date):
    reading = Reading([Span(0, 0, 4, 0.5)], 0.3, 0.1, 0.1, np.ones(1, np.float32))
    found = with_life_span(question, [TEXT], reading)
    best = found.spans[0]
    total = sum(span.probability for span in found.spans) + found.unanswered + found.yes + found.no
    assert abs(total - 1) < 1e-6
    assert (TEXT[best.start : best.end] if best.probability > 0.5 else '') == date
