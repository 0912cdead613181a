"""References that would like to lead outside the documents, at every door: nothing from outside comes."""

import os
import socket
from pathlib import Path
from urllib.parse import quote

import pytest

from retriever.api import forget_documents, open_retriever
from retriever.errors import RetrieverError
from tests.program import Cli
from tests.real.served import faces_of
from tests.shelf import WORDS_ALONE
from tests.tables import read_table

SECRET = "SECRET-OF-ANOTHER-FOLDER"
PAYLOADS = read_table("paths", "What would like to lead outside")
PAYLOADS += ["x" * 5000, "a/" * 2500, "/" * 5000, "x" * 4000, "page.md" + "/.." * 1000]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of documents full of ways out, its index, and a secret beside them."""
    place = tmp_path_factory.mktemp("paths")
    docs = place / "docs"
    (docs / "sub").mkdir(parents=True)
    (docs / "page.md").write_text("# Page\n\nA walrus. [up](../secret.md) [abs](/etc/passwd)\n\n![[../secret]]\n")
    (docs / "sub" / "deep.md").write_text("# Deep\n\nA manifest_hash.\n")
    (place / "secret.md").write_text(f"# Top\n\n{SECRET}\n")
    targets: dict[str, str | Path] = {
        "link.md": place / "secret.md", "linked": place, "loop.md": "loop.md", "looped": "looped",
        "chain.md": "chain-2.md", "chain-2.md": "chain-3.md", "chain-3.md": "../secret.md",
        "device.md": "/dev/zero", "environ.md": "/proc/self/environ",
    }  # fmt: skip
    for name, target in targets.items():
        (docs / name).symlink_to(target)
    os.mkfifo(docs / "pipe.md")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(docs / "socket.md"))
    with open_retriever([docs], place / "index", settings=WORDS_ALONE) as retriever:
        assert retriever.status().index.documents == 2
    return place


def test_no_file_of_the_index_holds_what_is_outside(place: Path) -> None:
    for path in (place / "index").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


def check(said: object) -> None:
    assert not [word for word in (SECRET, "root:", "PATH=", "SQLite format", "bug") if word in str(said)]


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_nothing_from_outside_comes(place: Path, payload: str, cli: Cli) -> None:
    reference = payload.replace("{place}", str(place))
    for command in ("read", "tree", "forget") if "\0" not in reference else ():  # no command line can hold one
        check(cli(command, "--index", place / "index", "--", reference, code=range(3)))
    with open_retriever(index=place / "index") as retriever:
        assert retriever.status().index.documents == 2


def test_nor_over_mcp_nor_over_http(place: Path) -> None:
    with faces_of(place / "index") as faces:
        for payload in PAYLOADS:
            named = payload.replace("{place}", str(place))
            for tool in ("read", "outline", "related"):
                check(faces.tell(tool, place=named))
            reference = named.encode("utf-8", "surrogateescape" if "\udcff" in payload else "replace")
            for address in ("/api/node?reference", "/read?node"):
                answer = faces.web.get(f"{address}={quote(reference, safe='')}")
                assert answer.status_code in {200, 400, 404, 414, 422}, (payload, answer.status_code)
                check(answer.text)


def test_a_file_that_was_forgotten_is_a_document_of_the_index(place: Path) -> None:
    for reference in ("../secret.md", str(place / "secret.md"), "/", "link.md"):
        with pytest.raises(RetrieverError):
            forget_documents([reference], place / "index")
    assert (place / "secret.md").exists()
