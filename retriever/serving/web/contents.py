"""The table of contents of an index: folders, files and sections without their texts, read once a generation."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

from pageindex.node import NodeKind, Span, folder_id
from retriever.searching.open_index import View
from retriever.store.outline import OutlineRow, outline_rows

NO_TITLE = "(no title)"


@dataclass(slots=True)
class Entry:
    """A folder, file or section, and what is below it."""

    node_id: str
    kind: NodeKind
    title: str
    """As in `Node`; an indexed folder is called `/` or by its prefix."""
    label: str
    """What people read: an indexed folder's own name, else the title, else the file's name."""
    path: str
    """As in `Node`."""
    span: Span | None
    parent: "Entry | None"
    children: "list[Entry]" = field(default_factory=list)
    """In document order."""

    def way(self) -> "list[Entry]":
        """From the root down to this entry."""
        way = [self]
        while way[-1].parent is not None:
            way.append(way[-1].parent)
        return way[::-1]


class Contents:
    """Every entry by its node id."""

    def __init__(self, rows: Iterable[OutlineRow]) -> None:
        self._entries: dict[str, Entry] = {}
        self.roots: list[Entry] = []
        for row in rows:
            parent = self._folder(row) if row.parent_id is None else self._entries[row.parent_id]
            self._add(Entry(row.node_id, row.kind, row.title, _label(row), row.path, row.span, parent))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._entries

    def get(self, node_id: str) -> Entry | None:
        """The entry; None when there is none."""
        return self._entries.get(node_id)

    def walk(self, start: Entry | None, depth: int | None = None) -> Iterator[Entry]:
        """An entry, or all, and what is below it to that depth; parents first."""
        pending = [(entry, 0) for entry in reversed([start] if start else self.roots)]
        while pending:
            entry, level = pending.pop()
            yield entry
            if depth is None or level < depth:
                pending.extend((child, level + 1) for child in reversed(entry.children))

    def _add(self, entry: Entry) -> Entry:
        self._entries[entry.node_id] = entry
        (self.roots if entry.parent is None else entry.parent.children).append(entry)
        return entry

    def _folder(self, row: OutlineRow) -> Entry:
        """The file's folder, made with all above it where they are not there yet."""
        parts = row.path.split("/")[:-1]
        above: Entry | None = None
        for depth in range(len(parts) + 1):
            path = "/".join(parts[:depth])
            node_id = folder_id(row.prefix, path)
            title = parts[depth - 1] if depth else row.prefix or "/"
            label = title if depth else PurePath(row.folder).name or "/"
            known = self._entries.get(node_id)
            above = known or self._add(Entry(node_id, NodeKind.FOLDER, title, label, path, None, above))
        assert above is not None, "the indexed folder itself is always there"
        return above


def _label(row: OutlineRow) -> str:
    return row.title.strip() or (PurePath(row.path).name if row.kind is NodeKind.FILE else NO_TITLE)


class ContentsOfIndex:
    """Remembers the contents of the generation that was read last."""

    def __init__(self) -> None:
        # Replaced as a whole: retrievers of two profiles may ask at once.
        self._known: tuple[tuple[str, int] | None, Contents] = None, Contents(())

    def of(self, view: View) -> Contents:
        """The contents of the view; 68,000 sections are read in 0.4 s, once."""
        wanted = str(view.index), view.number
        key, contents = self._known
        if key != wanted:
            contents = Contents(outline_rows(view.connection))
            self._known = wanted, contents
        return contents
