"""Documents are added to a knowledge base of plain text and forgotten, all or nothing."""

import collections
import contextlib
import json
import pathlib
import shutil

import numpy as np
import pytest
from damage import flip

import opql_jax
from opql_jax import cli
from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import read_documents
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.kb.text import change_text
from opql_jax.kb.text.change_text import add_text, change, remove_text
from opql_jax.kb.text.index_text import index_text
from opql_jax.kb.verify import verify
from opql_jax.memory.format import Memory
from opql_jax.memory.update import delete
from opql_jax.models import passage_encoder

from trios import SCHEUTZ, TRIOS, write

ENGINE, RIVER = TRIOS['engine'], TRIOS['river']
BYRON = {'id': 'articles/lord byron.txt', 'title': 'Lord Byron'}
BYRON['text'] = ENGINE.documents['Lord Byron']


def documents(kb):
    folder = KBFolder(kb)
    found = read_documents(folder.part(folder.read()['text']) / 'documents.parquet')
    return {document.id: document.text for document in found}


def parts(kb):
    return sorted({path.name for path in kb.iterdir() if path.is_dir()} - {'encoder', 'cache'})


def facts(kb):
    memory = kb.memory
    said = [(fact['topic'], fact['target'], fact['sentence']) for fact in kb.evidence(memory.ids)]
    return said, memory.relations().astype(np.float32)


def numbers(kb):
    """All numbers that the encoder made, each once: bytes by text and mentions, and by name."""
    stated = KBFolder(kb).read()
    arrays = {path.stem: np.load(path) for path in (kb / stated['retrieval']).glob('*.npy')}
    with contextlib.closing(Memory.open(kb / stated['memory'])) as memory:
        halves, entries = memory.halves(), memory.mentions(np.arange(len(memory)))
        stored = halves.of(np.arange(memory.manifest.segments[0].num_mentions))
    of_mentions = {}
    for side, column in zip(('topic', 'target'), halves.mentions.T):
        spans = (entries[f'{side}_{name}'].tolist() for name in ('start', 'end'))
        of_mentions |= dict(zip(zip(entries['passage'].tolist(), *spans), column.tolist()))
    assert len(of_mentions) == len(stored)
    found, sentence, mention = {}, 0, 0
    for row, passage in enumerate(Prepared(kb / stated['text']).passages.to_pylist()):
        spans = tuple((each['start'], each['end']) for each in passage['mentions'])
        known = [span for span in spans if (row, *span) in of_mentions]
        made = {span: stored[of_mentions[row, *span]] for span in known}
        made['passage'] = arrays['passage_vectors'][row]
        for number, start in enumerate(passage['sentence_starts']):
            made[f'sentence at {start}'] = arrays['sentence_vectors'][sentence + number]
        for number, span in enumerate(spans):
            made[f'kind of {span}'] = arrays['mention_kinds'][mention + number]
        sentence, mention = sentence + len(passage['sentence_starts']), mention + len(spans)
        found[passage['text'], spans] = {name: array.tobytes() for name, array in made.items()}
    counted = ('passage_vectors', 'sentence_vectors', 'mention_kinds')
    assert [row + 1, sentence, mention] == [len(arrays[name]) for name in counted]
    return found


@pytest.fixture(scope='module')
def river(tmp_path_factory):
    return write(tmp_path_factory.mktemp('change') / 'b', RIVER.documents)


@pytest.fixture
def half(engine_folder, tmp_path):
    return pathlib.Path(shutil.copytree(engine_folder, tmp_path / 'kb'))


def test_bad_changes_are_told_and_none_is_made(river, half, tmp_path):
    before = KBFolder(half).manifest.read_bytes()
    text = 'Charles Babbage was born in Walworth.'
    other = write(tmp_path / 'articles', {'Charles Babbage': text})
    for texts, said in (
        ([other], "'articles/charles babbage.txt' already exists with different text.*--replace"),
        ([tmp_path / 'nothing'], 'no such file'),
        ([{'id': 'x', 'title': 'X'}], '^texts: text 0: text: missing$'),
    ):
        with pytest.raises(InputError, match=said):
            add_text(half, texts)
    year = "unknown sentence .*did you mean 'He died in Missolonghi in 1824.'"
    for kind, name, said in (
        ('documents', 'articles/charles babage.txt', "did you mean 'articles/charles babbage.txt'"),
        ('sentences', 'He died in Missolonghi in 1825.', year),
        ('sentences', 'Analytical Engine', 'sentences have the words'),
    ):
        with pytest.raises(InputError, match=said):
            remove_text(half, **{kind: [name]})
    with pytest.raises(InputError, match='no document would be left'):
        remove_text(half, list(documents(half)))
    with pytest.raises(InputError, match='does not exist'):
        add_text(tmp_path / 'other', [river])
    with pytest.raises(ZeroDivisionError), change(half) as changed:
        changed.add(river)
        raise ZeroDivisionError
    assert KBFolder(half).manifest.read_bytes() == before
    assert parts(half) == ['memory', 'retrieval', 'text']


def test_one_change_may_add_replace_and_remove_and_readers_keep_what_they_opened(half):
    opened = opql_jax.open(half)
    (half / 'text' / 'notes.txt').write_text('of a user')
    with opened.update() as changed:
        changed.add(SCHEUTZ)
        changed.add(BYRON | {'text': 'Lord Byron lived in Venice.'}, replace=True)
        changed.remove(document='articles/charles babbage.txt')
    assert str(changed) == '1 document added, 1 document replaced, 1 document removed'
    assert list(documents(half)) == ['articles/ada lovelace.txt', 'articles/lord byron.txt', 'new']

    # The parts of the version before are there while it is open, then only what is a user's.
    assert opened.evidence(opened.memory.ids)
    assert opened.ask(ENGINE.asked[0].question).entities.size
    assert parts(half) == ['memory', 'memory-2', 'retrieval', 'retrieval-2', 'text', 'text-2']
    del opened
    (half / 'text-3').mkdir()
    (half / 'text-3' / '.lock').touch()  # a change began there, and was killed
    change_text.remove_unneeded(KBFolder(half))
    assert parts(half) == ['memory-2', 'retrieval-2', 'text', 'text-2']
    assert [path.name for path in (half / 'text').iterdir()] == ['notes.txt']
    assert 'Per Georg Scheutz' in opql_jax.open(half).vocab.names


def test_an_entity_is_forgotten_as_the_change_has_left_it(tmp_path):
    """A document that is added may give a name another meaning, or be the first to have it."""
    kb = tmp_path / 'kb'
    said = 'Athens is the capital of Greece. Mary Stone wrote a poem in Athens.'
    athens = {'id': 'a', 'title': 'Athens', 'text': f'{said} John Miller visited Athens in 1809.'}
    index_text([athens], kb, processes=1)
    with change(kb, processes=1) as changed:
        text = 'John Miller (painter) was born in London in 1788. John Miller married Ann Milbanke.'
        changed.add({'id': 'b', 'title': 'John Miller (painter)', 'text': text})
        text = 'Oslo lies in Norway. Peter Novak was born in Oslo in 1950.'
        changed.add({'id': 'c', 'title': 'Oslo', 'text': text})
        changed.remove(entity=['John Miller', 'Peter Novak'])
    assert documents(kb) == {'a': said, 'c': 'Oslo lies in Norway.'}


def test_an_entity_is_not_forgotten_by_a_name_that_several_have(index):
    said = 'John Mercer was an English'
    texts = {
        'John Mercer (painter)': f'{said} painter who was born in Derby in 1790.',
        'John Mercer (chemist)': f'{said} chemist who was born in Great Harwood in 1791.',
    }
    kb = index(texts)
    said = r"'John Mercer' may be 2 entities; write one of\n.*\(painter\).*\n.*\(chemist\).*1791\.$"
    with pytest.raises(InputError, match=said):
        remove_text(kb, entities=['John Mercer'])
    assert list(documents(kb)) == list(texts)
    assert remove_text(kb, entities=['john mercer (chemist)'], processes=1).removed == 1
    assert list(documents(kb)) == ['John Mercer (painter)']


def test_a_sentence_is_forgotten_with_the_facts_that_rest_on_it_and_stays_forgotten(half):
    asked = ENGINE.asked[0]
    said, before = 'He died in Missolonghi in 1824.', opql_jax.open(half)
    assert before.ask(asked.question).names[0] == 'Missolonghi'
    others = [fact for fact in facts(before)[0] if said not in fact[2]]
    changed = remove_text(half, sentences=['died  in Missolonghi'], processes=1)
    assert (changed.removed, changed.cut) == (0, 1)

    def check():
        kb = opql_jax.open(half)
        assert said not in documents(half)['articles/lord byron.txt']
        assert kb.vocab.get('Missolonghi') is None
        assert sorted(facts(kb)[0]) == sorted(others)
        assert 'Missolonghi' not in kb.ask(asked.question).names
        assert not any('Missolonghi' in found.text for found in kb.retrieve(asked.question))

    check()
    change_text.compact(half)
    check()
    with pytest.raises(InputError, match='already exists with different text'):
        add_text(half, [BYRON], processes=1)


def counting():
    """Counts of rows by stage, and a map over batches that counts them."""
    counts = collections.Counter()

    def map_batches(stage, batches):
        for batch in batches:
            counts[getattr(stage, 'func', stage).__name__] += len(batch)
            yield stage(batch)

    return counts, map_batches


def test_only_what_is_new_is_recognised_and_encoded(river, half):
    rows, map_batches = counting()
    add_text(half, [river], map_batches=map_batches)
    assert rows['recognise_batch'] == 3
    assert 0 < rows['encode_batch'] < rows['tokenise_batch']
    assert change_text.compact(half) > 0 and not (half / 'cache').exists()
    rows.clear()
    remove_text(half, documents=['b/isar.txt'], map_batches=map_batches)
    assert rows['recognise_batch'] == 5 and rows['encode_batch'] < rows['tokenise_batch']


@pytest.mark.parametrize(
    'other',
    ['program', 'memory', 'memory/segment-00000/halves-00000.npy', 'retrieval/mention_kinds.npy'],
)
def test_what_is_damaged_or_of_another_encoder_is_replaced(river, half, monkeypatch, caplog, other):
    if other == 'program':
        monkeypatch.setattr(passage_encoder, '_VERSION', 0)
    elif other == 'memory':
        delete(half / 'memory', entries=[0])
    else:
        flip(half / other)
    rows, map_batches = counting()
    add_text(half, [river], map_batches=map_batches)
    assert rows['encode_batch'] == rows['tokenise_batch'] > 0
    told = f'all passages are encoded again: {half / other}: its sha256' in caplog.text
    assert told == other.endswith('.npy') and verify(half, lambda said: None) == []


@pytest.mark.parametrize(('lost', 'left'), [('memory', 'retrieval'), ('retrieval', 'memory')])
def test_what_another_encoder_left_is_not_completed(engine_folder, half, monkeypatch, lost, left):
    shutil.rmtree(half / lost)
    monkeypatch.setattr(passage_encoder, '_VERSION', 0)
    said = f'{left} was made by another encoder or program: delete that'
    with pytest.raises(InputError, match=said):
        index_text([engine_folder.parent / 'articles'], half, processes=1)
    shutil.rmtree(half / left)
    index_text([engine_folder.parent / 'articles'], half, processes=1)
    assert verify(half, lambda said: None) == []


def test_updates_in_a_row_keep_each_number_and_none_of_what_is_forgotten(river, half, tmp_path):
    spain = {'text': BYRON['text'].replace('Greece to', 'Spain to')}
    changes = {
        'documents': lambda changed: changed.add(river),
        'a mention': lambda changed: changed.add(BYRON | spain, replace=True),
        'a sentence': lambda changed: changed.remove(sentence='died in Missolonghi'),
        'an entity': lambda changed: changed.remove(entity='Charles Babbage'),
    }
    of = lambda found: {each for made in found.values() for each in made.values()}
    after, forgotten = numbers(half), set()
    for name, make in changes.items():
        before = after
        with change(half, processes=1) as changed:
            make(changed)
        after = numbers(half)
        kept = before.keys() & after.keys()
        assert kept and before.keys() != after.keys(), name
        for key in kept:
            # A mention may lose its last pair, or have its first.
            for which in before[key].keys() & after[key].keys():
                assert before[key][which] == after[key][which], f'{name}: {which} of {key}'
        forgotten = {each for each in forgotten | of(before) if len(each) > 100} - of(after)
        files = [path for path in half.rglob('*') if path.is_file() and 'encoder' not in path.parts]
        written = [path.read_bytes() for path in files]
        assert name == 'documents' or forgotten
        assert not any(each in content for each in forgotten for content in written), name
        assert {path.parent.name for path in half.glob('cache/**/*.arrow')} == {'spans'}
    whole, manifest = tmp_path / 'anew', KBFolder(half).manifest
    stored = KBFolder(half).part(KBFolder(half).read()['text']) / 'documents.parquet'
    texts = [{'id': d.id, 'title': d.title, 'text': d.text} for d in read_documents(stored)]
    index_text(texts, whole, processes=1)
    kinds = ({key: made.keys() for key, made in each.items()} for each in (numbers(whole), after))
    assert next(kinds) == next(kinds)
    changed, anew = opql_jax.open(half), opql_jax.open(whole)
    assert documents(half) == documents(whole) and changed.vocab.names == anew.vocab.names
    assert changed.vocab.aliases == anew.vocab.aliases
    (said, relations), (said_anew, relations_anew) = facts(changed), facts(anew)
    assert said == said_anew
    np.testing.assert_allclose(relations, relations_anew, atol=2e-3)
    for question, *_ in RIVER.asked:
        assert changed.ask(question).names[0] == anew.ask(question).names[0]
        found = ([p.document for p in kb.retrieve(question)] for kb in (changed, anew))
        assert next(found) == next(found)
    assert verify(half, lambda line: None) == []
    before, there = manifest.read_bytes(), parts(half)
    assert add_text(half, [river], processes=1).skipped == 3
    assert manifest.read_bytes() == before and parts(half) == there


def test_the_commands(engine_folder, half, capsys):
    def made(*arguments):
        cli.main([*map(str, arguments), '--json'])
        return json.loads(capsys.readouterr().out)

    articles = engine_folder.parent / 'articles'
    assert made('index', articles, '--out', half)['documents'] == 3
    assert made('add', half, articles)['skipped'] == 3
    assert made('remove', half, '--document', 'articles/lord byron.txt')['removed'] == 1
    told = made('info', half)
    assert (told['documents'], told['parts']['text'], told['rejected']) == (2, 'text-2', 0)
    assert told['entries'] == len(opql_jax.open(half).memory) and told['bytes'] > 10**6
    assert made('compact', half)['freed_bytes'] > 0 == made('compact', half)['freed_bytes']
    with pytest.raises(SystemExit, match='error: .*name a document, an entity or a sentence'):
        made('remove', half)
