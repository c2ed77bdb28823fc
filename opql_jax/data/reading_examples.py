"""Examples that teach the reader: questions, passages, and where in these the answers stand.

They come from questions that people asked, and from sentences that are labelled with relations, of
which questions are made; and from made sentences in which a negation, a year or an exchanged role
decides. A file of examples is JSON Lines:

    {"source": "qamr", "question": "...", "passages": ["..."], "answers": [[passage, start, end]],
     "supports": [1], "verdict": ""}
"""

import collections
import functools
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
import numpy as np

from opql_jax.core.checkout import load_toml
from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import map_records, read_json_lines, string_field
from opql_jax.corpus.name_resolution import without_brackets
from opql_jax.corpus.spans import whole_words
from opql_jax.data import relation_questions
from opql_jax.data.reading import STAND_IN, answer_start, titled
from opql_jax.datasets.docred import AnnotatedDocument
from opql_jax.datasets.labelled_sentences import LabelledSentence

YES, NO = 'yes', 'no'
# Whether a passage helps to answer.
HELPS, DOES_NOT, UNKNOWN = 1, 0, -1
# Passages per example where the documents are known, and where only answers are.
_SEARCHED, _FOUND = 5, 3
# Words of which the first letters are compared, those that only ask, and the paragraphs of an
# article that are looked at.
_STEM, _PARAGRAPHS = 5, 80
_ASKING = ('what', 'when', 'where', 'which', 'whom', 'whose', 'does', 'were', 'have')
# What is no part of an answer at its ends; a point is of 'the U.S.' and of '.5'.
_AROUND = ' ,;:'
Text = Annotated[str, msgspec.Meta(pattern=r'\S')]  # not blank
_DENIALS = (' not ', 'never', 'denied', 'refused', 'in fact', 'in the end', 'turned')


class ReadingExample(msgspec.Struct, frozen=True):
    """A question with passages."""

    source: Text  # what it was made of
    question: Text  # in plain words
    # See `reading.titled`.
    passages: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    # passage, start and end of each, code points; none if no span answers.
    answers: tuple[tuple[int, int, int], ...]
    # For each passage whether it helps to answer: HELPS, DOES_NOT or UNKNOWN.
    supports: tuple[Annotated[int, msgspec.Meta(ge=-1, le=1)], ...]
    # YES, NO, or '' where the question is not answered by one of these.
    verdict: Annotated[str, msgspec.Meta(pattern=rf'^(?:{YES}|{NO})?\Z')] = ''


def read_examples(path: str | os.PathLike) -> Iterator[ReadingExample]:
    """Yields the examples of a file; InputError names file and line, or the file without one."""
    is_empty = True
    for _, example in map_records(path, read_json_lines(path), _from_record):
        is_empty = False
        yield example
    if is_empty:
        raise InputError(f'{path}: no example in the file')


def _from_record(record: dict) -> ReadingExample:
    try:
        found = msgspec.convert(record, ReadingExample)
    except msgspec.ValidationError as error:
        problem, _, field = str(error).partition(' - at `$.')
        raise InputError(f'{field.rstrip("`")}: {problem}' if field else problem) from error
    if len(found.supports) != len(found.passages):
        raise InputError(f'supports: {len(found.supports)} for {len(found.passages)} passages')
    for passage, start, end in found.answers:
        known = 0 <= passage < len(found.passages)
        if not (known and 0 <= start < end <= len(found.passages[passage])):
            raise InputError(f'answers: [{passage}, {start}, {end}] is no place in a passage')
    return found


def occurrences(
    answers: Sequence[str], passages: Sequence[str], among: Sequence[int] | None = None
) -> list[tuple[int, int, int]]:
    """Where answers stand in passages as whole words, in any case; `among` names the passages.

    Of places inside each other the longest: who answered 'irrigation' and who answered 'irrigation
    projects' meant the same place, and a reader shall learn one of its ends.
    """
    found = set()
    for answer in filter(None, (answer.strip(_AROUND) for answer in answers)):
        pattern = re.compile(whole_words(answer), re.I)
        for passage in range(len(passages)) if among is None else among:
            found |= {(passage, *match.span()) for match in pattern.finditer(passages[passage])}
    longest: list[tuple[int, int, int]] = []
    for place in sorted(found, key=lambda place: (place[0], place[1], -place[2])):
        if not longest or longest[-1][0] != place[0] or longest[-1][2] < place[2]:
            longest.append(place)
    return longest


# ---------------- Questions that people asked ----------------


def from_sentence_questions(
    path: str | os.PathLike, rng: np.random.Generator, most: int, fewest_words: int = 1
) -> Iterator[ReadingExample]:
    """At most `most` examples of questions about single sentences, as of QAMR.

    JSON Lines `{source, sentence, question, answers}`; a source is a document, a colon and a place.
    A passage is the sentence with its neighbours; a quarter of the questions get none that answers.
    Questions of fewer words than `fewest_words` are left out, such as 'What is famous?', and those
    whose answer is 'he' or 'it'.
    """
    of_sentence: dict[tuple[str, str], list[tuple[str, list[str]]]] = collections.defaultdict(list)
    for _, record in map_records(path, read_json_lines(path), dict):
        place = string_field(record, 'source'), string_field(record, 'sentence')
        question, questions = string_field(record, 'question'), of_sentence[place]
        said = [each.strip(_AROUND) for each in record['answers']]
        answers = [
            each[answer_start(each, 0, len(each)) :]
            for each in said
            if not STAND_IN.fullmatch(each)
        ]
        if answers and len(question.split()) >= fewest_words:
            questions.append((question, answers))
    of_document: dict[str, list[str]] = collections.defaultdict(list)
    for source, sentence in of_sentence:
        of_document[source.rpartition(':')[0]].append(sentence)
    places = list(of_sentence)
    turns = itertools.zip_longest(*(_shuffled(of_sentence[place], rng) for place in places))
    asked = [(place, *each) for turn in turns for place, each in zip(places, turn) if each][:most]
    for (source, sentence), question, answers in _shuffled(asked, rng):
        document = of_document[source.rpartition(':')[0]]
        at = document.index(sentence)
        begin, end = max(0, at - int(rng.integers(3))), at + 1 + int(rng.integers(3))
        around = ' '.join(document[begin:end])
        # From other documents: another passage of this one might answer by accident.
        others = [' '.join(of_document[name][:2]) for name in _sample(list(of_document), rng, 2)]
        others = [text for text in others if sentence not in text][: int(rng.integers(3))]
        found = 'qamr', question, around, answers, others
        yield _with_others(*found, rng, unanswered=0.25, within=sentence)


def from_passage_questions(
    source: str,
    questions: Sequence[Mapping],
    documents: Mapping[str, tuple[str, str]],
    retrieved: Mapping[str, Sequence[str]],
    rng: np.random.Generator,
) -> Iterator[ReadingExample]:
    """Examples of questions with known supporting documents, among others a search confuses.

    Of a question's examples the last has not all that support it, and no answer if none that is
    left states it. Questions are `{id, question, answer, aliases, supporting}`; `documents` have
    title and text by id, and `retrieved` what a search finds for each question, best first.
    """
    for question in questions:
        helping = list(question['supporting'])
        answers = [question['answer'], *question.get('aliases', ())]
        for is_last in (False, True):
            kept = helping
            if is_last and rng.random() >= 0.5:
                kept = [name for name in helping if rng.random() < 0.5]
            others = [name for name in retrieved[question['id']] if name not in helping]
            chosen = _shuffled([*kept, *others[: max(0, _SEARCHED - len(kept))]], rng)
            texts = tuple(titled(*documents[name]) for name in chosen)
            supports = tuple(HELPS if name in helping else DOES_NOT for name in chosen)
            whole = set(helping) <= set(chosen)
            said = question['answer'].lower()
            verdict, places = said if whole and said in (YES, NO) else '', []
            if whole and not verdict:
                places = occurrences(answers, texts, np.flatnonzero(supports).tolist())
            if not whole or verdict or places:
                asked, spans = question['question'], tuple(places)
                yield ReadingExample(source, asked, texts, spans, supports, verdict)


def from_sub_questions(
    questions: Sequence[Mapping], documents: Mapping[str, tuple[str, str]], rng: np.random.Generator
) -> Iterator[ReadingExample]:
    """Examples of the steps of MuSiQue's questions, each with its passage alone and among others.

    Questions are `{answer, aliases, supporting, decomposition}`: '#1' in a step is the answer to
    the first, which is the title of the passage of the step that refers to it; each step has one
    supporting document, of `documents` {id: (title, text)}. Left out are steps whose passage lacks
    the answer, steps that refer to one of these, and steps that are no sentence ('Hello Love >>
    performer').
    """
    ids = sorted(documents)
    for question in questions:
        steps, passages = question.get('decomposition', ()), question['supporting']
        answers: list[Sequence[str]] = [() for _ in steps[1:]]
        answers.append([question['answer'], *question.get('aliases', ())])
        for (place, step), name in zip(enumerate(steps), passages):
            title = without_brackets(documents[name][0])
            for number in map(int, re.findall(r'#(\d+)', step)):
                if (
                    1 <= number <= place
                    and not answers[number - 1]
                    and occurrences([title], [documents[passages[number - 1]][1]])
                ):
                    answers[number - 1] = [title]
        for step, name, right in zip(steps, passages, answers):
            known = {f'#{number}': of[0] for number, of in enumerate(answers, 1) if of}
            asked = re.sub(r'#\d+', lambda mark: known.get(mark[0], mark[0]), step)
            asked = re.sub(r'\s+\?', '?', asked.strip())
            if not right or '#' in asked or '>>' in asked:
                continue
            for others in ([], _sample(ids, rng, 2)):
                around = [titled(*documents[other]) for other in others if other != name]
                found = asked[0].upper() + asked[1:], titled(*documents[name]), right, around
                example = _with_others('musique-step', *found, rng, unanswered=0)
                if example.answers:
                    yield example


def from_articles(
    questions: Sequence[tuple[str, str, Sequence[str]]],
    articles: Mapping[str, Sequence[str]],
    rng: np.random.Generator,
) -> Iterator[ReadingExample]:
    """Examples of `(question, title, answers)` about articles, paragraphs by their titles.

    The answer counts in the paragraph that has it and most words of the question, two at least, the
    first of such; questions without one are left out, as nothing says which paragraph states it.
    """
    for question, title, answers in questions:
        words = {word[:_STEM] for word in re.findall(r'\w{4,}', question.lower())}
        words -= {word[:_STEM] for word in (*_ASKING, *title.lower().split())}
        paragraphs = articles[title][:_PARAGRAPHS]
        counts = [
            sum(word in text.lower() for word in words) if occurrences(answers, [text]) else 0
            for text in paragraphs
        ]
        if max(counts, default=0) > 1:
            best, drawn = paragraphs[int(np.argmax(counts))], _sample(paragraphs, rng, 2)
            others = [text for text in drawn if not occurrences(answers, [text])]
            asked = _as_asked(question, rng)
            near = [titled(title, text) for text in others[: int(rng.integers(3))]]
            found = 'articles', asked, titled(title, best), answers, near
            yield _with_others(*found, rng, unanswered=0, within=best)


def from_known_answers(
    source: str,
    questions: Sequence[tuple[str, str, Sequence[str]]],
    retrieved: Sequence[Sequence[tuple[str, str]]],
    rng: np.random.Generator,
) -> Iterator[ReadingExample]:
    """Examples of `(question, topic, answers)`; passages `(title, text)` on the topic count."""
    for (question, topic, answers), found in zip(questions, retrieved):
        found = _shuffled(found, rng)[:_FOUND]
        texts = tuple(titled(*passage) for passage in found)
        has_topic = {passage for passage, _, _ in occurrences([topic], texts)}
        titles, places = [title.casefold() for title, _ in found], set()
        for answer in answers:
            of_title = {i for i, title in enumerate(titles) if title == answer.casefold()}
            places.update(occurrences([answer], texts, sorted(has_topic | of_title)))
        if texts:
            supports = (UNKNOWN,) * len(texts)
            asked = _as_asked(question, rng)
            yield ReadingExample(source, asked, texts, tuple(sorted(places)), supports)


# ---------------- Questions made of labelled sentences ----------------


def from_labelled(
    sentences: Sequence[LabelledSentence], rng: np.random.Generator, most: int
) -> Iterator[ReadingExample]:
    """Labelled sentences asked by a template among others; a third has no answer."""
    about_topic, of_relation = collections.defaultdict(list), collections.defaultdict(list)
    usable = [s for s in sentences if s.relation and all(map(_is_name, _topic_and_target(s)))]
    for each in usable:
        about_topic[_topic_and_target(each)[0].casefold()].append(each)
        of_relation[each.relation].append(each)
    stated = collections.defaultdict(set)
    for each in sentences:
        topic, target = (name.casefold() for name in _topic_and_target(each))
        stated[topic, each.relation].add(target)
    frequency = np.array([1 / np.sqrt(len(of_relation[each.relation])) for each in usable])
    share, count = frequency / frequency.sum(), min(most, len(usable))
    for number in rng.choice(len(usable), count, replace=False, p=share):
        each = usable[number]
        topic, target = _topic_and_target(each)
        templates = relation_questions.templates(each.relation)
        backward = bool(templates.inverse) and rng.random() < 0.25
        asked, answer = (target, topic) if backward else (topic, target)
        pattern = _choice(templates.inverse if backward else templates.about, rng)
        question = _as_asked(pattern.replace('{}', asked), rng)
        of_topic = (s for s in about_topic[topic.casefold()] if s.relation != each.relation)
        same_topic = [other.text for other in of_topic if answer not in other.text]
        similar = [other.text for other in _sample(of_relation[each.relation], rng, 3)]
        near = [text for text in similar if asked.casefold() not in text.casefold()]
        others = list(dict.fromkeys([*_sample(same_topic, rng, 2), *near]))[: int(rng.integers(4))]
        right = stated[topic.casefold(), each.relation] if not backward else {answer.casefold()}
        answers = [name for name in {target, *right} if name] if not backward else [answer]
        yield _with_others('labelled', question, each.text, answers, others, rng, unanswered=0.33)


def from_documents(
    documents: Sequence[AnnotatedDocument],
    names: Mapping[str, str],
    rng: np.random.Generator,
    most: int,
) -> Iterator[ReadingExample]:
    """Examples of fully labelled documents: half ask what one states, half what it does not."""
    kind = lambda entity: entity.partition(':')[0]
    read = lambda document, title: titled(title, document.text.replace('\n', ' '))
    asked = lambda relation: relation_questions.own_templates(names[relation]).about
    # For each document, the tails by head and relation.
    stated: list[dict[tuple[str, str], set[str]]] = []
    # Relations by kind of head, repeated as often as they occur.
    relations: dict[str, list[str]] = collections.defaultdict(list)
    for each in documents:
        tails: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
        for head, relation, tail in (*each.facts, *each.apart):
            if asked(relation) and _is_name(each.names[head][0]):
                tails[head, relation].add(tail)
                relations[kind(head)].append(relation)
        stated.append(tails)
    usable = [number for number, tails in enumerate(stated) if tails]
    while usable and most > 0:
        number, second = _choice(usable, rng), _choice(usable, rng)
        tails, document = stated[number], documents[number].document
        head, relation = _choice(sorted(tails), rng)
        is_stated = rng.random() < 0.5
        if not is_stated:
            relation = _choice(relations[kind(head)], rng)
        pattern = _choice(asked(relation), rng)
        if not is_stated and any(entity == head and pattern in asked(of) for entity, of in tails):
            continue
        name = documents[number].names[head][0]
        question = _as_asked(pattern.replace('{}', name), rng)
        title = document.title if rng.random() < 0.7 else ''
        text, shift = read(document, title), len(titled(title, ''))
        other = read(documents[second].document, documents[second].document.title)
        is_alone = rng.random() < 0.5 or name in other
        texts = _shuffled([text] if is_alone else [text, other], rng)
        at = texts.index(text)
        right = tails[head, relation] if is_stated else set()
        named = (mention for mention in document.mentions or () if mention.entity in right)
        places = [(at, each.start + shift, each.end + shift) for each in named]
        supports = tuple(HELPS if places and i == at else DOES_NOT for i in range(len(texts)))
        yield ReadingExample('documents', question, tuple(texts), tuple(places), supports)
        most -= 1


def made(
    names: Sequence[str], works: Sequence[str], rng: np.random.Generator, count: int
) -> Iterator[ReadingExample]:
    """Made sentences in which a negation, another verb, a year or an exchanged role decides."""
    for _ in range(count):
        make = _role_example if rng.random() < 0.35 else _verb_example
        yield make(names, works, rng)


def _verb_example(names, works, rng) -> ReadingExample:
    patterns = _statements()
    verb, second = (
        patterns['verbs'][i] for i in rng.choice(len(patterns['verbs']), 2, replace=False)
    )
    doer, other = _sample(names, rng, 2)
    work = _choice(works, rng)
    others = ('praised', 'praised') if second[1] == verb[1] else second[1:]
    words = dict(
        zip(('base', 'past', 'participle', 'past_2', 'participle_2'), (*verb, *others)),
        **{'doer': doer, 'other': other, 'work': work, 'year': str(rng.integers(1700, 2024))},
    )
    is_stated = rng.random() < 0.5
    sentence = _choice(patterns['stated' if is_stated else 'unstated'], rng).format(**words)
    around = [
        _choice(patterns['unstated'], rng).format(**{**words, 'work': _choice(works, rng)})
        for _ in range(int(rng.integers(3)))
    ]
    text = ' '.join(_shuffled([sentence, *around], rng))
    if rng.random() < 0.3:
        one = doer if rng.random() < 0.6 else other
        question = _choice(patterns['asked_yes'], rng).format(**words, one=one)
        verdict = YES if is_stated and one == doer else ''
        if not verdict and one == other and 'not known' not in sentence:
            verdict = NO if any(denial in sentence for denial in _DENIALS) else ''
        supports = (HELPS if verdict else DOES_NOT,)
        return ReadingExample('made', question, (text,), (), supports, verdict)
    question = _as_asked(_choice(patterns['asked'], rng).format(**words), rng)
    return _with_others('made', question, text, [doer] if is_stated else [], [], rng, unanswered=0)


def _role_example(names, works, rng) -> ReadingExample:
    patterns = _statements()['roles']
    role = _choice(patterns['names'], rng).format(_choice(works, rng))
    holders = _sample(names, rng, 3)
    years = sorted(int(year) for year in rng.choice(np.arange(1950, 2024), 3, replace=False))
    spans = [(years[0], years[1]), (years[1], years[2]), (years[2], None)]
    sentences, forms = [], []
    for place, (holder, (begin, end)) in enumerate(zip(holders, spans)):
        form = int(rng.integers(len(patterns['past' if end else 'present'])))
        fields = dict(holder=holder, role=role, begin=begin, end=end, before=holders[place - 1])
        sentences.append(patterns['past' if end else 'present'][form].format(**fields))
        forms.append(form)
    left_out = int(rng.integers(3)) if rng.random() < 0.4 else None
    kind, dated = rng.random(), [place for place in (0, 1) if forms[place] in patterns['dated']]
    if 0.45 <= kind < 0.8 and dated:
        right = _choice(dated, rng)
        begin, end = spans[right]
        year = int(rng.integers(begin + 1, end)) if end - begin > 1 else begin
        question = _choice(patterns['in_year'], rng).format(role=role, year=year)
    elif kind < 0.8:
        question, right = _choice(patterns['now'], rng).format(role=role), 2
    else:
        question, right = patterns['former'][0].format(role=role, holder=holders[2]), 1
    parts = _shuffled([s for p, s in enumerate(sentences) if p != left_out], rng)
    texts = tuple(parts) if rng.random() < 0.5 else (' '.join(parts),)
    # The successor's sentence names him.
    answered = left_out != right or (right == 1 and ' succeeded ' in sentences[2])
    if right == 1 and 'before' in question and left_out == 2:
        answered = False  # nothing says who came after
    marked = [i for i, text in enumerate(texts) if holders[right] in text]
    places = occurrences([holders[right]], texts, marked) if answered else []
    supports = tuple(HELPS if answered and i in marked else DOES_NOT for i in range(len(texts)))
    return ReadingExample('made', _as_asked(question, rng), texts, tuple(places), supports)


def _with_others(
    source, question, text, answers, others, rng, unanswered: float, within: str | None = None
) -> ReadingExample:
    """An example of a passage among others; now and then it is left out."""
    is_there = rng.random() >= unanswered or not others
    texts = tuple(_shuffled([*([text] if is_there else []), *others], rng))
    here = [texts.index(text)] if is_there else []
    places = occurrences(answers, texts, here)
    if within is not None and here:
        start = text.index(within)
        places = [p for p in places if start <= p[1] and p[2] <= start + len(within)]
    supports = tuple(HELPS if i in here and places else DOES_NOT for i in range(len(texts)))
    return ReadingExample(source, question, texts, tuple(places), supports)


def names_of(sentences: Sequence[LabelledSentence], relations: Sequence[str]) -> list[str]:
    """The distinct names of the topics of some relations, in order."""
    found = (_topic_and_target(each)[0] for each in sentences if each.relation in relations)
    return list(dict.fromkeys(name for name in found if _is_name(name)))


@functools.cache
def _statements() -> dict:
    return load_toml('datasets/reading_statements.toml')


def _topic_and_target(sentence: LabelledSentence) -> tuple[str, str]:
    return sentence.text[slice(*sentence.topic)], sentence.text[slice(*sentence.target)]


def _is_name(name: str) -> bool:
    is_pronoun = name.casefold() in ('she', 'his', 'her', 'they', 'the')
    return len(name) > 2 and (name[0].isupper() or name[0].isdigit()) and not is_pronoun


def _as_asked(question: str, rng: np.random.Generator) -> str:
    mark = '' if question.endswith('?') or rng.random() < 0.2 else '?'
    return question[0].upper() + question[1:] + mark


def _choice(items: Sequence, rng: np.random.Generator):
    return items[int(rng.integers(len(items)))]


def _sample(items: Sequence, rng: np.random.Generator, count: int) -> list:
    chosen = rng.choice(len(items), min(count, len(items)), replace=False) if items else ()
    return [items[i] for i in chosen]


def _shuffled(items: Sequence, rng: np.random.Generator) -> list:
    return [items[i] for i in rng.permutation(len(items))]
