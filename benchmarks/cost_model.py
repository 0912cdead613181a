"""What an index of a million, a hundred million and ten billion sections would cost, from measured unit costs.

    uv run --group dev benchmarks/cost_model.py

Reads what `unit_costs.py --write` wrote, and prints the tables of docs/scale.md. The unit of money is one virtual
processor for a month. What memory and disks cost beside it, what a machine has, and the constants are assumptions.
"""

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.unit_costs import MEASURED, UnitCosts, read_costs

LOADS = {1_000_000: 10, 100_000_000: 100, 10_000_000_000: 1_000}
"""Sections, and questions a second."""
DIMENSION = 384
MONTH_S = 30 * 86_400
COPIES = 2
"""A machine that is lost has another with the same rows."""
BUSY, FILLED = 0.5, 0.8
"""The shares of its processors, and of its memory and disk, that a machine is planned to use."""
LINK_BYTES = 256
"""Of a vector in a graph: 48 links of 4 bytes, and the upper levels."""
CLUSTER_VECTORS = 128
"""How many vectors a centroid stands for."""
POSTING_BYTES, POSTING_S = 16, 5e-9
"""Of one section in one word's postings: its size, and the processor time to score it where it stands."""
SKIPPING = 0.02
"""What of the postings an engine reads that skips those which cannot be among the first."""
COLD = "vectors", "tokens", "chunks", "nodes"
CACHED = 0.1
"""How much of what is in object storage has a copy on SSD."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a cluster; a smaller one has a share of everything."""

    vcpus: float = 32
    memory_gb: float = 256
    ssd_gb: float = 8_000


@dataclass(frozen=True, slots=True)
class Prices:
    """Per GB and month, in vCPU-months."""

    memory: float = 0.1
    ssd: float = 0.004
    objects: float = 0.001


MACHINE, PRICES = Machine(), Prices()


@dataclass(frozen=True, slots=True)
class Layout:
    """Where an engine keeps what: in memory, in object storage, and all else on SSD."""

    name: str
    hot: tuple[str, ...]
    cold: tuple[str, ...] = ()
    postings_read: float = 1.0
    """The share of the postings of a question's words that are scored: engines that know the most that a block of them
    can add skip the others."""


LAYOUTS = (
    Layout("vectors and graph in memory, all postings scored", ("vectors", "HNSW")),
    Layout("the same, most postings skipped", ("vectors", "HNSW"), (), SKIPPING),
    Layout("bits and graph in memory, vectors on SSD", ("bits",), (), SKIPPING),
    Layout("centroids in memory, the rest in object storage", ("centroids",), COLD, SKIPPING),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a layout needs."""

    memory_gb: float
    ssd_gb: float
    object_gb: float
    shards: int
    copies: int
    """Of each shard: a machine for each."""
    cpu_ms: float
    """Of a question, on all shards together."""
    units: float
    """vCPU-months a month."""


def list_bytes(costs: UnitCosts) -> dict[str, float]:
    """Bytes of a section by table, as the largest size was measured; and of what stands for vectors elsewhere."""
    largest = costs.sizes[-1]
    vectors = largest.vectors / largest.sections
    return {name: sum(parts) / largest.sections for name, parts in largest.bytes.items()} | {
        "bits": vectors * (DIMENSION / 8 + LINK_BYTES),
        "centroids": vectors / CLUSTER_VECTORS * 2 * DIMENSION,
    }


def count_postings(costs: UnitCosts) -> float:
    """How many postings a question reads for each section of an index: what more sections make the server send."""
    small, large = costs.sizes[0], costs.sizes[-1]
    sent = (large.hnsw.bytes_sent - small.hnsw.bytes_sent) / (large.sections - small.sections)
    return sent / POSTING_BYTES


def time_scan(costs: UnitCosts) -> float:
    """Milliseconds of the processor that comparing a question with 100,000 vectors takes."""
    small, large = costs.sizes[0], costs.sizes[-1]
    more = [size.exact.server_cpu_ms - size.hnsw.server_cpu_ms for size in (small, large)]
    return (more[1] - more[0]) / (large.vectors - small.vectors) * 100_000


def plan(
    costs: UnitCosts,
    layout: Layout,
    sections: int,
    questions_per_s: float,
    machine: Machine = MACHINE,
    prices: Prices = PRICES,
) -> Plan:
    """How many machines hold so many sections and answer so many questions, and what they cost.

    As many shards as the memory or the disks ask for; each question costs every shard what it costs one server, and
    its postings are scored where they stand; as many copies of a shard as the processors ask for, COPIES at least.
    """
    own, gigabytes = list_bytes(costs), sections / 1e9
    stored = {
        name: size for name, size in own.items() if name in layout.hot or name not in ("HNSW", "bits", "centroids")
    }
    objects = gigabytes * sum(stored[name] for name in layout.cold)
    ssd = gigabytes * sum(size for name, size in stored.items() if name not in layout.cold) + CACHED * objects
    memory = gigabytes * sum(stored[name] for name in layout.hot)
    needed = max(memory / machine.memory_gb, ssd / machine.ssd_gb) / FILLED  # in machines
    shards = math.ceil(needed)
    scored = count_postings(costs) * layout.postings_read
    cpu_s = shards * costs.sizes[-1].hnsw.server_cpu_ms / 1000 + sections * scored * POSTING_S
    busy = questions_per_s * cpu_s / BUSY / machine.vcpus
    copies = max(COPIES, math.ceil(busy / shards))
    share = max(needed / shards, busy / (shards * copies))  # a machine may be smaller than `machine`
    price = machine.vcpus + machine.memory_gb * prices.memory + machine.ssd_gb * prices.ssd
    units = shards * copies * share * price + objects * prices.objects
    return Plan(memory, ssd, objects, shards, copies, 1000 * cpu_s, units)


def describe_sizes(costs: UnitCosts) -> list[str]:
    """The lines of a table: what so many sections are, whatever engine has them."""
    own, largest = list_bytes(costs), costs.sizes[-1]
    stored = sum(size for name, size in own.items() if name not in ("bits", "centroids"))
    vectors = largest.vectors / largest.sections
    embedding = costs.embed_cpu_s / costs.sections
    writing = (largest.client_cpu_s + largest.server_cpu_s + largest.graph_cpu_s) / largest.sections
    lines = ["| sections | " + " | ".join(f"{sections:,}" for sections in LOADS) + " |", "|---|" + "---|" * len(LOADS)]
    rows = {
        "vectors, millions": vectors / 1e6,
        "all tables and indexes, GB": stored / 1e9,
        "of it vectors and HNSW, GB": (own["vectors"] + own["HNSW"]) / 1e9,
        "to embed, CPU days": embedding / 86_400,
        "to parse, write and link into HNSW, CPU days": writing / 86_400,
        "to embed all, vCPU-months": embedding / MONTH_S,
        "an exact scan, CPU s a question": time_scan(costs) * vectors / 1e8,
        "postings sent, MB a question": count_postings(costs) * POSTING_BYTES / 1e6,
    }
    for name, of_one in rows.items():
        lines.append(f"| {name} | " + " | ".join(write_number(of_one * sections) for sections in LOADS) + " |")
    return lines


def describe_plans(costs: UnitCosts) -> list[str]:
    """The lines of a table: what each layout needs."""
    lines = [
        "| layout | sections | questions a second | memory, GB | SSD, GB | object storage, GB | shards x copies"
        " | CPU ms a question | vCPU-months a month |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for layout in LAYOUTS:
        for sections, questions in LOADS.items():
            made = plan(costs, layout, sections, questions)
            sizes = " | ".join(map(write_number, (made.memory_gb, made.ssd_gb, made.object_gb)))
            machines, cost = f"{made.shards:,} x {made.copies}", f"{made.cpu_ms:,.0f} | {write_number(made.units)}"
            lines.append(f"| {layout.name} | {sections:,} | {questions:,} | {sizes} | {machines} | {cost} |")
    return lines


def write_number(value: float) -> str:
    """With two or three digits that count."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


@click.command()
@click.option("--measured", type=click.Path(exists=True, path_type=Path), default=MEASURED, show_default=True)
def main(measured: Path) -> None:
    """Compute from what was measured."""
    costs = read_costs(measured)
    print("\n".join((*describe_sizes(costs), "", *describe_plans(costs))))


if __name__ == "__main__":
    main()
