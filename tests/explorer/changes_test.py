"""Pages that change the text: it is added, a document or a sentence is forgotten, and restored."""

import asyncio
import concurrent.futures
import contextlib
import html
import re
import resource
import shutil
import threading

import pyarrow.parquet as pq
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import read_documents
from opql_jax.data.kb_folder import KBFolder
from opql_jax.kb.current import Current
from opql_jax.kb.text.change_text import add_text, remove_text

from pages import words

pytest.importorskip('starlette', reason='the extra app is not installed')
httpx = pytest.importorskip('httpx', reason='httpx is not installed')
from starlette.testclient import TestClient

from opql_jax.explorer import app, views
from opql_jax.explorer.changes import Changes

QUERY = {'q': 'Ingrid Solberg . directed', 'top': 50}
TEXT = 'Winter Tide is a drama film of 1975. It was directed by Ingrid Solberg.'


@pytest.fixture
def folder(films_kb, tmp_path):
    return shutil.copytree(films_kb, tmp_path / 'films.kb')


@pytest.fixture
def client(folder):
    return TestClient(app.make_app(folder, writable=True), base_url='http://localhost')


def forms(page, action):
    found = re.findall(rf'<form[^>]* action="{action}" method="post">(.*?)</form>', page.text, re.S)
    fields = [re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', one) for one in found]
    return [{name: html.unescape(value) for name, value in one} for one in fields]


def add(client, **fields):
    (ours,) = forms(client.get('/documents'), '/add')
    return client.post('/add', data=ours | {'title': 'Winter Tide', 'text': TEXT} | fields)


def undo(client, page):
    return client.post('/undo', data=forms(page, '/undo')[0])


def names(client):
    return [one['entity'] for one in client.get('/api/ask', params=QUERY).json()['answers']]


def documents(folder):
    text = KBFolder(folder).part(KBFolder(folder).read()['text'])
    return {document.id: document for document in read_documents(text / 'documents.parquet')}


def test_a_text_is_added_its_facts_appear_and_it_is_forgotten_and_comes_back(client):
    assert 'Winter Tide' not in names(client)
    added = add(client)
    assert added.status_code == 200 and TEXT in words(added.text) and 'Winter Tide' in names(client)
    (fields,) = forms(added, '/forget')
    forgotten = client.post('/forget', data=fields)
    assert 'Winter Tide was forgotten' in words(forgotten.text)
    assert 'Winter Tide' not in names(client)
    undone = undo(client, forgotten)
    assert 'Winter Tide' in names(client)
    last = undo(client, undone)
    assert 'Winter Tide' not in names(client) and forms(last, '/undo') == []


def test_what_cannot_be_added_is_refused(client, folder):
    for fields, said in (
        ({'secret': 'wrong'}, ''),  # as another site would send them
        ({'title': ' '}, 'title: missing'),
        ({'title': 'Mary ' * 60 + 'x'}, 'more than 300 characters'),
        ({'text': 'x' * (1 << 20)}, 'use `opql add`'),
    ):
        before, refused = documents(folder), add(client, **fields)
        assert refused.status_code == 400 and said in words(refused.text)
        assert documents(folder) == before


def test_what_was_forgotten_is_soon_on_no_disk(client, folder, no_garbage_collection):
    says_so = lambda path: 'Farewell' in str(pq.read_table(path)['text'].to_pylist())
    kept = lambda: list(filter(says_so, folder.rglob('documents.parquet')))
    added = add(client, text=f'{TEXT} Farewell, it ends.')
    assert kept() and names(client) and client.get('/map')
    client.post('/forget', data=forms(added, '/forget')[0])
    for title in ('Autumn', 'Spring'):
        names(client)
        last = add(client, title=title, text=TEXT.replace('Winter Tide', title))
    assert last.status_code == 200 and kept() == []


def test_where_a_sentence_is_forgotten_the_answer_changes_and_comes_back(client, folder):
    before = documents(folder)
    page = client.get('/', params={'q': QUERY['q']})
    said = {fields['sentence']: fields for fields in forms(page, '/forget-sentence')}
    sentence = 'It was directed by Ingrid Solberg, and starred Tomas Lind and Clara Holm.'
    answers = names(client)
    assert {'Night Ferry', 'Clara Holm'} <= set(answers) and sentence in said
    changed = client.post('/forget-sentence', data=said[sentence])
    assert str(changed.url).endswith('/?q=Ingrid+Solberg+.+directed')
    assert 'a sentence of Night Ferry was forgotten' in words(changed.text)
    assert sentence not in words(changed.text)
    assert names(client) == [name for name in answers if name not in ('Night Ferry', 'Clara Holm')]
    assert documents(folder)['ferry'].text == before['ferry'].text.replace(f'{sentence} ', '')
    undo(client, changed)
    assert list(documents(folder).items()) == list(before.items()) and names(client) == answers

    page = client.get('/document', params={'id': 'ferry'})
    changed = client.post('/forget-sentence', data=forms(page, '/forget-sentence')[-1])
    assert str(changed.url).endswith('/document?id=ferry')
    assert 'Erik Lind' not in words(changed.text)


def test_a_change_whose_version_cannot_be_opened_is_said_to_be_made(client, folder, monkeypatch):
    def damaged(current):
        raise InputError('memory-2: a file is damaged')

    (fields,) = forms(client.get('/document', params={'id': 'ferry'}), '/forget')
    monkeypatch.setattr(Current, 'newest', damaged)
    told = client.post('/forget', data=fields)
    assert told.status_code == 503 and 'ferry' not in documents(folder)
    assert 'The change was made, but the new version cannot be opened' in words(told.text)
    assert forms(told, '/undo')  # it can still be taken back


def test_a_page_that_was_left_open_over_an_update_changes_nothing_else(client, folder):
    ferry, weiss = (client.get('/document', params={'id': name}) for name in ('ferry', 'weiss'))
    (document,), sentences = forms(ferry, '/forget'), forms(ferry, '/forget-sentence')
    remove_text(folder, ['weiss'])
    text = documents(folder)['ferry'].text.replace('Erik Lind.', 'Erik Lind in Oslo.')
    add_text(folder, [{'id': 'ferry', 'title': 'Night Ferry', 'text': text}], replace=True)
    there = documents(folder)
    (gone,) = forms(weiss, '/forget')
    for page, fields, says in (
        ('/forget', document, "the document 'ferry' has another text now: nothing was forgotten"),
        ('/forget', gone, "the document 'weiss' is not there any more: nothing was forgotten"),
        ('/forget-sentence', sentences[-1], "unknown sentence 'Its music was composed by Erik"),
    ):
        told = client.post(page, data=fields)
        assert told.status_code == 400 and says in words(told.text)
    assert documents(folder) == there


def test_a_change_after_which_others_were_made_is_not_taken_back(client, folder):
    forget = lambda name: client.post(
        '/forget', data=forms(client.get('/document', params={'id': name}), '/forget')[0]
    )
    older, newer = forget('ferry'), forget('holm')
    told = undo(client, older)
    assert told.status_code == 400 and 'another change was made since' in words(told.text)
    add_text(folder, [{'id': 'holm', 'title': 'Clara Holm', 'text': 'Clara Holm is another.'}])
    there = documents(folder)
    told = undo(client, newer)
    assert told.status_code == 400 and "'holm' was changed by another program" in words(told.text)
    assert documents(folder) == there


def test_pages_are_shown_while_more_changes_wait_than_pages_are_made_at_a_time(folder, monkeypatch):
    monkeypatch.setattr(app, 'PAGES_AT_ONCE', 2)
    go_on = threading.Event()
    monkeypatch.setattr(Changes, 'add', lambda *_: go_on.wait(60) and 'lind')
    explorer = app.make_app(folder, writable=True)

    async def run():
        transport = httpx.ASGITransport(explorer)
        connected = httpx.AsyncClient(transport=transport, base_url='http://localhost')
        async with app.limited_pages(None), connected as client:
            fields = forms(await client.get('/documents'), '/add')[0] | {'title': 'A', 'text': 'B'}
            add = lambda: asyncio.create_task(client.post('/add', data=fields))
            changes = [add() for _ in range(5)]
            asked = asyncio.gather(*(client.get('/documents') for _ in range(12)))
            pages = await asyncio.wait_for(asked, 30)
            assert not any(change.done() for change in changes)
            go_on.set()
            return pages + await asyncio.gather(*changes)

    assert [response.status_code for response in asyncio.run(run())] == [200] * 12 + [303] * 5


def test_changes_that_are_sent_together_are_made_one_after_the_other(folder):
    changes, before = Changes(folder), documents(folder)
    digest = views.digest(views.passages_of(Current(folder).kb().prepared, 'ferry'))
    asked = [
        *(lambda: changes.add('Winter Tide', TEXT),) * 2,
        *(lambda: changes.forget('ferry', digest),) * 2,
    ]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        told = sorted(str(each.exception(60)) for each in [pool.submit(each) for each in asked])
    assert told[0] == told[1] == 'None' and told[2] == 'a document with this text is there already'
    assert 'is not there any more' in told[3]
    assert {one.title for one in documents(folder).values()} >= {'Winter Tide'}
    while changes.last is not None:
        changes.undo(changes.last.id)
    assert list(documents(folder).items()) == list(before.items())


def test_a_full_disk_is_told_and_changes_nothing_until_there_is_room(client, folder):
    before = documents(folder)
    # Bytes that a file may have: of the lock, a table and the records.
    for size in (10, 10_000, 100_000):
        with limit_of_files(size):
            page = add(client)
        assert page.status_code == 507
        assert 'Nothing was changed' in words(page.text) and str(folder) in words(page.text)
        assert documents(folder) == before and 'Winter Tide' not in names(client)
    assert add(client).status_code == 200 and 'Winter Tide' in names(client)


@contextlib.contextmanager
def limit_of_files(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
