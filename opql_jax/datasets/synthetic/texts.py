"""The words of the synthetic world, from this folder's TOML files, which explain their tables."""

import dataclasses

from opql_jax.datasets import load_toml

PAGE_KINDS = ('film', 'person', 'company', 'city', 'book')
KINDS = PAGE_KINDS + ('country', 'university')


@dataclasses.dataclass(frozen=True)
class Relation:
    """A relation of the world, between two kinds of entity."""

    name: str
    subject: str
    object: str
    source: str  # what a question type calls the subject, such as `film`
    target: str  # and the object, such as `director`
    sentences: list[str]  # templates of sentences that state a fact of the relation
    both: float = 0.3  # share of the facts stated on the pages of both sides
    object_only: float = 0.1  # share of the facts stated on the object's page alone
    symmetric: bool = False  # whether facts also hold with subject and object exchanged


NAMES, PAGES, QUESTIONS = (
    load_toml(f'synthetic/{name}.toml') for name in ('names', 'pages', 'questions')
)
RELATIONS = {name: Relation(name, **fields) for name, fields in PAGES['relations'].items()}
# From chains such as 'directed_by>directed_by^-1' to wordings.
WORDINGS, UNSEEN_WORDINGS = QUESTIONS['wordings'], QUESTIONS['unseen_wordings']
# From the steps of the two topics to wordings.
CONJUNCTIONS = {
    tuple(steps.split(' & ')): wordings for steps, wordings in QUESTIONS['conjunctions'].items()
}
