"""Who may see what of an index in PostgreSQL: a role sees its folders, as if there were no others."""

import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg  # noqa: TID253  # these tests are of it
import pytest

from retriever.api import index_folders, open_retriever
from retriever.errors import IndexVersionError, StorageError
from retriever.store import open_store
from retriever.store.tables import grant_folders, make_tables
from tests.postgres import Server, execute
from tests.program import LARDER, Cli
from tests.real.served import Served, served

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
        address = open_store(self.index).url
        return str(address.with_role(role))


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
            make_tables(open_store(place).url, readers=["boss"])
        index_folders([docs / "open", docs / "secret"], index)
        index_folders([docs / "open"], alone)
        assert grant_folders(open_store(index).url, "sales", ["open"]) == (str(docs / "open"),)
        assert grant_folders(open_store(index).url, "legal", [str(docs / "secret")]) == (str(docs / "secret"),)
        yield Shared(index, f"{alone}&role=boss", docs)
        execute(index, *(f"DROP OWNED BY {role}; DROP ROLE {role}" for role in ROLES))


def strip(value: Any) -> Any:  # noqa: ANN401  # JSON
    """Without what differs from run to run, and what names the database."""
    if isinstance(value, dict):
        return {key: strip(item) for key, item in value.items() if key not in VARYING}
    if isinstance(value, str):  # of several folders each one's ids begin with its name
        return value.removeprefix("open:") or "/"
    return [strip(item) for item in value] if isinstance(value, list) else value


@pytest.mark.timeout(180)
@pytest.mark.parametrize("profile", ["balanced", "classic", "fast"])
def test_answers_are_those_of_an_index_of_the_visible_folders_alone(shared: Shared, cli: Cli, profile: str) -> None:
    for question in QUESTIONS:
        found = [
            strip(json.loads(cli("ask", question, "--index", place, "--profile", profile, "--json", "-k", "10").out))
            for place in (shared.seen_by("sales"), shared.alone)
        ]
        assert found[0] == found[1], question


def test_what_is_shown_without_a_question(shared: Shared, cli: Cli) -> None:
    for command, code in (
        (("tree", "--json"), 0),
        (("status", "--json", "-v"), 0),
        (("similar", "retention.md", "--json"), 0),
        (("read", "encryption.md"), 2),
        (("read", "Zyxworth"), 2),
        (("ask", "keys in:secret"), 2),
        (("ask", "keys", "--tag", "confidential"), 2),
    ):
        said = [cli(*command, "--index", place, code=code) for place in (shared.seen_by("sales"), shared.alone)]
        if "--json" in command:
            assert strip(json.loads(said[0].out)) == strip(json.loads(said[1].out)), command
        else:
            plain = [(printed.out, printed.err.replace("'open:", "'")) for printed in said]
            assert plain[0] == plain[1], command
    assert "merger.md" in cli("tree", "--index", shared.seen_by("boss")).out
    assert "15 files" in cli("status", "--index", shared.seen_by("boss")).out


def test_no_table_has_a_row_of_a_hidden_folder(shared: Shared) -> None:
    with closing(psycopg.connect(shared.index, autocommit=True)) as connection:
        connection.execute("SET search_path TO hybrid_retrieve, public")
        connection.execute("INSERT INTO forgotten SELECT folder_key, path || '/old.md' FROM folders")
        connection.execute("INSERT INTO skipped SELECT folder_key, path || '/bad.md', 1, 1, 1, 1, '?' FROM folders")
        connection.execute("INSERT INTO pending (text_hash, text) SELECT DISTINCT text_hash, text FROM chunks")
        names = [name for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'alone'")]
        try:
            whole = {name: _read(connection, name) for name in names}
            connection.execute("SET ROLE sales")
            seen = {name: _read(connection, name) for name in names}
            # What a role makes itself stands before nothing that the policies name.
            connection.execute("CREATE TEMP TABLE rights AS SELECT * FROM hybrid_retrieve.rights")
            connection.execute("INSERT INTO rights SELECT role, folder_key + 1 FROM hybrid_retrieve.rights")
            assert _read(connection, "documents") == seen["documents"]
            for statement in ("DELETE FROM hybrid_retrieve.documents", "INSERT INTO hybrid_retrieve.rights SELECT"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)
            connection.execute("SET ROLE boss")
            alone = {name: len(_read(connection, name, "alone")) for name in names}
            connection.execute("SET ROLE clerk")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                _read(connection, "documents")
        finally:
            connection.execute("RESET ROLE")
            for table in ("forgotten", "skipped", "pending"):
                connection.execute(psycopg.sql.SQL("DELETE FROM {}").format(psycopg.sql.Identifier(table)))
    assert all(len(whole[name]) > len(seen[name]) for name in names if name != "meta")
    for name in ["folders", "documents", "nodes", "names", "links", "fields", "chunks", "vectors", "postings", "words"]:
        assert len(seen[name]) == alone[name], name
    assert [len(seen[name]) for name in ("forgotten", "skipped", "rights", "backgrounds")] == [1] * 4
    assert len(seen["pending"]) == alone["vectors"]
    text = repr(seen).casefold()
    assert not [word for word in ("zyxworth", "merger", str(shared.docs / "secret")) if word in text]


def _read(connection: psycopg.Connection[Any], table: str, schema: str = "hybrid_retrieve") -> list[Any]:
    query = psycopg.sql.SQL("SELECT * FROM {}").format(psycopg.sql.Identifier(schema, table))
    return connection.execute(query).fetchall()


def test_a_right_that_is_taken_back_ends_for_an_open_retriever_too(shared: Shared) -> None:
    make_tables(open_store(shared.index).url, readers=["clerk"])
    with open_retriever(index=shared.seen_by("clerk")) as retriever:
        assert retriever.search("Zyxworth").hits[0].file == "merger.md"
        assert grant_folders(open_store(shared.index).url, "clerk", ["open"]) == (str(shared.docs / "open"),)
        assert "secret" not in repr(retriever.search("Zyxworth").hits)
        assert grant_folders(open_store(shared.index).url, "clerk", []) == ()
        with pytest.raises(IndexVersionError, match="not for this role"):
            retriever.search("snapshot")


def test_members_of_a_role_see_what_it_may(shared: Shared) -> None:
    execute(shared.index, "ALTER ROLE web NOINHERIT LOGIN", "GRANT legal TO clerk", "GRANT legal TO web")
    with open_retriever(index=shared.seen_by("clerk")) as retriever:
        assert retriever.search("Zyxworth").hits[0].node_id == "secret:merger.md#merger"
    web = shared.index.replace("owner@", "web@")
    with open_retriever(index=f"{web}?role=legal") as retriever:
        assert retriever.search("Zyxworth").hits
    unknown = f"{web}?role=no", 'role "no" does not exist'
    for address, said in ((web, "may not do that"), (f"{web}?role=boss", "permission denied to set role"), unknown):
        with pytest.raises(StorageError, match=said), open_retriever(index=address) as retriever:
            retriever.search("Zyxworth")
    execute(shared.index, "REVOKE legal FROM clerk", "REVOKE legal FROM web")


def test_rights_that_cannot_be_given(shared: Shared, cli: Cli) -> None:
    for words, index, code, said in (
        (["grant", "sales", "nothing"], shared.index, 2, "there is no folder 'nothing' in the index; there are: "),
        (["grant", "nobody", "open"], shared.index, 1, 'role "nobody" does not exist'),
        (["grant", "sales", "open"], shared.seen_by("sales"), 1, "may not do that"),
        (["init", "--writer", "owner"], shared.index, 2, "owner owns the tables and may do everything"),
    ):
        assert said in cli("postgres", *words, "--index", index, code=code).err
    for words in (["grant"], ["init", "sales"], ["grant", "sales", "open", "--hnsw"]):
        cli("postgres", *words, "--index", shared.index, code=2)


# Over HTTP: who asks is what the proxy says.


@pytest.fixture(scope="module")
def server(shared: Shared) -> Iterator[Served]:
    roles = "--role-header", "X-Role", "--role", "sales", "--role", "legal"
    with served(shared.index, "--web", "--mcp", *roles) as running:
        yield running


def test_a_reader_sees_nothing_of_folders_that_it_may_not_read(server: Served, shared: Shared) -> None:
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "search", "arguments": {"question": "Zyxworth"}},
    }
    with httpx.Client(base_url=server.url, timeout=60) as client:
        assert client.get("/healthz").status_code == 200
        for role in ("sales", "legal"):
            known = {"X-Role": role}
            search = client.get("/api/search", params={"question": "Zyxworth"}, headers=known)
            tree = client.get("/api/tree", headers=known)
            tools = client.post("/mcp", json=call, headers=known | {"Accept": "application/json, text/event-stream"})
            for said in (search, tree, tools):
                assert said.status_code == 200
                assert ("merger.md" in said.text) == (role == "legal"), (role, said.url)


def test_who_is_refused(server: Served) -> None:
    given: list[list[tuple[str, str]]] = [
        [],
        [("X-Role", "boss")],  # a role of the server that is not served
        [("X-Role", "sales, legal")],
        [("X-Role", "sales"), ("X-Role", "legal")],
    ]
    for path in ("/api/tree", "/", "/mcp"):
        for headers in given:
            said = httpx.get(f"{server.url}{path}", headers=headers, timeout=60)
            assert said.status_code == 403, headers


def test_a_header_is_believed_of_loopback_or_with_a_token(shared: Shared, cli: Cli, tmp_path: Path) -> None:
    token, header = tmp_path / "token", ("--role-header", "X-Role")
    serve = "serve", "--web", "--port", "0", "--index", shared.index
    said = cli(*serve, *header, "--role", "sales", "--host", socket.gethostname(), code=2).err
    assert "a token is needed: add --token-file" in said
    with served(shared.index, "--web", *header, "--role", "sales", "--token-file", str(token)) as running:
        known = {"X-Role": "sales"}
        assert httpx.get(f"{running.url}/api/tree", headers=known, timeout=60).status_code == 401
        known["Authorization"] = f"Bearer {token.read_text(encoding='ascii').strip()}"
        assert httpx.get(f"{running.url}/api/tree", headers=known, timeout=60).status_code == 200
    for wrong in (header, ("--role", "sales")):
        assert "name the header and the roles" in cli(*serve, *wrong, code=2).err
    in_folder = "serve", "--web", "--port", "0", "--index", tmp_path, *header, "--role", "sales"
    assert "--role-header is for one --index postgresql://" in cli(*in_folder, code=2).err
