"""Open questions of other formats, with the entities of a knowledge base."""

from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.question_conversion import convert


def convert_questions(
    *,
    kb: str,
    text: str = 'text',
    format: str,
    path: str,
    output: str,
    hops: int = 1,
    mid_to_qid: str | None = None,
    qid_labels: str | None = None,
    dry_run: bool = False,
) -> None:
    """Converts a question file to open questions, and tells how much the vocabulary covers.

    Args:
        kb, text: the knowledge base, and the part of it whose entities topics and answers are.
        format, path, output, hops, mid_to_qid, qid_labels: see `convert`.
    """
    vocab = Prepared(KBFolder(kb).part(text)).vocab
    if dry_run:
        print(f'# {path} ({format}) over {len(vocab):,} entities')
        return
    tables = {'mid_to_qid': mid_to_qid, 'qid_labels': qid_labels}
    print(
        convert(format=format, path=path, vocab=vocab, output=output, hops=hops, **tables).report()
    )
