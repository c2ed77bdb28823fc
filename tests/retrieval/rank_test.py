"""Passages that a question needs over several hops are ranked first, each with its link."""

import math

import numpy as np
import pytest
from tiny_retrieval import DIM, corpus_of, vector_of

from opql_jax.retrieval import rank
from opql_jax.retrieval.index import build
from opql_jax.retrieval.rank import Ranker
from opql_jax.retrieval.relations import Relations
from opql_jax.retrieval.view import Question
from opql_jax.retrieval.words import words_of

WORLD = {
    'Ada Lovelace': 'A mathematician. She was the daughter of [Lord Byron]. She liked [horses].',
    'Lord Byron': 'The poet died in [Missolonghi] of a fever.',
    'Charles Babbage': 'Designed engines in [London]. Some were never built.',
    'Analytical Engine': 'A machine of brass, designed by [Charles Babbage].',
    'Punched card': 'Paper with holes that the [Analytical Engine] would have read.',
    'Cricket': 'A game with a bat, much played in summer.',
    'Greek revolt': 'In [Missolonghi] the town withstood sieges.',
    'Beer': 'It is brewed from barley.',
}


@pytest.fixture(scope='module')
def index(tmp_path_factory):
    return build(tmp_path_factory.mktemp('world') / 'index', corpus_of(WORLD))


def ask(index, text: str, *names: str) -> Question:
    return Question(text, [index.titles.index(name) for name in names], vector_of(text))


def titles(index, ranked) -> list[str]:
    return [index.titles[passage] for passage, *_ in ranked]


def test_a_title_that_the_first_passage_names_is_followed(index):
    text = 'Where did the father of Ada Lovelace, whose daughter she was, end?'
    question = ask(index, text, 'Ada Lovelace')
    first, second = Ranker(index).rank(question, 2)
    assert titles(index, [first, second]) == ['Ada Lovelace', 'Lord Byron']
    reason = second.reason
    assert (reason.link, reason.previous, reason.entity) == ('to_title', 0, 1)
    start, end = reason.sentence
    assert index.texts[reason.previous][start:end].strip() == 'She was the daughter of Lord Byron.'
    assert first.reason == rank.Reason('direct')
    assert {each.reason.link for each in Ranker(index, links=False).rank(question, 9)} == {'direct'}


def test_many_questions_are_ranked_as_one_by_one(index):
    texts = [
        f'Where did the {noun} of {name} die?'
        for noun in ('father', 'machine', 'town')
        for name in list(WORLD) * 2
    ]
    questions = [ask(index, text, name) for text in texts for name in WORLD if name in text] + [
        Question('?', [], np.zeros(DIM))
    ]
    for question, ranked in zip(questions, Ranker(index).rank_all(questions, 4), strict=True):
        alone = Ranker(index).rank(question, 4)
        for one, other in zip(ranked, alone, strict=True):
            assert one.score == pytest.approx(other.score, rel=1e-5)
            assert (one.passage, one.reason) == (other.passage, other.reason)


@pytest.mark.parametrize('seed', range(6))
def test_scores_are_those_of_the_definition(tmp_path, seed):
    rng = np.random.default_rng(seed)
    names = ['Ann', 'Bob', 'Cid', 'Dan', 'Eve', 'Fay']
    words = ['red', 'green', 'blue', 'tall', 'small', 'old']
    near = lambda _: f'Is {rng.choice(words)} near [{rng.choice(names)}].'
    passages = {name: ' '.join(map(near, range(rng.integers(1, 4)))) for name in names[:4]}
    index = build(tmp_path / 'index', corpus_of(passages))
    text = f'Is it {rng.choice(words)} or {rng.choice(words)} near Ann?'
    joined = [([1], [2])] if seed % 2 else []
    question = Question(text, [0], vector_of(text), joined=joined)
    scores = {each.passage: each.score for each in Ranker(index).rank(question, 4)}
    expected = _by_definition(index, question)
    assert [scores[passage] for passage in range(4)] == pytest.approx(expected, rel=1e-4)


def _by_definition(index, question) -> list[float]:
    """The scores of four passages, with all chains of up to three followed, one at a time."""
    count = len(index.ids)
    named = [set(np.flatnonzero(row)) for row in index.passages_of_entity.toarray()]
    spread = [sum(e in names for names in named) for e in range(index.num_entities)]
    idf = [math.log((count + 1) / (n + 0.5)) / math.log((count + 1) / 0.5) for n in spread]
    columns = {index.word_ids[w] for w in words_of(question.text) if w in index.word_ids}
    table = index.words.toarray()
    highest = sum(table[:, c].max() for c in columns)
    vector = question.vector / np.linalg.norm(question.vector)
    raw = index.vectors @ vector
    similar = (raw - raw.mean()) / raw.std()
    starts = [count + start for start in index.first_sentence]
    sentence = [similar[starts[p] : starts[p + 1]] for p in range(count)]
    best = [max(similar[p], *sentence[p]) for p in range(count)]

    def covers(p, chain):
        had = {c: max((table[o, c] for o in chain), default=0) for c in columns}
        gained = sum(max(table[p, c] - had[c], 0) for c in columns) / highest
        known = {e for o in chain for e in named[o]}
        fresh = [e for e in question.entities if e in named[p] and e not in known]
        titled = [e for e in question.entities if index.title_entity[p] == e]
        return gained, sum(idf[e] for e in fresh), sum(idf[e] for e in titled)

    sides = [(left, right) for pair in question.joined for left, right in (pair, pair[::-1])]

    def joins(p, chain):
        titles_of = lambda rows: [index.title_entity[row] for row in rows]
        return any(
            index.title_entity[p] in left and set(right) & {*titles_of(chain)}
            for left, right in sides
        )

    def softmax(logits):
        weights = {way: math.exp(logit) for way, logit in logits.items()}
        return {way: weight / sum(weights.values()) for way, weight in weights.items()}

    a, b, c = rank.WEIGHTS
    logit = lambda weights, **of: sum(weights[name] * value for name, value in of.items())
    of_passage = lambda p, chain: dict(
        zip(('words', 'named', 'titled'), covers(p, chain)), sentence=best[p], passage=similar[p]
    )
    is_joined = lambda p: any(index.title_entity[p] in left for left, _ in sides)
    first = {p: logit(a, **of_passage(p, ()), joined=is_joined(p)) for p in range(count)}
    first = softmax(first)

    ends = {}  # of each way the sentence of its target that names the entity

    def gained_there(way, chain):
        if way not in ends:
            return 0
        in_it = [c for c in columns if index.words_of_sentence[ends[way], c]]
        had = {c: max(table[o, c] for o in chain) for c in in_it}
        return sum(max(table[:, c].max() - had[c], 0) for c in in_it) / highest

    def ways(previous):
        """(passage, entity, link) -> logit of the links out of a passage."""
        topic, found = index.title_entity[previous], {}
        for entity in named[previous]:
            sentences = lambda p, every=False, entity=entity: [
                r
                for r in range(*index.first_sentence[p : p + 2])
                if every or index.entities_of_sentence[r, entity]
            ]
            titled = lambda p, entity=entity: index.title_entity[p] == entity
            others = [p for p in range(count) if p != previous]
            shared = [p for p in others if entity in named[p] and not titled(p)]
            links = {'to_title': list(filter(titled, others)), 'shared': shared}
            if entity == topic:
                links = {'from_title': shared}
            for link, targets in links.items():
                said = max((similar[count + r] for r in sentences(previous)), default=0)
                of_link = {link: 1, 'rarity': idf[entity], 'asked': entity in question.entities}
                source = 0 if link == 'from_title' else said - max(sentence[previous])
                for target in targets:
                    way = target, entity, link, previous
                    naming = sentences(target, every=link == 'to_title')
                    ends[way] = max(naming, key=lambda r: similar[count + r])
                    suits = similar[count + ends[way]] - max(sentence[target])
                    spread = math.log(len(targets))
                    found[way] = logit(b, **of_link, source=source, spread=spread, target=suits)
        return found

    scores = dict(first)
    beam = {(p,): share**c for p, share in first.items()}
    for _ in range(2):
        chains = {}
        for chain, share in beam.items():
            found = {
                (p, None, 'direct', None): b['direct'] + b['prior'] * math.log(first[p] + 1e-12)
                for p in range(count)
            }
            for previous in chain:
                found |= ways(previous)
            found = {way: logit for way, logit in found.items() if way[0] not in chain}
            gains = {p: of_passage(p, chain) for p, *_ in found}
            most = max(gain['words'] for gain in gains.values()) + 0.02
            for way in found:
                gain, joined = gains[way[0]], joins(way[0], chain)
                of = dict(words_share=gain['words'] / most, target_words=gained_there(way, chain))
                logits = found[way] + logit(b, **gain, **of, joined=joined)
                chains[chain, way] = math.log(share) + logits
        beam = {}
        for (chain, way), probability in softmax(chains).items():
            extended = (*chain, way[0])
            for p in extended:
                scores[p] += probability
            beam[tuple(sorted(extended))] = beam.get(tuple(sorted(extended)), 0) + probability
    return [scores[p] / 3 for p in range(count)]


NUM_ENTITIES = 5


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize('side', ['topic', 'target'])
def test_the_closest_relation_of_a_passage_and_an_entity_counts(side):
    rng = np.random.default_rng(0)
    passages, topics, targets = rng.integers(4, size=40), *rng.integers(NUM_ENTITIES, size=(2, 40))
    vectors, asked = unit(rng.normal(size=(40, 8))), unit(rng.normal(size=(2, 8)))
    relations = Relations(
        passages, topics, targets, NUM_ENTITIES, lambda rows: vectors[rows].astype(np.float16)
    )
    # Nothing was read in the last passage.
    wanted = [(p, e) for p in range(5) for e in range(NUM_ENTITIES)] * 2
    entities = topics if side == 'topic' else targets
    of = lambda p, e: vectors[(passages == p) & (entities == e)]
    expected = [max([0, *(asked @ of(p, e).T).ravel()]) for p, e in wanted]
    found = relations.closeness(side, *np.array(wanted).T, asked)
    assert found == pytest.approx(expected, abs=1e-3) and 0 < np.count_nonzero(found) < len(wanted)


@pytest.mark.parametrize('side', ['before', 'after'])
@pytest.mark.parametrize('place', [0, 1])
def test_of_links_that_are_alike_the_one_that_the_question_asks_for_is_followed(
    tmp_path, side, place
):
    texts = {'Ada': 'She knew [Bob] and [Cid].', 'Bob': 'A person.', 'Cid': 'A person.'}
    index = build(tmp_path / 'index', corpus_of(texts | {'Beer': 'It is brewed.'}))
    text = 'Where did the friend of Ada die?'
    asked = unit(np.array([[1.0, 2.0]]))
    ada, friends = 0, np.array([1, 2])
    # Before: Ada's passage says of both how they are related. After: each friend's own does.
    vectors = np.array([[0, -1.0], [0, -1.0]], np.float32)
    vectors[place] = asked
    before, after = (np.full(2, ada), np.full(2, ada), friends), (friends, friends, np.full(2, 3))
    columns = before if side == 'before' else after
    relations = Relations(*columns, index.num_entities, lambda rows: vectors[rows])
    question = Question(text, [ada], vector_of(text), asked)
    ranked = Ranker(index, relations=relations).rank(question, 2)
    assert [each.passage for each in ranked] == [ada, friends[place]]
