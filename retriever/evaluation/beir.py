"""BEIR folders: corpus.jsonl, queries.jsonl and qrels/*.tsv (Thakur et al., "BEIR", NeurIPS Datasets 2021).

Documents become files of one section each, so what is right or wrong is a file.
"""

import json
from pathlib import Path

from retriever.errors import UsageError
from retriever.evaluation.mistakes import Mistakes, id_in, json_object, lines_of, read_lines, text_in
from retriever.evaluation.questions import Gold, Question, QuestionSet
from retriever.evaluation.trec import whole_number

QRELS_OF_CHOICE = "test.tsv"
"""Of several files of judgements, this one."""

_FILES_IN_A_FOLDER = 1000


def is_beir(path: Path) -> bool:
    """Whether the folder is one."""
    return (path / "corpus.jsonl").is_file() and (path / "queries.jsonl").is_file() and (path / "qrels").is_dir()


def write_documents(folder: Path, target: Path) -> dict[str, str]:
    """Writes every document of the corpus as a Markdown file of one section.

    Args:
        folder: the BEIR folder.
        target: an empty folder.

    Returns:
        Document ids to files, relative to `target`; an id may hold signs that no file name can.

    Raises:
        UsageError: with every malformed line.
    """
    mistakes = Mistakes()
    files: dict[str, str] = {}
    for number, (place, (key, page)) in enumerate(read_lines(folder / "corpus.jsonl", _document, mistakes)):
        if key in files:
            mistakes.note(place, f"the id {key!r} stands in an earlier line too")
        files[key] = f"{number // _FILES_IN_A_FOLDER:04}/{number:07}.md"
        path = target / files[key]
        path.parent.mkdir(exist_ok=True)
        path.write_text(page, encoding="utf-8", newline="\n")
    mistakes.raise_any()
    return files


def _document(line: str) -> tuple[str, str]:
    """A document's id and its page: the title as the only heading, then the text in one line.

    In one line no mark of the text can begin a heading, but for its first sign, which a backslash disarms. A title is
    written as front matter holds it: a JSON string is a YAML one.
    """
    item = json_object(line)
    title, text = (" ".join(str(item.get(key) or "").split()) for key in ("title", "text"))
    if not title and not text:
        raise ValueError("title and text are both empty")
    head = f"---\ntitle: {json.dumps(title, ensure_ascii=False)}\n---\n\n" if title else ""
    mark = "\\" if text[:1] in "#>-+*=`~|<[" else ""
    return id_in(item, "_id"), f"{head}{mark}{text}\n"


def read_questions(folder: Path, files: dict[str, str]) -> QuestionSet:
    """The queries that have judgements.

    Args:
        folder: the BEIR folder.
        files: document ids to files, from `write_documents`.

    Raises:
        UsageError: with every malformed line, and every judgement of a document or query that is not there.
    """
    mistakes = Mistakes()
    texts = {key: text for _, (key, text) in read_lines(folder / "queries.jsonl", _query, mistakes)}
    gold: dict[str, list[Gold]] = {}
    path = _qrels(folder)
    for place, line in list(lines_of(path))[1:]:  # the first line is the header
        try:
            query, document, gain = _judgement(line)
        except ValueError as error:
            mistakes.note(place, str(error))
            continue
        if query not in texts or document not in files:
            mistakes.note(place, "judges a query or a document that is not there")
        elif gain > 0:
            gold.setdefault(query, []).append(Gold(files[document], gain=gain))
    mistakes.raise_any()
    questions = tuple(Question(key, texts[key], gold=tuple(golds)) for key, golds in gold.items())
    if not questions:
        raise UsageError(f"{path}: holds no judgement above 0")
    return QuestionSet(folder.name, questions, has_lines=False)


def _query(line: str) -> tuple[str, str]:
    item = json_object(line)
    return id_in(item, "_id"), text_in(item, "text")


def _judgement(line: str) -> tuple[str, str, int]:
    parts = line.split("\t")
    if len(parts) != 3:
        raise ValueError(f"not `query-id<tab>corpus-id<tab>score` but {len(parts)} columns")
    return parts[0], parts[1], whole_number(parts[2])


def _qrels(folder: Path) -> Path:
    files = sorted((folder / "qrels").glob("*.tsv"))
    if not files:
        raise UsageError(f"{folder / 'qrels'}: holds no .tsv file")
    return next((path for path in files if path.name == QRELS_OF_CHOICE), files[0])
