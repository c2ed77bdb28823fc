"""Requests that nobody's browser would send are refused, and none breaks the server."""

import shutil

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

pytest.importorskip('starlette', reason='the extra app is not installed')
pytest.importorskip('httpx', reason='httpx is not installed')
from starlette.testclient import TestClient

from opql_jax.explorer import app

PAGES = (
    '/ /entity /entities /document /documents /map '
    '/api/ask /api/retrieve /api/document /openapi.json'
).split()
FORMS = ['/add', '/forget', '/forget-sentence', '/undo']
STRANGE = '" . "/top 5/Ingrid Solberg . ^ ^ x/[/]]/-1/1e9/٣/%00/. ^'.split('/')
STRANGE += [
    '../..',
    '9' * 600,
    '\0',
    '\ud800',
    '\ud800'.encode('utf-8', 'surrogatepass').decode('latin1'),
]
TEXTS = st.text(max_size=60) | st.sampled_from(STRANGE)
# What UTF-8 can hold: the client refuses to send anything else in these places.
SENDABLE = TEXTS.map(lambda text: text.encode('utf-8', 'replace').decode())
KEYS = st.sampled_from(['q', 'name', 'id', 'page', 'top', 'k', 'start', 'token']) | SENDABLE
PARAMETERS = st.dictionaries(KEYS, SENDABLE, max_size=5)
# Nothing that makes a change: no text with a title.
NAMES = st.sampled_from(['id', 'digest', 'sentence', 'change', 'q', 'text']) | SENDABLE
FIELDS = st.dictionaries(NAMES, SENDABLE, max_size=5)
BODIES = st.binary(max_size=200) | st.sampled_from(
    [b'{"secret": 1}', b'secret=%ff%fe&id=%', b'a=b;' * 1000, b'x' * (1 << 21)]
)
TYPES = 'application/x-www-form-urlencoded application/json multipart/form-data text/plain ü'
TYPES = st.sampled_from([*TYPES.split(), '', 'multipart/form-data; boundary=x'])
METHODS = st.just('GET') | st.sampled_from('POST HEAD PUT DELETE OPTIONS PATCH BREW'.split())
OTHERS = '/static/style.css /static/%2e%2e/app.py /static/%00 // /%ff%fe'.split()
PATHS = st.sampled_from([*PAGES, *FORMS, *OTHERS])


@pytest.fixture(scope='module')
def client(films_kb, tmp_path_factory):
    folder = shutil.copytree(films_kb, tmp_path_factory.mktemp('fuzz') / 'films.kb')
    options = {'raise_server_exceptions': False, 'follow_redirects': False}
    made = app.make_app(folder, writable=True)
    made = TestClient(made, base_url='http://localhost', **options)
    made.secret = made.get('/documents').text.split('name="secret" value="')[1].split('"')[0]
    return made


def times(examples):

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(METHODS, PATHS, PARAMETERS, TYPES, BODIES, FIELDS, st.booleans())
    def check(client, method, path, parameters, content_type, body, fields, knows_secret):
        if knows_secret and path in FORMS:
            form = fields | {'secret': client.secret, 'title': ' '}
            answer = client.post(path, params=parameters, data=form)
            assert answer.status_code in (400, 414), answer.text
        else:
            sent = {'headers': {'content-type': content_type.encode()}, 'content': body}
            answer = client.request(method, path, params=parameters, **sent)
            is_page = method == 'GET' and path in PAGES
            refused = (400, 404, 414) if is_page else (307, 400, 404, 405, 413, 414)
            assert answer.status_code in (200, 303, *refused), (answer.status_code, answer.text)
        assert method == 'HEAD' or answer.status_code in (303, 307) or answer.text

    return check


test_no_request_breaks_the_server = times(150)
test_none_of_two_thousand_requests_breaks_the_server = pytest.mark.slow(times(2_000))
