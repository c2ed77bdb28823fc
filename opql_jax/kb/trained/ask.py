"""Answers questions in the terminal: per hop the entities, their weights, and the sentences they were read from."""

from opql_jax.kb.open_kb import open_kb


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
        kb, text, model, memory, k: see `open_kb`.
        questions: each with its topic in square brackets.
        hops: relations to follow from the topic to the answer.
        top: entities shown per hop.
        dry_run: opens everything and answers nothing.
    """
    opened = open_kb(kb, text=text, model=model, memory=memory, k=k)
    print(f'# {0 if opened.memory is None else len(opened.memory):,} entries over {len(opened.vocab):,} entities')
    if dry_run:
        return
    for asked in questions:
        question = opened.question(asked, hops)
        (answer,) = opened.answer([question])
        print(f'\n{asked}\n{answer.to_text(top)}')
