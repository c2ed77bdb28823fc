"""Answers questions in the terminal: per hop the entities, their weights, and the sentences they were read from."""

from opql_jax.kb.answers import format_answer
from opql_jax.kb.virtual_kb import VirtualKB


def ask(
    *,
    kb: str,
    text: str | None = None,
    model: str | None = None,
    memory: str | None = None,
    questions: tuple[str, ...],
    hops: int = 1,
    k: int | None = None,
    top: int = 5,
    dry_run: bool = False,
) -> None:
    """Prints the answers to questions.

    Args:
        kb, text, model, memory, k: see `VirtualKB.open`.
        questions: each with its topic in square brackets.
        hops: relations to follow from the topic to the answer.
        top: entities shown per hop.
        dry_run: opens everything and answers nothing.
    """
    opened = VirtualKB.open(kb, text=text, model=model, memory=memory, k=k)
    print(f'# {0 if opened.memory is None else len(opened.memory):,} entries over {len(opened.vocab):,} entities')
    if dry_run:
        return
    for asked in questions:
        question = opened.question(asked, hops)
        (answer,) = opened.answer([question])
        print(f'\n{asked}\n{format_answer(opened, question, answer, top)}')
