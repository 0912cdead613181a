"""Whether an index spread over a Citus cluster answers as one PostgreSQL does, and what is said while a worker is gone.

    uv run --group dev benchmarks/citus.py QUESTIONS.jsonl DOCS [--build CITUS PGVECTOR]

A coordinator and two workers are started on loopback, and one plain server beside them, of the PostgreSQL that
`--pg-config` names. It has to have Citus and pgvector: `--build` makes and installs both from folders of their sources.
"""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from time import perf_counter

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.postgres import ask, compare
from benchmarks.speed import read_questions
from retriever.api import export_index, import_index, index_folders, open_retriever
from retriever.errors import IndexUnusableError
from retriever.sharing import make_postgres_tables
from retriever.store.postgres_pool import close_pools
from tests.postgres import running_cluster, running_server

OPTIONS = "--without-libcurl", "--without-lz4", "--without-zstd"  # that an index does not use
PATH = click.Path(exists=True, path_type=Path)


@click.command()
@click.argument("questions", type=PATH)
@click.argument("docs", type=PATH)
@click.option("--pg-config", type=PATH, default=Path("/usr/lib/postgresql/15/bin/pg_config"), show_default=True)
@click.option("--build", type=PATH, nargs=2, metavar="CITUS PGVECTOR", help="Folders of sources, to build and install.")
def main(questions: Path, docs: Path, pg_config: Path, build: tuple[Path, Path] | None) -> None:
    """Compare a cluster with one node, on the answers to QUESTIONS about DOCS."""
    for source in build or ():
        build_extension(source, pg_config)
    asked = read_questions(questions)
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(pg_config.parent))
        places = {
            "one node": stack.enter_context(running_server(pg_config.parent)).address(),
            "cluster": stack.enter_context(cluster.new_database()),
        }
        stack.callback(close_pools)
        folder = Path(stack.enter_context(TemporaryDirectory()))
        index_folders([docs], folder / "index")
        export_index(folder / "index.zip", folder / "index")
        for name, address in places.items():
            make_postgres_tables(address, citus=name == "cluster")
            began = perf_counter()
            import_index(folder / "index.zip", address)
            make_postgres_tables(address, hnsw=True)
            print(f"{name}: imported, with HNSW, in {perf_counter() - began:.1f} s", flush=True)
        print("| profile | search | same answers | shared hits | one node, median ms | cluster | its round trips |")
        print("|---|---|---|---|---|---|---|")
        for profile, how in (("balanced", "exact"), ("balanced", "hnsw"), ("classic", "exact"), ("fast", "exact")):
            expected, before, _ = ask(places["one node"], asked, profile, how)
            found, times, waits = ask(places["cluster"], asked, profile, how)
            same, shared = compare(expected, found)
            costs = f"{median(before):.0f} | {median(times):.0f} | {mean(map(len, waits)):.1f}"
            print(f"| {profile} | {how} | {same} of {len(asked)} | {shared:.4f} | {costs} |", flush=True)
        with open_retriever(index=places["cluster"]) as retriever:
            cluster.workers[0].stop("immediate")
            began = perf_counter()
            try:
                retriever.search(asked[0])
            except IndexUnusableError as error:
                print(f"\na worker is killed; after {1000 * (perf_counter() - began):.0f} ms: {error}")
            cluster.workers[0].start()
            began, hits = perf_counter(), len(retriever.search(asked[0]).hits)
            print(f"it is back; after {1000 * (perf_counter() - began):.0f} ms: {hits} hits")


def build_extension(source: Path, pg_config: Path) -> None:
    """Makes and installs Citus or pgvector."""
    make = (
        "make",
        f"PG_CONFIG={pg_config}",
        "with_llvm=no",
        "OPTFLAGS=",
    )  # for any processor, no just-in-time compiling
    commands: list[tuple[str, ...]] = [(*make, "-j2"), (*make, "install")]
    if (source / "configure").is_file():  # Citus
        configure = "./configure", f"PG_CONFIG={pg_config}", *OPTIONS
        commands = [configure, (*make, "-j2", "extension"), (*make, "install-extension")]
    began = perf_counter()
    for command in commands:
        done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
        if done.returncode:
            raise click.ClickException(f"{' '.join(command)} in {source}\n{done.stderr[-2000:]}")
    print(f"{source.name}: built and installed in {perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
