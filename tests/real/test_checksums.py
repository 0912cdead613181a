"""Each row of index.sqlite has a checksum: flipped bits are found and repaired, and all that writes keeps it right."""

import random
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from retriever.archive.exporting import export_index, open_archive
from retriever.archive.importing import Wish, import_archive
from retriever.errors import IndexDamagedError
from retriever.indexing.forgetting import forget, take_back
from retriever.indexing.recipe import IndexRequest
from retriever.library import check_up
from retriever.settings.layers import DEFAULT_PROFILE, given_settings
from retriever.store import checksums, recorded, written
from retriever.store.checking import damaged_rows, find_damage
from retriever.store.database import create_database, transaction
from tests.harm import content, flipped
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, CountingEncoder, Shelf, found, same_hits

SEED = 11
FLIPS = 250
PART = "## Part {0}\n\nIt tells of topic{0}, as [mail](mail.md#stamps).\n\n"
LISTS = {
    f"list-{number}.md": f"---\ndate: 2020-01-02\naliases: [l{number}]\n---\n# List {number}\n\n"
    + "".join(PART.format(number * 5 + part) for part in range(4))
    for number in range(4)
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """Copied, never changed."""
    shelf = Shelf(tmp_path_factory.mktemp("good"), PAGES | LISTS)
    shelf.update()
    return shelf


@pytest.fixture
def shelf(good: Shelf, tmp_path: Path) -> Shelf:
    return good.copied(tmp_path)


def flip(rows: sqlite3.Connection, table: str, column: str, place: int = -1, bit: int = 1) -> None:
    """A bit of one value in the middle of a table, without its checksum; of a text or bytes, at that place."""
    query = f"SELECT rowid, {column} FROM {table} WHERE {column} NOT IN ('', '[]') ORDER BY rowid LIMIT 1 OFFSET 2"
    number, value = rows.execute(query).fetchone()
    other: object
    if isinstance(value, int):
        other = value ^ bit
    else:
        data = bytearray(value if isinstance(value, bytes) else value.encode())
        data[place] ^= bit
        other = bytes(data) if isinstance(value, bytes) else data.decode()
    rows.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (other, number))


def looked(shelf: Shelf) -> list[str]:
    with shelf.rows() as rows:
        return list(find_damage(rows))


def test_every_column_but_the_keys_that_sqlite_gives_is_covered(shelf: Shelf) -> None:
    with shelf.rows() as rows:
        tables = {name for (name,) in rows.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert tables - {"sqlite_sequence"} == checksums.COVERED.keys()
        for table, covered in checksums.COVERED.items():
            columns = rows.execute(f"PRAGMA table_info({table})").fetchall()
            given = {name for _, name, kind, _, _, key in columns if (kind, key) == ("INTEGER", 1)} - set(covered)
            assert [name for _, name, *_ in columns if name not in given] == [*covered, "checksum"]
            assert all(name.endswith("_key") or name == "query_id" for name in given)


FLIPPED = {
    "nodes": ("title", "breadcrumb", "text", "first_line", "level", "anchor", "parent_id"),
    "chunks": ("text", "first_line", "last_line", "former"),
    "documents": ("title", "size", "mtime_ns", "digest", "dated"),
    "vectors": ("vector",),
}


@pytest.mark.parametrize("table", FLIPPED)
def test_a_flipped_bit_of_any_value_is_found(shelf: Shelf, table: str) -> None:
    for column in FLIPPED[table]:
        with shelf.rows() as rows:
            rows.execute("BEGIN")
            flip(rows, table, column, 0 if column == "vector" else -3)
            (row,) = damaged_rows(rows)
            assert row.table == table


@pytest.mark.parametrize(
    ("table", "column"), [("nodes", "title"), ("chunks", "first_line"), ("documents", "title"), ("vectors", "vector")]
)
def test_only_what_it_damaged_is_made_again(shelf: Shelf, good: Shelf, table: str, column: str) -> None:
    with shelf.rows() as rows:
        flip(rows, table, column, 0 if column == "vector" else -3)
    findings = check_up(shelf.index, encoder=shelf.encoder).findings
    (says,) = {item.says for item in findings if item.level == "problem" and "checksum" in item.says}
    assert says.startswith(f"a row of {table} differs from its checksum (")
    assert all("doctor --repair" in item.cure for item in findings if item.level == "problem")
    repaired = check_up(shelf.index, repair=True, encoder=shelf.encoder)
    assert [item.says for item in repaired.findings if item.level == "problem"] == []
    texts = (table == "vectors", shelf.encoder.encoded)
    assert texts in {(False, 0), (True, 1)}
    assert repaired.repairs[0] == f"removed, as they differ from their checksums: 1 row (1 of {table})"
    assert repaired.repairs[1].startswith("1 document indexed again: ")
    for question in QUESTIONS:
        assert same_hits(found(shelf.ask(question, **NEVER_REFRESH)), found(good.ask(question, **NEVER_REFRESH)))


@pytest.mark.parametrize("column", ["target_id", "target_anchor", "line", "source_key"])
def test_a_link_is_found_and_made_again(shelf: Shelf, good: Shelf, column: str) -> None:
    """The number of its node may be what flipped, so all documents are read again; nothing is embedded."""
    with shelf.rows() as rows:
        (key, value) = rows.execute(f"SELECT source_key, {column} FROM links WHERE position = 1").fetchone()
        other = value ^ 1 if isinstance(value, int) else f"{value[:-1]}{chr(ord(value[-1]) ^ 1)}"
        rows.execute(f"UPDATE links SET {column} = ? WHERE source_key = ? AND position = 1", (other, key))
    assert any("links" in says for says in looked(shelf))
    assert check_up(shelf.index, repair=True, encoder=shelf.encoder).repairs
    assert looked(shelf) == []
    assert shelf.encoder.encoded == 0
    query = "SELECT node_id, line, target_id FROM links JOIN nodes ON node_key = source_key ORDER BY node_id, position"
    with shelf.rows() as rows, good.rows() as whole:
        assert rows.execute(query).fetchall() == whole.execute(query).fetchall()


def test_every_bit_of_a_vector_counts(shelf: Shelf) -> None:
    with shelf.rows() as rows:
        (data, checksum, *key) = rows.execute("SELECT vector, checksum, fingerprint, text_hash FROM vectors").fetchone()
    assert checksums.crc32(*key, data) == checksum
    for place in range(8 * len(data)):
        other = bytearray(data)
        other[place // 8] ^= 1 << place % 8
        assert checksums.crc32(*key, bytes(other)) != checksum


def test_a_text_that_is_no_utf8_any_more_is_found_and_repaired(shelf: Shelf) -> None:
    with shelf.rows() as rows:
        rows.execute("UPDATE nodes SET title = CAST(x'ff' || title AS TEXT) WHERE rowid = 3")
    assert looked(shelf)
    check_up(shelf.index, repair=True, encoder=shelf.encoder)
    assert (looked(shelf), shelf.encoder.encoded) == ([], 0)


def test_single_bits_anywhere_are_found_or_in_no_row(shelf: Shelf) -> None:
    """Of those that change a row, or the definition of a table, every one is found."""
    with shelf.rows() as rows:
        rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file, chance = shelf.index / "index.sqlite", random.Random(SEED)
    data, before, changed = file.read_bytes(), content(file), 0
    for number in range(FLIPS):
        file.write_bytes(flipped(data, chance))
        if content(file) != before:
            changed += 1
            with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)) as rows:
                assert list(find_damage(rows)), f"seed {SEED}, flip {number}"
    assert changed > FLIPS / 10


def test_a_flipped_bit_in_the_definition_of_one_table_costs_no_vector(shelf: Shelf) -> None:
    with shelf.rows() as rows:
        rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file = shelf.index / "index.sqlite"
    data = bytearray(file.read_bytes())
    data[data.index(b"CREATE TABLE nodes") + 3] ^= 0x80
    file.write_bytes(data)
    assert any(item.level == "problem" for item in check_up(shelf.index, encoder=shelf.encoder).findings)
    check_up(shelf.index, repair=True, encoder=shelf.encoder)
    assert (looked(shelf), shelf.encoder.encoded) == ([], 0)


def test_later_writing_does_not_approve_of_damage(shelf: Shelf) -> None:
    with shelf.rows() as rows:
        flip(rows, "documents", "title")
        flip(rows, "nodes", "title")
    before = looked(shelf)
    with closing(create_database(shelf.index)) as connection, transaction(connection):
        keys = [key for (key,) in connection.execute("SELECT node_key FROM nodes")]
        written.set_of_nodes(connection, dict.fromkeys(keys, "A summary."))
        connection.execute(checksums.updating("documents", size="size + 1"))
    assert looked(shelf) == before != []


def test_a_damaged_vector_goes_into_no_generation(shelf: Shelf) -> None:
    with shelf.rows() as rows:
        flip(rows, "vectors", "vector", 0)
    (shelf.index / "gen-1" / "manifest.json").unlink()
    with pytest.raises(IndexDamagedError, match=r"a vector differs from its checksum.*doctor --repair --index"):
        shelf.update()
    check_up(shelf.index, repair=True, encoder=shelf.encoder)
    assert looked(shelf) == []
    assert shelf.encoder.encoded == 1


def _request(shelf: Shelf) -> IndexRequest:
    given = given_settings(DEFAULT_PROFILE, None, None, {})
    return IndexRequest(shelf.index, (), given.profile(), given.for_index(), shelf.encoder, 0.0)


def _edited(shelf: Shelf) -> None:
    shelf.write("kitchen.md", "# Kitchen\n\nSoup of [mail](mail.md).\n")
    (shelf.docs / "garden" / "bees.md").unlink()
    (shelf.docs / "mail.md").rename(shelf.docs / "post.md")
    shelf.touch("garden/tomatoes.md")
    shelf.write("broken.md", b"\0")
    shelf.update()


def _recorded(shelf: Shelf) -> None:
    with closing(create_database(shelf.index)) as connection, transaction(connection):
        query = recorded.StoredQuery(0, "2026-01-02T03:04:05", "why?", "unclear", None)
        recorded.put_query(connection, query, {"hits": []})
        recorded.note_opened(connection, "mail.md")
        recorded.note_opened(connection, "mail.md")


def _summarized(shelf: Shelf) -> None:
    with closing(create_database(shelf.index)) as connection, transaction(connection):
        written.put(connection, "writer", b"0" * 16, "What it is about.")
        written.set_of_nodes(connection, {1: "What it is about.", 2: ""})


def _imported(shelf: Shelf) -> None:
    export_index(shelf.index, shelf.place / "index.zip")
    (shelf.place / "elsewhere").mkdir()
    with open_archive(shelf.place / "index.zip") as archive:
        import_archive(archive, Wish(shelf.index, (shelf.place / "elsewhere",), replace=True))


def _rescued(shelf: Shelf) -> None:
    with shelf.rows() as rows:
        rows.execute("UPDATE links SET line = line + 1")
    check_up(shelf.index, repair=True, encoder=shelf.encoder)


WRITINGS: Mapping[str, Callable[[Shelf], object]] = {
    "first index": lambda _: None,
    "edit, delete, rename, touch, skip": _edited,
    "forget": lambda shelf: forget(_request(shelf), ["garden", "kitchen.md"]),
    "forget, and take back": lambda shelf: (
        forget(_request(shelf), ["mail.md"]),
        take_back(_request(shelf), ["mail.md"]),
        shelf.update(),
    ),
    "history": _recorded,
    "summaries": _summarized,
    "another model": lambda shelf: shelf.update(encoder=CountingEncoder(fingerprint="0f" * 8)),
    "import elsewhere": _imported,
    "rescue": _rescued,
}


@pytest.mark.parametrize("writing", WRITINGS)
def test_checksums_are_right_after(tmp_path: Path, writing: str) -> None:
    shelf = Shelf(tmp_path, PAGES)
    shelf.update()
    WRITINGS[writing](shelf)
    with shelf.rows() as rows:
        assert damaged_rows(rows) == []
        assert list(find_damage(rows)) == []
