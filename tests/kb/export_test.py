"""The memory as CSV, GraphML and RDF, read back by other readers than wrote them."""

import csv
import json
import re
import xml.etree.ElementTree as ET

import pytest

from opql_jax import cli
from opql_jax.kb.export import csv_cell, export

from dangerous import dangerous_in

TEXT = 'Ada Lovelace met "Lord" Byron <near> London & wrote of C:\\tmp. Charles Babbage met Ada '
TEXT += 'Lovelace in Ærøskøbing.'
DOCUMENTS = {'Ada Lovelace': TEXT}
GRAPHML = '{http://graphml.graphdrawing.org/xmlns}'


def check_told(kb, rows):
    """A row for each entry, relations as sentences have them; an entity's weights add up to 1."""
    names, memory = kb.vocab.names, kb.memory
    assert sorted((row['topic'], row['target']) for row in rows) == sorted(
        (names[a], names[b]) for a, b in zip(memory.topic, memory.target)
    )
    assert all(row['sentence'] in TEXT for row in rows)
    words = lambda text: ' '.join(['', *re.findall(r"[\w'-]+", text), ''])
    for row in rows:
        ends = [row['topic'], row['target']]
        left, right = ends[::-1] if row['inverse'] == 'true' else ends
        told = words(f'{left} {row["relation"]} {right}')
        assert not row['relation'] or told in words(row['sentence'])
    relations = {(row['relation'], row['inverse']) for row in rows}
    assert {('met', 'false'), ('met', 'true')} <= relations
    for name in {row['topic'] for row in rows}:
        weights = [float(row['weight']) for row in rows if row['topic'] == name]
        assert sum(weights) == pytest.approx(1, abs=1e-4)


def test_a_table_has_a_line_for_each_entry_with_its_sentence(kb, tmp_path, capsys):
    cli.main(['export', str(kb.folder.path), '--out', str(tmp_path / 'facts.csv')])
    assert capsys.readouterr().out.startswith(f'{len(kb.memory)} entries in ')
    with open(tmp_path / 'facts.csv', encoding='utf-8', newline='') as file:
        rows = list(csv.DictReader(file))
    kinds = dict(zip(kb.vocab.names, kb.vocab.kinds))
    assert all(row['topic_kind'] == kinds[row['topic']] for row in rows)
    assert {row['document'] for row in rows} == {'Ada Lovelace'}
    check_told(kb, rows)


def test_a_graph_has_entities_as_nodes_and_entries_as_edges(kb, tmp_path):
    export(kb, tmp_path / 'facts.graphml')
    graph = ET.parse(tmp_path / 'facts.graphml').getroot().find(f'{GRAPHML}graph')
    data = lambda element: {item.get('key'): item.text for item in element}
    names = {node.get('id'): data(node)['name'] for node in graph.iter(f'{GRAPHML}node')}
    assert sorted(names.values()) == sorted(kb.vocab.names)
    edges = []
    for edge in graph.iter(f'{GRAPHML}edge'):
        ends = {'topic': names[edge.get('source')], 'target': names[edge.get('target')]}
        edges.append(data(edge) | ends)
    check_told(kb, edges)


def test_triples_follow_the_grammar_and_tell_the_same(kb, tmp_path):
    export(kb, tmp_path / 'facts.nt')
    iri, literal = r'<[^\x00-\x20<>"{}|^`\\]*>', r'"(?:[^"\\\n\r]|\\[tbnrf"\'\\])*"'
    triple = re.compile(rf'({iri}|_:\w+) ({iri}) ({iri}|_:\w+|{literal}(?:\^\^{iri})?) \.')
    lines = (tmp_path / 'facts.nt').read_text(encoding='utf-8').splitlines()
    parsed = [triple.fullmatch(line) for line in lines]
    assert parsed and all(parsed)
    values = {found.group(1, 2): found[3] for found in parsed}
    text = json.loads  # whose escapes are the same
    label = lambda entity: text(values[entity, '<http://www.w3.org/2000/01/rdf-schema#label>'])
    entries = [subject for subject, predicate in values if predicate == '<urn:opql:topic>']
    value = lambda e, name: text(values[e, f'<urn:opql:{name}>'].partition('^^')[0])
    columns = ('relation', 'inverse', 'weight', 'sentence')
    ends = lambda e: {name: label(values[e, f'<urn:opql:{name}>']) for name in ('topic', 'target')}
    check_told(kb, [{name: value(e, name) for name in columns} | ends(e) for e in entries])
    double = '^^<http://www.w3.org/2001/XMLSchema#double>'
    assert values[entries[0], '<urn:opql:weight>'].endswith(double)


def read_cell(cell):
    """A text from a cell of a table, by the rule of the page on the command line."""
    cell = re.sub(r"^'(?='*[=+\-@\t\r\n＝＋－＠])", '', cell)
    units = lambda found: bytes.fromhex(found[0].replace('\\u', ''))
    pairs = lambda found: units(found).decode('utf-16-be', 'surrogatepass')
    return re.sub(r'(?:\\u[0-9a-f]{4})+', pairs, cell)


STARTS = ['', "'", "''", '\\', '\\u', '\\u001b', '5', ' ', 'a']
ENDS = '/1/=1/=cmd|x/+1/-1.5e3/-1-1/@SUM(A1)/\ta/\ra/\r\na/\na'
ENDS += '/＝1/＋/－/＠/\x1b[2J/\u202e/\U000e0041/é'


def test_no_cell_is_a_formula_and_each_is_read_back_as_it_was():
    for text in (start + end for start in STARTS for end in ENDS.split('/')):
        cell = csv_cell(text)
        assert dangerous_in(cell) <= {'\r'} and read_cell(cell) == text, text
        if re.fullmatch(r'[+-]?\d+(\.\d+)?(e\d+)?', text) or text.isalnum():
            assert cell == text
        else:
            assert cell[:1] not in tuple('=+-@\t\r\n＝＋－＠'), text
