r"""Many who ask an index in PostgreSQL at once, at several sizes, with a writer and without one, beside a folder.

    uv run --group dev benchmarks/postgres_clients.py ../shared/eval/corpora/fastapi ../shared/eval/fastapi.jsonl

The first size is so many editions of the folder (benchmarks/editions.py), in a folder's index and in a database. Larger
ones are copies of these rows, their vectors changed by noise: nothing is embedded, and only the server works for them.
Clients are threads of one process, each with a retriever of its own, as `serve` has them; they share its connections,
and this machine's processor with the server. Only for Linux: the server's processor time is what the kernel counted.
"""

import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count, cycle, islice
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.editions import Vectors, fill_vectors, texts_of, write_editions
from benchmarks.growth import embed
from benchmarks.speed import read_questions
from benchmarks.unit_costs import read_server_cpu
from retriever import Retriever, open_retriever
from retriever.api import index_folders
from retriever.embedding.onnx import OnnxEncoder
from retriever.lexical.tables import pack_block, unpack_blocks
from retriever.sharing import make_postgres_tables
from retriever.store.address import Address, read_address
from retriever.store.database import transaction, write_index
from retriever.store.postgres import FOR_DOCUMENT, PostgresConnection
from retriever.store.postgres_pool import close_pools
from retriever.store.reading import snapshot_number
from retriever.store.text_vectors import CHECKSUM, PackedVector, add_checksum
from retriever.store.writing import set_meta
from tests.postgres import Server, running_server

if TYPE_CHECKING:
    import psycopg

PAUSE_S = 1.0  # of the writer between two changes
NOISE = 4.0
"""The standard deviation of what is added to each whole number of a vector: cosines of about .98 to the original."""
APART = 1_000_000
"""By so much the keys of each copy's documents are above those of the copy before."""
COPIED = {
    "documents": "document_key + {documents}, {folder}, {path} || path, size, mtime_ns, ctime_ns, inode, digest, title,"
    " boilerplate, aliases, warnings, dated",
    "nodes": "node_key + {keys}, {id} || node_id, document_key + {documents}, {id} || parent_id, kind, level, title,"
    " breadcrumb, first_line, last_line, text, front_matter_lines, anchor, summary, {id} || holder_id",
    "names": "name, node_key + {keys}",
    "links": "source_key + {keys}, position, line, kind, target_path, target_anchor, {id} || target_id, problem",
    "fields": "document_key + {documents}, position, key, value",
    "chunks": "chunk_key + {keys}, node_key + {keys}, first_line, last_line, text, {hash}",
    "tokens": "fingerprint, {hash}, bits",
}
"""What a copy's rows are made of, by table."""
FIRST = {
    "documents": "folder_key = 1",
    "nodes": "document_key IN (SELECT document_key FROM documents WHERE folder_key = 1)",
    "fields": "document_key IN (SELECT document_key FROM documents WHERE folder_key = 1)",
    "links": "source_key IN (SELECT node_key FROM nodes JOIN documents USING (document_key) WHERE folder_key = 1)",
    "tokens": "text_hash IN (SELECT text_hash FROM chunks JOIN nodes USING (node_key) JOIN documents"
    " USING (document_key) WHERE folder_key = 1)",
}
"""Which rows are copied; of the other tables, those of the nodes."""


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("questions", type=click.Path(exists=True, path_type=Path))
@click.option("--editions", default=9, show_default=True, help="Of FOLDER, for the first size.")
@click.option("--copies", default="1,10", show_default=True, help="How many of these each size has.")
@click.option("--clients", default="1,8,32", show_default=True)
@click.option("--asked", default=96, show_default=True, help="How many questions the clients ask together.")
def main(folder: Path, questions: Path, editions: int, copies: str, clients: str, asked: int) -> None:
    """Measure with editions of FOLDER and QUESTIONS (JSONL, each line with a `question`)."""
    encoder, listed = OnnxEncoder(), read_questions(questions)
    originals = embed(folder, encoder)
    todo = list(islice(cycle(listed), asked))
    numbers = [int(number) for number in clients.split(",")]
    print("| index | sections | search | clients | writer | questions/s | p50 ms | p95 ms | server CPU ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory(prefix="hybrid-retrieve-clients-")))
        server = stack.enter_context(running_server())
        address = read_address(server.address())
        assert address is not None
        make_postgres_tables(address)
        write_editions(folder, place / "docs", editions)
        write_note(place, 0)
        for index in (place / "index", address):
            make_index(index, place, originals, encoder)
        for number in numbers:
            click.echo(f"| folder | {measure(place / 'index', todo, number, 'exact')}")
        now = 1
        for wanted in map(int, copies.split(",")):
            if wanted > now:
                multiply(address, now, wanted)
            now = wanted
            began = perf_counter()
            make_postgres_tables(address, hnsw=True)
            print(f"the graph was made in {perf_counter() - began:.0f} s", file=sys.stderr)
            for how in ("exact", "hnsw") if wanted == 1 else ("hnsw",):
                for number in numbers:
                    click.echo(f"| PostgreSQL | {measure(address, todo, number, how, server)}")
                    with writing(address, place):
                        click.echo(f"| PostgreSQL | {measure(address, todo, number, how, server, 'yes')}")
        close_pools()


def make_index(index: Path, place: Path, originals: Vectors, encoder: OnnxEncoder) -> None:
    """An index of the editions, for which nothing is embedded."""
    fill_vectors(index, texts_of(place / "docs", encoder), originals, encoder.fingerprint)
    index_folders([place / "docs", place / "more"], index)


def multiply(address: Address, now: int, wanted: int) -> None:
    """Copies of what the folder's index has, in a folder that no machine has, until there are so many."""
    with write_index(address, 10) as (connection, _), transaction(connection):
        assert isinstance(connection, PostgresConnection)
        server = connection.own
        assert server is not None
        if now == 1:
            server.execute("INSERT INTO folders (path, prefix) VALUES ('/copies', 'copies:')")
        ((folder, fingerprint),) = server.execute(
            "SELECT folder_key, value FROM folders, meta WHERE path = '/copies' AND key = 'fingerprint'"
        ).fetchall()
        # It is made anew of all rows: to add each of them to it would take many times as long.
        graphs = "SELECT indexname FROM pg_indexes WHERE indexname LIKE 'hnsw%' AND schemaname = current_schema()"
        for (name,) in server.execute(graphs).fetchall():
            server.execute(f"DROP INDEX {name}")
        rows = server.cursor(binary=True).execute(f"SELECT text_hash, vector FROM vectors WHERE {FIRST['tokens']}")
        hashes, vectors = zip(*rows.fetchall(), strict=True)
        numbers = np.array([np.frombuffer(vector, np.int8)[:-CHECKSUM] for vector in vectors])
        random = np.random.default_rng(now)
        for copy in range(now, wanted):
            made = {
                "documents": copy * APART,
                "keys": (copy * APART) << FOR_DOCUMENT,
                "folder": folder,
                "path": f"'copy-{copy}/'",
                "id": f"'copies:copy-{copy}/'",
                "hash": f"decode(md5(text_hash || '\\x{copy:04x}'::bytea), 'hex')",
            }
            for table, columns in COPIED.items():
                where = FIRST.get(table, f"node_key IN (SELECT node_key FROM nodes WHERE {FIRST['nodes']})")
                server.execute(f"INSERT INTO {table} SELECT {columns} FROM {table} WHERE {where}".format(**made))
            noisy = np.clip(np.rint(numbers + random.normal(0, NOISE, numbers.shape)), -127, 127).astype(np.int8)
            server.cursor(binary=True).executemany(
                "INSERT INTO vectors SELECT %s, decode(md5(%s::bytea || %s::bytea), 'hex'), %s",
                [
                    (fingerprint, text_hash, copy.to_bytes(2), PackedVector(add_checksum(row.tobytes())))
                    for text_hash, row in zip(hashes, noisy, strict=True)
                ],
            )
        copy_words(server, folder, wanted)
        set_meta(connection, "snapshot", str(snapshot_number(connection) + 1))
    with write_index(address, 10) as (connection, _):
        connection.execute("VACUUM ANALYZE")


def copy_words(server: "psycopg.Connection", folder: int, wanted: int) -> None:
    """The postings, words and sizes of all copies, of those of the first folder."""
    for table in ("postings", "words", "parts"):
        server.execute(f"DELETE FROM {table} WHERE folder_key = %s", (folder,))
    times = wanted - 1
    server.execute(
        f"INSERT INTO words SELECT {folder}, min(part), word, sum(sections) * {times}, letters FROM words"
        " WHERE folder_key = 1 GROUP BY word, letters HAVING sum(sections) > 0"
    )
    server.execute(
        f"INSERT INTO parts SELECT {folder}, min(part), sum(sections) * {times}, sum(length) * {times} FROM parts"
        " WHERE folder_key = 1"
    )
    shifts = (np.arange(1, wanted, dtype=np.int64) * APART) << FOR_DOCUMENT
    blocks = server.cursor(binary=True).execute(
        "SELECT term, array_agg(block ORDER BY part) FROM postings WHERE folder_key = 1 GROUP BY term"
    )
    rows = []
    for term, of_term in blocks.fetchall():
        keys, counts, lengths = unpack_blocks(of_term)
        all_keys = (keys[np.newaxis, :] + shifts[:, np.newaxis]).ravel()
        block = pack_block(all_keys, np.tile(counts, times), np.tile(lengths, times))
        rows.append((folder, term, len(all_keys), block))
    server.cursor(binary=True).executemany("INSERT INTO postings VALUES (%s, 1, %s, %s, %s)", rows)


def write_note(place: Path, number: int) -> None:
    """The one file that changes, in a folder beside the editions."""
    (place / "more").mkdir(exist_ok=True)
    text = f"# Note {number}\n\nWhat changed: the settings of edition {number}.\n"
    (place / "more" / "note.md").write_text(text, encoding="utf-8")


@contextmanager
def writing(index: Path, place: Path) -> Iterator[None]:
    """A file changes, and is indexed, again and again."""
    ended = threading.Event()

    def write() -> None:
        for number in count(1):
            write_note(place, number)
            index_folders([place / "docs", place / "more"], index)
            if ended.wait(PAUSE_S):
                return

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(write)
        yield
        ended.set()
        done.result()


def measure(
    index: Path, questions: Sequence[str], clients: int, how: str, server: Server | None = None, writer: str = "no"
) -> str:
    """A row: so many clients ask all of the questions, each the next one."""
    waiting, lock, times = iter(questions), threading.Lock(), []

    def ask(retriever: Retriever) -> None:
        while True:
            with lock:
                question = next(waiting, None)
            if question is None:
                return
            began = perf_counter()
            retriever.search(question)
            times.append(1000 * (perf_counter() - began))

    with ExitStack() as stack:
        settings = {"vector_search": how}
        retrievers = [stack.enter_context(open_retriever(index=index, settings=settings)) for _ in range(clients)]
        for retriever in retrievers:
            state = retriever.search("what is there?").index
        cpu = read_server_cpu(server) if server else 0.0
        began = perf_counter()
        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(ask, retrievers))
        wall = perf_counter() - began
        cpu = 1000 * (read_server_cpu(server) - cpu) / len(questions) if server else 0.0
    spread = f"{median(times):.0f} | {quantiles(times, n=20)[-1]:.0f}"
    return f"{state.sections:,} | {how} | {clients} | {writer} | {len(questions) / wall:.1f} | {spread} | {cpu:.0f} |"


if __name__ == "__main__":
    main()
