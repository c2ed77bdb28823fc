"""How many of the names that people marked in text are known for persons, organisations, places or things.

python benchmarks/mention_kinds.py --json
python benchmarks/mention_kinds.py --documents 60

The names are those mentions of Re-DocRED that are recognised with a kind and are no dates, numbers, groups or languages. `recognised` is
what the recogniser says of them; `mentions` what the vectors that the released encoder has of them say, of one part of the documents after another
as learnt from the others; `both` the two together, as `opql index` has them, but of each mention by itself. Accuracy is over all of these names, and over
those of each kind.
"""

import pathlib

import numpy as np
from command_line import make_parser, show

from opql_jax.corpus import recognition
from opql_jax.corpus.entities import UNKNOWN_KIND
from opql_jax.corpus.spans import VALUES
from opql_jax.models.mention_kinds import KINDS, THING, fit
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.training.fit_mention_kinds import mention_vectors, read_typed, typed_mentions

# Parts of the documents.
PARTS = 5
# Kinds that nothing is learnt of.
OTHERS = ('', 'group', 'language', UNKNOWN_KIND, *VALUES)


def main() -> None:
    """Prints a line for what tells the kinds."""
    parser = make_parser(__doc__)
    parser.add_argument('--data', type=pathlib.Path, default='../shared/data/redocred', help='documents.json')
    parser.add_argument('--documents', type=int, help='how many; all if not given')
    options = parser.parse_args()
    encoder = TextEncoder.load()
    vectors, marked, recognised, part = _read(encoder, read_typed(options.data / 'documents.json')[: options.documents])
    asked = ~np.isin(recognised, OTHERS)
    known = np.array([KINDS.index(kind if kind in KINDS else THING) for kind in recognised])
    mentions, both = np.zeros((2, len(marked)), int)
    for number in range(PARTS):
        others, here = part != number, part == number
        kinds = fit(vectors[others], [KINDS[kind] for kind in marked[others]])
        mentions[here] = kinds.log_probabilities(vectors[here]).argmax(axis=1)
        joined = kinds.of_entities(vectors[here], np.arange(here.sum()), [str(kind) for kind in recognised[here]])
        both[here] = [KINDS.index(kind if kind in KINDS else THING) for kind in joined]
    for name, found in (('recognised', known), ('mentions', mentions), ('both', both)):
        right = found == marked
        of_kinds = {kind: _share(right[asked & (marked == number)]) for number, kind in enumerate(KINDS)}
        show({'measure': name, 'names': int(asked.sum()), 'accuracy': _share(right[asked]), **of_kinds}, options.json)


def _read(encoder: TextEncoder, documents) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of all mentions [n] the vectors [n, hidden_size], marked kinds, numbers in KINDS, recognised ones, '' if none is, and parts."""
    vectors, marked, recognised, places = [], [], [], []
    place = {document.id: number for number, document in enumerate(documents)}
    for batch, kinds in typed_mentions(encoder, documents):
        vectors.append(mention_vectors(encoder, batch))
        marked += [KINDS.index(kind) for kind in kinds]
        for row, spans in zip(batch.to_pylist(), recognition.recognise_batch(batch)['spans'].to_pylist()):
            found = {(span['start'], span['end']): span['kind'] for span in spans}
            recognised += [found.get((mention['start'], mention['end']), '') for mention in row['mentions']]
            places += [place[row['doc_id']]] * len(row['mentions'])
    return np.concatenate(vectors), np.array(marked), np.array(recognised), np.array(places) % PARTS


def _share(right: np.ndarray) -> float | None:
    return round(float(right.mean()), 3) if len(right) else None


if __name__ == '__main__':
    main()
