"""The explorer in Chromium: keyboard, mouse, narrow and dark screens, no scripts, accessibility.

With OPQL_PICTURES=docs/figures the test of pictures writes those that the pages of docs/ show.
"""

import io
import os
import pathlib
import shutil
from urllib.parse import urlencode

import pytest

import opql_jax
from opql_jax.kb.text.index_text import index_text

from pages import served

sync_api = pytest.importorskip('playwright.sync_api', reason='playwright is not installed')
pytest.importorskip('axe_playwright_python', reason='axe-playwright-python is not installed')
pytest.importorskip('starlette', reason='the extra app is not installed')
from axe_playwright_python.sync_playwright import Axe

from opql_jax.explorer import app

Image = pytest.importorskip('PIL.Image', reason='Pillow is not installed')
# A click does not wait for the page that it leads to; this does.
expect = sync_api.expect
expect.set_options(timeout=60_000)
CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason='chromium is not installed')

QUESTION = 'Who starred in the films directed by Ingrid Solberg?'
LONG_NAME = 'The-Extraordinarily-Long-Winded-Committee-For-Names-That-No-Screen-Is-Wide-Enough-For'
DOCUMENT = {
    'id': 'long',
    'title': LONG_NAME,
    'text': f'{LONG_NAME} is a film. It was directed by Ingrid Solberg.',
}
# One of each kind, and the status that it comes with.
PAGES = {
    'home': ('/', 200),
    'answers': (f'/?{urlencode({"q": QUESTION})}', 200),
    'entity': (f'/entity?{urlencode({"name": "Ingrid Solberg"})}', 200),
    'entities': ('/entities', 200),
    'document': ('/document?id=solberg', 200),
    'long name': (f'/?{urlencode({"q": f"{LONG_NAME} . directed"})}', 200),
    'documents': ('/documents', 200),
    'map': ('/map', 200),
    'cited': ('/document?id=harbour&start=44&end=117#cited', 200),
    'docs': ('/docs', 200),
    'refusal': (f'/?{urlencode({"q": "Where was Nobody At All born?"})}', 400),
    'no page': ('/nothing', 404),
}


@pytest.fixture(scope='module')
def address(folder):
    with served(app.make_app(folder, writable=True)) as port:
        yield f'http://127.0.0.1:{port}'


@pytest.fixture(scope='module')
def browser():
    # What a browser does on its own account is no request of a page.
    quiet = (
        '--disable-gpu --disable-quic --disable-background-networking '
        '--disable-component-update --disable-sync'
    ).split()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield browser
        browser.close()


@pytest.fixture
def window(browser):
    """Opens a page with browser settings; it logs no error and loads nothing from elsewhere."""
    complaints, requests, opened = [], [], []

    def open_page(address, **settings):
        context = browser.new_context(base_url=address, **settings)
        context.set_default_timeout(60_000)
        page = context.new_page()
        # The status of a page itself, which tests check, is in the console, too.
        noted = lambda said: said.location['url'] != page.url and complaints.append(said.text)
        page.on('console', noted)
        page.on('pageerror', lambda error: complaints.append(str(error)))
        page.on('request', lambda request: requests.append((request.url, address)))
        opened.append(context)
        return page

    yield open_page
    for context in opened:
        context.close()
    assert requests
    assert [url for url, address in requests if not url.startswith(f'{address}/')] == []
    assert complaints == []


def tab_to(page, name):
    """Presses the tabulator until what has that name, a link or a field, has the focus."""
    for _ in range(60):
        page.keyboard.press('Tab')
        focus = page.locator(':focus')
        if focus.count() and name in (focus.inner_text(), focus.get_attribute('name')):
            return
    raise AssertionError(f'{name} is not reached by the keyboard')


def test_a_question_is_asked_and_its_answer_is_followed_by_keyboard_alone(window, address, kb):
    page = window(address)
    page.goto('/')
    page.keyboard.press('Tab')
    assert page.locator(':focus').inner_text() == 'Skip to the content'
    tab_to(page, 'q')
    page.keyboard.type(QUESTION)
    page.keyboard.press('Enter')
    page.wait_for_url('**/?q=*')
    names = kb.ask(QUESTION).names
    assert page.locator('.answers h2 a').all_text_contents() == names[:10]
    assert names[0] in page.locator('.best mark').all_inner_texts()
    assert page.locator('details:not([open]) .others h2 a').all_text_contents() == names[1:10]
    tab_to(page, names[0])
    page.keyboard.press('Enter')
    page.wait_for_url('**/entity?*')
    assert page.locator('h1').inner_text().startswith(names[0])


@pytest.mark.slow
@pytest.mark.parametrize('kind', PAGES)
def test_a_narrow_screen_is_scrolled_down_only(window, address, kind):
    page = window(address, viewport={'width': 360, 'height': 640})
    path, status = PAGES[kind]
    assert page.goto(path).status == status
    assert page.evaluate('document.documentElement.scrollWidth') == 360


@pytest.mark.slow
@pytest.mark.parametrize('scheme', ['light', 'dark'])
@pytest.mark.parametrize('kind', PAGES)
def test_axe_finds_nothing(window, address, kind, scheme):
    page = window(address, color_scheme=scheme)
    page.goto(PAGES[kind][0])
    found = Axe().run(page).response['violations']
    assert [(one['id'], one['nodes'][0]['html']) for one in found] == []


PICTURES = {
    'answer': ('/?q=Where+was+the+painter+of+Harbour+at+Dusk+born%3F', 1280),
    'answer_narrow': ('/?q=Where+was+the+painter+of+Harbour+at+Dusk+born%3F', 390),
    'entity': ('/entity?name=Clara+Whitcombe', 1280),
    'map': ('/map', 1280),
}
ENDS = {'entity': 'main > h2:last-of-type', 'map': 'main > h2'}


@pytest.mark.slow
def test_pictures_of_the_docs_are_those_of_the_pages(window, tmp_path):
    articles = pathlib.Path(opql_jax.__file__).parent / 'sample' / 'articles'
    index_text([articles], tmp_path / 'sample.kb', processes=1)
    folder = pathlib.Path(os.environ.get('OPQL_PICTURES', tmp_path))
    with served(app.make_app(tmp_path / 'sample.kb')) as port:
        for name, (path, width) in PICTURES.items():
            size = {'width': width, 'height': 800}
            page = window(f'http://127.0.0.1:{port}', viewport=size, color_scheme='light')
            page.goto(path)
            assert page.evaluate('document.documentElement.scrollWidth') == width
            end = page.locator(ENDS.get(name, 'main > p:last-of-type'))
            height = end.bounding_box()['y'] + (0 if name in ENDS else 60)
            clip = {'x': 0, 'y': 0, 'width': width, 'height': height}
            shot = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip)))
            shot.convert('RGB').quantize(128).save(folder / f'{name}.png', optimize=True)
            assert (folder / f'{name}.png').stat().st_size < 120_000
