"""What is written about the command line is true; tests/real/test_examples.py runs every command of the page."""

import re
import sys
from pathlib import Path

import pytest
import yaml

from retriever.command_line import COMMANDS as NAMES
from retriever.command_line import GROUPS
from retriever.command_line.help import WithHelp
from retriever.command_line.profiles import format_profile, resolve_settings
from retriever.command_line.program import command_line
from retriever.errors import NoIndexError
from retriever.settings.layers import load_profile, profile_names
from retriever.settings.schema import list_settings
from scripts.write_cli_reference import rewrite
from tests.answers import answer, hit
from tests.program import PROGRAM, PROJECT, Cli, environment, in_terminal, run_python
from tests.sample_library import Sample

COMMANDS = {name: command_line.load_command(name) for name in NAMES}
PAGE = (PROJECT / "docs/reference/cli.md").read_text(encoding="utf-8")
DOCUMENTED = [
    line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines() if line.strip()
]


def test_the_page_has_every_command_and_flag_and_its_tables_are_up_to_date() -> None:
    for name, command in COMMANDS.items():
        assert isinstance(command, WithHelp)
        assert command.examples
        assert any(f" {name} " in f"{line} " for line in DOCUMENTED), name
    known = {flag for command in COMMANDS.values() for option in command.params for flag in option.opts}
    known |= {flag for command in COMMANDS.values() for option in command.params for flag in option.secondary_opts}
    written = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) - {"--help"}
    assert written <= known
    assert len(written) > 40
    assert rewrite(PAGE) == PAGE, "run: uv run scripts/write_cli_reference.py"


def test_every_setting_that_a_page_names_exists() -> None:
    keys = {setting.key for setting in list_settings()}
    groups = {key.partition(".")[0] for key in keys if "." in key}
    for page in (PROJECT / "docs").rglob("*.md"):
        named = re.findall(r"`([a-z]+)\.([a-z_]+)\b", page.read_text(encoding="utf-8"))
        wrong = {f"{group}.{name}" for group, name in named if group in groups and page.name != "json.md"} - keys
        assert not wrong, page


def test_help_says_what_each_exit_code_means(cli: Cli) -> None:
    page = " ".join(cli("--help").out.split())
    for meaning in ("0 ok", "1 error", "2 usage", "3 no answer", "130 interrupted"):
        assert meaning in page


def test_help_lists_every_command_and_loads_one() -> None:
    script = """if True:
    import sys
    import hybrid_retrieve
    sys.argv = ["hybrid_retrieve.py"]
    assert hybrid_retrieve.main(["--help"]) == 0
    print(*(name for name in sys.modules if name.startswith("retriever.command_line.")), file=sys.stderr)
    """
    result = run_python(script)
    loaded = {
        f"retriever.command_line.{name}"
        for name in ("program", "console", "options", "opening", "flags", "help", "output", "ask")
    }
    assert loaded == set(result.stderr.split())
    assert "\n  python hybrid_retrieve.py index docs\n" in result.stdout
    assert all(f"\n  {name} " in result.stdout for name in NAMES)
    assert all(f"\n{heading}:\n" in result.stdout for heading in GROUPS)
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(NAMES)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(cli: Cli, name: str) -> None:
    assert "Examples:" in cli(name, "--help").out


def test_the_help_of_a_question_fits_one_screen_and_the_rest_is_one_flag_away(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    screen, whole = cli("ask", "--help").out, cli("ask", "--help-all").out
    assert 24 <= len(screen.splitlines()) <= 40
    assert max(map(len, screen.splitlines())) <= 80
    for flag in ("--docs", "--index", "--profile", "--top-k", "--json", "--explain", "--full", "--quiet", "--verbose"):
        assert flag in screen
    assert "--help-all" in screen
    rare = ("--batch", "--editor", "--vector-top-n", "--rrf-k", "--encoder-kind", "Exit codes:")
    assert all(flag in whole and flag not in screen for flag in rare)


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("indx", "`index`"),
        ("serach", "`ask`"),
        ("help", "`--help`"),
        ("list", "`tree`"),
        ("staus", "`status`"),
        ("where is the index", ""),
        ("indx of pages", ""),
        ("mail", ""),
    ],
)
def test_a_word_that_is_nearly_a_command_is_answered_with_a_hint(
    question: str, name: str, library: Sample, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cli: Cli
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    library.answers = [answer(hit())]
    hint = [line for line in cli(*question.split()).err.splitlines() if line.startswith("did you mean")]
    assert library.asked == [question]
    assert [name in line for line in hint] == ([True] if name else [])


def test_a_mistyped_command_is_asked_about_at_a_terminal(tmp_path: Path) -> None:
    decline = [(b"did you mean `index`? Search for 'indx /tmp' all the same? [y/N]", b"n\n")]
    code, output = in_terminal([sys.executable, str(PROGRAM), "indx", "/tmp"], tmp_path, environment(), typed=decline)
    assert code == 2
    assert b"[y/N]: n\r\nerror: indx is no command" in output


def test_a_word_of_the_documents_is_no_slip_and_one_without_an_index_is(library: Sample, cli: Cli) -> None:
    library.answers = [answer(hit(words=("Trees",)))]
    assert "did you mean" not in cli("trees").err
    library.error = NoIndexError("nothing has been indexed yet")
    assert "did you mean the command `index`?" in cli("indx", code=1).err


@pytest.mark.parametrize("name", profile_names())
def test_a_shown_profile_is_a_profile_file(name: str, tmp_path: Path) -> None:
    text = format_profile(name, resolve_settings(name, {}))
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    assert load_profile(str(path), environment={}) == load_profile(name, environment={})
    assert yaml.safe_load(text)["encoder"]["kind"] == "onnx"


def test_a_shown_profile_says_where_each_value_comes_from() -> None:
    shown = {
        item.setting.key: item
        for item in resolve_settings("recall", {"HYBRID_RETRIEVE_TOP_K": "8", "HYBRID_RETRIEVE_VECTOR_TOP_N": "9"})
    }
    assert (shown["top_k"].value, shown["top_k"].origin) == (8, "HYBRID_RETRIEVE_TOP_K")
    assert (shown["candidate_cap"].value, shown["candidate_cap"].origin) == (50, "recall.yaml")
    assert (shown["vector_top_n"].value, shown["vector_top_n"].origin) == (9, "HYBRID_RETRIEVE_VECTOR_TOP_N")
    assert (shown["rrf_k"].value, shown["rrf_k"].origin) == (60, "default")
    text = format_profile("recall", list(shown.values()))
    assert "top_k: 8  # HYBRID_RETRIEVE_TOP_K" in text
    assert "# --top-k  HYBRID_RETRIEVE_TOP_K" in text


def test_profiles_lists_each_with_a_line(cli: Cli) -> None:
    lines = cli("profiles").out.splitlines()
    assert [line.split()[0] for line in lines] == list(profile_names())
    assert all(len(line.split()) > 3 for line in lines)
