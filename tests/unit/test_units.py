"""What a section is cut into, and what of it is shown."""

import pytest

from pageindex.blocks import read_blocks
from pageindex.dialects import get_dialect
from pageindex.units import Unit, read_units
from tests.unit.test_markdown_cases import describe


def split_text(text: str, dialect: str = "commonmark") -> list[Unit]:
    return [*read_units(read_blocks(text, 1, get_dialect(dialect)))]


def test_long_code_is_cut_at_blank_lines_but_not_within_a_function() -> None:
    settings = "".join(f"# What {number} is for.\nsetting_{number} = {number}\n\n" for number in range(9))
    units = split_text(f"The settings:\n\n```toml\n{settings}```\n")
    assert [describe(unit) for unit in units[:2]] == [
        "code 1-5 | The settings: / # What 0 is for. setting_0 = 0",
        "code 7-8 | # What 1 is for. setting_1 = 1",
    ]
    assert (len(units), units[-1].text) == (9, "# What 8 is for. setting_8 = 8")
    shown = "export function Page() {\n  const user = read()\n\n  return <p>{user}</p>\n}\n\n"
    assert [str(unit.span) for unit in split_text(f"```jsx\n{shown * 4}```\n")] == ["1-6", "8-12", "14-18", "20-24"]
    services = "".join(f"  # The {name}.\n  {name}:\n    image: {name}\n" for name in ("web", "db", "mail"))
    parts = split_text(f"```yaml\nservices:\n{services * 3}```\n")
    assert [(str(unit.span), unit.text[:12]) for unit in parts] == [("1-20", "services: # "), ("21-29", "# The web. w")]


def test_a_long_item_is_cut_into_its_blocks() -> None:
    shells = "".join(f"   In {sh}:\n\n   ```sh\n   . {sh}.sh\n   ```\n\n" for sh in ("bash", "fish", "zsh", "ksh"))
    units = split_text(f"1. Download it.\n\n2. Start it:\n\n{shells}")
    assert [describe(unit) for unit in units[1:4]] == [
        "item 1 | Download it.",
        "paragraph 3 | Start it:",
        "code 5-9 | In bash: / . bash.sh",
    ]
    assert (len(units), str(units[-1].span)) == (7, "23-27")


@pytest.mark.parametrize("item", ["- ", "1. "])
def test_items_inside_of_one_another_without_end_are_read(item: str) -> None:
    assert split_text(f"{item * 3000}end\n" + "  more\n" * 30)
