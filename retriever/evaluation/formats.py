"""Files of questions, judgements, runs and expansions, in our JSONL and in the formats of BEIR, TREC and qmd.

Every reader reports all that is wrong with a file at once, each mistake with its line.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar

from pageindex.files import read_file
from pageindex.node import Span
from retriever.errors import UsageError
from retriever.evaluation.questions import NO_KIND, Gold, Question, QuestionSet
from retriever.query import Expansion

MAX_BYTES = 1_000_000_000  # ten times the largest public collections of questions
MAX_NAMED = 20  # mistakes that are named one by one
BEIR_QRELS = "test.tsv"  # of several files of judgements, this one
FILES_IN_A_FOLDER = 1000

Value = TypeVar("Value")
Amount = TypeVar("Amount", int, float)  # a gain, or a score


@dataclass(slots=True)
class Mistakes:
    """Collected while a file is read; the end of the block names them all, as UsageError."""

    found: list[str] = field(default_factory=list)  # `file:line: what is wrong`, or `file: ...`

    def note(self, place: str, what: str) -> None:
        self.found.append(f"{place}: {what}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.found and kind is None:
            more = [f"and {len(self.found) - MAX_NAMED:,} mistakes more"] if len(self.found) > MAX_NAMED else []
            raise UsageError("\n".join([*self.found[:MAX_NAMED], *more]))


# What every format needs: text, lines, JSON objects and their values.


def read_text(path: Path) -> str:
    """A file in UTF-8, without a byte order mark. Raises UsageError when it cannot be read, or is not UTF-8."""
    try:
        return read_file(path, MAX_BYTES, follow_link=True).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 (byte {error.start})") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def split_lines(text: str, name: str) -> Iterator[tuple[str, str]]:
    """(`name:line`, text) of each line that is not blank."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"{name}:{number}", line.rstrip("\r")


def read_lines(path: Path, parse: Callable[[str], Value], mistakes: Mistakes) -> Iterator[tuple[str, Value]]:
    """(`file:line`, value) of each line that is not blank; what `parse` raises as ValueError is noted."""
    return parse_items(split_lines(read_text(path), str(path)), parse, mistakes)


def parse_items(
    items: Iterable[tuple[str, Any]], parse: Callable[[Any], Value], mistakes: Mistakes
) -> Iterator[tuple[str, Value]]:
    """(place, value) of each (place, item); what `parse` raises as ValueError is noted."""
    for place, item in items:
        try:
            value = parse(item)
        except ValueError as error:
            mistakes.note(place, str(error))
        else:
            yield place, value


def map_ids(items: Iterable[tuple[str, tuple[Any, Value]]], mistakes: Mistakes) -> dict[Any, Value]:
    """The values of (place, (id, value)) by id; an id that stands twice is noted."""
    values: dict[Any, Value] = {}
    places: dict[Any, str] = {}
    for place, (key, value) in items:
        if key in values:
            mistakes.note(place, f"the id {key!r} stands in line {places[key].rpartition(':')[2]} already")
        else:
            values[key], places[key] = value, place
    return values


def json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def text_in(item: dict[str, Any], key: str, default: str | None = None) -> str:
    """A text that is not blank; where the key is missing, the default, if there is one. Else ValueError."""
    if default is not None and key not in item:
        return default
    value = item.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key} must be a text that is not empty")
    return value


def id_in(item: dict[str, Any], key: str = "id") -> str:
    """An id; whole numbers become texts. Raises ValueError when it is neither a text nor a whole number."""
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise ValueError(f"{key} must be a text or a whole number")
    return str(value)


def texts_in(item: dict[str, Any], key: str) -> tuple[str, ...]:
    """A list of texts, none blank; empty when the key is missing. Raises ValueError when it is something else."""
    value = item.get(key, [])
    if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
        raise ValueError(f"{key} must be a list of texts that are not empty")
    return tuple(value)


def split_columns(line: str, columns: str, separator: str | None = None) -> list[str]:
    """The columns of a line, as many as `columns` names. Raises ValueError when it has more, or fewer."""
    parts = line.split(separator)
    if len(parts) != len(columns.split()):
        named = columns.replace(" ", "<tab>") if separator else columns
        raise ValueError(f"not `{named}` but {len(parts)} columns")
    return parts


def read_gain(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"not a whole number: {text.strip()!r}") from None


# Our own files: one JSON object a line.


def read_questions(path: Path) -> QuestionSet:
    """Lines of `{"id", "question", "kind", "gold": [{"file", "start_line", "end_line"}], "exclude": [...]}`.

    `kind` and `exclude` may be missing; an empty `gold` is a question without an answer; lines are 1-based, inclusive.
    """

    def parse_gold(item: dict[str, Any], key: str) -> Iterator[Gold]:
        listed = item.get(key, [])
        if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
            raise ValueError(f'{key} must be a list of {{"file", "start_line", "end_line"}}')
        for entry in listed:
            first, last = entry.get("start_line"), entry.get("end_line")
            if not all(isinstance(line, int) and not isinstance(line, bool) for line in (first, last)):
                raise ValueError("start_line and end_line must be whole numbers")
            yield Gold(text_in(entry, "file"), Span(entry["start_line"], entry["end_line"]))

    def parse(line: str) -> tuple[str, Question]:
        item = json_object(line)
        if "gold" not in item:
            raise ValueError("gold is missing; [] stands for a question that the documents do not answer")
        question = Question(
            id=id_in(item),
            text=text_in(item, "question"),
            kind=text_in(item, "kind", NO_KIND),
            gold=tuple(parse_gold(item, "gold")),
            excluded=tuple(parse_gold(item, "exclude")),
        )
        return question.id, question

    with Mistakes() as mistakes:
        questions = map_ids(read_lines(path, parse, mistakes), mistakes)
        if not questions and not mistakes.found:
            mistakes.note(str(path), 'holds no question; a line is {"id": "1", "question": "...", "gold": [...]}')
    return QuestionSet(path.stem, tuple(questions.values()), has_lines=True)


def read_expansions(path: Path) -> dict[str, Expansion]:
    """Lines of `{"id", "queries", "hyde", "hyde_answer", "intent", "entities"}`, all but the id optional."""

    def parse(line: str) -> tuple[str, Expansion]:
        item = json_object(line)
        expansion = Expansion(
            rewordings=texts_in(item, "queries"),
            passages=texts_in(item, "hyde"),
            answer=text_in(item, "hyde_answer", ""),
            intent=text_in(item, "intent", ""),
            entities=texts_in(item, "entities"),
        )
        return id_in(item), expansion

    with Mistakes() as mistakes:
        return map_ids(read_lines(path, parse, mistakes), mistakes)


def check_expansions(expansions: dict[str, Expansion], questions: QuestionSet, path: Path) -> None:
    """Refuses expansions of some questions only: a mean over both kinds of question says nothing."""
    missing = [question.id for question in questions.questions if question.id not in expansions]
    if missing:
        raise UsageError(f"{path}: holds no expansion of {len(missing):,} questions: {', '.join(missing[:5])} ...")


# TREC files: judgements (`query 0 document gain`) and runs (`query Q0 document rank score tag`).


def is_trec(path: Path, columns: int) -> bool:
    """Whether the first line is no JSON and has this number of columns: 4 in judgements, 6 in a run."""
    _, first = next(split_lines(read_text(path), ""), ("", ""))
    return not first.lstrip().startswith("{") and len(first.split()) == columns


def read_by_query(
    path: Path, parse: Callable[[str], tuple[str, str, Amount]], verb: str
) -> dict[str, dict[str, Amount]]:
    """What each line says of a document, by query and document; raises for a document that comes twice."""
    with Mistakes() as mistakes:
        amounts: dict[str, dict[str, Amount]] = {}
        for place, (query, document, amount) in read_lines(path, parse, mistakes):
            if document in amounts.setdefault(query, {}):
                mistakes.note(place, f"{verb} {document!r} for {query!r} a second time")
            amounts[query][document] = amount
    return amounts


def read_trec_judgements(path: Path) -> QuestionSet:
    """The judged questions, their ids as their texts: judgements alone do not say what was asked."""

    def parse(line: str) -> tuple[str, str, int]:
        query, _, document, gain = split_columns(line, "query 0 document gain")
        return query, document, read_gain(gain)

    gold = read_by_query(path, parse, "judges")
    questions = tuple(
        Question(query, query, gold=tuple(Gold(name, gain=gain) for name, gain in judged.items() if gain > 0))
        for query, judged in gold.items()
    )
    return QuestionSet(path.stem, questions, has_lines=False)


def read_trec_run(path: Path) -> dict[str, list[str]]:
    """The documents of each question, best first: by falling score, ties in the order of the file."""

    def parse(line: str) -> tuple[str, str, float]:
        query, _, document, _, text, _ = split_columns(line, "query Q0 document rank score tag")
        try:
            score = float(text)
        except ValueError:
            raise ValueError(f"the score is no number: {text!r}") from None
        if score != score:
            raise ValueError("the score is not a number")
        return query, document, score

    scores = read_by_query(path, parse, "ranks")
    return {query: sorted(found, key=lambda name: -found[name]) for query, found in scores.items()}


# BEIR folders: corpus.jsonl, queries.jsonl and qrels/*.tsv (Thakur et al., "BEIR", NeurIPS Datasets 2021).
# Documents become files of one section each, so what is right or wrong is a file.


def write_beir_documents(folder: Path, target: Path) -> dict[str, str]:
    """Writes every document of a BEIR folder as a file of one section; returns document ids to files."""

    def parse(line: str) -> tuple[str, str]:
        item = json_object(line)
        title, text = (" ".join(str(item.get(key) or "").split()) for key in ("title", "text"))
        if not title and not text:
            raise ValueError("title and text are both empty")
        # The title is the only heading: a JSON string is a YAML one. In one line no mark of the text can begin a
        # heading, but for its first sign, which a backslash disarms.
        head = f"---\ntitle: {json.dumps(title, ensure_ascii=False)}\n---\n\n" if title else ""
        mark = "\\" if text[:1] in "#>-+*=`~|<[" else ""
        return id_in(item, "_id"), f"{head}{mark}{text}\n"

    with Mistakes() as mistakes:
        files: dict[str, str] = {}
        pages = map_ids(read_lines(folder / "corpus.jsonl", parse, mistakes), mistakes)
        for number, (key, page) in enumerate(pages.items()):
            files[key] = f"{number // FILES_IN_A_FOLDER:04}/{number:07}.md"
            path = target / files[key]
            path.parent.mkdir(exist_ok=True)
            path.write_text(page, encoding="utf-8", newline="\n")
    return files


def read_beir_questions(folder: Path, files: dict[str, str]) -> QuestionSet:
    """The queries of a BEIR folder that have judgements; `files` as `write_beir_documents` gives them."""

    def parse_query(line: str) -> tuple[str, str]:
        item = json_object(line)
        return id_in(item, "_id"), text_in(item, "text")

    def parse_judgement(line: str) -> tuple[str, str, int]:
        query, document, gain = split_columns(line, "query-id corpus-id score", "\t")
        return query, document, read_gain(gain)

    with Mistakes() as mistakes:
        texts = map_ids(read_lines(folder / "queries.jsonl", parse_query, mistakes), mistakes)
        tables = sorted((folder / "qrels").glob("*.tsv"))
        if not tables:
            raise UsageError(f"{folder / 'qrels'}: holds no .tsv file")
        path = next((table for table in tables if table.name == BEIR_QRELS), tables[0])
        gold: dict[str, list[Gold]] = {}
        lines = list(split_lines(read_text(path), str(path)))[1:]  # the first one is the header
        for place, (query, document, gain) in parse_items(lines, parse_judgement, mistakes):
            if query not in texts or document not in files:
                mistakes.note(place, "judges a query or a document that is not there")
            elif gain > 0:
                gold.setdefault(query, []).append(Gold(files[document], gain=gain))
    questions = tuple(Question(key, texts[key], gold=tuple(golds)) for key, golds in gold.items())
    if not questions:
        raise UsageError(f"{path}: holds no judgement above 0")
    return QuestionSet(folder.name, questions, has_lines=False)


# Fixtures of qmd's bench: one JSON object with `queries`, each with the files that should be found.


def is_qmd_fixture(text: str) -> bool:
    try:
        return isinstance(json_object(text).get("queries"), list)
    except ValueError:
        return False


def read_qmd_questions(path: Path) -> QuestionSet:
    """The queries; `type` is the kind, and `expected_in_top_k` is not read: every measure has its own k."""

    def parse(item: Any) -> tuple[str, Question]:  # noqa: ANN401 - what JSON holds
        if not isinstance(item, dict):
            raise ValueError("not an object")
        if "expected_files" not in item:
            raise ValueError("expected_files is missing")
        names = dict.fromkeys(texts_in(item, "expected_files"))
        files = []
        for name in names:  # qmd://collection/docs/a.md is docs/a.md
            inside = name.removeprefix("qmd://").partition("/")[2] if name.startswith("qmd://") else name
            files.append(Gold(inside.strip("/")))
        question = Question(id_in(item), text_in(item, "query"), text_in(item, "type", NO_KIND), tuple(files))
        return question.id, question

    with Mistakes() as mistakes:
        items = enumerate(json_object(read_text(path))["queries"], start=1)
        places = ((f"{path}: query {number}", item) for number, item in items)
        questions = map_ids(parse_items(places, parse, mistakes), mistakes)
    return QuestionSet(path.stem, tuple(questions.values()), has_lines=False)


@dataclass(frozen=True, slots=True)
class Source:
    questions: QuestionSet
    documents: Path | None = None  # a folder that came with them, there as long as the source is open
    can_be_asked: bool = True  # false for judgements without the questions' texts


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    if path.is_dir():
        if not all((path / name).exists() for name in ("corpus.jsonl", "queries.jsonl", "qrels")):
            raise UsageError(f"{path}: a folder of questions holds corpus.jsonl, queries.jsonl and qrels/ (BEIR)")
        with TemporaryDirectory(prefix="hybrid-retrieve-beir-") as folder:
            documents = Path(folder) / path.resolve().name
            documents.mkdir()
            files = write_beir_documents(path, documents)
            yield Source(read_beir_questions(path, files), documents)
    elif is_qmd_fixture(read_text(path)):
        yield Source(read_qmd_questions(path))
    elif is_trec(path, columns=4):
        yield Source(read_trec_judgements(path), can_be_asked=False)
    else:
        yield Source(read_questions(path))
