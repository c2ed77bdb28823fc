"""What may answer a question: places read, entities followed to, and their features."""

import re

import numpy as np
import pytest

from opql_jax.kb import calibration
from opql_jax.kb.calibration import FEATURES
from opql_jax.kb.text.candidates import (
    Evidence,
    PathFeatures,
    add_followed,
    as_years,
    features,
    read_candidates,
    towns_first,
    with_step,
    without_parts,
)
from opql_jax.models.reader import Reading, Span

from examples import lines

ANN, YORK, LEEDS = 7, 8, 9
ENTITIES = {'Ann': ANN, 'Ann Low': ANN, 'York': YORK, 'York sold': YORK, 'Leeds': LEEDS}
ENTITIES |= {'17 January 1949': 7, '1950': 8, 'half': 7, '12': 8}


def evidence(table='', unanswered=0.1):
    """What was read in two passages: passage, start, probability, text, a star if an entity."""
    rows = [line.split(maxsplit=3) for line in lines(table)]
    texts = [text.removesuffix('*') for *_, text in rows]
    entities = [ENTITIES[of] if of != text else -1 for of, (*_, text) in zip(texts, rows)]
    read = [
        Span(int(passage), int(at), int(at) + len(text), float(share))
        for (passage, at, share, _), text in zip(rows, texts)
    ]
    reading = Reading(read, unanswered, 0.0, 0.0, np.array([0.9, 0.1], np.float32))
    named = [np.array([ANN, YORK]), np.array([ANN])]
    return Evidence([3, 5], np.array([-1, 3]), named, reading, texts, entities)


def column(rows, name):
    return rows[:, FEATURES.index(name)].tolist()


# What was read: what it gives, each with its probability and the number of its places.
READ = """
    places that overlap or have one name are one: Ann Low* 0.7 3, York 0.2 2
        0 0 0.4 Ann Low*
        0 4 0.2 Low
        1 9 0.1 Ann*
        1 30 0.15 York
        0 50 0.05 york
    names within a place are candidates of their own: a letter 0.5 2, Ann Low* 0.3 1, York* 0.2 1
        0 0 0.4 a letter to Ann Low, sent at York
        0 12 0.3 Ann Low*
        0 29 0.2 York*
        0 16 0.1 Low
    what is told of a name counts for the name: Ann Low* 0.7 1, York* 0.3 1
        0 0 0.4 the smith Ann Low
        0 10 0.3 Ann Low*
        1 0 0.2 York, which lies on a great river
        1 0 0.1 York*
    and so does the kind of place that it is: York* 0.7 1
        0 0 0.4 the Austrian village of York
        0 24 0.3 York*
    an overlapping name that is read later names the place: Ann Low* 0.8 3
        0 0 0.4 Ann Low's
        0 0 0.3 Ann Low*
        1 9 0.1 Ann*
    a name within a longer reading is not what was read first: coal 0.8 2, York sold* 0.1 1
        0 10 0.6 coal
        0 0 0.2 York sold coal
        0 0 0.1 York sold*
    a list of names counts for each of them: Ann Low* 0.8 2, York* 0.5 1, Leeds* 0.45 1
        0 0 0.4 Ann Low, York, and Leeds
        0 0 0.3 Ann Low*
        0 9 0.1 York*
        0 19 0.05 Leeds*
        1 0 0.1 Ann Low*
    nothing:
"""
CASES = re.findall(r'^    (\w[^:\n]*):(.*)\n((?: {8}.*\n)*)', READ, re.M)


@pytest.mark.parametrize('what, given, spans', CASES)
def test_what_was_read_gives_candidates(what, given, spans):
    expected = [
        (ENTITIES[name] if star else -1, pytest.approx(float(read)), int(places), name)
        for name, star, read, places in re.findall(r' (.+?)(\*?) ([\d.]+) (\d)(?:,|$)', given)
    ]
    for order in (1, -1) if 'a list' in what else (1,):
        found = read_candidates(evidence('\n'.join(lines(spans)[::order])))
        assert all(one.is_seen for one in found)
        told = [(one.entity, one.read, len(one.spans)) for one in found]
        assert told == [one[:3] for one in expected]
        assert all(one.text.startswith(of[3]) for one, of in zip(found, expected))


def test_a_question_that_asks_for_a_year_is_answered_by_that_of_a_date():
    seen = evidence("""
        0 0 0.4 17 January 1949*
        0 11 0.1 1949
        1 0 0.2 1950*
        1 9 0.1 1951 and 3 April 1952
        1 40 0.1 the storming of 1953
        1 70 0.05 March 1954
    """)
    found = read_candidates(seen)
    add_followed(found, seen, zip([7, 9], ['17 January 1949', 'May 1955'], [0.75, 0.25]))
    assert [(one.text, pytest.approx(one.read), one.followed) for one in as_years(found)] == [
        ('1949', 0.5, 0.75),
        ('1950', 0.2, 0),
        ('1951 and 3 April 1952', 0.1, 0),
        ('the storming of 1953', 0.1, 0),
        ('1954', 0.05, 0),
        ('May 1955', 0, 0.25),
    ]
    digits = evidence(f'0 0 0.4 1998 {"4" * 400} x\n1 0 0.2 1999')
    assert [len(one.text) for one in as_years(read_candidates(digits))] == [407, 4]


@pytest.mark.parametrize('start, read', [(6, (0.675, 0.125, 0.1)), (8, (0.3, 0.5, 0.1))])
def test_of_a_town_and_its_region_the_town_is_where_it_was(start, read):
    """As in 'York, Leeds', but not 'York to Leeds'; what follows is no place."""
    found = read_candidates(
        evidence(f"""
        0 0 0.3 York*
        0 {start} 0.5 Leeds*
        0 {start + 7} 0.1 Ann*
    """)
    )
    towns_first(found, lambda one: one.entity != ANN)
    of_name = {one.text: one.read for one in found}
    assert np.allclose([of_name[name] for name in ('York', 'Leeds', 'Ann')], read)


def test_a_number_counts_for_the_likelier_place_that_it_stands_in():
    seen = evidence('0 0 0.6 over half\n0 5 0.1 half*\n1 0 0.2 27 to 30%\n1 40 0.3 12*')
    found = read_candidates(seen)
    add_followed(found, seen, zip([7, 8, 9], ['half', '12', '30'], [0.5, 0.3, 0.2]))
    left = without_parts(found, lambda one: one.entity >= 7)
    assert [(one.text, pytest.approx(one.read), one.followed) for one in left] == [
        ('over half', 0.7, 0.5),
        ('12', 0.3, 0.3),
        ('27 to 30%', 0.2, 0.2),
    ]


def test_the_last_step_is_read_about_what_the_step_before_found():
    seen = evidence('0 0 0.5 York*', unanswered=0.4)
    step = evidence('0 9 0.8 Leeds*\n1 0 0.1 York*', unanswered=0.05)
    step = step._replace(
        passages=[6, 3], before=np.array([-1, -1]), named=[np.array([LEEDS]), np.array([ANN, YORK])]
    )
    both = with_step(seen, step, share=0.5, before=5)
    assert both.passages == [3, 5, 6] and both.before.tolist() == [-1, 3, 5]
    found = read_candidates(both)
    assert [(one.entity, pytest.approx(one.read)) for one in found] == [(YORK, 0.275), (LEEDS, 0.2)]
    places = [[(span.passage, span.probability) for span in one.spans] for one in found]
    assert places == [[(0, 0.5), (0, 0.1)], [(2, 0.8)]]
    rows = features(found, both, PathFeatures())
    assert column(rows, 'read') == pytest.approx([np.log(0.275 / 0.725), np.log(0.2 / 0.8)])
    assert column(rows, 'unanswered') == pytest.approx(2 * [calibration.log_odds(0.05)])
    # A step that reaches where it came from does not lead there.
    there = step._replace(passages=[9], before=np.array([-1]), named=[np.array([ANN])])
    there = there._replace(reading=there.reading._replace(spans=[]))
    assert with_step(seen, there, share=1.0, before=9).before.tolist() == [-1, 3, -1]
