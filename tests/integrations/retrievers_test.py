"""Knowledge bases of plain text in LangChain, LlamaIndex and MCP clients: the real libraries, and the real command."""

import json
import pathlib
import sys

import pytest

import opql_jax
from opql_jax.kb.index_text import index_text

import films

QUESTION = 'Who starred in the films directed by Ingrid Solberg?'


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp('films')
    index_text([films.write(root / 'films.jsonl')], root / 'kb', processes=1)
    return root / 'kb'


@pytest.fixture(scope='module')
def kb(folder):
    return opql_jax.open(folder)


def test_langchain_gets_the_documents_that_retrieve_finds(kb):
    pytest.importorskip('langchain_core', reason='LangChain is not installed')
    from opql_jax.integrations.langchain import OPQLRetriever

    found = OPQLRetriever(kb=kb, k=3).invoke(QUESTION)
    want = kb.retrieve(QUESTION, 3)
    assert [(document.id, document.page_content) for document in found] == [(one.document, one.text) for one in want]
    assert [document.metadata for document in found] == [
        {'title': one.title, 'score': one.score, 'why': one.why} for one in want
    ]
    assert OPQLRetriever(kb=kb, k=2).batch([QUESTION, QUESTION])[1] == found[:2]


def test_llama_index_gets_the_documents_that_retrieve_finds(kb):
    pytest.importorskip('llama_index.core', reason='LlamaIndex is not installed')
    from opql_jax.integrations.llama_index import OPQLRetriever

    found = OPQLRetriever(kb, k=3).retrieve(QUESTION)
    want = kb.retrieve(QUESTION, 3)
    assert [(one.node.node_id, one.node.text, one.score) for one in found] == [
        (one.document, one.text, one.score) for one in want
    ]
    assert [one.node.metadata['why'] for one in found] == [one.why for one in want]


def test_an_mcp_client_asks_retrieves_and_follows(folder, kb):
    pytest.importorskip('mcp', reason='mcp is not installed')
    import anyio
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    root = pathlib.Path(opql_jax.__file__).parents[1]
    program = StdioServerParameters(
        command=sys.executable,
        args=['-m', 'opql_jax.cli', 'mcp', str(folder)],
        env={'PYTHONPATH': str(root), 'JAX_PLATFORMS': 'cpu'},
    )
    tools, told = [], {}

    async def converse():
        async with stdio_client(program) as streams, ClientSession(*streams) as session:
            await session.initialize()
            tools.extend(tool.name for tool in (await session.list_tools()).tools)

            async def call(name, **arguments):
                result = await session.call_tool(name, arguments)
                told[name] = result.is_error, [content.text for content in result.content]

            await call('ask', question=QUESTION)
            await call('retrieve', question=QUESTION, k=2)
            await call('follow', entity='Ingrid Solberg', relation='directed', top=3)
            await call('facts_of', entity='Ingrid Solberg')
            told['found'] = told.pop('follow')
            await call('follow', entity='Ingrid Solberk', relation='directed')

    anyio.run(converse)
    assert tools == ['ask', 'retrieve', 'follow', 'facts_of']
    records = {name: [json.loads(text) for text in texts] for name, (bad, texts) in told.items() if not bad}
    assert [record['entity'] for record in records['ask']] == kb.ask(QUESTION).names[:5]
    assert [record['document'] for record in records['retrieve']] == [one.document for one in kb.retrieve(QUESTION, 2)]
    assert [record['entity'] for record in records['found']] == kb.entity('Ingrid Solberg').follow('directed').names[:3]
    assert all(record['topic'] == 'Ingrid Solberg' and record['sentence'] for record in records['facts_of'])
    bad, (message,) = told['follow']
    assert bad and 'Ingrid Solberg' in message  # the nearest name
