"""`pick`: type, see the sections as you type, open one in the editor."""

import asyncio
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import BufferControl, Dimension, FormattedTextControl, HSplit, Layout, VSplit, Window
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.styles import Style

from retriever.command_line import options
from retriever.command_line.options import Opening
from retriever.command_line.output import Console
from retriever.command_line.render import find_breaks
from retriever.display import find_highlights, sanitize_line, shorten_citation
from retriever.errors import RetrieverError, UsageError
from retriever.query import AskRequest, Scope
from retriever.retriever import Retriever
from retriever.settings import merge
from retriever.types import Answer, Hit

PAUSE_S = 0.12  # without a key, before what was typed is searched for
EQUAL = Dimension(preferred=1)  # columns of the list, and of the preview: half of the terminal each
DEFAULTS = {"top_k": 20, "final_text_chars": 20_000}  # nearly every section is previewed as a whole
KEYS = "arrows: choose  Enter: open  Esc: end"
START = """Type a question, or words of it.

in:FOLDER  tag:TAG  since:7d
where:KEY=VALUE
\"these words\"  -\"not these\"
"""
STYLE = Style.from_dict({"cited": "bold ansicyan", "matched": "bold ansiyellow", "quiet": "ansibrightblack"})
# How editors take a line, by their command; `+LINE FILE` is what most others take.
EDITORS = {
    **dict.fromkeys(("code", "codium", "cursor"), ("-g", "{file}:{line}")),
    **dict.fromkeys(("hx", "helix", "subl", "zed"), ("{file}:{line}",)),
}


@options.command("pick", 'pick "vacation" --in handbook', settings=("top_k", "exact"))
@options.question
@options.opened
@options.scope
def pick(console: Console, scope: Scope, opening: Opening, words: tuple[str, ...]) -> None:
    """Type a question, see the sections as you type, and open one in your editor ($VISUAL, else $EDITOR).

    Language models and rerankers are not used. You can type filters as for `ask`: in:FOLDER, tag:TAG.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("pick needs a terminal; in a pipe, ask prints the sections")
    with opening._replace(settings=merge(DEFAULTS, opening.settings)).open(console) as retriever:
        Picker(retriever, scope, " ".join(words)).run()


class Picker:
    r"""A question that is typed, its hits, and the text of the chosen one.

    >>> from types import SimpleNamespace
    >>> from prompt_toolkit.application import create_app_session
    >>> from prompt_toolkit.output import DummyOutput  # a terminal of 80 columns
    >>> from pageindex.node import Span
    >>> with create_app_session(output=DummyOutput()):
    ...     picker = Picker(SimpleNamespace(), Scope(), "")
    >>> picker.hit, picker._draw_status(), picker._draw_preview(), picker._draw_hits() == [("class:quiet", START)]
    (None, 'arrows: choose  Enter: open  Esc: end', [], True)
    >>> place = {"node_id": "a.md#a", "folder": "/d", "file": "a.md", "title": "A", "breadcrumb": ("Top",)}
    >>> text = {"text": "# A\nA tide.\n\tEbb.\nEnd.\n", "text_cut": False, "snippet": "", "summary": ""}
    >>> hits = [
    ...     Hit(**place, **text, rank=rank, span=Span(5, 8), passage=passage, score=0.1, scale="rrf", evidence=())
    ...     for rank, passage in ((1, Span(6, 7)), (2, Span(5, 5)))
    ... ]
    >>> picker._answer = SimpleNamespace(hits=hits, marked=(["tide"], ()), verdict="weak")
    >>> picker._draw_status()
    '1/2  weak   arrows: choose  Enter: open  Esc: end'
    >>> picker._draw_preview()[:4]
    [('', 'A '), ('class:matched', 'tide'), ('', '.\n'), ('', '    Ebb.\n')]
    >>> picker._draw_preview()[4:]
    [('class:quiet', 'End.\n'), ('class:quiet', '\n')]
    >>> picker._draw_hits()[:3]
    [('[SetCursorPosition]', ''), ('class:cited reverse', '/d/a.md:6-7\n'), (' reverse', '  Top > A\n')]
    >>> picker._draw_hits()[3:]
    [('class:cited ', '/d/a.md:5\n'), (' ', '  Top > A\n')]
    >>> def press(key):
    ...     picker.application.key_bindings.get_bindings_for_keys((key,))[-1].handler(None)
    ...     return picker.hit.rank
    >>> [press(key) for key in ("up", "down", "down", "up", "pagedown", "pageup", "c-n", "c-p")]
    [1, 2, 2, 1, 2, 1, 2, 1]
    """

    def __init__(self, retriever: Retriever, scope: Scope, question: str) -> None:
        self._retriever, self._scope = retriever, scope
        self._answer: Answer | None = None
        self._chosen, self._note = 0, ""
        self.question = Buffer(multiline=False, document=Document(question), on_text_changed=self._search_soon)
        typed = Window(BufferControl(self.question, input_processors=[BeforeInput("> ", "class:cited")]), height=1)
        hits = Window(FormattedTextControl(self._draw_hits), width=EQUAL)
        preview = Window(FormattedTextControl(self._draw_preview), wrap_lines=True, width=EQUAL)
        body = VSplit([hits, Window(width=1, char="\u2502", style="class:quiet"), preview])
        status = Window(FormattedTextControl(self._draw_status), height=1, style="class:quiet")
        self.application: Application[None] = Application(
            Layout(HSplit([typed, body, status])), key_bindings=self._bind_keys(), style=STYLE, full_screen=True
        )

    def run(self) -> None:
        """Show it until the user ends it."""
        self.application.run(pre_run=self._search_soon)

    @property
    def hits(self) -> tuple[Hit, ...]:
        """Return what was found."""
        return self._answer.hits if self._answer else ()

    @property
    def hit(self) -> Hit | None:
        """The chosen hit."""
        return self.hits[self._chosen] if self._chosen < len(self.hits) else None

    def _search_soon(self, _: object = None) -> None:
        self.application.create_background_task(self._search(self.question.text))

    async def _search(self, typed: str) -> None:
        """Search for what is typed, unless more is typed meanwhile."""
        await asyncio.sleep(PAUSE_S)
        if typed != self.question.text:
            return
        self._note, self._chosen = "", 0
        request = AskRequest(typed.strip(), scope=self._scope, is_typing=True)
        try:
            answer = await asyncio.to_thread(self._retriever.search, request) if request.question else None
        except RetrieverError as error:  # such as a filter that is half typed: the last answer stays
            self._note = error.message
        else:
            if typed == self.question.text:
                self._answer = answer
        self.application.invalidate()

    # What is drawn.

    @property
    def _width(self) -> int:
        return max(1, (self.application.output.get_size().columns - 1) // 2)

    def _draw_hits(self) -> StyleAndTextTuples:
        drawn: StyleAndTextTuples = [] if self._answer else [("class:quiet", START)]
        for hit in self.hits:
            mark = "reverse" if hit is self.hit else ""
            if mark:
                drawn.append(("[SetCursorPosition]", ""))
            titles = " > ".join((*hit.breadcrumb, hit.title))
            for style, text in (("class:cited", shorten_citation(hit)), ("", f"  {titles}")):
                line = sanitize_line(text)
                if len(line) > self._width:  # its end has the lines, and the section's own title
                    line = f"\u2026{line[1 - self._width :]}"
                drawn.append((f"{style} {mark}", f"{line}\n"))
        return drawn

    def _draw_preview(self) -> StyleAndTextTuples:
        hit, answer = self.hit, self._answer
        if hit is None or answer is None:
            return []
        drawn: StyleAndTextTuples = []
        for number, line in enumerate(hit.text.split("\n"), hit.span.first):
            if number < hit.passage.first:
                continue
            style = "" if number <= hit.passage.last else "class:quiet"
            shown = sanitize_line(line.expandtabs(4))
            for begin, after in pairwise([*find_breaks(shown, self._width), len(shown)]):
                text, end = shown[begin:after], 0
                for start, stop in find_highlights(text, *answer.marked):
                    drawn += [(style, text[end:start]), ("class:matched", text[start:stop])]
                    end = stop
                drawn.append((style, f"{text[end:]}\n"))
        return drawn

    def _draw_status(self) -> str:
        if self._note or self._answer is None:
            return sanitize_line(self._note) or KEYS
        count = f"{self._chosen + 1}/{len(self.hits)}" if self.hits else "nothing found"
        return f"{count}  {self._answer.verdict}   {KEYS}"

    # What keys do.

    def _bind_keys(self) -> KeyBindings:
        keys = KeyBindings()

        def move(by: int) -> None:
            self._note, self._chosen = "", max(0, min(self._chosen + by, len(self.hits) - 1))

        for name, by in (("down", 1), ("up", -1), ("c-n", 1), ("c-p", -1), ("pagedown", 5), ("pageup", -5)):
            keys.add(name)(lambda _, by=by: move(by))
        for name in ("escape", "c-c"):
            keys.add(name, eager=True)(lambda event: event.app.exit())
        keys.add("enter")(lambda event: event.app.create_background_task(self._open()))
        return keys

    async def _open(self) -> None:
        if hit := self.hit:
            command = name_editor(Path(hit.folder, hit.file), hit.passage.first, os.environ)
            async with in_terminal():
                try:
                    await asyncio.to_thread(subprocess.run, command, check=False)
                except OSError as error:
                    self._note = f"{command[0]} cannot be started: {error.strerror}; set EDITOR"


def name_editor(file: Path, line: int, environment: Mapping[str, str]) -> list[str]:
    """Return the command that opens a file at a line: of $VISUAL, else $EDITOR, else vi.

    >>> name_editor(Path("/notes/a b.md"), 3, {})
    ['vi', '+3', '/notes/a b.md']
    >>> name_editor(Path("/notes/a b.md"), 3, {"EDITOR": "nano", "VISUAL": "code --wait"})
    ['code', '--wait', '-g', '/notes/a b.md:3']
    >>> name_editor(Path("/notes/a b.md"), 3, {"EDITOR": "/usr/bin/hx"})
    ['/usr/bin/hx', '/notes/a b.md:3']
    """
    command = shlex.split(environment.get("VISUAL") or environment.get("EDITOR") or "vi")
    place = EDITORS.get(Path(command[0]).name, ("+{line}", "{file}"))
    return [*command, *(part.format(file=file, line=line) for part in place)]
