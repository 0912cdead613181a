"""`tree`, `read` and `status`: what is in an index; `profiles`: what is in a profile."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING

import click
from rich import filesize

from retriever.command_line import options
from retriever.command_line.options import Opening
from retriever.command_line.output import Console, Output, print_line, print_text
from retriever.display import CITATION_STATES, dump_node, format_refresh_command, pluralize, shorten_citation
from retriever.looking.indexes import find_holder
from retriever.settings import list_settings, load_profile, profile_names, profile_summary
from retriever.store.files import absolute

if TYPE_CHECKING:
    from retriever.looking.status import Status
    from retriever.retriever import Retriever


@contextmanager
def open_at(reference: str, opening: Opening, console: Console) -> "Iterator[tuple[Retriever, str]]":
    """Yield the open retriever, where none is named the one that covers the path of the reference, and the reference.

    A path is the file that a shell would open, if that is in an indexed folder. A node id is written with `#`.
    """
    path = re.sub(r":\d+(-\d+)?$|#.*", "", reference)
    is_here = os.path.lexists(path)
    if is_here and not (opening.docs or opening.index) and (store := find_holder(path)):
        opening = opening._replace(index=str(store))
    with opening.open(console) as retriever:
        place = absolute(path)
        if is_here and "#" not in reference and any(map(place.is_relative_to, retriever.access.folders)):
            reference = f"{place}{reference.removeprefix(path)}"
        yield retriever, reference


@options.command("tree --depth 2", "tree ranking.md", 'tree "ranking.md#how-sections-are-ranked"')
@click.argument("reference", default="", metavar="[PATH|NODE]", type=options.PATH)
@click.option("--depth", type=click.IntRange(min=1), metavar="N", help="Number of levels to show; all by default.")
@options.docs
@options.index
@options.output
def tree(console: Console, opening: Opening, output: Output, reference: str, depth: int | None) -> None:
    """Show the outline of all documents, of one folder or file (PATH), or below one section (NODE)."""
    with open_at(reference, opening, console) as (retriever, reference):
        if output.is_for_people:
            print_text(retriever.tree(reference, depth))
            return
        output.show({"nodes": list(map(dump_node, retriever.nodes(reference, depth)))}, ())


@options.command(
    "read ranking.md:15-28",
    'read "ranking.md#how-sections-are-ranked/how-the-two-rankings-are-fused"',
    "read ranking.md --json",
    "read ranking.md --similar 5",
)
@click.argument("reference", metavar="NODE|PATH[:FIRST-LAST]", type=options.PATH)
@click.option(
    "--similar",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Show the N sections that are nearest in meaning, in place of the text.",
)
@click.option("--unlinked", is_flag=True, help="With --similar, leave out files that are already linked with it.")
@click.option("--elsewhere", is_flag=True, help="With --similar, leave out files of the same folder.")
@options.docs
@options.index
@options.output
def read(
    console: Console,
    opening: Opening,
    output: Output,
    reference: str,
    similar: int | None,
    *,
    unlinked: bool,
    elsewhere: bool,
) -> None:
    """Print the text of a section (its node id), of a file (its path), or of lines of a file.

    The text goes to standard output, its citation to standard error. With --similar, each section comes with the
    cosine of its mean vector and that of the text, at most 1.
    """
    if (unlinked or elsewhere) and not similar:
        raise click.UsageError("--unlinked and --elsewhere go with --similar")
    with open_at(reference, opening, console) as (retriever, reference):
        if similar:
            from retriever.command_line.render import show_similar  # rich

            found = retriever.similar(reference, similar, unlinked=unlinked, elsewhere=elsewhere)
            if output.is_for_people and not found.sections:
                console.note("no other file is similar")
            output.draw(found, lambda page: show_similar(page, found))
            return
        excerpt = retriever.read(reference)
    if output.is_for_people:  # on standard error: what is piped on is the text alone
        titles = " > ".join((*excerpt.breadcrumb, excerpt.title))
        state = CITATION_STATES[excerpt.citation_state]
        place = f"{shorten_citation(excerpt)}{f', {state}' if state else ''}"
        console.note(f"{place} | {titles}", dim=True)
    output.show(excerpt, excerpt.text)


@options.command("status", "status -v", "status --json")
@options.index
@options.output
def status(console: Console, opening: Opening, output: Output) -> None:
    """Show what is indexed, which files changed since, and which could not be read.

    With -v also which links are broken, and remarks on files that are read.
    """
    with opening.open(console) as retriever:
        state = retriever.status()
    facts = list_facts(state, opening.index, is_verbose=console.verbose)
    output.show(state, (f"{name:<13} {fact}" for name, fact in facts))


def list_facts(status: "Status", index: str | None, *, is_verbose: bool) -> "Iterator[tuple[str, str]]":
    """Yield what is to be known of an index: names and facts.

    >>> from retriever.looking.status import Status
    >>> from retriever.types import IndexState
    >>> state = IndexState("/idx", ("/docs",), "s", documents=1, sections=2, chunks=3, embedded_share=0.5)
    >>> lists = ((), (), (("a.md", 3, "b.md", "no such document"),), (("a.md", "odd"),), (), ("hugo",))
    >>> status = Status(state, "onnx mine", 2_000, *lists, "40% of the text is not in English")
    >>> for name, fact in list_facts(status, None, is_verbose=False):
    ...     print(f"{name}: {fact}")
    index: /idx
    folder: /docs, read as hugo
    holds: 1 file, 2 sections, 3 chunks (50% with a vector)
    encoder: onnx mine
    languages: 40% of the text is not in English
    size: 2.0 kB
    freshness: up to date
    skipped: 0 files
    broken links: 1 (with -v: which)
    remarks: 1 remark on files that are read (with -v: which)
    >>> for name, fact in list(list_facts(status, None, is_verbose=True))[-4:]:
    ...     print(f"{name}: {fact}")
    broken links: 1
    remarks: 1 remark on files that are read
      broken: a.md:3 to b.md: no such document
      remark: a.md: odd
    """
    state = status.index
    yield "index", state.path
    for folder, dialect in zip(state.folders, status.dialects, strict=True):
        yield "folder", f"{folder}, read as {dialect}"
    chunks = pluralize(state.chunks, "chunk")
    if state.embedded_share < 1:
        chunks += f" ({state.embedded_share:.0%} with a vector)"
    yield "holds", f"{pluralize(state.documents, 'file')}, {pluralize(state.sections, 'section')}, {chunks}"
    yield "encoder", status.encoder
    if status.mix:
        yield "languages", status.mix
    yield "size", filesize.decimal(status.size_bytes)
    if status.changed_files:
        changed = pluralize(len(status.changed_files), "file")
        yield "freshness", f"{changed} changed; run: {format_refresh_command(state, index)}"
    elif state.unchecked_folders:
        folders = pluralize(state.unchecked_folders, "folder")
        yield "freshness", f"{folders} not looked at: not there, or not named with --docs"
    else:
        yield "freshness", "up to date"
    yield from (("  changed", file) for file in status.changed_files)
    yield "skipped", pluralize(len(status.skipped), "file")
    yield from (("  skipped", f"{path}: {reason}") for path, reason in status.skipped)
    if status.forgotten:
        yield "forgotten", f"{pluralize(len(status.forgotten), 'path')}, kept out; `forget --undo` takes one back"
        yield from (("  forgotten", path) for path, _ in status.forgotten)
    more = "" if is_verbose else " (with -v: which)"
    yield "broken links", f"{len(status.broken_links):,}{more if status.broken_links else ''}"
    if status.remarks:
        yield "remarks", f"{pluralize(len(status.remarks), 'remark')} on files that are read{more}"
    if is_verbose:
        broken = status.broken_links
        yield from (("  broken", f"{file}:{line} to {target}: {why}") for file, line, target, why in broken)
        yield from (("  remark", f"{path}: {remark}") for path, remark in status.remarks)


# `profiles`: the recall modes, and every setting of one, which is a profile file to begin with.


@options.command("profiles", "profiles recall", "profiles recall --top-k 8 > mine.yaml", settings=())
@click.argument("name", required=False, metavar="[NAME|FILE]", type=options.PATH)
def profiles(console: Console, opening: Opening, name: str | None) -> None:
    """List the profiles, or show every setting of one: its value and its meaning.

    The output for one profile is a profile file itself. Precedence: defaults, then the profile, then
    HYBRID_RETRIEVE_* variables, then flags.
    """
    from retriever.upkeep import describe_stages  # with all that asks models

    if name is None:
        summaries = {known: profile_summary(known) for known in profile_names()}
        width = max(map(len, summaries))
        for known, text in summaries.items():
            print_line(f"{known:<{width}}  {text}")
            profile = load_profile(known, opening.settings)
            if profile.use_llm:
                print_line(f"{'':<{width}}  {describe_stages(profile)}")
    else:
        profile = load_profile(name, opening.settings)
        print_line(f"# Profile {name}: every setting, its value and its meaning.")
        print_line("# Each is a flag and a variable too: llm.url is --llm-url and HYBRID_RETRIEVE_LLM_URL.")
        for section, items in groupby(list_settings(), key=lambda item: item.path[:-1]):
            for key in section:
                print_line(f"{key}:")
            for item in items:
                value = format_yaml(reduce(getattr, item.path, profile))
                print_line(f"{'  ' * len(section)}{item.path[-1]}: {value}  # {item.help}")


def format_yaml(value: object) -> str:
    import yaml

    text = str(yaml.safe_dump(value, default_flow_style=True, width=float("inf")))
    return text.removesuffix("\n").removesuffix("\n...")
