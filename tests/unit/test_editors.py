"""Links that open an editor: the address of a line, which terminals are shown one, and what no name can do."""

import io
import re

import pytest

from hybrid_retrieve import main
from retriever.command_line.render import Page, show_answer
from retriever.display.editors import EDITOR_TEMPLATES, FILE_TEMPLATE, choose_template, make_editor_link
from retriever.errors import UsageError
from tests.answers import HIT, answer, hit
from tests.fake_library import install

LINK = re.compile(r"\x1b\]8;;([^\x1b]*)\x1b\\(.*?)\x1b\]8;;\x1b\\")
CODE = "code://open?{path}#{line}"


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _a_plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TERM_PROGRAM", "TERMINAL_EMULATOR", "VTE_VERSION", "WT_SESSION", "KITTY_WINDOW_ID", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.parametrize(
    ("editor", "address"),
    [
        ("vscode", "vscode://file/docs/a%20b/%C3%A9.md:7"),
        ("vim", "mvim://open?url=file://%2Fdocs%2Fa%20b%2F%C3%A9.md&line=7"),
        ("emacs", "emacs://open?url=file://%2Fdocs%2Fa%20b%2F%C3%A9.md&line=7"),
        ("jetbrains", "idea://open?file=%2Fdocs%2Fa%20b%2F%C3%A9.md&line=7"),
        ("obsidian", "obsidian://open?path=%2Fdocs%2Fa%20b%2F%C3%A9.md"),
        ("my-editor:{path}+{line}", "my-editor:/docs/a%20b/%C3%A9.md+7"),
    ],
)
def test_the_address_of_a_line(editor: str, address: str) -> None:
    assert make_editor_link(editor, "/docs/a b/\u00e9.md", 7) == address


def test_every_editor_of_the_table_has_a_sound_address() -> None:
    for name in EDITOR_TEMPLATES:
        assert choose_template(name, {}) == EDITOR_TEMPLATES[name]


@pytest.mark.parametrize("name", ["\x1b]8;;evil\x1b\\", "a\x07b\nc\x9c\u202e", "{line}{path}", "\udcff", "a;b ?#&%"])
def test_no_name_of_a_file_can_end_the_link(name: str) -> None:
    for editor in (*EDITOR_TEMPLATES, CODE):
        address = make_editor_link(editor, f"/docs/{name}", 7)
        assert re.fullmatch(r"[!-~]+", address)
        assert "{" not in address


@pytest.mark.parametrize(
    "template", ["nano", "{path}", "x://{path}\x1b[2J", "x://{path} {line}", "://{path}", "1:{path}"]
)
def test_what_is_no_editor_and_no_address_is_refused(template: str) -> None:
    with pytest.raises(UsageError, match=r"no editor|no address"):
        choose_template(template, {})


@pytest.mark.parametrize(
    ("environment", "template"),
    [
        ({"TERM_PROGRAM": "vscode"}, EDITOR_TEMPLATES["vscode"]),
        ({"TERMINAL_EMULATOR": "JetBrains-JediTerm"}, EDITOR_TEMPLATES["jetbrains"]),
        ({"TERM_PROGRAM": "iTerm.app"}, FILE_TEMPLATE),
        ({"TERM": "xterm-kitty"}, FILE_TEMPLATE),
        ({"VTE_VERSION": "7600"}, FILE_TEMPLATE),
        ({"VTE_VERSION": "4800"}, ""),
        ({"VTE_VERSION": "new"}, ""),
        ({"TERM_PROGRAM": "Apple_Terminal"}, ""),
        ({"TERM": "linux"}, ""),
        ({}, ""),
    ],
)
def test_by_itself_only_a_terminal_that_shows_links_gets_them(environment: dict[str, str], template: str) -> None:
    assert choose_template("auto", environment) == template


def shown(stream: io.StringIO, editor: str) -> str:
    show_answer(Page.on(stream, editor), answer(HIT), full=False)
    return stream.getvalue()


def test_a_citation_on_a_terminal_is_a_link() -> None:
    plain, linked = shown(Terminal(), "none"), shown(Terminal(), "vscode")
    assert LINK.findall(linked) == [
        ("vscode://file/docs/guide/mail.md:12", "\x1b[1;36m/docs/guide/mail.md:12-34\x1b[0m")
    ]
    assert LINK.sub(r"\2", linked) == plain
    assert "\x1b]" not in plain


def test_elsewhere_than_on_a_terminal_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM_PROGRAM", "vscode")
    assert "\x1b]" not in shown(io.StringIO(), "vscode")
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in shown(Terminal(), "vscode")


def test_a_hostile_name_is_inert_in_the_link_and_in_its_text() -> None:
    stream = Terminal()
    evil = hit(file="a\x1b]8;;http://evil\x1b\\\x07\n.md")
    show_answer(Page.on(stream, CODE), answer(evil), full=False)
    [(address, text)] = LINK.findall(stream.getvalue())
    assert address == "code://open?/docs/a%1B%5D8%3B%3Bhttp%3A/evil%1B%5C%07%0A.md#12"
    assert "a\ufffd]8;;http:/evil\ufffd\\\ufffd\\x0a.md:12-34" in text
    assert "\x1b]8;;http" not in stream.getvalue()


def test_the_choice_is_a_flag_or_a_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    library = install(monkeypatch)
    assert main(["how?", "--editor", "nano"]) == 2
    assert "no editor is called 'nano'; there are vscode, vim" in capsys.readouterr().err
    monkeypatch.setenv("HYBRID_RETRIEVE_EDITOR", "nano")
    assert main(["how?"]) == 2
    assert not library.asked
    monkeypatch.setenv("HYBRID_RETRIEVE_EDITOR", "emacs")
    assert main(["how?"]) == 0
    assert "\x1b" not in capsys.readouterr().out
