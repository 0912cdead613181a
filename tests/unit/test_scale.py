"""The cost model and the simulation of docs/scale.md, against sums done by hand, and the document's tables."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import cost_model, fan_out, unit_costs
from benchmarks.cost_model import Layout, Machine, Prices
from benchmarks.unit_costs import Asked, Size, UnitCosts
from tests.program import PROJECT


def make_asked(server_cpu_ms: float, bytes_sent: float) -> Asked:
    return Asked(server_cpu_ms, client_cpu_ms=10, bytes_sent=bytes_sent, wall_ms=20, waits_ms=[5.0, 6.0])


def make_size(sections: int, scan_ms: float, sent: float) -> Size:
    tables = {
        "vectors": (2_000 * sections, 0, 0),
        "HNSW": (0, 0, 3_000 * sections),
        "nodes": (400 * sections, 100 * sections, 0),
    }
    exact, hnsw = make_asked(10 + scan_ms, sent), make_asked(10, sent)
    return Size(sections, 2 * sections, 1.0, 1.0, 1.0, tables, exact, hnsw)


COSTS = UnitCosts("a machine", 1_000, 30.0, (make_size(1_000, 2, 20_000), make_size(3_000, 6, 52_000)))
HOT = Layout("all in memory", ("vectors", "HNSW"))


def test_unit_costs_are_differences_of_two_sizes() -> None:
    assert cost_model.time_scan(COSTS) == pytest.approx(100)  # 4 ms more for 4,000 vectors more
    assert cost_model.count_postings(COSTS) == pytest.approx(1)  # 32,000 bytes more for 2,000 sections more
    assert cost_model.list_bytes(COSTS)["nodes"] == 500
    assert cost_model.list_bytes(COSTS)["bits"] == 2 * (48 + 256)


def test_memory_decides_how_many_shards_there_are() -> None:
    # 100 million sections: 500 GB in memory, 550 GB on disk; a machine has 100 GB, of which 80 are filled.
    made = cost_model.plan(COSTS, HOT, 100_000_000, 0.001, Machine(10, 100, 10_000), Prices(0.1, 0.01, 0.001))
    assert (made.memory_gb, made.ssd_gb, made.object_gb) == pytest.approx((500, 550, 0))
    assert (made.shards, made.copies) == (7, 2)
    assert made.cpu_ms == pytest.approx(7 * 10 + 500)  # each shard's 10 ms, and 100 million postings at 5 ns
    # 6.25 machines' worth of memory, twice, of 10 processors + 10 for memory + 100 for disks each.
    assert made.units == pytest.approx(2 * 6.25 * 120)


def test_questions_decide_how_many_copies_there_are() -> None:
    machine = Machine(10, 100, 10_000)
    few, many = (cost_model.plan(COSTS, HOT, 100_000_000, rate, machine) for rate in (1, 1_000))
    assert (few.copies, many.copies) == (2, 17)  # 570 CPU s a second, 5 of each machine: 114 machines, 7 a copy
    skipping = cost_model.plan(COSTS, replace(HOT, postings_read=0.02), 100_000_000, 1_000, machine)
    assert skipping.copies == 3


def test_what_is_cold_is_stored_once_and_cached() -> None:
    made = cost_model.plan(COSTS, Layout("cold", ("centroids",), ("vectors", "nodes")), 1_000_000, 1)
    assert made.object_gb == pytest.approx(2.5)
    assert made.ssd_gb == pytest.approx(0.25 + 2 / 128 * 768 / 1_000)


def test_a_copy_is_asked_after_the_delay() -> None:
    first, second = np.array([[5.0, 90.0]]), np.array([[1.0, 30.0]])
    assert fan_out.hedge(first, second, 10).tolist() == [[5.0, 40.0]]
    assert fan_out.lose(first, second, 1_000).tolist() == [[1_001.0, 90.0]]


def test_a_slow_hundredth_of_each_shard_is_most_questions_of_a_hundred() -> None:
    times = [10.0] * 99 + [1_000.0]
    found = fan_out.simulate(times, 100)
    assert np.mean(found["as it is"] > 10) == pytest.approx(1 - 0.99**100, abs=0.01)
    assert np.mean(found["hedged"] > 20) < 0.02
    assert found["one lost"].min() >= fan_out.TIMEOUT_MS
    assert np.median(found["one lost, hedged"]) == 20
    assert (found["as it is"] == fan_out.simulate(times, 100)["as it is"]).all()  # seeded


def test_the_document_has_what_the_benchmarks_print() -> None:
    costs = unit_costs.read_costs()
    printed = (
        *unit_costs.describe(costs), *cost_model.describe_sizes(costs), *cost_model.describe_plans(costs),
        *fan_out.describe(costs.sizes[-1].hnsw.waits_ms),
    )  # fmt: skip
    document = (PROJECT / "docs" / "scale.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in printed if line and line not in document] == []
