"""Terms and acronyms that texts define in brackets, in their own and in other documents."""

import pytest

from opql_jax.corpus.defined_terms import defined_terms, defines
from opql_jax.corpus.documents import Document
from opql_jax.corpus.name_resolution import resolve
from tests.support.spans import marked


def read(text):
    return marked(text, 'organisation')


def resolved(*marked_texts):
    texts = list(map(read, marked_texts))
    documents = [Document(str(i), f'Text {i}', text) for i, (text, _) in enumerate(texts)]
    vocab, found = resolve(documents, [spans for _, spans in texts])
    keys = [[m.entity for m in d.mentions] for d in found]
    return [[vocab.names[vocab.id_of_key[key]] for key in row] for row in keys], keys


@pytest.mark.parametrize(
    'defined, expected',
    [
        ('between [Norgate Lines AS] ("the Owner") and [Pella Ltd] (the “Charterer”).',
            {'Owner': 'Norgate Lines AS', 'Charterer': 'Pella Ltd'}),
        ('[Acme Tools], a firm of [Ely|place] (hereinafter referred to as the "Agent"), sold it.',
            {'Agent': 'Acme Tools'}),
        ('[Bo Lee|person], hereafter called the Tenant, pays.', {'Tenant': 'Bo Lee'}),
        ('[Bo Lee|person], hereafter called on, pays.', {}),
        ('the [Northern Rail Authority] (NRA) runs trains', {'NRA': 'Northern Rail Authority'}),
        ('[Ada Lovelace|person] (London) and [Bo Lee] (see "Notes") and [Cy Roe] (1815)', {}),
        ('the [Northern Rail Authority] (ABC) and ("the Owner")', {}),
    ],
)  # fmt: skip
def test_a_term_stands_for_the_name_before_it(defined, expected):
    text, spans = read(defined)
    found = {each.term: text[each.start : each.end] for each in defined_terms(text, spans)}
    assert found == expected


def test_a_text_defines_a_term_that_it_sets_in_quotes_behind_a_name():
    for text in ('Norgate AS (“the Owner”) sails.', 'Bo Lee, hereinafter the "Owner", pays.'):
        assert defines(text, 'owner')
    for text in ('Bo Lee (the "Tenant") pays the Owner.', 'Bo Lee (NRA) pays the Owner.'):
        assert not defines(text, 'owner')


def test_all_uses_of_a_term_mean_what_it_stands_for():
    ((names,), _) = resolved('[Norgate Lines AS] ("the Owner") has it. An Owner’s duty. Landowner.')
    assert names == ['Norgate Lines AS'] * 3


def test_an_acronym_means_the_same_in_other_texts_unless_two_names_have_it():
    define = 'The [Northern Rail Authority] ([NRA]) runs.'
    other = '[Solveig Lund|person] works for the [NRA].'
    assert resolved(define, other)[0][1] == ['Solveig Lund', 'Northern Rail Authority']
    against = 'The [National Road Agency] ([NRA]) builds.'
    first, second, third = resolved(define, against, other)[0]
    assert first == ['Northern Rail Authority'] * 2 and second == ['National Road Agency'] * 2
    assert third == ['Solveig Lund', 'NRA']


def test_a_first_name_that_several_have_is_somebody_else_in_each_text():
    longer = '[Henry Moss|person] met [Henry Dahl|person] and [Henry Kolb|person].'
    swam = '[Henry|person] swam with [Ada|person].'
    _, keys = resolved(longer, '[Henry|person] sang.', swam, '[Ada|person] sang.')
    assert keys[1][0] != keys[2][0] and keys[2][1] == keys[3][0]
