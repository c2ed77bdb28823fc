"""A knowledge base of plain text, without training: questions are answered with sentences."""

import itertools
import pathlib
import shutil

import pytest

import opql_jax
from opql_jax.core import batch_cache
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import ManifestError
from opql_jax.corpus.name_resolution import fold
from opql_jax.kb.answers import format_answer
from opql_jax.kb.calibration import SURE
from opql_jax.kb.text.index_text import index_text
from opql_jax.kb.text.retrieve import retrieve_file

from trios import TRIOS, write

FOLDER, READER = 'engine_folder', False
ENGINE = TRIOS['engine']


def content(folder: pathlib.Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob('*') if path.is_file() and not path.name.startswith('.'))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope='module')
def folder(engine_folder):
    return engine_folder.parent


def test_all_trios_answer_from_one_knowledge_base(trios_folder):
    kb = opql_jax.open(trios_folder)
    for asked in itertools.chain(*(trio.asked for trio in TRIOS.values())):
        answer = kb.ask(asked.question)
        assert fold(kb.vocab.names[answer.entities[0]]) == fold(asked.answer)
        facts = kb.evidence(answer.hops[-1].entries[:3])
        assert any(asked.said in fact['sentence'] for fact in facts)


def test_an_answer_is_entities_with_paths_and_sentences(kb):
    answer = kb.ask('Where did the father of Ada Lovelace die?')
    assert [member.id for member in answer] == answer.entities.tolist()
    assert answer.names[0] == 'Missolonghi'
    assert sum(member.weight for member in answer) == pytest.approx(1, abs=1e-5)
    probabilities = [member.probability for member in answer]
    assert probabilities == answer.probabilities.tolist() == sorted(probabilities, reverse=True)
    assert answer.is_sure and SURE <= probabilities[0] < 1 and probabilities[-1] > 0
    assert f'{probabilities[0]:.3f}  Missolonghi\n' in format_answer(answer, 1)
    (path,) = answer.paths('Missolonghi', most=1)
    ends = [('Ada Lovelace', 'Lord Byron'), ('Lord Byron', 'Missolonghi')]
    assert [fact.ends for fact in path] == ends
    assert [text for text, role in path[1].pieces() if role] == ['Lord Byron', 'Missolonghi']
    assert path[1].document == 'articles/lord byron.txt'
    assert answer.paths('Ada Lovelace') == []
    assert [passage.title for passage in answer.passages(2)] == ['Ada Lovelace', 'Lord Byron']
    assert answer.passages(1)[0].text.startswith(ENGINE.documents['Ada Lovelace'])
    with pytest.raises(InputError, match='unknown entity'):
        answer.paths('Atlantis')


def test_what_is_no_question_or_number_or_names_nothing_is_told(kb):
    long = '1,000,000 characters: ask it in at most 2,000'
    for question, said in (
        *((bad, 'question: ') for bad in (None, 7, '', ' ', ['Who is Ada Lovelace?'], 'Ada\0')),
        ('谁设计了桥?', 'mentions no name.*Questions are read in English'),
        ('x' * 10**6, long),
    ):
        with pytest.raises(InputError, match=said):
            kb.ask(question)
    with pytest.raises(InputError, match=long):
        kb.retrieve('x' * 10**6)
    for number in (0, -1, None, '5', 1.5):
        with pytest.raises(InputError, match='k: expected a number of at least 1'):
            kb.retrieve('Who is Ada Lovelace?', k=number)
        with pytest.raises(InputError, match='hops: expected a number of at least 1'):
            kb.ask('Who is Ada Lovelace?', hops=number)


@pytest.mark.parametrize(
    'question', ['Who proposed?', 'Should an algorithm fight?', 'Below which machine?']
)
def test_what_names_nothing_is_answered_by_sentences_that_have_a_word_of_it(kb, question):
    answer = kb.ask(question)
    assert answer.is_by_sentences and len(answer)
    assert 'no name in the question leads to an answer' in answer.to_record(1)['note']


@pytest.mark.parametrize('damage', ['no folder', 'cut'])
def test_a_damaged_encoder_is_told_and_written_anew(folder, tmp_path, damage):
    shutil.copytree(folder / 'kb', tmp_path / 'kb')
    encoder = tmp_path / 'kb' / 'encoder'
    if damage == 'no folder':
        shutil.rmtree(encoder)
    else:
        (encoder / 'model.safetensors').write_bytes(b'')
    said = 'kb/encoder.*run `opql index` again with the same sources, which writes it anew'
    with pytest.raises(ManifestError, match=said):
        opql_jax.open(tmp_path / 'kb')
    index_text([folder / 'articles'], tmp_path / 'kb', processes=1)
    assert content(tmp_path / 'kb') == content(folder / 'kb')


def test_a_finished_knowledge_base_stays_as_it_is(folder, tmp_path, monkeypatch, caplog):
    shutil.copytree(folder / 'kb', tmp_path / 'kb')
    before = content(tmp_path / 'kb')
    index_text([folder / 'articles'], tmp_path / 'kb', processes=1)
    assert content(tmp_path / 'kb') == before

    def no_permission(*arguments):
        raise PermissionError(13, 'not permitted', 'batch')

    monkeypatch.setattr(batch_cache, 'remove', no_permission)  # it is done all the same
    index_text([folder / 'articles'], tmp_path / 'kb', processes=1)
    assert 'what no version needs was left: batch: not permitted' in caplog.text
    shutil.copytree(folder / 'articles', tmp_path / 'articles')
    gone = sorted((tmp_path / 'articles').iterdir())[0]
    gone.unlink()
    index_text([tmp_path / 'articles'], tmp_path / 'kb', processes=1)
    assert f"any more: 'articles/{gone.name}'; see `opql remove" in caplog.text
    assert content(tmp_path / 'kb') == before
    write(tmp_path / 'articles', {'Another': 'Another text is about Ada Lovelace and London.'})
    with pytest.raises(InputError, match='1 new and 0 changed documents.*opql add'):
        index_text([tmp_path / 'articles'], tmp_path / 'kb', processes=1)
    assert content(tmp_path / 'kb') == before


def test_an_index_that_was_cut_off_is_the_same_once_it_is_done(folder, tmp_path, monkeypatch):
    from opql_jax.kb.text import index_text as module

    def cut_off(*arguments, **options):
        raise KeyboardInterrupt

    whole = content(folder / 'kb')
    for name in ('prepare', 'index_passages'):
        monkeypatch.setattr(module, name, cut_off)
        with pytest.raises(KeyboardInterrupt):
            index_text([folder / 'articles'], tmp_path / name, processes=1)
        monkeypatch.undo()
        index_text([folder / 'articles'], tmp_path / name, processes=1)
        assert content(tmp_path / name) == whole


def test_no_file_of_a_user_is_destroyed(folder, kb, tmp_path):
    questions = tmp_path / 'questions.jsonl'
    line = '{"id": "a", "question": "Who designed the Analytical Engine?"}\n'
    questions.write_text(line)
    (tmp_path / 'link').symlink_to(questions)
    (tmp_path / 'away').symlink_to(tmp_path / 'elsewhere')
    for out, said in (
        (questions, 'holds the questions'),
        (tmp_path / 'link', 'holds the questions'),
        (tmp_path / 'away', 'a link'),
        (tmp_path, 'is a folder'),
    ):
        with pytest.raises(InputError, match=said):
            retrieve_file(kb, questions, out, 1)
    with pytest.raises(InputError, match='holds other files'):
        index_text([folder / 'articles'], tmp_path, processes=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ['away', 'link', 'questions.jsonl']
    assert questions.read_text() == line
    questions.write_text(line * 2)
    with pytest.raises(InputError, match=":2: id: 'a' is already that of line 1"):
        retrieve_file(kb, questions, tmp_path / 'out.jsonl', 1)
