"""Requests from other sites, of bad text or too many are refused; no redirect leads elsewhere."""

import asyncio
import itertools
import re
import types
import urllib.parse

import pytest

pytest.importorskip('starlette', reason='the extra app is not installed')
httpx = pytest.importorskip('httpx', reason='httpx is not installed')
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from opql_jax.core.errors import InputError
from opql_jax.explorer import guard


async def said(request):
    return PlainTextResponse('said')


APP = Starlette(routes=[Route('/{path:path}', said, methods=['GET', 'POST'])])
BASES = ['http://localhost:8000', 'http://127.0.0.1:8000', 'http://kb.example']
NAVIGATION = {'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document'}
IMAGE = {'Sec-Fetch-Mode': 'no-cors', 'Sec-Fetch-Dest': 'image'}
ALLOWS = 'access-control-allow-origin'


@pytest.fixture(params=BASES)
def client(request):
    hosts = {*guard.LOOPBACK, 'kb.example'}
    return TestClient(guard.Guard(APP, hosts), base_url=request.param, follow_redirects=False)


@pytest.mark.parametrize('method', ['GET', 'POST'])
@pytest.mark.parametrize('path', ['/', '/?q=x', '/api/ask?q=x', '/add'])
def test_what_a_page_elsewhere_sends_is_refused_on_every_address(client, method, path):
    origins = ('http://evil.example', 'null', 'http://localhost:3000', 'http://[', '')
    foreign = [{'Origin': origin} for origin in origins]
    sites = itertools.product(('cross-site', 'same-site', 'odd'), (IMAGE, {}))
    foreign += [{'Sec-Fetch-Site': site} | mode for site, mode in sites]
    # A form of a page elsewhere is a navigation, too, and so is what a frame shows.
    foreign += [{'Sec-Fetch-Site': 'cross-site'} | NAVIGATION | {'Sec-Fetch-Dest': 'iframe'}]
    for headers in foreign:
        refused = client.request(method, path, headers=headers)
        assert refused.status_code == 403 and 'a page of another site' in refused.text


def test_our_own_pages_and_programs_ask_as_they_did(client):
    host = client.base_url.netloc.decode()
    ours = {'Sec-Fetch-Site': 'same-origin'} | IMAGE
    for headers in ({}, {'Origin': f'http://{host}'}, {'Sec-Fetch-Site': 'none'}, ours):
        for method, path in itertools.product(['GET', 'POST'], ['/', '/api/ask?q=x']):
            assert client.request(method, path, headers=headers).text == 'said'


def test_only_pages_of_an_allowed_origin_read_the_api_and_nothing_else():
    notes, allows = {'Origin': 'https://notes.example', 'Sec-Fetch-Site': 'cross-site'}, ALLOWS
    make = lambda base, token=None: TestClient(
        guard.Guard(APP, guard.LOOPBACK, token, origins=['https://notes.example']), base
    )
    client = make('http://127.0.0.1:8000')
    read = client.get('/api/ask?q=x', headers=notes)
    assert read.text == 'said' and read.headers[allows] == 'https://notes.example'
    assert 'Origin' in read.headers['vary']
    assert 'access-control-allow-credentials' not in read.headers
    origins = 'https://evil.example http://notes.example https://notes.example:81 null'.split()
    asked = [('GET', '/api/ask?q=x', notes | {'Origin': origin}) for origin in origins]
    asked += [('GET', '/', notes), ('POST', '/api/ask', notes), ('OPTIONS', '/add', notes)]
    for method, path, headers in asked:
        refused = client.request(method, path, headers=headers)
        assert refused.status_code == 403 and allows not in refused.headers
    # A name that someone else's page was made to have is refused whatever the origin.
    assert make('http://evil.example').get('/api/ask?q=x', headers=notes).status_code == 421
    assert allows not in client.get('/api/ask?q=x').headers
    # With a token, the browser first asks what it may send; then the token has to be right.
    client = make('http://127.0.0.1:8000', 'right')
    asks = notes | {'Access-Control-Request-Method': 'GET'}
    allowed = client.options('/api/ask?q=x', headers=asks)
    assert allowed.status_code == 204
    assert allowed.headers['access-control-allow-headers'] == 'Authorization'
    with_key = lambda token: notes | {'Authorization': f'Bearer {token}'}
    ask = lambda token: client.get('/api/ask?q=x', headers=with_key(token))
    assert ask('right').text == 'said' and ask('wrong').status_code == 401
    assert ask('wrong').headers[allows] == 'https://notes.example'


ODD = ['*', 'null', 'notes.example', 'https://notes.example/', 'https://Notes.example', 'ftp://a']


@pytest.mark.parametrize('origin', [*ODD, ''])
def test_what_is_no_origin_is_refused_by_name(origin):
    with pytest.raises(InputError, match=re.escape(f'{origin!r} is no origin')):
        guard.Guard(APP, origins=[origin])


def test_a_link_elsewhere_leads_to_the_first_page_and_asks_nothing(client):
    link = {'Sec-Fetch-Site': 'cross-site'} | NAVIGATION
    follow = lambda path, method='GET': client.request(method, path, headers=link).status_code
    assert follow('/') == follow('/?token=x') == 200 and follow('/', 'POST') == 403
    for path in ('/?q=x', '/map', '/entity?name=x', '/api/ask?q=x'):
        assert follow(path) == 403


def test_the_right_token_leads_to_no_other_host():
    guarded = guard.Guard(APP, {'kb.example'}, 'right')
    made = TestClient(guarded, base_url='http://kb.example', follow_redirects=False)
    parts = ['/', '\\', '%2f', '%5c', 'evil.example', '.', '@']
    for path in map(''.join, itertools.product(['/'], parts, parts, ['', 'evil.example/'])):
        let_in = made.get(f'http://kb.example{path}?token=right')
        location = let_in.headers['location'].replace('\\', '/')
        place = urllib.parse.urljoin('http://kb.example/', location)
        assert let_in.status_code == 303 and urllib.parse.urlsplit(place).netloc == 'kb.example'
    assert TestClient(guarded, base_url='http://kb.example').get('/?token=wrong').status_code == 401


@pytest.mark.parametrize('query', ['q=%ED%A0%80', 'q=%ff', '%C3=1', 'q=a&x=%80'])
def test_an_address_that_is_no_text_is_refused(client, query):
    refused = client.get(f'/?{query}')
    assert refused.status_code == 400 and 'no text in UTF-8' in refused.text
    assert client.get('/?q=%EF%BF%BD%F0%9F%98%80').text == 'said'


def test_who_asks_too_often_waits(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(guard, 'time', types.SimpleNamespace(monotonic=lambda: now[0]))
    guarded = guard.Guard(APP, rate=2.0)
    one, other = (TestClient(guarded, 'http://localhost', client=(name, 1)) for name in 'ab')
    ask = lambda client, times: [client.get('/').status_code for _ in range(times)]
    assert ask(one, 3) == [200, 200, 429] and ask(other, 1) == [200]
    now[0] += 0.5
    assert ask(one, 2) == [200, 429]


def test_so_many_are_answered_at_a_time_and_the_others_are_told():
    waiting, goes_on = [], asyncio.Event()

    async def slow(scope, receive, send):
        waiting.append(scope)
        await goes_on.wait()
        await PlainTextResponse('said')(scope, receive, send)

    async def ask():
        transport = httpx.ASGITransport(guard.Guard(slow))
        options = {'base_url': 'http://localhost', 'timeout': 60}
        async with httpx.AsyncClient(transport=transport, **options) as client:
            asked = [asyncio.create_task(client.get('/')) for _ in range(guard.REQUESTS)]
            while len(waiting) < guard.REQUESTS:
                await asyncio.sleep(0.01)
            refused = await client.get('/')
            assert refused.status_code == 503 and refused.headers['retry-after']
            goes_on.set()
            assert {(await one).text for one in asked} == {'said'}
            assert (await client.get('/')).text == 'said'

    asyncio.run(ask())
