"""Sentences that say in a question's own words what that asks, or deny it."""

import types

from opql_jax.corpus.questions import Question
from opql_jax.kb.answers import Answer
from opql_jax.kb.text.yes_or_no import stated

from examples import table


def marked(text, ids):
    """A text without its brackets, and the names that stood there; '[Ada=she]' is Ada as 'she'."""
    plain, names = '', []
    for piece in text.split('['):
        name, closed, after = piece.rpartition(']')
        if closed:
            name, _, said = name.partition('=')
            said = said or name
            names.append((len(plain), len(plain) + len(said), ids.setdefault(name, len(ids))))
            plain += said
        plain += after
    return plain, names


def said(question, sentences, title=''):
    """What sentences, in which all names that begin with 'A' are of persons, say to a question."""
    ids = {}
    asked, topics = marked(question, ids)
    text, mentions = marked(sentences, ids)
    start = len(f'{title}: ') if title else 0
    row = {
        'title': title,
        'text': f'{title}: {text}' if title else text,
        'sentence_starts': [
            start + at for at in range(len(text)) if not at or text[:at].endswith('. ')
        ],
        'mentions': [
            {'start': start + first, 'end': start + last, 'entity': entity}
            for first, last, entity in mentions
        ],
    }
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
    Did [Ada] lead the first survey of [Harl]? | [Ada] led the first survey of [Harl]. | yes
    Did [Ada] lead the survey of [Harl]? | In May [Ada] led the full survey of the [Harl]. | yes
    Did [Ada] lead the survey? | [Ada], who was born in Leith, led the survey in 1911. | yes
    Did [Ada] marry? | [Ada] married in 1860. | yes
    Did [Ada] marry? | [Ada] never married. | no
    Did [Ada] lead the survey? | [Ada] did not lead the survey. | no
    Did [Ada] lead the survey? | [Ada] didn't lead the survey. | no
    Has [Ada] won the prize? | [Ada] won the prize, and left. | yes
    Does [Ada] own the mill? | [Ada] owns the mill. | yes
    Was [Ada] elected mayor? | [Ada] was elected mayor in 1900. | yes
    Was [Ada] elected mayor? | [Ada] was not elected mayor. | no
    Was [Ada] a jazz singer? | [Ada] was a famous jazz singer and painter. | yes
    Did [Ada] teach [Abel]? | [Ada] taught [Abel]. | yes
    Did [Ada] teach [Abel Low]? | [Ada Finch=Finch] taught [Abel Low=Low]. | None
    Did [Ada] teach [Abel]? | [Abel] taught [Ada]. | None
    Did [Ada] teach [Abel]? | [Abel] was taught by [Ada]. | None
    Did [Ada] teach [Abel]? | [Ada] was taught [Abel]. | None
    Did [Ada] teach [Abel]? | [Ada] taught [Abel]'s sister. | None
    Did [Ada] lead the survey? | [Ada] planned to lead the survey. | None
    Did [Ada] lead the survey? | [Ada] would have led the survey. | None
    Did [Ada] lead the survey? | [Ada] wrote that [Abel] led the survey. | None
    Did [Ada] lead the survey? | [Ada] and [Abel] led the survey. | None
    Did [Ada] lead the survey? | The father of [Ada] led the survey. | None
    Did [Ada] lead the survey? | [Ada]'s father led the survey. | None
    Did [Ada] lead the survey? | Neither [Abel] nor [Ada] led the survey. | None
    Did [Ada] lead the survey? | No friend of young [Ada] led the survey. | None
    Did [Ada] lead the survey? | The son of [Abel] and [Ada] led the survey. | None
    Did [Ada] lead the survey? | In the novel, [Ada] led the survey. | None
    Did [Ada] lead the survey? | In 1911, [Ada] led the survey. | yes
    Did [Ada] lead the survey? | It is not true that [Ada] led the survey. | None
    Did [Ada] lead the survey? | It is a legend that [Ada] led the survey. | None
    Did [Ada] lead the survey? | [Ada] did not lead the survey until May. | None
    Did [Ada] lead the survey? | [Ada] led the survey committee. | None
    Did [Ada] lead the survey? | [Ada] led a critique of the survey. | None
    Did [Ada] lead the survey? | [Ada] leads the survey. | None
    Did [Ada] discover gravity? | [Ada] discovered a comet and wrote about gravity. | None
    Does [Ada] own the mill? | [Ada] owned the mill. | None
    Is [Ada] the mayor of [Harl]? | [Ada] is the former mayor of [Harl]. | None
    Is [Ada] the mayor of [Harl]? | [Ada] was the mayor of [Harl]. | None
    Was [Ada] a jazz singer? | [Ada] was an opera singer. | None
    Did [Ada] or [Abel] lead the survey? | [Ada] led the survey. | None
    Did [Ada] marry? | [Ada] married in 1860. [Ada] never married. | None
    Who led the survey of [Harl]? | [Ada] led the survey of [Harl]. | None
""")
def test_a_sentence_says_yes_or_no_only_if_it_says_all_words_of_the_subject(
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
