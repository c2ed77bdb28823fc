"""Answers questions in the terminal: per hop the entities, their weights, and the sentences they were read from."""

from opql_jax.kb.answers import format_answer
from opql_jax.kb.virtual_kb import VirtualKB


def ask(
    *,
    prepared_dir: str,
    model_dir: str,
    memory_dir: str = '',
    questions: tuple[str, ...],
    hops: int = 1,
    k: int | None = None,
    top: int = 5,
    dry_run: bool = False,
) -> None:
    """Prints the answers to questions.

    Args:
        prepared_dir, model_dir, memory_dir, k: see `VirtualKB.open`.
        questions: each with its topic in square brackets.
        hops: relations to follow from the topic to the answer.
        top: entities shown per hop.
        dry_run: opens everything and answers nothing.
    """
    kb = VirtualKB.open(prepared_dir, model_dir, memory_dir, k=k)
    print(f'# {0 if kb.memory is None else len(kb.memory):,} entries over {len(kb.vocab):,} entities')
    if dry_run:
        return
    for text in questions:
        question = kb.question(text, hops)
        (answer,) = kb.answer([question])
        print(f'\n{text}\n{format_answer(kb, question, answer, top)}')
