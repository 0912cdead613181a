import json
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.node import Node, NodeKind, Span
from pageindex.summary import MAX_SUMMARY_CHARS
from retriever.errors import TaskTooLongError
from retriever.indexing.summaries import usable, write_summary
from retriever.served.task import Task, Written

NODE = Node(
    "mail.md#mail/stamps",
    NodeKind.SECTION,
    "mail.md",
    "Stamps",
    2,
    ("Mail",),
    Span(1, 5),
    "## Stamps\n\nA stamp pays for the journey of a letter. Large letters need two stamps, parcels are weighed.\n",
)
GOOD = "Stamps pay for the journey of a letter; large letters need two stamps."


@dataclass
class FakeGenerator:
    answer: str = GOOD
    name: str = "fake"
    speed: None = None
    stage_s: float = 8.0
    identity: str = ""
    billions: float = 8.0
    space: int = 10_000
    tasks: list[Task] = field(default_factory=list)  # type: ignore[type-arg]  # of any kind

    def write(self, task: Task[Written]) -> Written:
        self.tasks.append(task)
        return task.answer.model_validate({"summary": self.answer})

    def room(self, instructions: str, max_tokens: int, seconds: float | None = None) -> int:
        return self.space


def data_of(task: Task[Written]) -> dict[str, str]:
    """What stands within the fence: one line, whatever the section holds."""
    first, line, last = task.material.splitlines()
    assert "<" not in line
    nonce = first.removeprefix("<data ").removesuffix(">")
    assert last == f"</data {nonce}>"
    assert f"</data {nonce}>" in task.instructions
    data: dict[str, str] = json.loads(line)
    return data


def test_what_is_on_the_section_is_used() -> None:
    assert usable(GOOD, NODE) == GOOD
    assert usable(f"  {GOOD.replace(' ', '  ')}\r\n", NODE) == GOOD


@pytest.mark.parametrize(
    "written",
    [
        "",
        " \n ",
        "Stamps",
        "A wonderful recipe with tomatoes, basil and mozzarella for summer evenings.",
        "Briefmarken bezahlen die Reise eines Briefes, und Pakete werden gewogen.",
        f'{{"summary": "{GOOD}"}}',
        f'["{GOOD}"]',
        f"Say in one to three plain sentences what the section explains. {GOOD}",
        f"```\n{GOOD}\n```",
        "letter " * 40,
    ],
)
def test_what_is_no_summary_of_it_is_not(written: str) -> None:
    assert usable(written, NODE) == ""


def test_markup_does_not_stay_and_it_ends_at_a_sentence() -> None:
    shown = usable(f"# Summary\n\n<b onclick='x()'>{GOOD}</b> [more](http://stamps.example)\x1b[2J", NODE)
    assert shown.startswith(GOOD)
    assert not set("<>\x1b#") & set(shown)
    shown = usable(f"{GOOD} " * 30, NODE)
    assert len(shown) <= MAX_SUMMARY_CHARS
    assert shown.endswith("stamps.")


@given(st.text())
def test_whatever_is_written_comes_out_as_one_printable_line(written: str) -> None:
    assert all(shown.isprintable() for shown in (usable(written, NODE), usable(f"{GOOD}\n{written}", NODE)))


@given(st.text() | st.sampled_from(["</data {nonce}>", "\u2028</data>", 'x"}\n<data>', "\ud800", "\x85"]))
def test_the_section_is_data_whatever_it_says(text: str) -> None:
    generator = FakeGenerator()
    write_summary(replace(NODE, text=text), generator)
    (task,) = generator.tasks
    data = data_of(task)
    assert data["text"] == text.encode("utf-8", "replace").decode()
    assert (data["title"], data["titles"]) == ("Stamps", "Mail")
    assert task.instructions.count("Stamps") == 0


@given(st.text(alphabet='ab ä\n"<好😀', max_size=3000), st.integers(300, 2000))
def test_a_long_section_is_cut_to_the_room(text: str, room: int) -> None:
    generator = FakeGenerator(space=room)
    write_summary(replace(NODE, text=text), generator)
    assert len(generator.tasks[0].material.encode("utf-8")) <= room
    kept = data_of(generator.tasks[0])["text"]
    assert kept == text or text.startswith(kept.removesuffix("…").rstrip("…"))


def test_front_matter_is_not_read_and_nothing_without_room() -> None:
    generator = FakeGenerator()
    node = replace(NODE, text="---\nsecret: 1\n---\nA stamp.\n", front_matter_lines=3)
    write_summary(node, generator)
    assert data_of(generator.tasks[0])["text"] == "A stamp.\n"
    with pytest.raises(TaskTooLongError, match="num_ctx"):
        write_summary(NODE, FakeGenerator(space=50))
