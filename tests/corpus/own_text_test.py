"""Text of other people: JSON Lines with and without links, the folders of MetaQA and Wikispeedia, MiniLM's vocabulary."""

import gzip
import json
import re

import numpy as np
import pytest

import opql_jax
from opql_jax.data.prepared import Prepared
from opql_jax.memory.format import Memory

from forked_binaries import ENCODER
from question_records import question_record

# Composed and decomposed accents, several scripts, and letters beyond the BMP, which are two units in UTF-16.
PEOPLE = ['Zoë Łukasz', '黒澤 明', 'Ñandú O’Brien', '𝔉rau 😀 Émile']
FILMS = [
    'Café Ünïcode',
    '七人の侍',
    'Жакази',
    '𝕌p 2',
    'Nai\u0308ve',
    'El Niño',
    'Ⅻ Angry',
    'São Paulo',
    'Ὀδύσσεια',
    'Ærø',
    'Şehir',
    'Đêm',
]
DIRECTOR = {film: PEOPLE[i % len(PEOPLE)] for i, film in enumerate(FILMS)}
KEYS = {name: f'Q{i}' for i, name in enumerate(FILMS + PEOPLE)}


def succeed(binaries, *command):
    done = binaries(*command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents():
    """(title, text) in which each pair of film and director stands twice, in the page of either."""
    for film, person in DIRECTOR.items():
        yield film, f'🎬 {film} was directed by {person}. It is a film.'
    for person in PEOPLE:
        yield person, ' '.join(f'{person} directed {film}.' for film in FILMS if DIRECTOR[film] == person)


def linked(title, text):
    """The document with links, offsets in code points."""
    found = sorted((match.start(), match.end(), name) for name in KEYS for match in re.finditer(re.escape(name), text))
    mentions = [{'start': start, 'end': end, 'entity': KEYS[name]} for start, end, name in found]
    return {'title_entity': KEYS[title], 'mentions': mentions}


def write_lines(path, records):
    path.write_text('\n'.join(json.dumps(record, ensure_ascii=False) for record in records) + '\n', encoding='utf-8')
    return path


def write_text(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('\n'.join(lines) + '\n', encoding='utf-8')


@pytest.fixture(scope='module')
def own(tmp_path_factory, binaries):
    """The chain of docs/how-to/training.md for one's own linked text: prepare, train, build a memory, follow."""
    root = tmp_path_factory.mktemp('own')
    pages = list(documents())
    write_lines(
        root / 'linked.jsonl', [{'id': i, 'title': t, 'text': text, **linked(t, text)} for i, (t, text) in enumerate(pages)]
    )
    write_lines(root / 'plain.jsonl', [{'id': i, 'title': t, 'text': text} for i, (t, text) in enumerate(pages)])
    films_of = {person: [film for film in FILMS if DIRECTOR[film] == person] for person in PEOPLE}
    (root / 'questions').mkdir()
    questions = [question_record(f'one-{film}', f'who directed [{film}]', person) for film, person in DIRECTOR.items()]
    for film, person in DIRECTOR.items():
        others = [other for other in films_of[person] if other != film]
        questions.append(question_record(f'two-{film}', f'which films have the director of [{film}]', *others, hops=2))
    write_lines(root / 'questions/train.jsonl', questions)

    succeed(binaries, *prepare(root, 'linked'))
    kb = [f'--gin.KB={root}', '--gin.TEXT=linked']
    train = ['train', *ENCODER, *kb, '--gin.STEPS=1']
    succeed(binaries, *train, '--gin_file=gin/runs/relations.gin', '--gin.objectives.Relations.rows=16')
    succeed(binaries, 'build_memory', '--gin_file=gin/runs/build_memory.gin', *kb, '--gin.MODEL=relations')
    follow = ['--gin_file=gin/runs/follow.gin', '--gin.INIT_FROM=relations']
    small = ["--gin.objectives.Follow.splits=('2-hop/train',)", '--gin.objectives.Follow.questions=8']
    succeed(binaries, *train, *follow, *small)
    return root


def prepare(root, corpus, output=None, *flags):
    return [
        'prepare',
        '--gin_file=gin/data/jsonl.gin',
        f'--gin.CORPUS={root / corpus}.jsonl',
        f'--gin.QUESTION_FOLDER={root / "questions"}',
        f'--gin.KB={root}',
        f'--gin.TEXT={output or corpus}',
        *flags,
    ]


def ask(root, text, question, hops=2):
    """What is printed of an answer by the model of a knowledge base, over prepared text of the same content."""
    return opql_jax.open(root, text=text).ask(question, hops).to_text()


def named(prepared):
    """The text of each mention with the key of its entity, passage by passage."""
    opened = Prepared(prepared)
    return [
        [(row['text'][m['start'] : m['end']], opened.vocab.keys[m['entity']]) for m in row['mentions']]
        for row in opened.passages.to_pylist()
    ]


def test_links_keep_their_place_in_text_of_any_script(own):
    prepared = Prepared(own / 'linked')
    mentions = [mention for passage in named(own / 'linked') for mention in passage]
    assert {KEYS[text] == key for text, key in mentions} == {True}
    assert {text for text, _ in mentions} == set(KEYS)
    assert prepared.manifest.counts.mentions == len(mentions) == 4 * len(FILMS)
    assert dict(zip(prepared.vocab.names, prepared.vocab.keys)) == KEYS
    assert (own / 'linked/rejected.jsonl').read_text() == ''


def test_questions_of_ones_own_are_read_with_their_answers(own):
    prepared = Prepared(own / 'linked')
    questions = prepared.questions('1-hop/train')
    assert [q.text[slice(*q.topic)] for q in questions] == FILMS
    assert [[prepared.vocab.names[a] for a in q.answers] for q in questions] == list(map(list, zip(DIRECTOR.values())))
    assert all(not q.unknown_answers for split in ('1-hop/train', '2-hop/train') for q in prepared.questions(split))


@pytest.mark.parametrize('film', ['七人の侍', '𝕌p 2'])
def test_ask_finds_the_answers_that_the_text_states(own, film):
    # Every path of two entries ends in an answer here, so this does not depend on what was learnt in one step.
    printed = ask(own, 'linked', f'which films have the director of [{film}]')
    first, second = printed.split('  hop 2 (answer)\n')
    person = DIRECTOR[film]
    assert re.findall(r'^ {4}.*', first, re.MULTILINE)[0] == f'     1.000  {person}'
    assert f'[{film} → {person}, in “' in first
    answers = re.findall(r'^ {4,5}(\d\.\d{3})  (.*)', second, re.MULTILINE)
    assert {answer for _, answer in answers} == {f for f in FILMS if DIRECTOR[f] == person and f != film}
    assert sum(float(weight) for weight, _ in answers) == pytest.approx(1, abs=0.002)
    for _, answer in answers:
        assert re.search(rf'\[{re.escape(person)} → {re.escape(answer)}, in “.*”\]  .*{re.escape(answer)}', second)


def test_an_entity_may_be_asked_for_by_its_id(own):
    printed = ask(own, 'linked', f'who directed [{KEYS["Ærø"]}]', hops=1)
    assert f'     1.000  {DIRECTOR["Ærø"]}\n' in printed


def test_questions_of_a_file_need_no_answers(own, binaries):
    asked = [f'who directed [{film}]' for film in FILMS]
    write_lines(own / 'asked.jsonl', [question_record(str(i), question) for i, question in enumerate(asked)])
    flags = [f'--gin.QUESTIONS={own / "asked.jsonl"}', f'--gin.OUTPUT={own / "mine.jsonl"}']
    succeed(binaries, 'infer', '--gin_file=gin/runs/infer.gin', f'--gin.KB={own}', *flags)
    records = [json.loads(line) for line in (own / 'mine.jsonl').read_text(encoding='utf-8').splitlines()]
    assert [record['question'] for record in records] == asked
    # No sentence mentions a film with anybody but its director.
    found = [[(answer['entity'], answer['key']) for answer in record['answers']] for record in records]
    assert found == [[(person, KEYS[person])] for person in DIRECTOR.values()]
    assert [record['hops'] for record in records] == [1] * len(FILMS)


def test_names_found_in_plain_text_give_what_links_give(own, binaries):
    vocab = Prepared(own / 'linked').vocab
    entities = [
        {'id': key, 'name': name, 'aliases': aliases} for key, name, aliases in zip(vocab.keys, vocab.names, vocab.aliases)
    ]
    path = write_lines(own / 'entities.jsonl', entities)
    succeed(binaries, *prepare(own, 'plain', 'found', f'--gin.ENTITIES={path}'))
    files = Prepared(own / 'linked').manifest.files
    assert Prepared(own / 'found').manifest.files == files and len(files) == 8
    question = 'which films have the director of [Nai\u0308ve]'
    assert ask(own, 'found', question) == ask(own, 'linked', question)


def test_without_links_and_entities_every_title_is_an_entity(own, binaries):
    succeed(binaries, *prepare(own, 'plain'))
    by_title = [[(text, text) for text, _ in passage] for passage in named(own / 'linked')]
    assert named(own / 'plain') == by_title
    flags = [f'--gin.KB={own}', '--gin.TEXT=plain', '--gin.MODEL=none', '--gin_file=gin/runs/relations.gin']
    printed = succeed(binaries, 'train', '--dry_run', *ENCODER, *flags)
    assert f'entity_table  ({len(KEYS)}, 8)' in printed and not (own / 'none').exists()


A_SENTENCE = [
    {
        'id': 1,
        'title': 'Ærø',
        'text': 'Zoë Łukasz directed Ærø.',
        'mentions': [{'start': 0, 'end': 10, 'entity': 'Zoë Łukasz'}, {'start': 20, 'end': 23, 'entity': 'Ærø'}],
    }
]
THREE_DOCUMENTS = [
    {'id': 1, 'title': 'Ærø', 'text': 'Zoë Łukasz directed Ærø.'},
    {'id': 2, 'title': 'Zoë Łukasz', 'text': 'Zoë Łukasz directed Ærø, and then Şehir.'},
    {'id': 3, 'title': 'Şehir', 'text': 'Şehir came out after Ærø.'},
]


@pytest.mark.parametrize('records, entries', [(A_SENTENCE, 2), (THREE_DOCUMENTS, 8)])
def test_the_smallest_texts_make_a_memory(binaries, tmp_path, records, entries):
    write_lines(tmp_path / 'my.jsonl', records)
    kb = f'--gin.KB={tmp_path}'
    succeed(binaries, 'prepare', '--gin_file=gin/data/jsonl.gin', f'--gin.CORPUS={tmp_path / "my.jsonl"}', kb)
    counts = Prepared(tmp_path / 'text').manifest.counts
    assert counts.documents_without_mentions == 0 and counts.title_pair_rows == entries
    rows = '--gin.objectives.Relations.rows=16'
    done = binaries('train', *ENCODER, '--gin_file=gin/runs/relations.gin', rows, kb, '--gin.STEPS=2')
    assert done.returncode == 0, done.stderr
    assert ('L_rel has no positives' in done.stderr) == (records is A_SENTENCE)
    succeed(binaries, 'build_memory', '--gin_file=gin/runs/build_memory.gin', kb, '--gin.MODEL=relations')
    relations = Memory.open(tmp_path / 'memory').relations()
    assert relations.shape == (entries, 8) and np.isfinite(relations.astype(np.float32)).all()


def test_a_folder_of_metaqa_is_linked_by_name(binaries, tmp_path):
    pages = [*documents()] * 9
    write_lines(tmp_path / 'passages.jsonl', [{'id': i, 'title': t, 'text': text} for i, (t, text) in enumerate(pages)])
    write_text(tmp_path / 'entities.txt', [*KEYS, 'film'])
    for split in ('train', 'dev'):
        write_text(tmp_path / f'1-hop/{split}.txt', ['who directed [Ærø]\t黒澤 明|Nobody\tfilm_to_director'])
    flags = ['--gin_file=gin/data/metaqa.gin', f'--gin.DATA_DIR={tmp_path}', f'--gin.KB={tmp_path}']
    succeed(binaries, 'prepare', *flags)
    prepared = Prepared(tmp_path / 'text')
    # The setting of gin/data/metaqa.gin: a word that stands in most passages is no entity.
    assert prepared.manifest.dropped_entities == {'film': 0.75}
    assert {mention for passage in named(tmp_path / 'text') for mention in passage} == {(name, name) for name in KEYS}
    (question,) = prepared.questions('1-hop/dev')
    assert [prepared.vocab.names[a] for a in question.answers] == ['黒澤 明'] and question.unknown_answers == ('Nobody',)


def test_a_folder_of_wikispeedia_is_linked_by_its_hyperlinks(binaries, tmp_path):
    pages = {
        'Red_giant': '   A red giant is a large star which burns helium in its core.\n',
        'Helium': '   Most helium in the Sun was made long before any red giant.\n',
        'Sun': '   The Sun will become a red giant and burn its helium one day.\n',
    }
    with gzip.open(tmp_path / 'articles.jsonl.gz', 'wt', encoding='utf-8') as file:
        for page, text in pages.items():
            file.write(json.dumps({'page': page, 'title': page.replace('_', ' '), 'text': text}) + '\n')
    write_text(tmp_path / 'links.tsv', ['# from\tto', 'Red_giant\tHelium', 'Sun\tRed_giant'])
    flags = ['--gin_file=gin/data/wikispeedia.gin', f'--gin.DATA_DIR={tmp_path}', f'--gin.KB={tmp_path}']
    succeed(binaries, 'prepare', *flags)
    assert named(tmp_path / 'text') == [
        [('red giant', 'Red giant'), ('helium', 'Helium')],
        [('helium', 'Helium')],  # its article links to nothing
        [('Sun', 'Sun'), ('red giant', 'Red giant')],
    ]
