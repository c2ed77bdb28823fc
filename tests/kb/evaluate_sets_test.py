"""Question files and question sets, answered and scored from folders to tables."""

import json
import pathlib

import pytest

from opql_jax.corpus.documents import CorpusError
from opql_jax.datasets import metaqa
from opql_jax.kb.ask import ask
from opql_jax.kb.evaluate import evaluate, evaluate_sets, format_table, infer_file
from opql_jax.kb.predictions import PredictionError, bracketed, read_predictions
from opql_jax.kb.virtual_kb import VirtualKB

import tiny_training

SPLITS = ('1-hop/dev', '2-hop/dev')


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
    """(prepared, follower, memory) over the generated corpus, as keyword arguments."""
    folders = tiny_training.write_world(tmp_path_factory.mktemp('world'))
    return dict(zip(('prepared_dir', 'model_dir', 'memory_dir'), map(str, folders)))


@pytest.fixture(scope='module')
def kb(folders):
    return VirtualKB.open(*folders.values(), k=16)


@pytest.fixture(scope='module')
def question_file(kb, tmp_path_factory):
    """Twelve 2-hop questions in MetaQA's format, with an unknown topic and an unknown answer among them."""
    path = tmp_path_factory.mktemp('questions') / 'mine.txt'
    lines = [
        f'{bracketed(q)}\t{"|".join(kb.vocab.names[a] for a in q.answers)}\t{q.type}'
        for q in kb.prepared.questions('2-hop/dev')[:10]
    ]
    lines.insert(3, f'who wrote [Nowhere to be Found] at all\t{kb.vocab.names[0]}')
    lines.insert(7, f'who wrote [{kb.vocab.names[1]}] at all\tNobody At All|{kb.vocab.names[5]}')
    path.write_text('\n'.join(lines) + '\n', encoding='utf-8')
    return path


@pytest.fixture(scope='module')
def scored(folders, tmp_path_factory):
    """(metrics, output folder) of two splits."""
    output = tmp_path_factory.mktemp('scored')
    return evaluate_sets(**folders, output_dir=str(output), splits=SPLITS, k=16), output


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob('*') if path.is_file())


def assert_same_metrics(found, wanted):
    found, wanted = dict(found), dict(wanted)
    assert found.pop('hits@1_by_type') == pytest.approx(wanted.pop('hits@1_by_type'))
    assert found == pytest.approx(wanted)


# infer_file.


def test_a_file_of_questions_is_answered_line_by_line(folders, kb, question_file, tmp_path):
    infer_file(**folders, question_file=str(question_file), hops=2, output=str(tmp_path / 'a' / 'out.jsonl'), k=16)
    records = read_predictions(tmp_path / 'a' / 'out.jsonl')
    questions = metaqa.read_questions(question_file, kb.vocab, 2)
    assert [r['id'] for r in records] == [f'2-hop/mine/{n}' for n in range(1, 13)] == [q.id for q in questions]
    assert [r['question'] for r in records] == [line.split('\t')[0] for line in question_file.read_text('utf-8').splitlines()]
    assert [r['topic'] is None for r in records] == [n == 3 for n in range(12)]
    for record, steps in zip(records, kb.follow(questions, 2)):
        assert [a['key'] for a in record['answers']] == [kb.vocab.keys[e] for e in steps[-1].entities]
        if record['answers']:
            assert record['answers'][0]['weight'] == pytest.approx(steps[-1].weights[0], abs=1e-5)
            assert all(fact['sentence'] for facts in record['evidence'] for fact in facts)


def test_answers_need_not_be_given(folders, kb, tmp_path):
    names = kb.vocab.names[:2]
    (tmp_path / 'open.txt').write_text(f'who knew [{names[0]}]\t\n\nwho knew [{names[1]}]\t\r\n', encoding='utf-8')
    infer_file(**folders, question_file=str(tmp_path / 'open.txt'), hops=1, output=str(tmp_path / 'out.jsonl'))
    assert [r['topic'] for r in read_predictions(tmp_path / 'out.jsonl')] == names


def test_a_bad_line_of_a_question_file_is_named(folders, tmp_path):
    (tmp_path / 'bad.txt').write_text('who knew nobody\tx\n')
    with pytest.raises(CorpusError, match='bad.txt:1: the question has no topic in brackets'):
        infer_file(**folders, question_file=str(tmp_path / 'bad.txt'), hops=1, output=str(tmp_path / 'out.jsonl'))
    assert not (tmp_path / 'out.jsonl').exists()


# evaluate_sets.


def test_every_split_is_scored_and_its_files_are_left(scored, kb):
    results, output = scored
    names = [f'{split}.{kind}.jsonl' for split in SPLITS for kind in ('cases', 'predictions')]
    assert files_below(output) == sorted([*names, 'metrics.json'])
    assert json.loads((output / 'metrics.json').read_text()) == results and list(results) == list(SPLITS)
    for hops, split in enumerate(SPLITS, 1):
        questions = kb.prepared.questions(split)
        records = read_predictions(output / f'{split}.predictions.jsonl')
        assert_same_metrics(results[split], evaluate(kb, questions, records, hops))
        assert results[split]['questions'] == len(questions) == 40
        # Every fact of this world is in its text, and an untrained model finds few of them.
        assert results[split]['coverage'] == 1.0 and results[split]['hits@1'] < 0.9
        cases = read_predictions(output / f'{split}.cases.jsonl')
        right = [case['right'] for case in cases]
        assert right == sorted(right) and sum(right) == round(results[split]['hits@1'] * 40)


def test_scoring_again_answers_nothing_again(scored, folders, monkeypatch):
    monkeypatch.setattr(VirtualKB, 'follow', lambda *_: pytest.fail('asked again'))
    before = {name: (scored[1] / name).read_bytes() for name in files_below(scored[1])}
    assert evaluate_sets(**folders, output_dir=str(scored[1]), splits=SPLITS, k=16) == scored[0]
    assert {name: (scored[1] / name).read_bytes() for name in files_below(scored[1])} == before


def test_scoring_with_another_setting_does_not_take_the_old_answers(scored, folders):
    with pytest.raises(PredictionError, match='line 1 comes from another model, memory or setting'):
        evaluate_sets(**folders, output_dir=str(scored[1]), splits=SPLITS, k=8)


def test_a_question_file_is_scored_as_its_predictions_are(folders, question_file, tmp_path):
    infer_file(**folders, question_file=str(question_file), hops=2, output=str(tmp_path / 'out.jsonl'), k=16)
    options = dict(**folders, question_file=str(question_file), hops=2, k=16)
    direct = evaluate_sets(**options, output_dir=str(tmp_path / 'direct'))
    given = evaluate_sets(**options, output_dir=str(tmp_path / 'given'), predictions=str(tmp_path / 'out.jsonl'))
    assert files_below(tmp_path / 'given') == ['metrics.json', 'mine.cases.jsonl']
    assert_same_metrics(given['mine'], direct['mine'])
    assert (direct['mine']['unknown_topics'], direct['mine']['unknown_answers']) == (1, 1)
    assert direct['mine']['questions'] == 12


def test_predictions_that_do_not_fit_the_questions_are_refused(folders, question_file, tmp_path):
    path, options = tmp_path / 'out.jsonl', dict(**folders, question_file=str(question_file), hops=2)
    infer_file(**options, output=str(path), k=16)
    lines = path.read_text('utf-8').split('\n')
    for changed, said in (
        ([*lines[:5], *lines[6:]], 'out.jsonl holds 11 predictions for 12 questions'),
        ([lines[1], lines[0], *lines[2:]], 'out.jsonl, line 1 answers'),
        ([*lines[:4], lines[4][:50], *lines[5:]], 'out.jsonl, line 5: not a prediction'),
    ):
        path.write_text('\n'.join(changed), encoding='utf-8')
        with pytest.raises(PredictionError, match=said):
            evaluate_sets(**options, output_dir=str(tmp_path), predictions=str(path))


def test_chosen_questions_are_shown_with_hops_and_evidence(folders, kb, scored, capsys):
    evaluate_sets(**folders, output_dir=str(scored[1]), splits=SPLITS[1:], k=16, show=2)
    text = capsys.readouterr().out
    questions = kb.prepared.questions('2-hop/dev')[:3]
    assert [f'2-hop/dev: {bracketed(q)}\n' in text for q in questions] == [True, True, False]
    for question, steps in zip(questions[:2], kb.follow(questions[:2], 2)):
        assert f'gold: {", ".join(kb.vocab.names[a] for a in question.answers)}\n' in text
        for step in steps:
            best = int(step.entities[0])
            entry = next(e for e in step.entries if kb.memory.target[e] == best)
            assert f'{step.weights[0]:6.3f}  {kb.vocab.names[best]}\n' in text
            assert kb.evidence([entry])[0]['sentence'] in text
    assert format_table({'2-hop/dev': scored[0]['2-hop/dev']}) in text


@pytest.mark.parametrize(
    'options, said',
    [
        (dict(), 'either splits or question_file'),
        (dict(splits=SPLITS, question_file='x', hops=1), 'either splits or question_file'),
        (dict(question_file='x'), 'the number of hops'),
        (dict(splits=SPLITS, predictions='x'), 'predictions belong to a question_file'),
    ],
)
def test_contradictory_options_are_refused_before_anything_is_opened(tmp_path, options, said):
    with pytest.raises(ValueError, match=said):
        evaluate_sets(prepared_dir='', model_dir='', memory_dir='', output_dir=str(tmp_path), **options)


def test_a_split_that_was_not_prepared_is_named(folders, tmp_path):
    with pytest.raises(CorpusError, match="has no questions '4-hop/dev', but 1-hop/dev, "):
        evaluate_sets(**folders, output_dir=str(tmp_path), splits=('4-hop/dev',))


def test_dry_runs_count_and_write_nothing(folders, question_file, tmp_path, capsys):
    entries = len(VirtualKB.open(*folders.values()).memory)
    assert evaluate_sets(**folders, output_dir=str(tmp_path / 'x'), splits=SPLITS, dry_run=True) == {}
    infer_file(**folders, question_file=str(question_file), hops=2, output=str(tmp_path / 'y.jsonl'), dry_run=True)
    ask(**folders, questions=('who met [nobody]',), hops=1, dry_run=True)
    said = [line for line in capsys.readouterr().out.splitlines() if line]
    assert said[:3] == [
        f'# 1-hop/dev: 40 questions over {entries:,} entries',
        f'# 2-hop/dev: 40 questions over {entries:,} entries',
        f'# 12 questions of 2 hops over {entries:,} entries',
    ]
    assert len(said) == 4 and f'# {entries:,} entries over' in said[3]
    assert not any(tmp_path.iterdir())


# The table.


def test_the_table_has_a_line_for_each_set_with_its_metrics_under_their_names():
    names = ['hits@1', 'hits@5', 'hits@10', 'mrr', 'set_f1', 'coverage', 'hits@1_of_covered']
    metrics = {name: place / 16 for place, name in enumerate(names)} | {
        'questions': 12345,
        'recall_hop1': 0.5,
        'recall_hop2': 1,
    }
    head, first, second = format_table({'1-hop/unseen_wording': metrics, 'b': metrics | {'mrr': 1.0}}).split('\n')
    assert first.startswith('1-hop/unseen_wording ') and second.startswith('b ')
    assert first.endswith('recall_hop1 0.500  recall_hop2 1.000')
    for name in [*names, 'questions']:
        end = head.index(f' {name}') + 1 + len(name)  # columns end below their names
        assert first[end] == ' ' and float(first[:end].split()[-1]) == pytest.approx(metrics[name], abs=1e-4), name
    assert '1.0000' in second and second.split()[1:4] == first.split()[1:4]
