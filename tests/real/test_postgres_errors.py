"""Faults of a database: each gives one clear sentence that says what to do, and changes nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from retriever.api import index_folders, open_retriever
from retriever.errors import IndexLockedError, IndexVersionError, NoIndexError, RetrieverError, StorageError
from retriever.places import open_store
from tests.postgres import Server, count_rows, execute
from tests.program import Cli
from tests.shelf import WORDS_ALONE, write_pages
from tests.tables import read_table


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return write_pages(tmp_path / "docs", {"keys.md": "# Keys\n\nRotate the keys each month.\n"})


@pytest.fixture
def index(postgres: str, docs: Path) -> str:
    index_folders([docs], postgres, settings=WORDS_ALONE)
    return postgres


def fail(kind: type[RetrieverError], address: str) -> str:
    with pytest.raises(kind) as found, open_retriever(index=address) as retriever:
        retriever.search("keys")
    assert "\n" not in str(found.value)
    return str(found.value)


def test_a_server_that_is_not_there_or_lets_nobody_in(postgres_server: Server) -> None:
    for address in ("postgresql://me:secret@127.0.0.1:1/db", postgres_server.address(user="nobody:secret")):
        said = fail(StorageError, address)
        assert "cannot be reached" in said
        assert ".pgpass" in said


def test_a_database_without_tables(postgres_server: Server, cli: Cli) -> None:
    with postgres_server.new_database() as address:
        assert f"run: python -m retriever postgres init --index '{address}'" in fail(NoIndexError, address)
        assert "made the tables" in cli("postgres", "init", "--index", address).out
        assert "already" in cli("postgres", "init", "--index", address).out
        assert "is not finished" in fail(NoIndexError, address)


def test_tables_of_another_version(index: str) -> None:
    execute(index, "COMMENT ON SCHEMA hybrid_retrieve IS 'hybrid-retrieve 99'")
    assert "have version 99" in fail(IndexVersionError, index)


@pytest.fixture
def reader(index: str, cli: Cli) -> Iterator[str]:
    execute(index, "CREATE ROLE reader LOGIN", "CREATE ROLE writer LOGIN")
    cli("postgres", "init", "--index", index, "--reader", "reader", "--writer", "writer")
    yield index.replace("owner@", "reader@")
    execute(index, "DROP OWNED BY reader, writer", "DROP ROLE reader, writer")


def test_a_reader_asks_and_does_not_index(reader: str, docs: Path) -> None:
    with open_retriever(index=reader) as retriever:
        assert retriever.search("keys").hits
    write_pages(docs, {"more.md": "# More\n\nMore keys.\n"})
    with pytest.raises(StorageError, match="this role may not do that"):
        index_folders([docs], reader, settings=WORDS_ALONE)
    assert count_rows(reader, "documents") == 1


def test_a_writer_indexes_until_it_is_made_a_reader(reader: str, index: str, docs: Path, cli: Cli) -> None:
    writer = index.replace("owner@", "writer@")
    write_pages(docs, {"more.md": "# More\n\nMore keys.\n"})
    assert index_folders([docs], writer, settings=WORDS_ALONE).added == 1
    write_pages(docs, {"more.md": "# Less\n\nFewer keys.\n"})
    assert index_folders([docs], writer, settings=WORDS_ALONE).changed == 1
    cli("postgres", "init", "--index", index, "--reader", "writer")
    (docs / "more.md").unlink()
    with pytest.raises(StorageError, match="this role may not do that"):
        index_folders([docs], writer, settings=WORDS_ALONE)


@pytest.fixture
def guarded(index: str, postgres_server: Server, cli: Cli) -> Iterator[str]:
    """The address of a reader whose password is `swordfish`."""
    rules = postgres_server.data / "pg" / "pg_hba.conf"
    before = rules.read_text(encoding="utf-8")
    execute(index, "CREATE ROLE guarded LOGIN PASSWORD 'swordfish'")
    cli("postgres", "init", "--index", index, "--reader", "guarded")
    rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{before}", encoding="utf-8")
    postgres_server.reload()
    yield index.replace("owner@", "guarded@")
    rules.write_text(before, encoding="utf-8")
    postgres_server.reload()
    execute(index, "DROP OWNED BY guarded", "DROP ROLE guarded")


def test_a_wrong_password_is_refused_and_not_printed(guarded: str, cli: Cli) -> None:
    said = cli("ask", "keys", "--index", guarded.replace("guarded@", "guarded:catfish@"), code=1).err
    assert "password authentication failed" in said
    assert "catfish" not in said


@pytest.mark.parametrize(("user", "variable"), [("guarded:swordfish", ""), ("guarded", "swordfish")])
def test_a_password_is_taken_and_not_printed(
    guarded: str, cli: Cli, monkeypatch: pytest.MonkeyPatch, user: str, variable: str
) -> None:
    monkeypatch.setenv("PGPASSWORD", variable)
    answer = cli("ask", "keys", "--index", guarded.replace("guarded@", f"{user}@"), "--json").out
    assert "keys.md" in answer
    assert "swordfish" not in answer


def test_a_second_writer(index: str) -> None:
    first, second = open_store(index), open_store(index)
    with first.write(0.0), pytest.raises(IndexLockedError, match="try again"), second.write(0.1):
        pass


@pytest.mark.parametrize("address", read_table("paths", "Wrong addresses of a database"))
def test_a_wrong_address_never_repeats_its_password(address: str, cli: Cli) -> None:
    for command in (["ask", "keys"], ["index", str(Path.cwd())]):
        said = cli(*command, "--index", address, code=(1, 2))
        assert "zzq" not in said.out + said.err, command
        assert "qzz" not in said.out + said.err, command
