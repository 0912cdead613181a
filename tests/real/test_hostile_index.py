"""An index that somebody else made names places of this machine: nothing there is opened, whatever face asks."""

import json
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from retriever.api import index_folders, open_retriever
from retriever.indexing.request import name_folders
from retriever.places import open_store
from tests.program import Cli
from tests.real.served import faces_of
from tests.shelf import WORDS_ALONE

INDEX = "index.sqlite"
SECRET = "xyzzy-private-key"
QUESTION = "otter holds hands"
ROWS = {
    "id_rsa": "id_rsa", "env.md": ".env", "deep.md": "notes/../../secret.md", "link.md": "out.md",
    "ending.md": "data.pem", "hidden.md": ".hidden/page.md", "ignored.md": "ignored.md",
}  # fmt: skip
"""Documents of the one who means harm, and the files of the victim that their rows name afterwards."""


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder that holds secrets, as files that no document may be."""
    folder = tmp_path / "home" / ".ssh"
    (folder / "notes").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    for name in ("id_rsa", ".env", "data.pem", "ignored.md", ".hidden/page.md", "../secret.md"):
        (folder / name).write_text(f"# Key\n\n{SECRET} otter holds hands\n", encoding="utf-8")
    (folder / "out.md").symlink_to(folder.parent / "secret.md")
    (folder / ".gitignore").write_text("ignored.md\n", encoding="utf-8")
    (folder / "page.md").write_text("# Page\n\nAn otter holds hands.\n", encoding="utf-8")
    return folder


@pytest.fixture
def hostile(tmp_path: Path, victim: Path) -> Path:
    """A copy of an index whose folder is the victim's, and whose documents are its secrets."""
    docs = tmp_path / "theirs"
    docs.mkdir()
    for name in ROWS:
        name = name if "." in name else f"{name}.md"
        (docs / name).write_text(f"# Otters {name}\n\nAn otter holds hands while asleep.\n", encoding="utf-8")
    index_folders([docs], tmp_path / "made", settings=WORDS_ALONE)
    with closing(sqlite3.connect(tmp_path / "made" / INDEX, isolation_level=None)) as rows:
        rows.execute("UPDATE folders SET path = ?", (str(victim),))
        for name, path in ROWS.items():
            name = name if "." in name else f"{name}.md"
            rows.execute("UPDATE documents SET path = ?, digest = ? WHERE path = ?", (path, "0" * 64, name))
            begins = f"substr(node_id, 1, {len(name)}) = ?"
            for column in ("parent_id", "holder_id", "node_id"):
                change = f"UPDATE nodes SET {column} = ? || substr({column}, {len(name) + 1})"
                rows.execute(f"{change} WHERE {begins} AND {column} NOT NULL", (path, name))
    return Path(shutil.copytree(tmp_path / "made", tmp_path / "mine"))


AS_IT_IS = {**WORDS_ALONE, "refresh_max_files": 0}
"""Or the rows go with the first look."""


def ask_all_faces(index: Path, cli: Cli, *, named: bool) -> str:
    """All that is said of an index, by everything that says something."""
    with open_retriever(index=index, settings=AS_IT_IS) as retriever:
        answer = retriever.search(QUESTION)
    assert {hit.citation_state for hit in answer.hits} == {"gone" if named else "unchecked"}
    assert ("not looked at until you name" in str(answer.degraded)) != named
    assert bool(answer.index.unchecked_folders) != named
    ids = [hit.node_id for hit in answer.hits]

    asked = f"ask '{QUESTION}' --encoder-kind none --top-k 20"
    lines = [asked, f"{asked} --full --json", f"{asked} --context", f"{asked} --explain"]
    lines += ["tree", "status", "status --json", "doctor"]
    for path in ROWS.values():
        lines += [f"read {path}", f"read {path}:1-3 --json"]
    said = [text for line in lines for text in cli(*shlex.split(line), "--index", index, code=range(4))]
    with faces_of(index, AS_IT_IS) as faces:
        addresses = [f"{address}={QUESTION}" for address in ("/?question", "/api/search?question")]
        addresses += [f"{address}={quote(node)}" for address in ("/read?node", "/api/node?reference") for node in ids]
        said += [faces.web.get(address).text for address in addresses]
        said.append(faces.tell("search", question=QUESTION, top_k=20, max_tokens=8000))
        for path in (*ROWS.values(), *ids):
            said += [faces.tell("read", place=path), faces.tell("read", place=f"{path}:1-3")]
            said.append(faces.tell("related", place=path))
    return "\n".join(said)


def files_hold(folder: Path) -> bool:
    return any(SECRET.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("named", [False, True], ids=["not named", "named"])
@pytest.mark.timeout(180)
def test_no_face_tells_what_a_copied_index_points_at(
    hostile: Path, victim: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, *, named: bool
) -> None:
    monkeypatch.setenv("HYBRID_RETRIEVE_REFRESH_MAX_FILES", "0")
    if named:
        name_folders(open_store(hostile), [victim])
    said = ask_all_faces(hostile, cli, named=named)
    assert "asleep" in said
    assert SECRET not in said
    assert not files_hold(hostile)
    monkeypatch.delenv("HYBRID_RETRIEVE_REFRESH_MAX_FILES")
    assert SECRET not in str(cli("ask", QUESTION, "--index", hostile, "--json", code=range(4)))
    assert not files_hold(hostile)


def test_a_folder_is_looked_at_once_it_is_named_and_that_is_remembered(hostile: Path, victim: Path) -> None:
    with open_retriever([victim], hostile, settings=WORDS_ALONE) as retriever:
        assert [hit.citation for hit in retriever.search("page").hits] == ["page.md:1-3"]
    (victim / "page.md").write_text("# Page\n\nA badger digs.\n", encoding="utf-8")
    with open_retriever(index=hostile, settings=WORDS_ALONE) as retriever:
        answer = retriever.search("badger")
    assert (answer.degraded, answer.hits[0].citation_state, answer.index.unchecked_folders) == ((), "exact", 0)
    assert not files_hold(hostile)


def test_an_index_cannot_say_which_files_are_documents(hostile: Path, victim: Path) -> None:
    with closing(sqlite3.connect(hostile / INDEX, isolation_level=None)) as rows:
        settings = json.dumps({**WORDS_ALONE, "documents": {"ignore": ["!ignored.md"]}})
        rows.execute("UPDATE meta SET value = ? WHERE key = 'settings'", (settings,))
    index_folders([victim], hostile)
    assert not files_hold(hostile)
    with open_retriever(index=hostile) as retriever:
        assert retriever.profile.documents.ignore == ()
