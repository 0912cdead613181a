"""Which format a file of questions has, and its questions; the documents of a BEIR folder."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from pageindex.files import read_file
from pageindex.node import Span
from retriever.errors import UsageError
from retriever.evaluation.questions import NO_KIND, Gold, Question, QuestionSet
from retriever.query import Expansion

# The lines of an input, and all that is wrong with them, reported at once.

MAX_BYTES = 1_000_000_000
"""Of a file of questions, judgements or expansions; the largest public collections of questions have a tenth."""
MAX_NAMED = 20
"""How many mistakes are named one by one."""

Value = TypeVar("Value")


@dataclass(slots=True)
class Mistakes:
    """Collected while a file is read; `raise_any` ends with all of them."""

    found: list[str] = field(default_factory=list)

    def note(self, place: str, what: str) -> None:
        """One mistake; `place` is `file:line` or `file`."""
        self.found.append(f"{place}: {what}")

    def raise_any(self) -> None:
        """Says all of them.

        Raises:
            UsageError: when there are some.
        """
        if self.found:
            more = [f"and {len(self.found) - MAX_NAMED:,} mistakes more"] if len(self.found) > MAX_NAMED else []
            raise UsageError("\n".join([*self.found[:MAX_NAMED], *more]))


def read_text(path: Path) -> str:
    """A file in UTF-8, without a byte order mark.

    Raises:
        UsageError: it cannot be read, or is not UTF-8.
    """
    try:
        return read_file(path, MAX_BYTES, follow_link=True).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 (byte {error.start})") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    """(`file:line`, text) of each line that is not blank."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", line.rstrip("\r")


def read_lines(path: Path, parse: Callable[[str], Value], mistakes: Mistakes) -> list[tuple[str, Value]]:
    """(`file:line`, value) of each line that is not blank; what `parse` raises as ValueError is noted."""
    values = []
    for place, line in lines_of(path):
        try:
            values.append((place, parse(line)))
        except ValueError as error:
            mistakes.note(place, str(error))
    return values


def json_object(text: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ValueError: it is none.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def text_in(item: dict[str, Any], key: str) -> str:
    """A text that is not blank.

    Raises:
        ValueError: the key holds none.
    """
    value = item.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key} must be a text that is not empty")
    return value


def id_in(item: dict[str, Any], key: str = "id") -> str:
    """An id; whole numbers become texts.

    Raises:
        ValueError: it is neither a text nor a whole number.
    """
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise ValueError(f"{key} must be a text or a whole number")
    return str(value)


def texts_in(item: dict[str, Any], key: str) -> tuple[str, ...]:
    """A list of texts, none blank; empty when the key is missing.

    Raises:
        ValueError: it is something else.
    """
    value = item.get(key, [])
    if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
        raise ValueError(f"{key} must be a list of texts that are not empty")
    return tuple(value)


# TREC files: judgements (`query 0 document gain`) and runs (`query Q0 document rank score tag`).


def is_qrels(path: Path) -> bool:
    """Whether the first line of the file has the four columns of judgements, the last one a whole number."""
    return _has_columns(path, 4)


def is_run(path: Path) -> bool:
    """Whether the first line of the file has the six columns of a run."""
    return _has_columns(path, 6)


def _has_columns(path: Path, count: int) -> bool:
    _, first = next(lines_of(path), ("", ""))
    return not first.lstrip().startswith("{") and len(first.split()) == count


def whole_number(text: str) -> int:
    """A gain.

    Raises:
        ValueError: it is no whole number.
    """
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"not a whole number: {text.strip()!r}") from None


def read_qrels(path: Path) -> QuestionSet:
    """The judged questions, their ids as their texts: judgements alone do not say what was asked.

    Raises:
        UsageError: with every malformed line.
    """
    mistakes = Mistakes()
    gold: dict[str, dict[str, int]] = {}
    for place, (query, document, gain) in read_lines(path, _judgement_trec, mistakes):
        if document in gold.setdefault(query, {}):
            mistakes.note(place, f"judges {document!r} for {query!r} a second time")
        gold[query][document] = gain
    mistakes.raise_any()
    questions = tuple(
        Question(query, query, gold=tuple(Gold(name, gain=gain) for name, gain in judged.items() if gain > 0))
        for query, judged in gold.items()
    )
    return QuestionSet(path.stem, questions, has_lines=False)


def _judgement_trec(line: str) -> tuple[str, str, int]:
    parts = line.split()
    if len(parts) != 4:
        raise ValueError(f"not `query 0 document gain` but {len(parts)} columns")
    return parts[0], parts[2], whole_number(parts[3])


def read_run(path: Path) -> dict[str, list[str]]:
    """The documents of each question, best first: by falling score, ties in the order of the file.

    Raises:
        UsageError: with every malformed line.
    """
    mistakes = Mistakes()
    scores: dict[str, dict[str, float]] = {}
    for place, (query, document, score) in read_lines(path, _scored, mistakes):
        if document in scores.setdefault(query, {}):
            mistakes.note(place, f"ranks {document!r} for {query!r} a second time")
        scores[query][document] = score
    mistakes.raise_any()
    return {query: sorted(found, key=lambda name: -found[name]) for query, found in scores.items()}


def _scored(line: str) -> tuple[str, str, float]:
    parts = line.split()
    if len(parts) != 6:
        raise ValueError(f"not `query Q0 document rank score tag` but {len(parts)} columns")
    try:
        score = float(parts[4])
    except ValueError:
        raise ValueError(f"the score is no number: {parts[4]!r}") from None
    if score != score:
        raise ValueError("the score is not a number")
    return parts[0], parts[2], score


# BEIR folders: corpus.jsonl, queries.jsonl and qrels/*.tsv (Thakur et al., "BEIR", NeurIPS Datasets 2021).
#
# Documents become files of one section each, so what is right or wrong is a file.

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


# Our own files: questions with gold lines, and recorded expansions; one JSON object a line.


def read_questions_jsonl(path: Path) -> QuestionSet:
    """Lines of `{"id", "question", "kind", "gold": [{"file", "start_line", "end_line"}], "exclude": [...]}`.

    `kind` and `exclude` may be missing; an empty `gold` is a question without an answer; lines are 1-based, inclusive.

    Raises:
        UsageError: with every malformed line.
    """
    mistakes = Mistakes()
    questions = read_lines(path, _question, mistakes)
    places: dict[str, str] = {}
    for place, question in questions:
        if places.setdefault(question.id, place) != place:
            mistakes.note(place, f"the id {question.id!r} stands in line {places[question.id].rpartition(':')[2]} too")
    if not questions and not mistakes.found:
        mistakes.note(str(path), 'holds no question; a line is {"id": "1", "question": "...", "gold": [...]}')
    mistakes.raise_any()
    return QuestionSet(path.stem, tuple(question for _, question in questions), has_lines=True)


def _question(line: str) -> Question:
    item = json_object(line)
    if "gold" not in item:
        raise ValueError("gold is missing; [] stands for a question that the documents do not answer")
    kind = text_in(item, "kind") if "kind" in item else NO_KIND
    return Question(
        id_in(item), text_in(item, "question"), kind, _lines(item, "gold"), _lines(item, "exclude", optional=True)
    )


def _lines(item: dict[str, Any], key: str, *, optional: bool = False) -> tuple[Gold, ...]:
    listed = item.get(key, []) if optional else item[key]
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise ValueError(f'{key} must be a list of {{"file", "start_line", "end_line"}}')
    return tuple(_gold(entry) for entry in listed)


def _gold(entry: dict[str, Any]) -> Gold:
    first, last = entry.get("start_line"), entry.get("end_line")
    if not all(isinstance(line, int) and not isinstance(line, bool) for line in (first, last)):
        raise ValueError("start_line and end_line must be whole numbers")
    return Gold(text_in(entry, "file"), Span(entry["start_line"], entry["end_line"]))


def read_expansions(path: Path) -> dict[str, Expansion]:
    """Lines of `{"id", "queries", "hyde", "hyde_answer", "intent", "entities"}`: what a model made of a question.

    All but the id may be missing.

    Raises:
        UsageError: with every malformed line.
    """
    mistakes = Mistakes()
    expansions: dict[str, Expansion] = {}
    for place, (key, expansion) in read_lines(path, _expansion, mistakes):
        if key in expansions:
            mistakes.note(place, f"the id {key!r} stands in an earlier line too")
        expansions[key] = expansion
    mistakes.raise_any()
    return expansions


def _expansion(line: str) -> tuple[str, Expansion]:
    item = json_object(line)
    expansion = Expansion(
        rewordings=texts_in(item, "queries"),
        passages=texts_in(item, "hyde"),
        answer=text_in(item, "hyde_answer") if "hyde_answer" in item else "",
        intent=text_in(item, "intent") if "intent" in item else "",
        entities=texts_in(item, "entities"),
    )
    return id_in(item), expansion


def check_expansions(expansions: dict[str, Expansion], questions: QuestionSet, path: Path) -> None:
    """Every question has its expansion: a mean over some that have one and some that have none says nothing.

    Raises:
        UsageError: with every question that has none.
    """
    missing = [question.id for question in questions.questions if question.id not in expansions]
    if missing:
        raise UsageError(f"{path}: holds no expansion of {len(missing):,} questions: {', '.join(missing[:5])} ...")


# Fixtures of qmd's bench: one JSON object with `queries`, each with the files that should be found.


def is_fixture(text: str) -> bool:
    """Whether a file of that content is one: an object with a list of `queries`."""
    try:
        return isinstance(json_object(text).get("queries"), list)
    except ValueError:
        return False


def read_questions_qmd(path: Path) -> QuestionSet:
    """The queries; `type` is the kind, and `expected_in_top_k` is not read: every measure has its own k.

    Raises:
        UsageError: with every malformed query.
    """
    mistakes = Mistakes()
    questions: dict[str, Question] = {}
    for number, item in enumerate(json_object(read_text(path))["queries"], start=1):
        try:
            question = _question_qmd(item)
        except ValueError as error:
            mistakes.note(f"{path}: query {number}", str(error))
            continue
        if question.id in questions:
            mistakes.note(f"{path}: query {number}", f"the id {question.id!r} stands before it too")
        questions[question.id] = question
    mistakes.raise_any()
    return QuestionSet(path.stem, tuple(questions.values()), has_lines=False)


def _question_qmd(item: Any) -> Question:  # noqa: ANN401 - what JSON holds
    if not isinstance(item, dict):
        raise ValueError("not an object")
    if "expected_files" not in item:
        raise ValueError("expected_files is missing")
    files = tuple(Gold(_relative(name)) for name in dict.fromkeys(texts_in(item, "expected_files")))
    kind = text_in(item, "type") if "type" in item else NO_KIND
    return Question(id_in(item), text_in(item, "query"), kind, files)


def _relative(name: str) -> str:
    """`qmd://collection/docs/a.md` -> `docs/a.md`."""
    if name.startswith("qmd://"):
        name = name.removeprefix("qmd://").partition("/")[2]
    return name.strip("/")


@dataclass(frozen=True, slots=True)
class Source:
    """Questions, and what they are to be asked of."""

    questions: QuestionSet
    documents: Path | None = None
    """A folder that came with them, there as long as the source is open."""
    can_be_asked: bool = True
    """False for judgements without the questions' texts."""


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """The questions of a file or folder of any format.

    Raises:
        UsageError: there is none, or with every malformed line.
    """
    if path.is_dir():
        if not is_beir(path):
            raise UsageError(f"{path}: a folder of questions holds corpus.jsonl, queries.jsonl and qrels/ (BEIR)")
        with TemporaryDirectory(prefix="hybrid-retrieve-beir-") as folder:
            documents = Path(folder) / path.resolve().name
            documents.mkdir()
            files = write_documents(path, documents)
            yield Source(read_questions(path, files), documents)
    elif is_fixture(read_text(path)):
        yield Source(read_questions_qmd(path))
    elif is_qrels(path):
        yield Source(read_qrels(path), can_be_asked=False)
    else:
        yield Source(read_questions_jsonl(path))
