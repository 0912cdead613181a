"""The parts of the web page that need no server: templates, the tree."""

import re
from pathlib import Path

import pytest
from markupsafe import Markup

from retriever import display
from retriever.display import open_templates

PACKAGE = Path(__file__).parents[2] / "retriever"
TEMPLATES = sorted(PACKAGE.glob("**/templates/*.html"))
HOSTILE = "\"'><script>&\u202e\x1b"


def test_what_a_template_prints_is_escaped_and_sanitized(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '{% macro twice(x) %}<i>{{ x }}</i>{{ x ~ "." }}{% endmacro %}'
        '<a href="{{ x }}" title="{{ "%s"|format(x) }}">{{ twice(x) }}</a>{{ trusted }}'
    )
    page = open_templates(tmp_path).get_template("a.html").render(x=HOSTILE, trusted=Markup("<b>"))
    safe = "&#34;&#39;&gt;&lt;script&gt;&amp;\ufffd\ufffd"
    assert page == f'<a href="{safe}" title="{safe}"><i>{safe}</i>{safe}.</a><b>'


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_what_a_template_takes_from_the_words_for_people_is_there(path: Path) -> None:
    assert [
        name for name in re.findall(r"\bdisplay\.(\w+)", path.read_text("utf-8")) if not hasattr(display, name)
    ] == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_switches_escaping_off_or_holds_a_script(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(r"\|\s*(safe|e|escape|forceescape|xmlattr|tojson)\b|autoescape|Markup", text)
    assert not re.search(r"\son\w+=|\sstyle=|javascript:", text)
    assert not re.search(r"<script(?! src=)|<style", text), "the policy of the page forbids it"
