"""Every recipe, run for real at a tiny size; one of each kind is not `slow`."""

import dataclasses
import gzip
import itertools
import json
import re

import pytest

from opql_jax.core import preemption
from opql_jax.core.checkout import with_includes
from opql_jax.corpus.documents import Document, Mention
from opql_jax.corpus.entities import EntityVocab
from opql_jax.datasets.synthetic.pages import documents
from opql_jax.datasets.synthetic.questions import questions
from opql_jax.datasets.synthetic.world import generate
from opql_jax.models.reader import Reader
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.recipes import catalog, encoder, metaqa, recipe, record
from opql_jax.recipes.recipe import run
from opql_jax.recipes.step import Options, Output, bound

import records
import tiny_bert
import tiny_sets
from dump_writer import write_dump
from records import metaqa_line

# In CI a language model, whose recipe also trains a follower, relations of pairs, and plain text;
# with -m slow all of them.
QUICK = {('metaqa-lm', 'opql-lm'), ('fewshot/minilm',), ('retrieval/musique-untitled',)}


def rows():
    """(name, value), choices: each recipe with its defaults, and each other value of an option."""
    for recipe_of in catalog.RECIPES.values():
        if not recipe_of.choices:
            yield (recipe_of.name,), {}
        for number, (option, values) in enumerate(recipe_of.choices.items()):
            needs_share = option == 'protocol' and recipe_of.choices['share'][0] == 0
            for value in values[number > 0 :]:
                choice = {option: value, 'share': 50} if needs_share else {option: value}
                yield (recipe_of.name, str(value)), choice


ROWS = dict(rows())


def write_wikispeedia(folder):
    first, last = 'Ann Jo Max Kim'.split(), 'Low Dee Hill Stone Marsh'.split()
    people = [' '.join(names) for names in itertools.product(first, last)]
    folder.mkdir()
    pairs = list(zip(people, people[1:] + people[:1]))
    page = lambda name: name.replace(' ', '_')
    with gzip.open(folder / 'articles.jsonl.gz', 'wt', encoding='utf-8') as articles:
        for a, b in pairs:
            text = f'   {a} was a pupil of {b} for years.\n\n   In old age {a} wrote long letters '
            text += f'to {b} about {"it and " * 60}more.\n'
            articles.write(json.dumps({'page': page(a), 'title': a, 'text': text}) + '\n')
    links = [f'{page(x)}\t{page(y)}\n' for a, b in pairs for x, y in ((a, b), (b, a))]
    (folder / 'links.tsv').write_text(''.join(links), encoding='utf-8')
    return people, pairs


HOPS = (1, 2, 3)
# Kinds of entities; the other kinds MetaQA does not have.
KINDS = {'film': 'movie', 'studio': 'genre', 'location': 'language', 'book': 'year'}


def write_metaqa(folder):
    world = generate(0, 60)
    folder.mkdir(parents=True, exist_ok=True)
    passages = [{'id': i, 'title': d.title, 'text': d.text} for i, d in enumerate(documents(world))]
    (folder / 'passages.jsonl').write_text('\n'.join(map(json.dumps, passages)), encoding='utf-8')
    asked = [(q, a) for q in questions_of(world, 'train', 1) for a in q.answers]
    facts = [f'{world.names[q.topic_entity]}|{q.type}|{world.names[a]}' for q, a in asked]
    (folder / 'kb.txt').write_text('\n'.join(facts), encoding='utf-8')
    (folder / 'entities.txt').write_text('\n'.join(world.names), encoding='utf-8')
    for hops in HOPS:
        (folder / f'{hops}-hop').mkdir()
        for split in ('train', 'dev'):
            lines = [metaqa_line(world, q) for q in questions_of(world, split, hops)][:40]
            path = folder / f'{hops}-hop/{split}.txt'
            path.write_text('\n'.join(lines) + '\n', encoding='utf-8')


def questions_of(world, split, hops):
    """Questions about the world, their types called as MetaQA's."""
    type_of = lambda kind: '_to_'.join(KINDS.get(end, end) for end in kind.split('_to_'))
    return [dataclasses.replace(q, type=type_of(q.type)) for q in questions(world, split, hops)]


# The paper's settings for models, batches and pairs of a size for tests.
SIZES = dict(hidden_size=8, num_layers=5, num_heads=2, mlp_size=12, relation_dim=8, entity_dim=8)
SMALL_BERT = {f'encoder.RelationEncoder.{name}': size for name, size in SIZES.items()}
TINY_PAPER = SMALL_BERT | {'ROWS': 16, 'BUCKETS': ()}
TINY = {
    'gin/data/wikipedia.gin': {'reader.Wikipedia.min_links': 0, 'PROCESSES': 1},
    'gin/experiments/paper/entities.gin': TINY_PAPER,
    'gin/experiments/paper/relations.gin': TINY_PAPER | {'MIN_COUNT': 1},
    'gin/experiments/paper/memory.gin': {'MIN_COUNT': 1},
    'gin/experiments/paper/lm_cloze.gin': TINY_PAPER,
    'gin/experiments/paper/training.gin': SMALL_BERT,
    'gin/experiments/paper/lm_questions.gin': SMALL_BERT | {'ROWS': 16},
}
# Of files that train an encoder of the size `tiny`: smaller sizes and batches.
TINIER_SIZES = dict(hidden_size=16, num_heads=2, mlp_size=32, relation_dim=16, entity_dim=8)
TINIER = {f'encoder.RelationEncoder.{name}': size for name, size in TINIER_SIZES.items()}
BATCHES = dict.fromkeys(('Entities', 'Relations', 'Align', 'LinkNames'), {'rows': 16})
BATCHES |= {'AlignPassages': {'passages': 8, 'questions': 16}, 'Follow': {'questions': 8}}
BATCHES |= dict.fromkeys(('AnswerQuestions', 'Cloze'), {'rows': 8})


def write_wikipedia(folder, pairs):
    folder.mkdir()
    documents = []
    for number, (a, b) in enumerate(pairs):
        text = f'{a} was a pupil of {b} for years. In old age the letters to {b} were many.'
        found = re.finditer(f'{a}|{b}', text)
        mentions = tuple(Mention(*place.span(), place[0]) for place in found)
        documents.append(Document(str(number), a, text, mentions, a))
    write_dump(folder / 'pages.xml.bz2', documents, EntityVocab.from_names([a for a, _ in pairs]))


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    """A folder of data sets of a few documents each."""
    folder = tmp_path_factory.mktemp('data sets')
    write_metaqa(folder / 'metaqa')
    questions = (folder / 'metaqa/1-hop/train.txt').read_text(encoding='utf-8').splitlines()
    types = {line.split('\t')[2] for line in questions}
    wordings = ''.join(f'{kind}\tpray, what is the {kind} of [X]?\n' for kind in types)
    (folder / 'wordings.tsv').write_text(wordings, encoding='utf-8')
    tiny_sets.write_docred(folder / 'redocred', tiny_sets.world(40))
    people, pairs = write_wikispeedia(folder / 'wikispeedia')
    tiny_sets.write_msf(folder / 'msf')
    tiny_sets.write_webqsp(folder, pairs)
    stated = lambda text, a, b, name: {'text': text, 'sub_text': a, 'obj_text': b, 'rel': name}
    verbs = {v: v for v in 'met taught admired employed'.split()} | {'married': 'spouse'}
    named = [*encoder.HELD_OUT, *(f'relation {number}' for number in range(12))]
    linked, labelled = [], []
    for a, b in zip(people[:3], people[5:]):
        linked += [stated(f'{a} {verb} {b} .', a, b, name) for verb, name in verbs.items()]
        labelled += [stated(f'{a} is {name} of {b}', a, b, name) for name in named]
    records.write(folder / 'linked_sentences/sentences.jsonl', linked)
    records.write(folder / 'wiki64/sentences.jsonl', labelled)
    side = lambda uri: {'uri': uri, 'boundaries': None, 'surfaceform': None}
    director = {'uri': 'P57', 'surfaceform': 'director'}
    triple = {'subject': side('Q1'), 'predicate': director, 'object': side('Q2')}
    entities = [{'uri': 'Q1', 'boundaries': [0, 5]}, {'uri': 'Q2', 'boundaries': [18, 24]}]
    made = {'text': 'Alien was made by Ridley.', 'entities': entities, 'triples': [triple]}
    records.write(folder / 'trex/documents.jsonl', [made])
    documents, asked, about = [], [], []
    for i, (a, b) in enumerate(pairs):
        topic = {'topic_mid': f'm.{i}', 'topic': {'label': a}, 'relations': ['r']}
        question, text = f'who was {a} a pupil of?', f'{a} was a pupil of {b} for years.'
        asked.append({'qId': f'q{i}', 'question': question, **topic, 'answers': [b]})
        documents.append({'id': str(i), 'title': a, 'text': text})
        taught = {'question': f'Who taught {a}?', 'answers': [b]}
        about.append({'source': f'{i}:0', 'sentence': text, **taught})
    records.write(folder / 'openqa/webqsp_train.jsonl', asked)
    records.write(folder / 'qa/qamr.jsonl', about)
    write_wikipedia(folder / 'wikipedia', pairs)
    sizes = {'num_hidden_layers': 5, 'max_position_embeddings': 512}
    bert = tiny_bert.write(folder / 'bert-base-uncased', tiny_bert.fake_tensors(**sizes), **sizes)
    special = '[PAD] [unused1] [unused2] [unused3] [UNK] [CLS] [SEP] [MASK] entity x y'.split()
    words = [*special, *(f'word{number}' for number in range(40 - len(special)))]
    (bert / 'vocab.txt').write_text('\n'.join(words))
    hops = []
    for i, ((a, _), (_, b)) in enumerate(zip(pairs[:4], pairs[1:])):
        hop = {'id': f'hop-{i}', 'supporting': [str(i), str(i + 1)], 'answer': b}
        hops.append(hop | {'question': f'Who taught the teacher of {a}?'})
    for name in ('musique', 'hotpotqa'):
        records.write(folder / f'multihop/{name}_corpus.jsonl', documents)
        records.write(folder / f'multihop/{name}_questions.jsonl', hops)
    return folder


@pytest.fixture(scope='module')
def outputs(tmp_path_factory):
    return tmp_path_factory.mktemp('with a space')


def folder_of(chosen):
    """The folder of a recipe: that of its group, but for groups that share the steps of another."""
    shared = {'metaqa-lm': 'metaqa', 'metaqa-novelty': 'metaqa', 'webqsp-injection': 'webqsp'}
    return shared.get(chosen.group, chosen.group)


def tiny_bindings(step):
    """What makes the models and batches of a step small."""
    if step.bindings.get('MIN_COUNT') == 2:
        return {'MAX_PAIRS': 5}  # less than there are, so that an injection adds some
    if step.bindings.get('RELATIONS_PER_BATCH'):
        return {'RELATIONS_PER_BATCH': 4}
    if 'gin/models/tiny.gin' not in step.gin:
        planned = {name: () for name in step.bindings if name.endswith('.buckets')}
        return TINY.get(step.gin[0], {}) | planned
    text = with_includes(record.ROOT / step.gin[-1])
    (objective,) = re.findall(r'^OBJECTIVE = @objectives\.(\w+)\(\)', text, re.M)
    return TINIER | bound(f'objectives.{objective}', **BATCHES[objective])


def build(chosen, options):
    wordings, steps = str(options.data / 'wordings.tsv'), []
    for step in chosen.steps(options):
        small = dict.fromkeys(metaqa.IN_OTHER_WORDS & step.bindings.keys(), wordings)
        small |= tiny_bindings(step) if step.gin else {}
        steps.append(dataclasses.replace(step, bindings={**step.bindings, **small}))
    return steps


def execute_with(binaries, commands):
    def execute(command, cwd):
        assert command[0] == '-m'
        commands.append(command)
        done = binaries(command[1].removeprefix('opql_jax.'), *command[2:])
        assert done.returncode == 0, (command, done.stderr[-3000:])
        return done.returncode

    return execute


def of_kind(row):
    return pytest.param(row, id=' '.join(row), marks=() if row in QUICK else pytest.mark.slow)


@pytest.mark.parametrize('row', [of_kind(row) for row in ROWS])
def test_a_recipe_ends_with_metrics_and_is_then_done(row, data, outputs, binaries, monkeypatch):
    name, chosen = row[0], catalog.find(row[0])
    documents = 150 if chosen.group == 'lm-world' else 60
    where = outputs / folder_of(chosen)
    options = Options(where, data, percent=0, documents=documents, **ROWS[row])
    steps, commands = build(chosen, options), []
    monkeypatch.setattr(preemption, 'run_binary', execute_with(binaries, commands))
    run(steps, options)
    results = [s for s in steps if s.name.startswith('results')]
    makes = {
        'encoder/released': lambda: TextEncoder.load(options.out / 'encoder'),
        'encoder/reader': lambda: Reader.load(options.out / 'reader'),
        'paper/opql-lm-pretrained': (options.out / 'opql-lm-pretrained/model.json').exists,
    }
    assert makes.get(name, lambda: results)()
    for step in results:
        metrics = json.loads((options.out / step.output / 'metrics.json').read_text())
        assert metrics, step.name
        recorded = record.read(recipe.run_json_of(step, options.out))
        assert recorded['metrics'] == metrics and recorded['seconds'] > 0
        assert bool(recorded['gin']) == bool(step.gin)
        assert set(step.gin) <= recorded['gin_files'].keys()

    before = {path: path.stat().st_mtime_ns for path in options.out.rglob('*')}
    commands.clear()
    run(build(chosen, options), options)
    assert commands == []
    assert {path: path.stat().st_mtime_ns for path in options.out.rglob('*')} == before


def test_rows_use_every_experiment_file_and_share_steps_only_if_they_are_the_same(data, tmp_path):
    assert QUICK <= ROWS.keys()
    commands, used = {}, set()
    for (name, *_), choices in ROWS.items():
        chosen = catalog.find(name)
        for step in chosen.steps(Options(tmp_path / folder_of(chosen), data, **choices)):
            command = step.command('OUT')
            assert commands.setdefault((folder_of(chosen), step.name), command) == command
            used |= {file for file in step.gin if file.startswith('gin/experiments/')}
    files = (record.ROOT / 'gin/experiments').rglob('*.gin')
    assert used == {str(path.relative_to(record.ROOT)) for path in files}


@pytest.mark.parametrize('group', ['slot-filling', 'metaqa-novelty'])
def test_new_relations_are_held_out_and_evaluated_apart(group, data, tmp_path):
    drawn, grid = {}, catalog.find(group)
    systems, protocols, shares = grid.choices.values()
    most = {'slot-filling': 50, 'metaqa-novelty': 60}[group]
    asked = [(*of, most) for of in itertools.product(systems, protocols) if of[0] != 'kv-memory']
    asked += [('opql', 'novel', share) for share in shares if share]
    for system, protocol, percent in asked:
        chosen = Options(tmp_path, data, system=system, protocol=protocol, share=percent)
        bound = {step.name: step.bindings for step in grid.steps(chosen)}
        row = f'results/{system}-{protocol}-{percent}'
        evaluation = bound[f'{row}/novel']
        novel, follower = evaluation['NEEDS'], bound[evaluation['MODEL']]
        encoder = bound[follower['INIT_FROM']]
        models = {bound[of['MEMORY']]['MODEL'] for of in (evaluation, follower)}
        assert models == {follower['INIT_FROM']}
        assert bound[evaluation['MEMORY']]['TEXT'] == evaluation['TEXT']
        assert bound[follower['MEMORY']]['TEXT'] == follower['TEXT'] == encoder['TEXT']
        assert bound[f'{row}/all'] == evaluation | {'NEEDS': (), 'OUTPUT_DIR': Output(f'{row}/all')}
        is_new_to_encoder = protocol != 'seen' and system in ('opql', 'drkit')
        assert encoder.get('HELD_OUT', ()) == (novel if is_new_to_encoder else ())
        assert follower.get('HELD_OUT', ()) == (novel if protocol == 'without' else ())
        assert ('objectives.Follow.frozen_encoder' in follower) == system.endswith('-frozen')
        drawn.setdefault(percent, set()).add(novel)
    # Those of a share are the same each time, and among those of a larger one.
    ordered = [set(*of) for _, of in sorted(drawn.items())]
    assert len(ordered[0]) == 1
    assert all(smaller < larger for smaller, larger in zip(ordered, ordered[1:]))
