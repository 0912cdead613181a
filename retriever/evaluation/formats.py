"""Which format a file of questions has, and its questions; the documents of a BEIR folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from retriever.errors import UsageError
from retriever.evaluation import beir, jsonl, qmd, trec
from retriever.evaluation.mistakes import read_text
from retriever.evaluation.questions import QuestionSet


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
        if not beir.is_beir(path):
            raise UsageError(f"{path}: a folder of questions holds corpus.jsonl, queries.jsonl and qrels/ (BEIR)")
        with TemporaryDirectory(prefix="hybrid-retrieve-beir-") as folder:
            documents = Path(folder) / path.resolve().name
            documents.mkdir()
            files = beir.write_documents(path, documents)
            yield Source(beir.read_questions(path, files), documents)
    elif qmd.is_fixture(read_text(path)):
        yield Source(qmd.read_questions(path))
    elif trec.is_qrels(path):
        yield Source(trec.read_qrels(path), can_be_asked=False)
    else:
        yield Source(jsonl.read_questions(path))
