"""Whether the sentence behind an answer states what the question asks, judged by its words.

In a short text the reader may take any person for the founder, or the date of an election for a
date of birth. An answer is not sure if its sentence has no word for the relation that is asked for,
or is about something else; it may still be right.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection

from opql_jax.corpus.concepts import CONCEPT
from opql_jax.corpus.question_linking import written_as_names
from opql_jax.corpus.spans import VALUES
from opql_jax.kb import calibration
from opql_jax.kb.answers import Answer
from opql_jax.kb.paths import Fact, Path
from opql_jax.kb.text.deeds import is_deed_of_another, is_owner_only
from opql_jax.kb.text.marked_questions import FORMS
from opql_jax.kb.text.qualifiers import has_rival, is_of_other_owner
from opql_jax.kb.text.roles import has_role, is_of_other_sex, may_hold
from opql_jax.kb.text.wanted import is_person_noun, wanted_by
from opql_jax.retrieval.words import words_of

# Facts of an answer that are checked; factors of its probability if none states it, which leaves
# it unsure, and if all say it of another.
_FACTS, _UNSTATED, _OF_ANOTHER = 3, calibration.SURE, 0.1
# How a sentence begins that is about what the one before names: 'It', 'The album', but not 'The vet
# of' nor 'The first director of'.
GOES_ON = re.compile(
    r'(?:it|its|he|his|she|her|they|their|this|these|the (?-i:(?=[a-z])(?!(?:(?:first|second|third'
    r'|last|next|new|old|former|current|original|chief|main|sole|only|founding|[a-z]+est) )*'
    r'[a-z]+ of\b)))\b',
    re.IGNORECASE,
)
# 'His wife Ann was born in Oslo' goes on about her.
_ITS_NAME = re.compile(r'(?:Its|His|Her|Their) [a-z-]+(?: [a-z-]+)?,? (?:the )?(?=[A-Z])')
# Words that ask for a relation, and words that state it in a sentence.
_RELATIONS = tuple(
    (re.compile(rf'\b(?:{asks})\b', re.IGNORECASE), re.compile(states, re.IGNORECASE))
    for asks, states in (
        (
            r'born|birth(?:place|day| date)?',
            r'\bborn|birth|\bn[ée]e\b|\bnatives?\b|\bb\.|bapti[sz]|\bhails?\b|\boriginally\b'
            r'|(?:\b(?:is|was|are|were|comes?|came)|,) from\b'
            r'|\([^)]*\d{3,4}',
        ),
        (
            r'die[sd]?|death|killed|buried',
            r'\bdie[sd]?\b|dying|death|\bdead\b|deceased|kill|murder|assassinat|execut|drown|perish'
            r'|buri|grave|tomb|cemetery|suicide|hanged|\bshot\b|\bfell\b|\blost\b|passed away'
            r'|surviv|last (?:days|years)|posthumous|funeral'
            r'|\bd\.|[–—-]\s?(?:[\w,]+ ){0,4}\d{3,4}\s?\)',
        ),
        (
            r'found(?:s|ed|er|ers)|establish(?:ed)?|set up|open(?:s|ed)?',
            r'found|establish|start|set up|sets up|creat|form|launch|beg[iau]n|open|incorporat'
            r'|institut|invent|develop|buil[dt]|origin|\bsince\b|\bdat(?:es|ed|ing)\b|charter'
            r'|inaugurat|introduc|first|constitut|organi[sz]|\bwas made\b|complet|design',
        ),
        (
            r'buil[dt]|builder|construct(?:s|ed)?|erect(?:s|ed)?|design(?:s|ed|er|ers)?|architect',
            r'buil[dt]|construct|erect|complet|\bmade\b(?! (?:him|her|them|me|us|his|their)\b)'
            r'|\bmakes?r?\b|design|architect|launch|yard'
            r'|\brais|commission|found|\blaid\b|creat|open|\bplans?\b|planned|\bdr[ae]w|engineer'
            r'|develop|cast|\bwork of\b|invent|manufactur|produc|style',
        ),
        (
            r'wr(?:ote|ites?|itten|iter|iters)|authors?(?:ed)?',
            r'writ|wrote|author|novel|book|poem|\bplay|screenplay|script|\bpen(?:ned|s)?\b|compos'
            r'|lyric|memoir|biograph|stor(?:y|ies)|essay|article|publish',
        ),
        (
            r'act(?:s|ed|ors?|ing)?|actress|starred|starring|stars? in|(?:films?|who) stars?',
            r'star|\bact|play|cast|appear|featur|\brole|portray|perform',
        ),
        (r'direct(?:s|ed|or|ors)?', r'direct|film-?maker|helm|film by|movie by|\bfilms? of\b'),
        (
            r'marr(?:y|ies|ied)|wife|husband|spouse|wed(?:ded)?',
            r'marr|wife|wives|husband|spouse|\bwed|widow|partner|bride|consort|engaged|divorc|\bMrs\b'
            r'|their (?:son|daughter|child)',
        ),
        (
            r'mother|father|parents?|sons?|daughters?|child(?:ren)?|brothers?|sisters?|siblings?'
            r'|uncles?|aunts?|grand(?:mother|father|son|daughter|parents)',
            r'mother|father|parent|\bsons?\b|daughter|child|kids?\b|\bborn\b|heir|sibling|brother'
            r'|sister|famil|uncle|aunt|nephew|niece|cousin|twin|\bgrand|\bmum\b|\bdad\b|\bmom\b'
            r'|descen|succeed|widow|house of',
        ),
        (
            r'stud(?:y|ied|ies)|educated|(?:go|went) to (?:school|university|college)|graduated?'
            r'|alma mater',
            r'stud|educat|school|universit|colleg|academ|graduat|degree|train|attend|alum|pupil'
            r'|enrol|doctora|ph\.?d|bachelor|master|diploma|conservato|institut|taught|learn|tutor',
        ),
        (
            r'join(?:s|ed)?',
            r'join|member|\bsince\b|\bsign|recruit|\badded|enter|enlist|hired|appoint|\bcame\b|\bwent\b'
            r'|start|bec[ao]me|line-?up|accept|merge|admit',
        ),
        (
            r'leaves?|left',
            r'\bleft\b|\bleav|depart|resign|\bquit|retire|until|former|\bwent\b|replac|\bmove|dismiss|sacked',
        ),
        (
            r'teach(?:es|ers?)?|taught|tutor(?:ed)?',
            r'teach|taught|tutor|instruct|stud|train|learn|coach|lesson|profess|pupil|lectur|mentor'
            r'|apprentic|educat|school|master',
        ),
        (
            r'lives?|lived|resid(?:es?|ed)',
            r'\bliv|resid|\bhom|house|inhabit|dwel[lt]|settl|\bmov|lodg|\bstay|flat|apartment|farm'
            r'|cottage|neighbou?r|villa|castle|palace|estate|(?:comes?|came|is|was|,) (?:from|of)\b'
            r'|native|citizen|people|tribe|found|habitat|rented',
        ),
        (
            r'(?:did|does) [^?]*\b(?:go|travel|move|emigrate|flee|sail)'
            r'|(?:went|moved|fled|sailed) to',
            r'\bgo(?:es|ne|ing)?\b|\bwent\b|travel|\bmov|\bleav|\bleft\b|emigrat|\bfle[ed]|sail|journey'
            r'|\btour|arriv|head|return|\btrip|voyage|\bcame\b|reach|visit|sent|transfer|\btook\b'
            r'|relocat|cross|settl',
        ),
        (
            r'complet(?:e|es|ed|ion)|finish(?:es|ed)?',
            r'complet|finish|open|built|\bend|\bdone\b|conclu|inaugurat|until|deliver',
        ),
        (
            r'begins?|beg[au]n|starts?|started|beginning',
            r'\bbeg[iau]n|start|\bfirst\b|launch|outbreak|br[eo]ke|open|commenc|since|\bfrom\b|erupt'
            r'|declar|set off|initi|origin|inaugurat|\bris|source|spring|enter|join|\d{4}\s?[–—-]',
        ),
        (
            r'ends?|ended|ending',
            r'\bend|finish|until|conclu|ceas|clos|stop|surrender|final|\blast|peace|over\b|armistice'
            r'|treaty|expire|complet|\bleft\b|\bleav|resign|retir|flow|mouth|die[sd]\b|\d\s?[–—-]\s?\d',
        ),
        (
            r'wins?|won|winner',
            r'\bwon\b|\bwin|victor|beat|champion|defeat|award|receiv|\btook\b|gold|first place'
            r'|\btitle|triumph|prize|success|laureate|elect|\bvot',
        ),
        (
            r'buys?|bought|acquire[sd]?|purchase[sd]?',
            r'\bbuy|bought|acqui|purchas|\bsold\b|\bsell|\bsale\b|took over|taken over|owner|merge'
            r'|paid|auction|takeover|invest',
        ),
        (
            r'owns?|owned|owner',
            r'\bown|belong|property|subsidiary|proprietor|acqui|bought|purchas|held by|parent'
            r'|possess|landlord|division of|part of|\bsold\b',
        ),
        (
            r'headquarters|headquartered|based(?! (?:up)?on)',
            r'headquarter|\bbas|offices?\b|located|\bseat|\blies\b',
        ),
        (
            r'releas(?:es?|ed)|publish(?:es|ed)?|c[ao]mes? out|appear(?:s|ed)?|aired|premiered?',
            r'releas|publi[sc]|c[ao]mes? out|appear|premier|first|issue|print|edition|broadcast'
            r'|\bair|freed?\b|\bseen\b|observ|visible|show|[12]\d{3}\)? [a-z]|\([12]\d{3}',
        ),
        (
            r'invent(?:s|ed|or)?|discover(?:s|ed|er)?',
            r'invent|discover|develop|creat|devis|pioneer|first|found|identif|patent|isolat|observ'
            r'|introduc|describ|propos|design|conceiv|ma[dk]e',
        ),
    )
)


# Kinds of answers that say by themselves what they are: 'a 1993 comedy'.
_SAID_OTHERWISE = frozenset((CONCEPT, 'group', 'language'))
# Words of a question that texts say in many ways.
_SAY_LITTLE = frozenset(
    words_of(
        'name named call called know known use used make made take took place get give given become'
        ' became come came from go went happen happened locate located find lie live work'
        ' people person thing many much long old big still now today currently'
    )
)
# The first characters that forms of a word share: of 'partner' and 'partnership'.
_ROOT = 5
_A_WORD = re.compile(r"[\w'’-]+")
_PREPOSITION = re.compile(r'\b(?:in|on|at|from|to|by|for)\b')
_SMALL_WORD = re.compile(r'\b[a-z]{3,}\b')
# 'Born in Oslo', and ', she married' after a clause with 'while'.
_PARTICIPLE = re.compile(r'[A-Z][a-z]+(?:ed|en|rn|ng|wn|ilt|de|et) ')
_MAIN_CLAUSE = re.compile(r', (?:he|she|it|they)\b')
_IS_VERB = re.compile(r'\b(?:is|are|was|were)\b')
_SENTENCE_ENDS = ('. ', '… ', '; ')
_DESCRIBED = re.compile(r'\bthe ([a-z-]+) $')
# What begins a clause about the name before it, and what may end one.
_CLAUSE = re.compile(r',? (?:which|who|whom|whose)\b')
_CLAUSE_ENDS = re.compile(r'[,.;:]')
_AND_WAS = re.compile(r'\band (?:was|were|is|are|had to be|has been|had been) ')
# What stands before an attribute of the subject: 'is a 1993 film'.
_ATTRIBUTE = re.compile(r' (?:is|was) an? (?:[\w-]+ )?$')
# What follows a topic of which something else is meant: "Mara Low's husband".
_OF_TOPIC = re.compile(r"['’]s? \w")


def left(answer: Answer, entity: int) -> float:
    """The factor of the probability of one of an answer's entities: 1 if a sentence states it.

    The sentence of one of the best facts behind it has to be about the topic, and state the
    relation.
    """
    last = max(answer.plans, key=len, default=())
    step = last[-1].text if len(last) > 1 else answer.question.text
    relation, paths = _without_names(step, answer), answer.paths(entity, _FACTS)
    return max((_states(answer, path, step, relation) for path in paths), default=1.0)


def _states(answer: Answer, path: Path, step: str, relation: str) -> float:
    """Whether the sentence of a path's last fact states what is asked: 1 if so, else a factor.

    `step` is the last one of the question, and `relation` that without names.
    """
    asked, fact = answer.question.text, _without_rest(path[-1])
    sentence, around, passage = fact.sentence or '', _around(fact), _passage(answer, fact)
    whole = step if len(path) > 1 else asked
    topics = (asked[start:end] for start, end in answer.question.topics)
    # The question itself says whom a topic is by.
    names = [name for name in topics if f' by {name}' not in asked]
    of_person = wanted_by(asked).kinds[:1] == ('person',)
    if (
        (fact.target_span and _is_before_gap(answer, sentence, fact.target_span))
        or has_rival(_without_names(whole, answer, VALUES), around)
        or is_of_other_sex(relation, fact.target)
        or is_deed_of_another(asked, fact.target, around)
        or (of_person and is_owner_only(asked, fact.target, around))
    ):
        return _OF_ANOTHER
    is_stated = (
        is_about(answer, path[0])
        and not _is_of_another(answer, fact)
        and not (len(path) == 1 and is_of_other_owner(asked, around))
        and says(relation, sentence, _near(answer, fact))
        and (not (part := _own_part(fact)) or says(relation, part))
        and may_hold(relation, _written(fact), passage)
        and _as_described(answer, passage)
        and all(has_role(asked, name, sentence) for name in (*names, fact.target))
    )
    return 1.0 if is_stated else _UNSTATED


def says(question: str, sentence: str, passage: str = '') -> bool:
    """Whether a sentence has a word for a relation that the question asks for.

    For other relations the sentence, or its passage, has to have a word of the question; True if
    that has none, or asks what kind of thing it is, which no word says.
    """
    if not _SAID_OTHERWISE.isdisjoint(wanted_by(question).kinds[:1]):
        return True
    if asked := [said for asks, said in _RELATIONS if asks.search(question)]:
        return any(said.search(sentence) for said in asked)
    words = set(words_of(question)) - wanted_by(question).nouns - _SAY_LITTLE
    found = set(words_of(f'{sentence} {passage}'))
    return not words or any(
        word in found
        or any(not forms.isdisjoint(found) for forms in FORMS if word in forms)
        or (len(word) >= _ROOT and any(other.startswith(word[:_ROOT]) for other in found))
        for word in words
    )


def _without_names(text: str, answer: Answer, kept: Collection[str] = ()) -> str:
    """A text without the names of a question, but for those of some kinds."""
    question, kinds = answer.question, answer.store.vocab.kinds
    for (start, end), entity in zip(question.topics, question.entities):
        if entity < 0 or kinds[entity] not in kept:
            text = text.replace(question.text[start:end], ' ')
    return text


def _without_rest(fact: Fact) -> Fact:
    """A fact with the place of its target alone, which may have been read with more."""
    if not (fact.sentence and fact.target_span):
        return fact
    start = fact.sentence.find(fact.target, *fact.target_span)
    span = (start, start + len(fact.target)) if start >= 0 else fact.target_span
    return dataclasses.replace(fact, target_span=span)


def _written(fact: Fact) -> str:
    """The target of a fact as its sentence has it."""
    text = fact.sentence or ''
    return text[slice(*fact.target_span)] if fact.target_span else fact.target


def _around(fact: Fact) -> str:
    """The one sentence that has the target of a fact; all if unknown."""
    text, (start, end) = fact.sentence or '', fact.target_span or (0, 0)
    begin = max(text.rfind(mark, 0, start) for mark in _SENTENCE_ENDS) + 1
    ends = [at for mark in _SENTENCE_ENDS if (at := text.find(mark, end)) >= 0]
    return text[begin : min(ends, default=len(text))] if fact.target_span else text


def _as_described(answer: Answer, passage: str) -> bool:
    """Whether a passage has the words by which a question describes persons: 'the chemist Ann'."""
    question, kinds = answer.question, answer.store.vocab.kinds
    described = [
        words_of(found[1])
        for (start, _), entity in zip(question.topics, question.entities)
        if entity >= 0 and kinds[entity] == 'person'
        if (found := _DESCRIBED.search(question.text[:start])) and is_person_noun(found[1])
    ]
    said = set(words_of(passage))
    return all(said.issuperset(words) for words in described)


def _passage(answer: Answer, fact: Fact) -> str:
    """The title and text of a fact's passage; '' if there is none."""
    if fact.passage is None:
        return ''
    return f'{fact.title or ""}: {answer.store.prepared.passage(fact.passage)["text"]}'


def asked_about(answer: Answer) -> set[str]:
    """The names of the entities that a question asks about."""
    names = answer.store.vocab.names
    return {names[entity] for entity in answer.question.entities if entity >= 0}


def _near(answer: Answer, fact: Fact) -> str:
    """The title of a fact's passage, and its sentence with the one before and the one after."""
    if fact.passage is None or fact.places is None:
        return _passage(answer, fact)
    passage = answer.store.prepared.passage(fact.passage)
    starts = [*passage['sentence_starts'], len(passage['text'])]
    first, last = fact.places[1]
    before = max((start for start in starts if start < first), default=0)
    after = [start for start in starts if start >= last][1:2] or starts[-1:]
    return f'{fact.title or ""}: {passage["text"][before : after[0]]}'


def _own_part(fact: Fact) -> str:
    """The part of a sentence with a target and another verb, 'and was mended by Bo'; '' if none."""
    text, (start, _) = fact.sentence or '', fact.target_span or (0, 0)
    begins = [found.start() for found in _AND_WAS.finditer(text, 0, start)]
    return text[begins[-1] :] if begins else ''


def is_about(answer: Answer, fact: Fact) -> bool:
    """Whether a fact's sentence or document names a topic, or an entity on the way from one.

    A sentence that begins with 'It' or the like goes on about what one before it names. If another
    person is named, it has to name one whom the question asks about, if there is any.
    """
    if fact.passage is None or fact.places is None:
        return True
    passage = answer.store.prepared.passage(fact.passage)
    text, (first, last) = passage['text'], fact.places[1]
    entities = {entity for entity in answer.question.entities if entity >= 0} | _passed(answer)
    persons = _persons(answer, entities)
    known = {mention['start'] for mention in passage['mentions']} if persons else ()
    for start in reversed([start for start in passage['sentence_starts'] if start < first]):
        other = _ITS_NAME.match(text, first)
        is_of_other = other and not text.startswith(fact.target, other.end())
        if not GOES_ON.match(text, first) or first in known or is_of_other:
            break  # it is known whom 'She' means, or what it goes on about
        first = start
    said, asked = text[first:last], answer.question.text
    mentioned = {each['entity'] for each in passage['mentions'] if first <= each['start'] < last}
    spans = [*answer.question.topics, *written_as_names(asked)]
    names = [words for start, end in spans if (words := _words(asked[start:end]))]
    names_of = answer.store.vocab.names.__getitem__
    others = map(names_of, _persons(answer, mentioned - entities))
    if persons and any(other != fact.target for other in others):
        entities = persons
        names = [_words(names_of(person)) for person in persons]
    if fact.topic in map(names_of, entities):
        return True
    in_sentence, called = _words(said), [_words(fact.title or ''), *_names_in(said)]
    if not names or any(
        name <= in_sentence or any(of and (name <= of or of <= name) for of in called)
        for name in names
    ):
        return True
    return passage['title_entity'] in entities or not mentioned.isdisjoint(entities)


def _persons(answer: Answer, entities: Collection[int]) -> set[int]:
    """The persons among entities."""
    kinds = answer.store.vocab.kinds
    return {entity for entity in entities if kinds[entity] == 'person'}


def _passed(answer: Answer) -> set[int]:
    """The best entities of the steps before the last: what is asked about in the end."""
    return {int(hop.entities[0]) for hops in answer.traces for hop in hops[:-1]}


def _is_of_another(answer: Answer, fact: Fact) -> bool:
    """Whether a fact's sentence says it of another name, in a clause or as an attribute.

    Of 'Heron needs Larder, which was written by Sven' Sven has not written Heron, and of 'Low Tide
    is a 1993 parody of High Tide' High Tide is not of 1993. What is asked of a topic's husband may
    be said of him.
    """
    said, question = fact.sentence or '', answer.question
    if not fact.target_span:
        return False
    if any(_OF_TOPIC.match(question.text, end) for _, end in question.topics):
        return False
    start = fact.target_span[0]
    clauses = list(_CLAUSE.finditer(said, 0, start))
    is_in_clause = bool(clauses) and not _CLAUSE_ENDS.search(said, clauses[-1].end(), start)
    told = clauses[-1] if is_in_clause else _ATTRIBUTE.search(said[:start])
    if not told:
        return False
    if fact.topic in asked_about(answer) and fact.topic_span and fact.topic_span[1] == told.start():
        return False  # however the sentence calls it
    about = [question.text[a:b] for a, b in question.topics]
    about += [answer.store.vocab.names[entity] for entity in _passed(answer)]
    topics = [_words(name) for name in about]
    others = [_words(said[a:b]) for a, b in written_as_names(said) if b == told.start()]
    if is_in_clause and any(name <= _words(said[told.end() :]) for name in topics):
        return False
    return any(
        other and not any(name <= other or other <= name for name in topics) for other in others
    )


def _is_before_gap(answer: Answer, sentence: str, target: tuple[int, int]) -> bool:
    """Whether what is asked about follows a target, in a part that goes on without its verb.

    'Low was born in 1998 and Orr in 2000' says nothing of Orr by 1998, and 'Low built the church;
    the tower came later' nothing of the tower by Low.
    """
    text, before = answer.question.text, set(_A_WORD.findall(sentence[: target[0]]))
    names = [text[start:end].split()[-1] for start, end in answer.question.topics]
    if not before.isdisjoint(names):
        return False
    names += [word for word in _SMALL_WORD.findall(text) if words_of(word)]
    if not (words := '|'.join(re.escape(name) for name in names if name not in before)):
        return False
    if _PARTICIPLE.match(sentence):
        return False  # 'Founded by Low, the club' is of the club
    begins = rf"(?:[\w.,'’-]+ ){{0,5}}?(?:{words})\b"
    other = re.search(rf'(?:\b(?:while|whereas)|;) {begins}', sentence[target[0] :])
    if other and not _MAIN_CLAUSE.search(sentence, target[0] + other.end()):
        return True
    if not (stands := _PREPOSITION.findall(sentence[: target[1]])):
        return False  # it does or is what the sentence says
    joins = r'(?:\b(?:and|but)|,)' if _IS_VERB.search(sentence[: target[0]]) else r'\b(?:and|but)'
    gap = rf"{joins} {begins}(?:['’]s)?,? (?:\([^()]*\) )?(?:[^.;]* )?{stands[-1]}\b"
    return re.search(gap, sentence[target[0] :]) is not None


def _names_in(text: str) -> list[frozenset[str]]:
    return [_words(text[start:end]) for start, end in written_as_names(text)]


def _words(text: str) -> frozenset[str]:
    return frozenset(words_of(text))
