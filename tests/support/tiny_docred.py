"""Documents in the form of DocRED for tests, written as marked sentences."""

import json
import re

RELATIONS = {
    'P19': 'place of birth', 'P17': 'country', 'P36': 'capital', 'P26': 'spouse', 'P57': 'director',
}  # fmt: skip


def document(title, *sentences, labels=()):
    """A document of sentences such as '<0 PER Ann Low> lives in <1 LOC Rome> .', with numbers of
    clusters; `labels` are triples (head, relation, tail).
    """
    sents, clusters = [], {}
    for number, sentence in enumerate(sentences):
        tokens, start = [], None
        for piece in re.sub(r'<(\d+) ([A-Z]+) ', r'<\1|\2 ', sentence).replace('>', ' >').split():
            if piece[0] == '<':
                start, (cluster, kind) = len(tokens), piece[1:].split('|')
            elif piece == '>':
                place = {'sent_id': number, 'pos': [start, len(tokens)], 'type': kind}
                mention = {**place, 'name': ' '.join(tokens[start:])}
                clusters.setdefault(int(cluster), []).append(mention)
            else:
                tokens.append(piece)
        sents.append(tokens)
    vertices = [clusters.get(i, []) for i in range(max(clusters, default=-1) + 1)]
    labels = [{'h': h, 'r': r, 't': t, 'evidence': []} for h, r, t in labels]
    return {'title': title, 'sents': sents, 'vertexSet': vertices, 'labels': labels}


def world(people=60, first=0):
    """Documents whose facts make chains across documents, for every share of relations that may be
    held out; of directors of films nothing else is said.
    """
    for i in range(first, first + people):
        town, country = i % 12, i % 12 % 4
        yield document(
            f'Person {i}',
            f'<0 PER Given{i} Family{i}> was born on a farm near <1 LOC Town{town}> .',
            f'<0 PER Given{i} Family{i}> married <2 PER Other{i} Family{i}> , who wrote songs .',
            f'<3 MISC Film{i}> was directed by <4 PER Maker{i} Stone> .',
            labels=[(0, 'P19', 1), (0, 'P26', 2), (2, 'P26', 0), (3, 'P57', 4)],
        )
        yield document(
            f'Place {i}',
            f'The river of <0 LOC Town{town}> is long in <1 LOC Country{country}> ( see map ) .',
            f'From <2 LOC Capital{country}> a president governs <1 LOC Country{country}> .',
            labels=[(0, 'P17', 1), (1, 'P36', 2), (2, 'P17', 1)],
        )


def write(folder, documents):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'documents.json').write_text(json.dumps(list(documents)), encoding='utf-8')
    (folder / 'rel_info.json').write_text(json.dumps(RELATIONS), encoding='utf-8')
    return folder / 'documents.json'
