"""The explorer's pages say what the knowledge base says, and only to those who may ask."""

import errno
import html
import json
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import pytest

from opql_jax.core.errors import InputError
from opql_jax.kb.sets.query_language import is_query

from pages import words

pytest.importorskip('starlette', reason='the extra app is not installed')
httpx = pytest.importorskip('httpx', reason='httpx is not installed')
from starlette.testclient import TestClient

from opql_jax.explorer import app, guard
from opql_jax.explorer.suggestions import suggest

QUESTION = 'Who starred in the films directed by Ingrid Solberg?'
STRANGE = '<script>alert("1")</script> Öz'


DOCUMENT = {
    'id': 'a/b?<x>',
    'title': STRANGE,
    'text': f'date: 1998-05-06\n\n{STRANGE} is a film. It was directed by Ingrid Solberg.',
}


@pytest.fixture(scope='module')
def client(folder):
    return TestClient(app.make_app(folder), base_url='http://localhost')


def citations(page):
    """The sentences that a page of answers cites, by their numbers from 1, and their links."""
    found = re.findall(r'<li id="cite-(\d+)" value="\1"><q>(.*?)</q> <cite><a href="(.*?)"', page)
    assert [number for number, _, _ in found] == [str(1 + at) for at in range(len(found))]
    plain = lambda text: html.unescape(re.sub('<.*?>', '', text))
    return [(plain(said), plain(link)) for _, said, link in found]


def test_the_first_answer_is_told_with_its_citations_and_the_others_are_folded(client, kb):
    question = 'Who directed The Silent Harbour?'
    page = client.get('/', params={'q': question}).text
    record = kb.ask(question).to_record(10)
    best, folded = re.fullmatch(r'.*<div class="best">(.*?)</div>(.*)', page, re.S).groups()
    answer, *others = record['answers']
    assert f'<mark>{html.escape(answer["entity"])}</mark>' in best
    assert f'probability {answer["probability"]:.2f}' in words(best)
    summary = folded.partition('<details>')[2].partition('</summary>')[0]
    assert words(summary) == f'{len(others)} other answers'
    cited = [sentence for sentence, _ in citations(page)]
    rests_on = [fact['sentence'] for one in record['answers'] for fact in one['path']]
    assert cited == list(dict.fromkeys(rests_on))
    first = [cited[int(number) - 1] for number in re.findall(r'href="#cite-(\d+)"', best)]
    assert first == [fact['sentence'] for fact in answer['path']]
    assert set(re.findall(r'href="#(cite-\d+)"', page)) == set(re.findall(r'id="(cite-\d+)"', page))


def test_a_citation_leads_to_its_sentence_in_its_document(client, kb):
    found = citations(client.get('/', params={'q': QUESTION}).text)
    assert found
    for sentence, link in found:
        assert link.endswith('#cited')
        document = client.get(link.removesuffix('#cited')).text
        assert document.count('id="cited"') == 1
        marked = re.findall(r'<mark[^>]*>(.*?)</mark>', re.sub(r'</?a[^>]*>', '', document))
        assert list(map(html.unescape, marked)) == [sentence]
        texts = re.findall(r'<p class="text">(.*?)</p>', document, re.S)
        shown = [html.unescape(re.sub(r'<[^>]*>', '', text)) for text in texts]
        (name,) = urllib.parse.parse_qs(link.partition('?')[2])['id']
        # Also of one whose passages begin with its title in the index.
        assert '\n\n'.join(shown) == kb.prepared.document_text(name)
    beyond = client.get('/document', params={'id': 'harbour', 'start': 10**6, 'end': 10**7})
    assert beyond.status_code == 200 and '<mark' not in beyond.text


def test_what_is_suggested_is_answered_as_the_text_says(client, kb):
    page = client.get('/').text
    suggested = suggest(kb)
    assert suggested.questions and is_query(suggested.query)
    listed = re.findall(r'<li><a href="/\?q=[^>]*>(.*?)</a></li>', page)
    assert list(map(html.unescape, listed)) == suggested.questions
    for question in suggested.questions:
        record = kb.ask(question).to_record(1)
        assert record['sure']
        assert record['answers'][0]['entity'] in record['answers'][0]['path'][-1]['sentence']
    assert kb.query(suggested.query).names
    assert suggested.query in words(client.get('/', params={'q': 'Ingrid Solberg . .'}).text)


def test_entities_and_documents_are_searched_and_counted(client, kb):
    page = client.get('/entities', params={'text': 'SOLBERG'}).text
    assert '1 entity' in words(page) and 'name=Ingrid+Solberg' in page
    page = client.get('/entities', params={'kind': 'person'}).text
    assert f'{kb.vocab.kinds.count("person")} entities' in words(page)
    documents = set(kb.prepared.passages['doc_id'].to_pylist())
    assert f'{len(documents)} documents' in words(client.get('/documents').text)
    text = lambda name: kb.prepared.document_text(name).casefold()
    born = {name for name in documents if 'born in aarhus' in text(name)}
    found = client.get('/documents', params={'text': 'Born in Aarhus'}).text
    assert set(re.findall(r'/document\?id=(\w+)', found)) == born != set()


def test_the_clusters_of_the_map_are_numbered_as_they_are_listed(client):
    picture, _, listed = client.get('/map').text.partition('</svg>')
    numbers = re.findall(r'<text class="cluster"[^>]*>(\d+)<', picture)
    assert numbers == [str(n) for n in range(1, 1 + listed.count('<li>'))] != []


def test_every_link_of_every_page_leads_somewhere(client):
    seen, todo = set(), ['/']
    while todo:
        address = todo.pop()
        if address not in seen:
            seen.add(address)
            found = client.get(address)
            assert found.status_code == 200, (address, found.text)
            todo += [html.unescape(link) for link in re.findall(r'href="(/[^"]*)"', found.text)]
    assert {*'/entities /documents /map /docs /openapi.json /static/style.css'.split()} <= seen
    assert len(seen) > 30


def test_what_the_text_says_is_never_markup(client):
    document = f'/document?{urllib.parse.urlencode({"id": "a/b?<x>"})}'
    ours = '<script src="/static/page.js" defer></script>'
    for address in ('/', '/entities', '/documents', '/map', document):
        assert '<script' not in client.get(address).text.replace(ours, '')
    for query in (STRANGE, f'Ingrid Solberg . "{STRANGE}"'.replace('"1"', '1')):
        assert '<script' not in client.get('/', params={'q': query}).text.replace(ours, '')
    assert STRANGE in words(client.get('/documents').text)


def test_the_time_of_an_answer_is_limited(client, monkeypatch):
    monkeypatch.setattr(app.time_limit, 'SERVED', 0)
    for address in ('/', '/api/ask', '/api/retrieve'):
        page = client.get(address, params={'q': QUESTION}).text
        assert 'time for an answer is over' in words(page)
    refused = client.get('/api/ask', params={'q': 'Ingrid Solberg . directed . born in'})
    assert refused.status_code == 400 and 'ask it in parts' in refused.json()['error']


def test_pages_load_nothing_from_elsewhere_and_run_no_script_that_stands_in_them(client):
    page = client.get('/', params={'q': QUESTION})
    policy = page.headers['content-security-policy']
    assert "default-src 'none'" in policy
    assert 'unsafe' not in policy
    assert "script-src 'self';" in policy
    assert not re.search(r'(?:src|href|action)="(?:https?:)?//', page.text)
    assert page.headers['x-content-type-options'] == 'nosniff'


def test_other_pages_and_methods_and_changes_are_refused(client):
    assert client.post('/add', data={'title': 'x', 'text': 'y'}).status_code == 404
    assert '/add' not in client.get('/documents').text
    for of_one in ('entity?name', 'document?id', 'api/document?id'):
        missing = client.get(f'/{of_one}=Zorblatt')
        assert missing.status_code == 404 and 'Zorblatt' in missing.text
    assert client.get('/nothing').status_code == 404 and client.post('/').status_code == 405
    assert client.get('/static/../app.py').status_code == 404
    assert client.get('/static/%2e%2e/app.py').status_code == 404


def test_a_name_that_is_not_ours_is_refused(folder):
    """A page elsewhere can make its own name mean this machine."""
    made = app.make_app(folder)
    called = lambda host: TestClient(made, base_url='http://localhost', headers={'host': host})
    for host in ('evil.example', 'evil.example:80', '', '[::2]:80'):
        assert called(host).get('/').status_code == 421
    for host in ('localhost:8000', '127.0.0.1', '[::1]:80', '[::1]', 'LocalHost'):
        assert called(host).get('/').status_code == 200


def test_what_is_no_fault_of_the_request_is_told_so(folder, tmp_path, monkeypatch):
    moved = shutil.copytree(folder, tmp_path / 'moved.kb')

    def unreadable(*_):
        raise PermissionError(errno.EACCES, 'Permission denied', str(moved))

    monkeypatch.setattr(app.views, 'documents', unreadable)
    key = {'Authorization': 'Bearer x'}
    make = lambda hosts: TestClient(app.make_app(moved, hosts, 'x'), headers=key)
    clients = {'http://localhost': make(guard.LOOPBACK), 'http://kb.example': make({'kb.example'})}
    for path, said in (('documents', 'Permission denied'), ('api/ask?q=x', 'is no longer there')):
        for base, client in clients.items():
            found = client.get(f'{base}/{path}')
            assert found.status_code == 503 and said in found.text
            assert (str(tmp_path) in found.text) == (base == 'http://localhost')
        if moved.exists():
            moved.rename(tmp_path / 'elsewhere')


def test_with_a_token_nobody_gets_in_without_it(folder):
    """Under any name, as a server of all addresses has; a header is bytes, here UTF-8."""
    made = app.make_app(folder, hosts=None, token='sécret')
    fresh = lambda: TestClient(made, base_url='http://any.example', follow_redirects=False)
    assert fresh().get('/api/ask', params={'q': QUESTION}).status_code == 401
    assert fresh().get('/', params={'token': 'wrong'}).status_code == 401
    assert fresh().get('/health').json()['status'] == 'ok'
    for token, status in (('wrong', 401), ('sécret', 200)):
        headers = {'Authorization': f'Bearer {token}'.encode()}
        assert fresh().get('/', headers=headers).status_code == status
    browser = fresh()
    let_in = browser.get('/', params={'token': 'sécret'})
    assert let_in.status_code == 303 and 'cret' not in let_in.headers['location']
    assert 'HttpOnly' in let_in.headers['set-cookie'] and browser.get('/').status_code == 200


def test_what_cannot_be_served_is_told(folder, world):
    import socket

    with pytest.raises(InputError, match='a trained model'):
        app.make_app(world)
    with pytest.raises(InputError, match='can be reached from other machines: give a token'):
        app.serve(folder, '0.0.0.0', 0, None)
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        with pytest.raises(InputError, match='cannot be listened at'):
            app.serve(folder, '127.0.0.1', taken.getsockname()[1], None)


def test_the_command_serves_until_it_is_interrupted(folder):
    command = [sys.executable, '-m', 'opql_jax.cli', 'explore', str(folder), '--port', '0']
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served:
        try:
            address = served.stdout.readline().strip()
            with urllib.request.urlopen(f'{address}health') as response:
                assert json.load(response)['status'] == 'ok'
        finally:
            served.terminate()
        assert served.wait(30) == 0
