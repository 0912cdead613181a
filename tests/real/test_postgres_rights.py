"""Rights in PostgreSQL: a role sees its folders of an index, as if there were no others."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import psycopg  # noqa: TID253  # these tests are of it
import pytest

from retriever.api import index_folders, open_retriever
from retriever.errors import IndexVersionError, StorageError
from retriever.postgres.command import grant_folders, make_tables
from retriever.postgres.connection import read_url
from tests.postgres import Server, execute
from tests.program import LARDER, Cli
from tests.real.served import faces_of

HIDDEN = ("encryption.md", "restore.md")
SECRET = """---
tags: [confidential]
---
# Merger

We buy Zyxworth in spring, as the [plan](plan.md) says. The snapshot of its accounts is kept.
"""
# Of what is in both, of what is hidden, and typos of words that are hidden, or are not.
QUESTIONS = ("how long is a snapshot kept?", "rotate the master key", "Zyxwroth", "restroe one file", "retenton rules")
ROLES = ("sales", "legal", "boss", "web", "clerk")
# Of what is printed as JSON.
VARYING = {"milliseconds", "path", "index", "size_bytes", "seconds", "stages", "timings_ms", "snapshot"}


@dataclass(frozen=True)
class Shared:
    index: str
    """As its owner has it: two folders, `open` and `secret`, of which the role `sales` may read the first."""
    alone: str
    """An index of the first alone, as a role that reads all of it."""
    docs: Path

    def seen_by(self, role: str) -> str:
        return f"{self.index}?options=-crole={role}"


@pytest.fixture(scope="module")
def shared(postgres_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    docs = tmp_path_factory.mktemp("docs")
    shutil.copytree(LARDER, docs / "open")
    (docs / "secret").mkdir()
    for name in HIDDEN:
        (docs / "open" / name).rename(docs / "secret" / name)
    (docs / "secret" / "merger.md").write_text(SECRET, encoding="utf-8")
    (docs / "open" / "tagged.md").write_text("---\ntags: [public]\n---\n# Tagged\n", encoding="utf-8")
    shutil.copy(docs / "open" / "stores.md", docs / "secret")  # a text that both have
    with postgres_server.new_database() as index:
        execute(index, *(f"DROP ROLE IF EXISTS {role}; CREATE ROLE {role}" for role in ROLES))
        alone = f"{index}?schema=alone"
        for place in (index, alone):
            make_tables(read_url(place), readers=["boss"])
        index_folders([docs / "open", docs / "secret"], index)
        index_folders([docs / "open"], alone)
        assert grant_folders(read_url(index), "sales", ["open"]) == (str(docs / "open"),)
        assert grant_folders(read_url(index), "legal", [str(docs / "secret")]) == (str(docs / "secret"),)
        yield Shared(index, f"{alone}&options=-crole=boss", docs)
        execute(index, *(f"DROP OWNED BY {role}; DROP ROLE {role}" for role in ROLES))


def strip(value: Any) -> Any:  # noqa: ANN401  # JSON
    """Without what differs from run to run, and what names the database."""
    if isinstance(value, dict):
        return {key: strip(item) for key, item in value.items() if key not in VARYING}
    if isinstance(value, str):  # of several folders each one's ids begin with its name
        return value.removeprefix("open:") or "/"
    return [strip(item) for item in value] if isinstance(value, list) else value


def print_both(shared: Shared, cli: Cli, *command: str) -> list[Any]:
    """The answer to a role that sees only the first folder, and that of an index of this folder alone."""
    places = shared.seen_by("sales"), shared.alone
    return [strip(cli(*command, "--json", "--index", place).json) for place in places]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("profile", ["balanced", "classic", "fast"])
def test_answers_are_those_of_an_index_of_the_visible_folders_alone(shared: Shared, cli: Cli, profile: str) -> None:
    for question in QUESTIONS:
        one, other = print_both(shared, cli, "ask", question, "--profile", profile, "-k", "10")
        assert one == other, question


@pytest.mark.parametrize("line", ["tree", "status -v", "read retention.md --similar 10"])
def test_what_is_shown_is_that_of_the_visible_folders_alone(shared: Shared, cli: Cli, line: str) -> None:
    one, other = print_both(shared, cli, *line.split())
    assert one == other


@pytest.mark.parametrize(
    "line", ["read encryption.md", "read Zyxworth", "ask keys in:secret", "ask keys --tag confidential"]
)
def test_what_is_hidden_is_refused_like_what_is_not_there(shared: Shared, cli: Cli, line: str) -> None:
    asked, places = line.split(), (shared.seen_by("sales"), shared.alone)
    said, expected = (cli(*asked, "--index", place, code=2).err for place in places)
    assert said.replace("'open:", "'") == expected


def test_a_role_that_reads_all_sees_all(shared: Shared, cli: Cli) -> None:
    assert "merger.md" in cli("tree", "--index", shared.seen_by("boss")).out
    assert "15 files" in cli("status", "--index", shared.seen_by("boss")).out


def read_table(shared: Shared, role: str, table: str) -> list[Any]:
    query = f"SELECT * FROM hybrid_retrieve.{table}"
    return execute(shared.index, f"SET ROLE {role}", query)


def test_no_table_has_a_row_of_a_hidden_folder(shared: Shared) -> None:
    execute(
        shared.index,
        "INSERT INTO hybrid_retrieve.forgotten SELECT folder_key, path || '/old.md' FROM hybrid_retrieve.folders",
        "INSERT INTO hybrid_retrieve.skipped"
        " SELECT folder_key, path || '/bad.md', 1, 1, 1, 1, '?' FROM hybrid_retrieve.folders",
        "INSERT INTO hybrid_retrieve.pending (text_hash, text)"
        " SELECT text_hash, max(text) FROM hybrid_retrieve.chunks JOIN hybrid_retrieve.nodes USING (node_key)"
        " GROUP BY text_hash",
    )
    tables = execute(shared.index, "SELECT tablename FROM pg_tables WHERE schemaname = 'alone'")
    filled = ("forgotten", "skipped", "pending")
    try:
        whole, seen = ({name: read_table(shared, role, name) for (name,) in tables} for role in ("owner", "sales"))
    finally:
        execute(shared.index, *(f"DELETE FROM hybrid_retrieve.{name}" for name in filled))
    assert all(0 < len(seen[name]) < len(whole[name]) for name in seen if name != "meta")
    text = repr(seen).casefold()
    assert not [word for word in ("zyxworth", "merger", str(shared.docs / "secret")) if word in text]


def test_a_table_of_a_roles_own_gives_no_right(shared: Shared) -> None:
    """A role's own tables do not hide the tables that the policies name."""
    ((seen,),) = execute(
        shared.index,
        "SET ROLE sales",
        "CREATE TEMP TABLE rights AS SELECT * FROM hybrid_retrieve.rights",
        "INSERT INTO rights SELECT role, folder_key + 1 FROM hybrid_retrieve.rights",
        "SELECT count(*) FROM hybrid_retrieve.documents",
    )
    assert seen == len(read_table(shared, "sales", "documents"))


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        ("sales", "DELETE FROM hybrid_retrieve.documents"),
        ("sales", "INSERT INTO hybrid_retrieve.rights SELECT"),
        ("clerk", "SELECT FROM hybrid_retrieve.documents"),
    ],
)
def test_a_role_does_nothing_that_it_was_not_granted(
    shared: Shared, role: LiteralString, statement: LiteralString
) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(shared.index, f"SET ROLE {role}", statement)


def test_a_right_that_is_taken_back_ends_for_an_open_retriever_too(shared: Shared) -> None:
    make_tables(read_url(shared.index), readers=["clerk"])
    with open_retriever(index=shared.seen_by("clerk")) as retriever:
        assert retriever.search("Zyxworth").hits[0].file == "merger.md"
        assert grant_folders(read_url(shared.index), "clerk", ["open"]) == (str(shared.docs / "open"),)
        assert "secret" not in repr(retriever.search("Zyxworth").hits)
        assert grant_folders(read_url(shared.index), "clerk", []) == ()
        with pytest.raises(IndexVersionError, match="not for this role"):
            retriever.search("snapshot")


def test_members_of_a_role_see_what_it_may(shared: Shared) -> None:
    execute(shared.index, "ALTER ROLE web NOINHERIT LOGIN", "GRANT legal TO clerk", "GRANT legal TO web")
    with open_retriever(index=shared.seen_by("clerk")) as retriever:
        assert retriever.search("Zyxworth").hits[0].node_id == "secret:merger.md#merger"
    web = shared.index.replace("owner@", "web@")
    with open_retriever(index=f"{web}?options=-crole=legal") as retriever:
        assert retriever.search("Zyxworth").hits
    unknown = f"{web}?options=-crole=no", 'role "no" does not exist'
    for address, said in (
        (web, "may not do that"),
        (f"{web}?options=-crole=boss", "permission denied to set role"),
        unknown,
    ):
        with pytest.raises(StorageError, match=said), open_retriever(index=address) as retriever:
            retriever.search("Zyxworth")
    execute(shared.index, "REVOKE legal FROM clerk", "REVOKE legal FROM web")


def test_rights_that_cannot_be_given(shared: Shared, cli: Cli) -> None:
    for line, index, code, said in (
        ("grant sales nothing", shared.index, 2, "there is no folder 'nothing' in the index; there are: "),
        ("grant nobody open", shared.index, 1, 'role "nobody" does not exist'),
        ("grant sales open", shared.seen_by("sales"), 1, "may not do that"),
        ("init --writer owner", shared.index, 2, "owner owns the tables and may do everything"),
    ):
        assert said in cli("postgres", *line.split(), "--index", index, code=code).err
    for line in ("grant", "init sales", "grant sales open --once"):
        cli("postgres", *line.split(), "--index", shared.index, code=2)


@pytest.mark.parametrize(("role", "sees"), [("sales", False), ("legal", True)])
def test_a_server_of_a_role_shows_nothing_of_folders_that_it_may_not_read(
    shared: Shared, role: str, *, sees: bool
) -> None:
    with faces_of(shared.seen_by(role)) as faces:
        answers = [faces.web.get(f"{path}?question=Zyxworth") for path in ("/", "/api/search")]
        told = faces.tell("search", question="Zyxworth")
    assert [said.status_code for said in answers] == [200, 200]
    assert [("merger.md" in said) for said in (*(said.text for said in answers), told)] == [sees] * 3
