"""What the generated text says, read back from it."""

import itertools
import re

from opql_jax.datasets.synthetic.world import PAGES, RELATIONS

NAMED = r'<Q\d+>(?:, <Q\d+>)*(?: and <Q\d+>)?'
FORMS = {word for forms in PAGES['references'].values() for form in forms for word in form}
PRONOUN = '|'.join(sorted(FORMS, key=len, reverse=True))
SLOT = re.compile(r'\\\{([so])(?:\\\.(?:him|his|name))?\\\}')


def pattern(template):
    text = SLOT.sub(lambda slot: rf"(?P<{slot[1]}>{NAMED}|{PRONOUN})(?:'s)?", re.escape(template))
    return re.compile(text.replace(r'\ was', r'\ (?:was|were)') + r'\.', re.IGNORECASE)


PATTERNS = [(r.name, pattern(template)) for r in RELATIONS.values() for template in r.sentences]
OTHER_PATTERNS = [
    *(pattern(template) for every in PAGES['distractors'].values() for _, template in every),
    *(pattern(template) for every in PAGES['fillers'].values() for template in every),
]


def sentences_of(document):
    """Sentences with every mention replaced by its key: `<Q7> was directed by <Q3>.`"""
    text, position = '', 0
    for mention in document.mentions:
        text += document.text[position : mention.start] + f'<{mention.entity}>'
        position = mention.end
    return re.split(r'(?<=\.) ', text + document.text[position:])


def read_facts(document):
    for sentence in sentences_of(document):
        stated = {
            (relation, side, key)
            for relation, template in PATTERNS
            if (match := template.fullmatch(sentence))
            for side in 'so'
            for key in re.findall(r'Q\d+', match[side]) or [document.title_entity]
        }
        names = {relation for relation, _, _ in stated}
        is_other = any(p.fullmatch(sentence) for p in OTHER_PATTERNS)
        assert len(names) + is_other == 1, f'unclear: {sentence}'
        sides = ([key for _, side, key in stated if side == wanted] for wanted in 'so')
        yield from ((*names, s, o) for s, o in itertools.product(*sides))


def walk(facts, topic, chain):
    """Answers by brute force over facts read from the text; the topic is never visited again."""
    reached = {topic}
    for step in chain:
        name, inverse = step.removesuffix('^-1'), step.endswith('^-1')
        found = set()
        for relation, subject, object in facts:
            if relation == name:
                if subject in reached and (not inverse or RELATIONS[name].symmetric):
                    found.add(object)
                if object in reached and (inverse or RELATIONS[name].symmetric):
                    found.add(subject)
        reached = found - {topic}
    return reached
