"""Fifty clients ask over HTTP while documents come and go: every response is whole, and of one version."""

import json
import threading
from urllib.parse import urlencode

import pytest

from opql_jax.kb.text.index_text import index_text

import films

pytest.importorskip('starlette', reason='the extra app is not installed')
pytest.importorskip('uvicorn', reason='uvicorn is not installed')

from explorer_process import Server

CLIENTS, CHANGES, CUT = 50, 4, 'time for an answer is over'
TEXT = 'Winter Tide is a drama film of 1975. It was directed by Ingrid Solberg, and starred Clara Holm.'
ASKED = [
    ('/api/ask', {'q': 'Ingrid Solberg . directed', 'top': 20}),
    ('/api/ask', {'q': 'Who starred in the films directed by Ingrid Solberg?', 'top': 20}),
    ('/api/retrieve', {'q': 'Which drama films did Ingrid Solberg direct?', 'k': 5}),
]
PATHS = [f'{path}?{urlencode(parameters)}' for path, parameters in ASKED]


@pytest.mark.slow
def test_fifty_clients_read_one_version_or_the_other_while_documents_come_and_go(tmp_path):
    index_text([films.write(tmp_path / 'films.jsonl')], tmp_path / 'films.kb', processes=1)
    with Server(tmp_path / 'films.kb') as server:
        changing, over, wrong, counts = server.client(), threading.Event(), [], []
        for path in PATHS:  # until what it takes is compiled, as an answer that comes late is cut
            while CUT in changing.get(path)[1]:
                pass
        read = lambda: [changing.get(path) for path in PATHS]
        before = read()
        document = changing.add('Winter Tide', TEXT)
        after = read()
        changing.forget(document)
        assert read() == before != after and {status for status, _ in (*before, *after)} == {200}
        assert all(json.loads(text) for _, text in (*before, *after))

        def ask(client, place):
            seen = set()
            while not over.is_set():
                place = (place + 1) % len(PATHS)
                found = client.get(PATHS[place])
                seen.add((place, found == after[place]))
                if found not in (before[place], after[place]) and CUT not in found[1]:
                    wrong.append((PATHS[place], found))
            counts.append(seen)

        clients = [threading.Thread(target=ask, args=(server.client(), number)) for number in range(CLIENTS)]
        for thread in clients:
            thread.start()
        for _ in range(CHANGES // 2):
            changing.forget(changing.add('Winter Tide', TEXT))
        over.set()
        for thread in clients:
            thread.join()
    assert wrong == []
    seen = set.union(*counts)  # either version, over each address
    assert {
        (place, is_after)
        for place in range(len(PATHS))
        for is_after in (False, True)
        if before[place] != after[place] or not is_after
    } <= seen
