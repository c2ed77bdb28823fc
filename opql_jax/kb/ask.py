"""One question, answered in the terminal: per hop the entities, their weights, and the sentences they came from."""

from opql_jax.kb.virtual_kb import Hop, VirtualKB


def ask(
    *,
    prepared_dir: str,
    model_dir: str,
    memory_dir: str,
    questions: tuple[str, ...],
    hops: int,
    k: int | None = None,
    exclude_topic: bool | None = None,
    filter: bool | None = None,
    top: int = 5,
    dry_run: bool = False,
) -> None:
    """Prints the answers to `questions`, each with its topic in square brackets, over `hops` hops.

    Args:
        prepared_dir, model_dir, memory_dir, k, exclude_topic, filter: see `VirtualKB.open`.
        top: entities shown per hop.
        dry_run: open everything, answer nothing.
    """
    kb = VirtualKB.open(prepared_dir, model_dir, memory_dir, k=k, exclude_topic=exclude_topic, filter=filter)
    print(f'# {len(kb.memory):,} entries over {len(kb.vocab):,} entities')
    if dry_run:
        return
    for question in questions:
        print(f'\n{question}')
        print(format_hops(kb, kb.ask(question, hops), top))


def format_hops(kb: VirtualKB, steps: list[Hop], top: int = 5) -> str:
    """The hops of one question as text; the last one is the answer."""
    lines = []
    for number, hop in enumerate(steps, 1):
        last = number == len(steps)
        lines.append(f'  hop {number}{" (answer)" if last else ""}')
        if not len(hop.entities):
            lines.append('    nothing: no entry of the memory has these topics')
        shown = hop.entities[:top]
        for entity, weight in zip(shown, hop.weights):
            lines.append(f'    {weight:6.3f}  {kb.vocab.names[int(entity)]}')
            # The heaviest entry that led here.
            leading = hop.entries[kb.memory.target[kb.memory.rows(hop.entries)] == entity][:1]
            for fact in kb.evidence(leading):
                lines.append(f'            [{fact["topic"]} → {fact["target"]}, in “{fact["title"]}”]  {fact["sentence"]}')
        if len(hop.entities) > top:
            lines.append(f'    … and {len(hop.entities) - top} more of weight {hop.weights[top:].sum():.3f} in all')
    return '\n'.join(lines)
