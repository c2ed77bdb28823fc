"""Knowledge bases in LangChain, LlamaIndex and MCP: the real libraries and the real command."""

import asyncio
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler

import anyio
import jsonschema
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server.mcpserver.exceptions import ResourceError
from starlette import testclient

import opql_jax
from opql_jax import cli
from opql_jax.explorer import app
from opql_jax.integrations import langchain, llama_index
from opql_jax.integrations.mcp_server import make_server
from opql_jax.kb.answer_record import SCHEMA
from opql_jax.kb.current import Current
from opql_jax.kb.text.retrieve import SCHEMA as DOCUMENTS_SCHEMA

QUESTION = 'Who starred in the films directed by Ingrid Solberg?'
QUERY = 'Ingrid Solberg . directed . starring'
UNSURE = 'Which football club does Ingrid Solberg support?'
OUT_OF_REACH = 'How many films did Ingrid Solberg direct?'


@pytest.fixture(scope='module')
def kb(films_kb):
    return opql_jax.open(films_kb)


def sent(retriever):
    return ForkingPickler.loads(ForkingPickler.dumps(retriever))


def test_langchain_gets_the_documents_that_retrieve_finds(kb):
    retriever = langchain.OPQLRetriever(kb=kb, k=3)
    want = kb.retrieve(QUESTION, 3, read=True)
    found = retriever.invoke(QUESTION)
    for document, one in zip(found, want, strict=True):
        assert (document.id, document.page_content) == (one.document, one.text)
        told = document.metadata
        assert told['source'] == document.id
        assert (told['why'], told['score']) == (one.why, one.probability)
        text = kb.prepared.document_text(told['source'])
        assert text[told['start_index'] :].startswith(document.page_content)
        start, end = told['evidence']
        assert document.page_content[start:end].endswith('.')
    assert retriever.invoke(QUESTION, k=1) == found[:1]
    assert retriever.batch([QUESTION], k=2) == [found[:2]]
    assert asyncio.run(retriever.ainvoke(QUESTION, k=2)) == found[:2]
    best = max(found, key=lambda document: document.metadata['score'])
    assert retriever.invoke(QUESTION, score_threshold=best.metadata['score']) == [best]
    assert langchain.OPQLRetriever(kb=kb, score_threshold=1.0).invoke(QUESTION) == []
    assert sent(retriever).invoke(QUESTION) == found


def test_llama_index_gets_the_documents_that_retrieve_finds(kb):
    retriever, want = (
        llama_index.OPQLRetriever(kb, similarity_top_k=3),
        kb.retrieve(QUESTION, 3, read=True),
    )
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


@pytest.mark.parametrize('asked', [QUESTION, QUERY, UNSURE, OUT_OF_REACH])
def test_all_interfaces_give_the_same_record_of_an_answer(films_kb, kb, asked, capsys):
    record = (kb.query(asked) if asked == QUERY else kb.ask(asked)).to_record(2)
    jsonschema.validate(record, SCHEMA)
    assert 1 <= len(record['answers']) <= 2
    client = testclient.TestClient(app.make_app(films_kb), base_url='http://localhost')
    for answer in record['answers']:
        assert answer['path'][-1]['target'] == answer['entity']
        assert ('probability' in answer) == (asked in (QUESTION, UNSURE))
        for fact in answer['path']:
            given = client.get('/api/document', params={'id': fact['document']}).json()
            assert given['text'] == kb.prepared.document_text(fact['document'])
            assert given['text'][fact['start'] : fact['end']] == fact['sentence'] != ''
    assert ('not sure' in record.get('note', '')) == (record.get('sure') is False)
    assert ('this counts' in record.get('note', '')) == (asked == OUT_OF_REACH)

    cli.main(['ask', str(films_kb), asked, '--top', '2', '--json'])
    assert json.loads(capsys.readouterr().out) == record
    assert client.get('/api/ask', params={'q': asked, 'top': 2}).json() == record
    described = client.get('/openapi.json').json()['paths']['/api/ask']['get']
    schema = described['responses']['200']['content']['application/json']['schema']
    assert schema == json.loads(json.dumps(SCHEMA))
    if asked != QUERY:
        server = make_server(Current(films_kb), writable=False)
        (content,) = anyio.run(server.call_tool, 'ask', {'question': asked, 'top': 2}).content
        assert json.loads(content.text) == record and len(content.text) < 2_000
        cli.main(['ask', str(films_kb), asked, '--top', '2'])
        shown = re.findall(r'^ {5}\d\.\d{3}  (.+)$', capsys.readouterr().out, re.MULTILINE)
        assert shown[:2] == [answer['entity'] for answer in record['answers']]


@pytest.mark.parametrize('read', [False, True])
def test_all_interfaces_give_the_same_record_of_documents(read, films_kb, kb, capsys):
    record = json.loads(json.dumps(kb.retrieve(QUESTION, 2, read=read).to_record()))
    jsonschema.validate(record, DOCUMENTS_SCHEMA)
    for one in record['documents']:
        assert kb.prepared.document_text(one['document'])[one['start'] : one['end']] == one['text']
    cli.main(
        ['retrieve', str(films_kb), QUESTION, '-k', '2', '--json', *['--no-reader'] * (not read)]
    )
    assert json.loads(capsys.readouterr().out) == record
    client = testclient.TestClient(app.make_app(films_kb), base_url='http://localhost')
    asked = {'q': QUESTION, 'k': 2, 'read': int(read)}
    assert client.get('/api/retrieve', params=asked).json() == record


def test_the_reader_judges_low_what_does_not_answer_though_it_has_the_name(kb):
    asked = ['Who directed Night Ferry?', 'Who is the dentist of Ingrid Solberg?']
    read, likely = kb.retrieve(asked, 5, read=True), lambda one: (one.document, one.probability)
    for question, judged in zip(asked, read):
        three = kb.retrieve(question, 3, read=True)
        assert list(map(likely, three)) == list(map(likely, judged[:3]))
    assert read[0][0].title == 'Night Ferry'
    answered, unanswered = (max(one.probability for one in judged) for judged in read)
    assert unanswered < 0.2 < 0.8 < answered


ROOT = pathlib.Path(opql_jax.__file__).parents[1]
ENVIRONMENT = os.environ | {'PYTHONPATH': str(ROOT), 'JAX_PLATFORMS': 'cpu'}
TIDE = {'title': 'Tide 1', 'text': 'Tide 1 is a film. It was directed by Ingrid Solberg.'}


def test_an_mcp_client_asks_retrieves_follows_and_adds(films_kb, kb, tmp_path):
    copy = shutil.copytree(films_kb, tmp_path / 'films.kb')
    arguments = ['-m', 'opql_jax.cli', 'mcp', str(copy), '--writable']
    program = StdioServerParameters(command=sys.executable, args=arguments, env=ENVIRONMENT)
    told = []

    async def converse():
        connected = stdio_client(program, errlog=sys.__stderr__)
        async with connected as streams, ClientSession(*streams) as session:
            await session.initialize()
            listed = [tool.name for tool in (await session.list_tools()).tools]
            assert listed == ['ask', 'retrieve', 'follow', 'facts_of', 'add_text']
            for name, given in (
                ('ask', {'question': QUESTION}),
                ('retrieve', {'question': QUESTION, 'k': 2}),
                ('follow', {'entity': 'Ingrid Solberg', 'relation': 'directed', 'top': 3}),
                ('follow', {'entity': 'Ingrid Solberk', 'relation': 'directed'}),
                ('facts_of', {'entity': TIDE['title']}),
                *[('add_text', TIDE)] * 2,
                ('facts_of', {'entity': TIDE['title']}),
            ):
                result = await session.call_tool(name, given)
                told.append((result.is_error, result.content[0].text))

    anyio.run(converse)
    bad, (asked, found, followed, near, _, _, twice, facts) = zip(*told)
    assert [*bad] == [False, False, False, True, True, False, True, False]
    assert json.loads(asked) == kb.ask(QUESTION).to_record(3)
    assert json.loads(found) == json.loads(
        json.dumps(kb.retrieve(QUESTION, 2, read=True).to_record())
    )
    assert json.loads(followed) == kb.entity('Ingrid Solberg').follow('directed').to_record(3)
    assert 'Ingrid Solberg' in near and 'is there already' in twice
    facts = json.loads(facts)
    assert len(facts['facts']) == min(facts['facts_in_all'], 10)
    assert {fact['topic'] for fact in facts['facts']} == {TIDE['title']}
    assert 'Ingrid Solberg' in [fact['target'] for fact in facts['facts']]


def test_an_mcp_client_reads_documents_and_adds_none_unless_it_may(films_kb, kb):
    server = make_server(Current(films_kb), writable=False)
    assert 'add_text' not in [tool.name for tool in anyio.run(server.list_tools)]
    (content,) = anyio.run(server.read_resource, 'opql://document/harbour')
    assert content.content == kb.prepared.document_text('harbour')
    with pytest.raises(ResourceError, match="no document has the id 'a/b.txt'"):
        anyio.run(server.read_resource, 'opql://document/a%2Fb.txt')


def test_an_mcp_client_is_answered_whatever_line_it_sends(films_kb):
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
    command = [sys.executable, '-m', 'opql_jax.cli', 'mcp', str(films_kb)]
    pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
    with subprocess.Popen(command, **pipes, env=ENVIRONMENT) as server:
        server.stdin.write(''.join(f'{line}\n' for line in lines))
        server.stdin.flush()
        replies = []
        while not replies or replies[-1]['id'] != 6:
            replies.append(json.loads(server.stdout.readline()))
        server.stdin.close()
        assert server.wait(60) == 0
    codes = [(reply['id'], reply['error']['code']) for reply in replies if 'error' in reply]
    told = [(2, -32700), (3, -32700), ('four', -32700), (5, -32600), *[(None, -32700)] * 3]
    assert sorted(codes, key=str) == sorted(told, key=str)
    (answer,) = (reply['result'] for reply in replies if reply['id'] == 6)
    assert not answer.get('isError') and json.loads(answer['content'][0]['text'])['answers']
