"""WikiMovies (Miller et al., 2016): one-hop questions, and articles about MetaQA's films.

The text, `knowledge_source/wiki.txt`, has numbered lines and a blank line after each article; the
first line of an article is its title. Questions are lines `1 what does Grégoire Colin appear
in?<TAB>Before the Rain, Beau travail`. Answers are separated by commas, which names may contain
too; `knowledge_source/entities.txt` lists the names, one a line.
"""

import os

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import Document
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import read_lines
from opql_jax.corpus.linking import MentionLinker
from opql_jax.datasets.question_records import question_record


def documents(path: str | os.PathLike) -> list[Document]:
    """The articles of wiki.txt by numbers from 1, not linked; InputError names the line."""
    articles, lines = [], []
    for number, line in read_lines(path):
        if line.strip():
            lines.append(_numbered(path, number, line))
        elif lines:
            articles.append(lines)
            lines = []
    articles += [lines] if lines else []
    numbered = enumerate(articles, 1)
    read = [Document(str(n), title, ' '.join(text)) for n, (title, *text) in numbered if text]
    if not read:
        raise InputError(f'{path}: no article in the file')
    return read


def entity_vocab(path: str | os.PathLike) -> EntityVocab:
    """The entities of entities.txt; spellings that differ only by case are one, as in MetaQA."""
    return EntityVocab.from_names(line.strip() for _, line in read_lines(path) if line.strip())


def questions(path: str | os.PathLike, vocab: EntityVocab) -> list[dict]:
    """A file's records, ids `{file name}/{line}`; topics are linked by name or skipped."""
    linker, records = MentionLinker(vocab), []
    for number, line in read_lines(path):
        if not line.strip():
            continue
        text, tab, answers = _numbered(path, number, line).partition('\t')
        if not (tab and answers.strip()):
            raise InputError(f'{path}:{number}: expected question<TAB>answers, found {line!r}')
        if mentions := linker.link(text):
            topics = [(start, end, vocab.keys[entity]) for start, end, entity in mentions]
            id = f'{os.path.basename(path)}/{number}'
            records.append(question_record(id, text, topics, _names(answers.strip(), vocab)))
    return records


def _names(listed: str, vocab: EntityVocab) -> list[str]:
    """Splits a list at commas into the longest names that are entities, and other parts."""
    parts, names, start = listed.split(', '), [], 0
    while start < len(parts):
        ends = range(len(parts), start, -1)
        is_name = lambda end: vocab.get(', '.join(parts[start:end])) is not None
        end = next(filter(is_name, ends), start + 1)
        names.append(', '.join(parts[start:end]))
        start = end
    return names


def _numbered(path, number, line) -> str:
    """A line without its number."""
    count, _, text = line.partition(' ')
    if not (count.isdigit() and text.strip()):
        raise InputError(f'{path}:{number}: expected a number, a space and text, found {line!r}')
    return text.strip()
