"""What answers note of names: which the text lacks, and which of several entities is meant."""

import pytest

from opql_jax.core.errors import InputError

from examples import table

READER = False
DOCUMENTS = {
    'Franz Schubert': 'Franz Schubert was an Austrian composer. Schubert was born in Vienna in '
    '1797. He admired the music of Ludwig van Beethoven.',
    'Songs of Vienna': 'Franz Peter Schubert wrote Erlkoenig in 1815. Schubert sold it in Vienna. '
    'The publisher Tomas Lind printed it in London.',
    'Printers of London': 'Erik Lind was a printer, who died in London in 1850. He was born in '
    'Uppsala and knew Franz Peter Schubert.',
}


@table("""
    question | near
    Where did Zorblatt meet Franz Schubert? | the text has no name 'Zorblatt'
    Did Schubert know Eric Lindt in London? | no name 'Eric Lindt'; did you mean 'Erik Lind'
    Where was Franz Schubert born? |
    Tell me: where was Schubert born? |
""")
def test_beside_known_names_a_note_tells_of_an_unknown_one_and_the_nearest(kb, question, near):
    note = kb.ask(question).to_record(1).get('note', '')
    assert near in note and ('has no name' in note) == bool(near)


@pytest.mark.parametrize(
    'name', ['SCHUBERT, FRANZ PETER', 'the composer franz peter schubert', 'Franz Petr Schubert']
)
def test_an_unknown_name_is_told_with_those_that_are_like_it_or_share_its_words(kb, name):
    with pytest.raises(InputError, match="unknown entity .*; did you mean 'Franz Peter Schub"):
        kb.entity(name)


def test_only_entities_that_differ_are_noted(kb):
    names = lambda name: {kb.vocab.names[each] for each in kb.linker.meanings(name)}
    assert names('Schubert') == {'Franz Schubert', 'Franz Peter Schubert'}
    assert names('Lind') == {'Tomas Lind', 'Erik Lind'}
    assert not any('may also be' in note for note in kb.ask('Where was Schubert born?').notes)
    (note,) = (note for note in kb.ask('Where did Lind die?').notes if 'may also be' in note)
    assert note.startswith('Lind is taken for ') and note.count('Lind] (person): ') == 1
