"""Knowledge bases of plain text in LangChain, LlamaIndex and MCP clients: the real libraries, and the real command."""

import json
import pathlib
import shutil
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


def talk(options, calls):
    """What a client of `opql mcp` is told: the names of its tools, and of each call whether it failed and the texts that came."""
    pytest.importorskip('mcp', reason='mcp is not installed')
    import anyio
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    root = pathlib.Path(opql_jax.__file__).parents[1]
    program = StdioServerParameters(
        command=sys.executable,
        args=['-m', 'opql_jax.cli', 'mcp', *map(str, options)],
        env={'PYTHONPATH': str(root), 'JAX_PLATFORMS': 'cpu'},
    )
    tools, told = [], []

    async def converse():
        async with stdio_client(program) as streams, ClientSession(*streams) as session:
            await session.initialize()
            tools.extend(tool.name for tool in (await session.list_tools()).tools)
            for name, arguments in calls:
                result = await session.call_tool(name, arguments)
                told.append((result.is_error, [content.text for content in result.content]))

    anyio.run(converse)
    return tools, told


def test_an_mcp_client_adds_a_text_only_if_it_may(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / 'films.kb')
    text = {'title': 'Winter Tide', 'text': 'Winter Tide is a drama film of 1975. It was directed by Ingrid Solberg.'}
    facts = 'facts_of', {'entity': 'Winter Tide'}
    tools, told = talk([copy, '--writable'], [facts, ('add_text', text), facts, ('add_text', text)])
    assert tools[-1] == 'add_text' and [failed for failed, _ in told] == [True, False, False, True]
    assert any(json.loads(fact)['target'] == 'Ingrid Solberg' for fact in told[2][1])
    assert 'is there already' in told[3][1][0]
    tools, ((failed, _),) = talk([copy], [('add_text', text)])
    assert 'add_text' not in tools and failed


def test_an_mcp_client_asks_retrieves_and_follows(folder, kb):
    calls = {
        'ask': ('ask', {'question': QUESTION}),
        'retrieve': ('retrieve', {'question': QUESTION, 'k': 2}),
        'found': ('follow', {'entity': 'Ingrid Solberg', 'relation': 'directed', 'top': 3}),
        'facts_of': ('facts_of', {'entity': 'Ingrid Solberg'}),
        'follow': ('follow', {'entity': 'Ingrid Solberk', 'relation': 'directed'}),
    }
    tools, answers = talk([folder], calls.values())
    told = dict(zip(calls, answers))
    assert tools == ['ask', 'retrieve', 'follow', 'facts_of']
    records = {name: [json.loads(text) for text in texts] for name, (bad, texts) in told.items() if not bad}
    assert [record['entity'] for record in records['ask']] == kb.ask(QUESTION).names[:5]
    assert [record['document'] for record in records['retrieve']] == [one.document for one in kb.retrieve(QUESTION, 2)]
    assert [record['entity'] for record in records['found']] == kb.entity('Ingrid Solberg').follow('directed').names[:3]
    assert all(record['topic'] == 'Ingrid Solberg' and record['sentence'] for record in records['facts_of'])
    bad, (message,) = told['follow']
    assert bad and 'Ingrid Solberg' in message  # the nearest name
