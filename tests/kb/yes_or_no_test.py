"""Sentences that say in a question's own words what that asks, or deny it."""

import re
import types

from opql_jax.corpus.questions import Question
from opql_jax.kb.answers import Answer
from opql_jax.kb.text.yes_or_no import stated

from examples import table
from spans import marked


def named(text, ids):
    """A text without its brackets, and the names that stood there; '[Ada=she]' is Ada as 'she'."""
    plain, spans = marked(re.sub(r'\[([^]=]*)=([^]]*)]', r'[\2|\1]', text), kind='')
    entity = lambda span: ids.setdefault(span.kind or plain[span.start : span.end], len(ids))
    return plain, [(span.start, span.end, entity(span)) for span in spans]


def said(question, sentences, title=''):
    """What sentences, in which all names that begin with 'A' are of persons, say to a question."""
    ids = {}
    asked, topics = named(question, ids)
    text, mentions = named(sentences, ids)
    start = len(f'{title}: ') if title else 0
    starts = [0, *(found.end() for found in re.finditer(r'\. ', text))]
    row = {'title': title, 'text': f'{title}: {text}' if title else text}
    row['sentence_starts'] = [start + at for at in starts]
    row['mentions'] = [
        {'start': start + first, 'end': start + last, 'entity': entity}
        for first, last, entity in mentions
    ]
    kinds = ['person' if name.startswith('A') else 'place' for name in ids]
    store = types.SimpleNamespace(
        prepared=types.SimpleNamespace(passage=[row].__getitem__),
        vocab=types.SimpleNamespace(names=list(ids), kinds=kinds),
    )
    spans = tuple((first, last) for first, last, _ in topics)
    answer = Answer(
        store=store,
        question=Question('ask', asked, spans, tuple(entity for *_, entity in topics)),
        evidence=types.SimpleNamespace(passages=[0]),
    )
    found = stated(answer)
    return None if found is None else (found.phrases[0], bool(found.is_sure))


@table("""
    question | sentence | word
    # A sentence says yes or no only if it says all words of the subject.
    Did [Ada] lead the first survey of [Harl]? | [Ada] led the first survey of [Harl]. | yes
    Did [Ada] marry? | [Ada] never married. | no
    Has [Ada] won the prize? | [Ada] won the prize, and left. | yes
    Was [Ada] a jazz singer? | [Ada] was a famous jazz singer and painter. | yes
    Did [Ada] teach [Abel]? | [Abel] was taught by [Ada]. | yes
    Did [Ada] teach [Abel]? | [Ada] was taught [Abel]. | None
    Did [Ada] teach [Abel]? | [Ada] taught [Abel]'s sister. | None
    Did [Ada] lead the survey? | [Ada] planned to lead the survey. | None
    Did [Ada] lead the survey? | [Ada] wrote that [Abel] led the survey. | None
    Did [Ada] lead the survey? | No friend of young [Ada] led the survey. | None
    Did [Ada] lead the survey? | In the novel, [Ada] led the survey. | None
    Did [Ada] lead the survey? | It is not true that [Ada] led the survey. | None
    Did [Ada] lead the survey? | [Ada] did not lead the survey until May. | None
    Did [Ada] lead the survey? | [Ada] led the survey committee. | None
    Did [Ada] lead the survey? | [Ada] led a critique of the survey. | None
    Did [Ada] lead the survey? | [Ada] leads the survey. | None
    Did [Ada] discover gravity? | [Ada] discovered a comet and wrote about gravity. | None
    Is [Ada] the mayor of [Harl]? | [Ada] is the former mayor of [Harl]. | no
    Was [Ada] a jazz singer? | [Ada] was an opera singer. | None
    Did [Ada] marry? | [Ada] married in 1860. [Ada] never married. | None
    Who led the survey of [Harl]? | [Ada] led the survey of [Harl]. | None
    # A denial counts if it is of all that is asked.
    Did [Ada] lead the survey? | [Ada] studied in Leeds and never led the survey. | no
    Did [Ada] lead the survey? | [Ada] refused to lead the survey. | no
    Did [Ada] lead the survey? | [Ada] denied that she had led the survey. | no
    Did [Ada] lead the survey? | [Ada] went home without leading the survey. | no
    Did [Ada] lead the survey? | [Abel] led the survey instead of [Ada]. | no
    Was [Up] sung by [Ada]? | [Up] is a 1911 song written and sung by [Ada]. | yes
    Did [Ada] lead the survey? | It was not [Ada] who led the survey. | no
    Did [Ada] lead the survey? | The survey was not led by [Abel], but by [Ada]. | yes
    Was the survey led by [Ada]? | The survey was not led by [Ada] but by [Abel]. | no
    Did [Abel] lead the survey? | [Ada] taught [Abel], who led the survey. | yes
    Did [Ada] lead the survey? | [Ada] did not lead the first survey. | None
    Did [Ada] lead the survey? | In 1911 [Ada] did not lead the survey. | None
    Did [Ada] lead the survey in 1911? | In 1911 [Ada] did not lead the survey. | no
    Does [Ada] speak German? | [Ada] speaks French but not German. | no
    Did [Ada] win the prize? | [Ada] lost the prize. | no
    Did [Ada] win the prize in 1911? | [Ada] won the prize in 1910. | None
    Did [Ada] win it in 1911? | [Ada] won it in 1910 and did not win it in 1911. | no
    # What is asked about may be a common noun.
    Is the museum closed on Mondays? | The Lace Museum is closed on Mondays. | yes
    Is the museum open on Mondays? | The museum is closed on Mondays. | no
    Is the museum open? | The museum is closed on Mondays. | None
    Does the museum have a shop? | The museum lacks a shop. | no
    Does the museum have a shop? | The museum is near [Harl]. It has a shop. | yes
    Is there a shop? | There is no shop. | no
    Was anybody hurt? | Nobody was hurt. | no
    Did patients die? | Not all patients died. | None
    Are dogs allowed? | Small dogs are allowed. | None
    Is linen provided? | Towels are provided, but linen is not. | no
    Is linen provided? | Towels are not provided, but linen is. | yes
    Can the lid be washed? | The lid cannot be washed. | no
    Is the hall closed? | The hall will be closed. | None
    # Another value denies what there is one of.
    Does the [Harl] have six arches? | The [Harl] has four arches. | no
    Does the [Harl] have six arches? | The [Harl] has four doors and six arches. | yes
    Was the mill built in 1911? | The mill was built in 1910. | no
    Was the mill visited by [Ada]? | The mill was visited by Abel Low. | None
    Did [Ada] build the mill? | The mill was built by Abel Low. | no
    Was [Up] built by [Ada]? | [Up] was built by [Ada] or [Abel]. | None
    Is [Up] a cinema? | [Up] is a theatre, opened in 1924 as the Palace, a cinema. | None
    Did [Abel] climb [Up]? | [Up] was climbed by [Ada], after a try by [Abel] failed. | None
    Did [Ada] win three medals? | [Ada] won two medals in Rome and one medal in Ulm. | None
    # What is over is denied of the present.
    Is [Ada] the mayor of [Harl]? | [Ada] was the mayor of [Harl] until 2018. | no
    Do trams cross the bridge? | Trams no longer cross the bridge. | no
    Does [Ada] still own the mill? | [Ada] bought the mill in 1911 and sold it in 1968. | no
    Does [Ada] own [Up]? | [Ada] sold [Up] in 1990. She bought it back in 1995. | None
    Does [Ada] live in [Harl]? | [Ada] left [Harl] for a week. | None
    Is [Ada]? | [Ada] is tall. | None
""")
def test_a_sentence_that_says_or_denies_all_that_is_asked_is_a_sure_answer(
    question, sentence, word
):
    assert said(question, sentence) == (None if word == 'None' else (word, True))


def test_the_first_of_some_may_not_be_the_first():
    question = 'Did [Ada] lead the first survey of [Harl]?'
    assert said(question, '[Ada] led the first full survey of [Harl].') == ('yes', False)


@table("""
    title | text | word
    Ada Low | [Ada Low=Low] was born in Leith. She led the survey. | yes
    Harl | [Ada Low=Low] was born in Leith. She led the survey. | None
    Ada Low | [Amy] was born in Leith. She led the survey. | None
""")
def test_she_is_whom_a_text_is_about_if_nobody_else_was_named(title, text, word):
    found = said('Did [Ada Low] lead the survey?', text, title)
    assert found == (None if word == 'None' else (word, True))
