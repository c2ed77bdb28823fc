"""What a wording unlike those of training costs: MetaQA's dev questions, each beside a paraphrase of it.

python -m opql_jax.recipes run metaqa/opql-wordings
python benchmarks/paraphrases.py --kb runs/metaqa --row opql-wordings --json

The 300 wordings of `metaqa_paraphrases.tsv` were written by hand, by somebody who had seen none of MetaQA's questions: a type of question and
what asks for it, where [X] stands for the topic. The questions of a type take its wordings in turn. Those of ratings and votes, for which there is
none, are left out.
"""

import collections
import itertools
import pathlib
from collections.abc import Mapping, Sequence

from command_line import make_parser, show

from opql_jax.corpus.questions import Question
from opql_jax.corpus.wordings import TOPIC, Wording, read_wordings, reworded
from opql_jax.kb.virtual_kb import VirtualKB

WORDINGS = pathlib.Path(__file__).with_name('metaqa_paraphrases.tsv')


def main() -> None:
    """Prints a line for each number of hops, and one for each wording with --wordings."""
    parser = make_parser(__doc__)
    parser.add_argument('--kb', type=pathlib.Path, default='runs/metaqa', help='the folder of the recipe')
    parser.add_argument('--row', default='opql-wordings', help='whose follower answers')
    parser.add_argument('--memory', default='memory', help='its memory')
    parser.add_argument('--text', default='text', help='the prepared text of the follower and of the memory')
    parser.add_argument('--wordings', action='store_true', help='print also what each wording costs, the worst first')
    options = parser.parse_args()
    kb = VirtualKB.open(options.kb, text=options.text, model=f'follow-{options.row}', memory=options.memory)
    wordings = read_wordings(WORDINGS)
    for hops in (1, 2, 3):
        questions = [q for q in kb.prepared.questions(f'{hops}-hop/dev') if q.type in wordings]
        chosen = choose(questions, wordings)
        paraphrased = [reworded(q, wording) for q, wording in zip(questions, chosen)]
        plain, other = (_are_right(kb, of) for of in (questions, paraphrased))
        if options.wordings:
            for line in _by_wording(questions, chosen, plain, other):
                show(line, options.json)
        show({'hops': hops, **_shares(plain, other)}, options.json)


def choose(questions: Sequence[Question], wordings: Mapping[str, Sequence[Wording]]) -> list[Wording]:
    """A wording for each question: those of its type in turn."""
    turns = {kind: itertools.cycle(of_kind) for kind, of_kind in wordings.items()}
    return [next(turns[question.type]) for question in questions]


def _are_right(kb: VirtualKB, questions: Sequence[Question], together: int = 256) -> list[bool]:
    """Whether the best answer to each question is right."""
    right = []
    for at in range(0, len(questions), together):
        some = questions[at : at + together]
        right += [bool(set(found.entities[:1]) & set(q.answers)) for q, found in zip(some, kb.answer(some))]
    return right


def _shares(plain: Sequence[bool], other: Sequence[bool]) -> dict:
    shares = {'hits@1': plain, 'paraphrased': other}
    return {'questions': len(plain), **{name: sum(right) / len(plain) for name, right in shares.items()}}


def _by_wording(questions: Sequence[Question], chosen: Sequence[Wording], *right: Sequence[bool]) -> list[dict]:
    rows = collections.defaultdict(list)
    for question, wording, *results in zip(questions, chosen, *right):
        rows[question.type, wording].append(results)
    lines = [
        {'type': kind, 'wording': TOPIC.join(wording), **_shares(*zip(*results))} for (kind, wording), results in rows.items()
    ]
    return sorted(lines, key=lambda line: line['paraphrased'] - line['hits@1'])


if __name__ == '__main__':
    main()
