"""Writes the pictures of the explorer's pages, of a knowledge base of the sample articles, with Chromium.

PYTHONPATH=. .venv/bin/python docs/figures/explorer_pages.py
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

HERE = pathlib.Path(__file__).resolve().parent
ARTICLES = HERE.parents[1] / 'opql_jax' / 'sample' / 'articles'
QUESTION = 'Where was the teacher of the painter of Harbour at Dusk born?'
# The address, how much of the page is seen, and whether it is dark.
PICTURES = {
    'explorer_answers.png': (f'?{urlencode({"q": QUESTION})}', {'width': 1000, 'height': 620}, 'light'),
    'explorer_entity.png': (f'entity?{urlencode({"name": "Clara Whitcombe"})}', {'width': 1000, 'height': 620}, 'dark'),
}


def main() -> None:
    """Indexes the articles, serves them, and takes the pictures."""
    opql = [sys.executable, '-m', 'opql_jax.cli']
    with tempfile.TemporaryDirectory() as folder:
        kb = f'{folder}/sample.kb'
        subprocess.run([*opql, 'index', str(ARTICLES), '--out', kb], check=True)
        with subprocess.Popen([*opql, 'explore', kb, '--port', '0'], stdout=subprocess.PIPE, text=True) as served:
            try:
                assert served.stdout is not None
                take(served.stdout.readline().strip())
            finally:
                served.terminate()


def take(address: str) -> None:
    """Takes the pictures of an explorer at an address."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which('chromium'), args=['--disable-gpu'])
        for name, (page, viewport, scheme) in PICTURES.items():
            window = browser.new_page(viewport=viewport, color_scheme=scheme)
            window.goto(address + page, timeout=120_000)
            window.screenshot(path=HERE / name)
        browser.close()


if __name__ == '__main__':
    main()
