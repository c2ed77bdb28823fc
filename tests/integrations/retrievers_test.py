"""Knowledge bases in LangChain, LlamaIndex and MCP: the real libraries and the real command."""

import asyncio
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler

import pytest

import opql_jax
from opql_jax import cli
from opql_jax.kb.answer_record import SCHEMA
from opql_jax.kb.current import Current
from opql_jax.kb.text.retrieve import SCHEMA as DOCUMENTS_SCHEMA

QUESTION = 'Who starred in the films directed by Ingrid Solberg?'
QUERY = 'Ingrid Solberg . directed . starring'
UNSURE = 'Which football club does Ingrid Solberg support?'
OUT_OF_REACH = 'How many films did Ingrid Solberg direct?'


@pytest.fixture(scope='module')
def folder(films_kb):
    return films_kb


@pytest.fixture(scope='module')
def kb(folder):
    return opql_jax.open(folder)


@pytest.fixture
def make_server():
    pytest.importorskip('mcp', reason='mcp is not installed')
    from opql_jax.integrations.mcp_server import make_server

    return make_server


def sent(retriever):
    """A retriever as another process gets it that is started with it."""
    return ForkingPickler.loads(ForkingPickler.dumps(retriever))


def test_langchain_gets_the_documents_that_retrieve_finds(kb):
    pytest.importorskip('langchain_core', reason='LangChain is not installed')
    from opql_jax.integrations.langchain import OPQLRetriever

    retriever, want = OPQLRetriever(kb=kb, k=3), kb.retrieve(QUESTION, 3)
    found = retriever.invoke(QUESTION)
    for document, one in zip(found, want, strict=True):
        assert (document.id, document.page_content) == (one.document, one.text)
        told = document.metadata
        assert (told['source'], told['title'], told['why']) == (one.document, one.title, one.why)
        assert told['score'] == one.probability
        text = kb.prepared.document_text(told['source'])
        assert text[told['start_index'] :].startswith(document.page_content)
        start, end = told['evidence']
        assert document.page_content[start:end].endswith('.')
        assert start == 0 or document.page_content[start - 2] == '.'
    assert retriever.invoke(QUESTION, k=1) == found[:1]
    assert retriever.batch([QUESTION], k=2) == [found[:2]]
    assert asyncio.run(retriever.ainvoke(QUESTION, k=2)) == found[:2]
    best = max(found, key=lambda document: document.metadata['score'])
    assert retriever.invoke(QUESTION, score_threshold=best.metadata['score']) == [best]
    assert OPQLRetriever(kb=kb, score_threshold=1.0).invoke(QUESTION) == []


def test_a_langchain_retriever_is_written_by_the_folder_of_its_knowledge_base(kb, folder):
    pytest.importorskip('langchain_core', reason='LangChain is not installed')
    from opql_jax.integrations.langchain import OPQLRetriever

    retriever = OPQLRetriever(kb=kb, k=2, score_threshold=0.1, tags=['films'])
    found = retriever.invoke(QUESTION)
    assert json.loads(retriever.model_dump_json())['kb'] == str(folder)
    for again in (OPQLRetriever.model_validate_json(retriever.model_dump_json()), sent(retriever)):
        assert (again.k, again.score_threshold, again.tags) == (2, 0.1, ['films'])
        assert again.invoke(QUESTION) == found


def test_llama_index_gets_the_documents_that_retrieve_finds(kb):
    pytest.importorskip('llama_index.core', reason='LlamaIndex is not installed')
    from llama_index.core.postprocessor import SimilarityPostprocessor

    from opql_jax.integrations.llama_index import OPQLRetriever

    retriever, want = OPQLRetriever(kb, similarity_top_k=3), kb.retrieve(QUESTION, 3)
    found = retriever.retrieve(QUESTION)
    for one, of in zip(found, want, strict=True):
        same = one.node.node_id, one.node.text, one.score
        assert same == (of.document, of.text, of.probability)
        assert one.node.metadata['source'] == one.node.node_id and one.node.metadata['why']
        text = kb.prepared.document_text(one.node.metadata['source'])
        assert text[one.node.start_char_idx : one.node.end_char_idx] == one.node.text
    assert asyncio.run(retriever.aretrieve(QUESTION)) == found
    assert sent(retriever).retrieve(QUESTION) == found
    retriever.similarity_top_k = 1
    assert retriever.retrieve(QUESTION) == found[:1]
    cutoff = max(one.score for one in found)
    kept = SimilarityPostprocessor(similarity_cutoff=cutoff).postprocess_nodes(found)
    assert [one.score for one in kept] == [cutoff]


@pytest.mark.parametrize('asked', [QUESTION, QUERY, UNSURE, OUT_OF_REACH])
def test_all_interfaces_give_the_same_record_of_an_answer(folder, kb, asked, capsys, make_server):
    """Of Python, command, HTTP and MCP; it fits the schema and cites the text."""
    jsonschema = pytest.importorskip('jsonschema', reason='jsonschema is not installed')
    testclient = pytest.importorskip('starlette.testclient', reason='app is not installed')
    import anyio

    from opql_jax.explorer import app

    record = (kb.query(asked) if asked == QUERY else kb.ask(asked)).to_record(2)
    jsonschema.validate(record, SCHEMA)
    assert 1 <= len(record['answers']) <= 2
    client = testclient.TestClient(app.make_app(folder), base_url='http://localhost')
    for answer in record['answers']:
        assert answer['path'][-1]['target'] == answer['entity']
        assert ('probability' in answer) == (asked in (QUESTION, UNSURE))
        for fact in answer['path']:
            given = client.get('/api/document', params={'id': fact['document']}).json()
            assert given['text'] == kb.prepared.document_text(fact['document'])
            assert given['text'][fact['start'] : fact['end']] == fact['sentence'] != ''
    assert ('not sure' in record.get('note', '')) == (record.get('sure') is False)
    assert ('this counts' in record.get('note', '')) == (asked == OUT_OF_REACH)

    cli.main(['ask', str(folder), asked, '--top', '2', '--json'])
    assert json.loads(capsys.readouterr().out) == record
    assert client.get('/api/ask', params={'q': asked, 'top': 2}).json() == record
    described = client.get('/openapi.json').json()['paths']['/api/ask']['get']
    schema = described['responses']['200']['content']['application/json']['schema']
    assert schema == json.loads(json.dumps(SCHEMA))
    if asked != QUERY:
        server = make_server(Current(folder), writable=False)
        (content,) = anyio.run(server.call_tool, 'ask', {'question': asked, 'top': 2}).content
        assert json.loads(content.text) == record and len(content.text) < 2_000
        cli.main(['ask', str(folder), asked, '--top', '2'])
        number = 'probability' if 'probability' in record['answers'][0] else 'weight'
        _, told = capsys.readouterr().out.split(f'  answers, by {number}\n')
        shown = re.findall(r'^ {5}\d\.\d{3}  (.+)$', told.split('\n  found by ')[0], re.MULTILINE)
        assert shown == [answer['entity'] for answer in record['answers']]


def test_all_interfaces_give_the_same_record_of_documents(folder, kb, capsys):
    jsonschema = pytest.importorskip('jsonschema', reason='jsonschema is not installed')
    testclient = pytest.importorskip('starlette.testclient', reason='app is not installed')
    from opql_jax.explorer import app

    record = json.loads(json.dumps(kb.retrieve(QUESTION, 2).to_record()))
    jsonschema.validate(record, DOCUMENTS_SCHEMA)
    for one in record['documents']:
        assert kb.prepared.document_text(one['document'])[one['start'] : one['end']] == one['text']
    cli.main(['retrieve', str(folder), QUESTION, '-k', '2', '--json'])
    assert json.loads(capsys.readouterr().out) == record
    client = testclient.TestClient(app.make_app(folder), base_url='http://localhost')
    assert client.get('/api/retrieve', params={'q': QUESTION, 'k': 2}).json() == record


def talk(options, calls):
    """What `opql mcp` tells a client: tools, and of each call whether it failed, and texts."""
    pytest.importorskip('mcp', reason='mcp is not installed')
    import anyio
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    root = pathlib.Path(opql_jax.__file__).parents[1]
    arguments = ['-m', 'opql_jax.cli', 'mcp', *map(str, options)]
    environment = {'PYTHONPATH': str(root), 'JAX_PLATFORMS': 'cpu'}
    program = StdioServerParameters(command=sys.executable, args=arguments, env=environment)
    tools, told = [], []

    async def converse():
        connected = stdio_client(program, errlog=sys.__stderr__)
        async with connected as streams, ClientSession(*streams) as session:
            await session.initialize()
            tools.extend(tool.name for tool in (await session.list_tools()).tools)
            for name, arguments in calls:
                result = await session.call_tool(name, arguments)
                told.append((result.is_error, [content.text for content in result.content]))

    anyio.run(converse)
    return tools, told


def test_an_mcp_client_that_may_adds_a_text(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / 'films.kb')
    text, facts = tide(1), ('facts_of', {'entity': 'Winter Tide 1'})
    tools, told = talk([copy, '--writable'], [facts, ('add_text', text), facts, ('add_text', text)])
    assert tools[-1] == 'add_text' and [failed for failed, _ in told] == [True, False, False, True]
    assert 'Ingrid Solberg' in [fact['target'] for fact in json.loads(told[2][1][0])['facts']]
    assert 'is there already' in told[3][1][0]


def tide(number):
    """A text that is added."""
    title = f'Winter Tide {number}'
    return {'title': title, 'text': f'{title} is a film. It was directed by Ingrid Solberg.'}


def test_an_mcp_client_asks_retrieves_and_follows(folder, kb):
    calls = {
        'ask': ('ask', {'question': QUESTION}),
        'retrieve': ('retrieve', {'question': QUESTION, 'k': 2}),
        'found': ('follow', {'entity': 'Ingrid Solberg', 'relation': 'directed', 'top': 3}),
        'facts_of': ('facts_of', {'entity': 'Ingrid Solberg'}),
        'follow': ('follow', {'entity': 'Ingrid Solberk', 'relation': 'directed'}),
        'added': ('add_text', tide(1)),  # which it may not
    }
    tools, answers = talk([folder], calls.values())
    told = dict(zip(calls, answers))
    assert tools == ['ask', 'retrieve', 'follow', 'facts_of']
    records = {name: json.loads(text) for name, (bad, (text,)) in told.items() if not bad}
    assert records['ask'] == kb.ask(QUESTION).to_record(3)
    assert records['retrieve'] == json.loads(json.dumps(kb.retrieve(QUESTION, 2).to_record()))
    assert records['found'] == kb.entity('Ingrid Solberg').follow('directed').to_record(3)
    facts = records['facts_of']
    assert all(fact['topic'] == 'Ingrid Solberg' and fact['sentence'] for fact in facts['facts'])
    assert len(facts['facts']) == min(facts['facts_in_all'], 10)
    bad, (message,) = told['follow']
    assert bad and 'Ingrid Solberg' in message  # the nearest name
    assert told['added'][0]


def test_an_mcp_client_reads_documents(folder, kb, make_server):
    import anyio
    from mcp.server.mcpserver.exceptions import ResourceError

    server = make_server(Current(folder), writable=False)
    (content,) = anyio.run(server.read_resource, 'opql://document/harbour')
    assert content.content == kb.prepared.document_text('harbour')
    with pytest.raises(ResourceError, match="no document has the id 'a/b.txt'"):
        anyio.run(server.read_resource, 'opql://document/a%2Fb.txt')


def test_an_mcp_client_is_answered_whatever_line_it_sends(folder):
    pytest.importorskip('mcp', reason='mcp is not installed')
    ask = lambda number, question: (
        f'{{"jsonrpc": "2.0", "id": {number}, "method": "tools/call", "params": {{"name": "ask", '
        f'"arguments": {{"question": "{question}"}}}}}}'
    )
    client = {'clientInfo': {'name': 'test', 'version': '1'}, 'capabilities': {}}
    client |= {'protocolVersion': '2024-11-05'}
    lines = [
        json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': 'initialize', 'params': client}),
        json.dumps({'jsonrpc': '2.0', 'method': 'notifications/initialized'}),
        ask(2, r'Who is \ud800?'),  # as JavaScript writes half of a pair
        ask(3, r'Who is \udc00\ud800?'),
        ask('"four"', r'\ud800'),
        ask(r'"\ud800"', r'\ud800'),  # an id that cannot be repeated
        '{"jsonrpc": "2.0", "id": 5}',
        'no JSON',
        '[' * 100_000,
        ask(6, QUESTION),
    ]
    root = pathlib.Path(opql_jax.__file__).parents[1]
    command = [sys.executable, '-m', 'opql_jax.cli', 'mcp', str(folder)]
    pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
    environment = os.environ | {'PYTHONPATH': str(root), 'JAX_PLATFORMS': 'cpu'}
    with subprocess.Popen(command, **pipes, env=environment) as server:
        server.stdin.write(''.join(f'{line}\n' for line in lines))
        server.stdin.flush()
        replies = []
        while not replies or replies[-1]['id'] != 6:
            replies.append(json.loads(server.stdout.readline()))
        server.stdin.close()
        assert server.wait(60) == 0
    codes = [(reply['id'], reply['error']['code']) for reply in replies if 'error' in reply]
    told = {2: -32700, 3: -32700, 'four': -32700, 5: -32600}
    assert dict(code for code in codes if code[0] is not None) == told
    assert [code for code in codes if code[0] is None] == [(None, -32700)] * 3
    (answer,) = (reply['result'] for reply in replies if reply['id'] == 6)
    assert not answer.get('isError') and json.loads(answer['content'][0]['text'])['answers']
    (server,) = (reply['result']['serverInfo'] for reply in replies if reply['id'] == 1)
    assert server['version'] == importlib.metadata.version('opql-jax')
