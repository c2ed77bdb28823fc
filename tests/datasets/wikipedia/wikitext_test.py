"""Wikitext to text and mentions, case by case; any text is read as it was written."""

import hypothesis
import pytest
from hypothesis import strategies as st

from opql_jax.corpus.documents import Document, Mention, validate
from opql_jax.corpus.entities import EntityVocab
from opql_jax.datasets.wikipedia.titles import Site
from opql_jax.datasets.wikipedia.wikitext import Converter

from dump_writer import wikitext

CASES = {
    'a trail belongs to the anchor': ('[[bus]]es, [[Bus|car]]s', 'buses, cars',
        [('buses', 'Bus'), ('cars', 'Bus')]),
    'a section': ('[[Ann#Life|life]] [[Ann#Life]] [[#Life|own]]', 'life Ann#Life own',
        [('life', 'Ann'), ('Ann#Life', 'Ann')]),
    'first letter, underscores, spaces': (
        '[[ann_low]] [[ ann   low |x]]', 'ann_low x', [('ann_low', 'Ann low'), ('x', 'Ann low')]),
    'an address for a title': ('[[Caf%C3%A9|x]] [[100% of it]]', 'x 100% of it',
        [('x', 'Café'), ('100% of it', '100% of it')]),
    'a colon in a title': ('[[Up: Two]] [[wikt:up|up]]', 'Up: Two up',
        [('Up: Two', 'Up: Two'), ('up', 'Wikt:up')]),
    'pictures go with their text': (
        'A[[File:a.jpg|thumb|by [[Ann]] in [[image:b.png]]]] B [[Datei:x.jpg|y]]', 'A B', []),
    'categories and languages go': (
        'A\n\n[[Category:B]]\n[[Kategorie:C|D]]\n[[de:A]]\n[[zh-yue:A|B]]', 'A', []),
    'with a colon they are links': ('[[:Category:B]] [[:File:a.jpg|c]] [[:de:A]]',
        'Category:B c de:A', []),
    'bold and italics': ("'''''A''' b'' '''[[C]]''' ''[[D|d'']]", 'A b C d',
        [('C', 'C'), ('d', 'D')]),
    'quotes end with the line': ("''A [[B]]\n\n'''c\n\nd'''", 'A B\nc\nd', [('B', 'B')]),
    'entities where nothing else is markup': (
        '<nowiki>[[A]] &amp; &#66;</nowiki><pre>c &lt; d</pre>', '[[A]] & B\nc < d', []),
    'templates': ('A {{b|[[C]]|{{d}}}} e {{{f|g}}}.', 'A e.', []),
    'nothing in brackets': ('A ({{lang|x}}; born 1970, {{b}}) (<ref>c</ref>, {{d}}) e {{f}}.',
        'A (born 1970) e.', []),
    'tables': (
        'A\n{| class="x"\n| [[B]]\n{|\n| c\n|}\n|}\n:{|\n|d\n|}\n'
        'E<table><tr><td>f</td></tr></table>', 'A\nE', []),
    'notes': ('A<ref name="x">[[B]] {{c}}</ref>.<ref name=x /> D', 'A. D', []),
    'comments': ('A<!-- [[B]] -->b\n<!-- c -->\nd [[A<!-- x -->|a]]', 'Ab d a', [('a', 'A')]),
    'galleries, formulas, code': (
        'A <gallery>\na.jpg|[[B]]\n</gallery> <math>x < y</math> '
        '<syntaxhighlight>z</syntaxhighlight>', 'A', []),
    'headings': ('A\n== [[B]] ==\nC\n=== D ===\n', 'A\nC', []),
    'lists': ('A\n* b [[C]]\n** d\n# e\n; f : g\n: h\nI', 'A\nb C\nd\ne\nf\ng\nh\nI', [('C', 'C')]),
    'paragraphs': ('A\nb\n\n\nC<br/>D\n----\nE', 'A b\nC\nD\nE', []),
    'external links': ('[http://a.b/c the [[D]]] [http://a.b] http://e.f/g', 'the D http://e.f/g',
        [('D', 'D')]),
    'tags': ('<div class="a">A <b>b</b> <small>[[C]]</small></div></div><span>d</span> 1 < 2',
        'A b C\nd 1 < 2', [('C', 'C')]),
    'blanks of an anchor stay outside': ('a [[B| b ]] c[[D| ]]e', 'a b c e', [('b', 'B')]),
    'what is not closed is text': ('a [[b {{c <ref>d', 'a [[b {{c d', []),
    'a link in the anchor of a link': ('[[A|b [[C|c [[D]]]] e]] [[F]]', 'b c D e F',
        [('b c D e', 'A'), ('F', 'F')]),
}  # fmt: skip


@pytest.mark.parametrize('name', CASES)
def test_wikitext_becomes_text_with_links(name):
    source, text, links = CASES[name]
    found = Converter(Site({'datei': 6, 'kategorie': 14})).convert(source)
    assert found.text == text
    assert [(found.text[start:end], title) for start, end, title in found.links] == links


@hypothesis.given(st.lists(st.sampled_from(
    "[[ ]] [ ] {{ }} {| |} | ' '' ''' < > </ /> <ref> </ref> <b> </b> <li> <br> & ; # : * = == "
                                           '<!-- --> <nowiki> </nowiki> http:// a B ( ) . , '
                                           'File: __TOC__'.split(' ') + [' ', '\n']),
                                           max_size=60))  # fmt: skip
@hypothesis.settings(max_examples=500, deadline=None)
def test_any_wikitext_becomes_clean_text(pieces):
    found = Converter(Site()).convert(''.join(pieces))
    assert found.text == found.text.strip(' \n')
    assert '\n\n' not in found.text
    assert '  ' not in found.text
    assert not any(character < ' ' and character != '\n' for character in found.text)
    mentions = tuple(Mention(*link) for link in found.links)
    validate(Document('1', 'A', found.text or 'x', mentions))
    assert all(found.text[m.start : m.end].strip() == found.text[m.start : m.end] for m in mentions)


# Templates that hold content of a sentence.
SHOWN = {
    'is {{convert|93|m|ft|abbr=off}} deep': 'is 93 metres deep',
    'of {{cvt|5|to|10|km|mi|abbr=on}} or {{convert|3|-|4|ft}}': 'of 5 to 10 km or 3–4 feet',
    'on {{start date|1903|7|2}} or {{Birth date and age|mf=yes|1950|3|1}}': 'on 2 July 1903 or '
                                                                            'March 1, 1950',
    '{{nowrap|Ada [[B]]}} of {{lang|de|Der See}} ({{lang-fr|le lac}})': 'Ada B of Der See (le lac)',
    'by {{ubl|[[A]]|C d}}, {{circa|1900}}': 'by A, C d, c. 1900',
    'the {{HMS|Victory}}{{\'s}} crew of {{formatnum:1234}}': "the HMS Victory's crew of 1234",
    'a {{nowrap|{{convert|1|{{unknown|x}}|km}} b}}': 'a 1 b',
    'gone {{cite web|title=x}}{{Infobox lake|depth={{convert|1|m}}}} here': 'gone here',
    'odd {{convert}} {{nowrap}} {{start date}} {{lang|de}} {{convert|x|m}} end': 'odd end',
}  # fmt: skip


@pytest.mark.parametrize('source', SHOWN)
def test_what_templates_hold_is_shown(source):
    assert Converter(Site()).convert(source).text == SHOWN[source]


def test_links_in_templates_are_links_and_inner_templates_are_not_of_the_page():
    page = Converter(Site()).convert('in {{nowrap|[[Old Town|the town]] {{lang|de|See}}}}')
    [(start, end, title)] = page.links
    assert (page.text[start:end], title) == ('the town', 'Old Town')
    assert page.templates == {'nowrap'}


# The way there and back.

CHARACTERS = st.one_of(
    st.sampled_from("[]{}|<>&'_*#:;=-~!/\\ab Zé.,()"),
    st.characters(exclude_categories=['Cs', 'Cc']),
)
spaced_once = lambda word: ' '.join(word.split(' ')).strip(' ')
WORDS = st.text(CHARACTERS, min_size=1, max_size=12).map(spaced_once).filter(bool)
is_title = lambda title: Site().link(title).title == title
TITLES = st.text(CHARACTERS, min_size=1, max_size=8).filter(is_title)


@st.composite
def linked_texts(draw):
    """A document of words, of which some are mentions, and the names of what they mention."""
    names = draw(st.lists(TITLES, min_size=1, max_size=4, unique=True))
    numbers, text, mentions = st.integers(0, len(names) - 1), '', []
    for word in draw(st.lists(WORDS, min_size=1, max_size=12)):
        text += draw(st.sampled_from([' ', '\n', ''])) if text else ''
        if draw(st.booleans()):
            mentions.append(Mention(len(text), len(text) + len(word), f'Q{draw(numbers)}'))
        text += word
    hypothesis.assume('  ' not in text)
    return Document('d', 'T', text, tuple(mentions)), names


@hypothesis.given(linked_texts())
@hypothesis.settings(max_examples=400, deadline=None)
def test_any_text_is_read_as_it_was_written(drawn):
    document, names = drawn
    vocab = EntityVocab([f'Q{i}' for i in range(len(names))], names, [[]] * len(names))
    found = Converter(Site()).convert(wikitext(document, vocab))
    assert found.text == document.text
    assert found.links == [(m.start, m.end, names[int(m.entity[1:])]) for m in document.mentions]
