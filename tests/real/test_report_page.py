"""The report in a real browser: it loads nothing, fits every width, and its squares lead to their questions."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pageindex.node import Span
from retriever.evaluation.questions import Gold, Question, QuestionSet, Section, Sections
from retriever.evaluation.report_page import render_report
from retriever.evaluation.results import summarize
from retriever.evaluation.runs import FoundSection, Outcome, Run

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), "")

pytestmark = pytest.mark.skipif(not BROWSER, reason="there is no Chromium on this machine")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip

PROBE = """
<script>
addEventListener("load", () => {
  const width = document.documentElement.getBoundingClientRect().width;
  const seen = {
    width,
    outside: [...document.querySelectorAll("body *")].filter((item) => {
      const box = item.getBoundingClientRect();
      return (box.left < -1 || box.right > width + 1) && item.parentElement.closest(".scroll") === null;
    }).map((item) => item.outerHTML.slice(0, 80)),
    plots: document.querySelectorAll("svg").length,
    loaded: performance.getEntriesByType("resource").length,
  };
  location.hash = document.querySelector("svg a").getAttribute("href");
  setTimeout(() => {
    seen.opened = document.querySelectorAll("details[open]").length;
    document.title = JSON.stringify(seen);
  }, 50);
});
</script>
"""


def page() -> str:
    """Two systems, one of them with a long name, on thirty questions of which one has no answer."""
    sections = Sections(Section(f"guide.md#part-{n}", "guide.md", Span(10 * n + 1, 10 * n + 10)) for n in range(30))
    questions = tuple(
        Question(f"q{n}", f"Number {n} asks something?", "direct" if n % 3 else "overview", gold(n)) for n in range(30)
    )
    runs = [Run(name, {item.id: outcome(item.id, n, shift) for n, item in enumerate(questions)})
            for name, shift in (("balanced", 4), ("a profile in a file with a long name.yaml", 9))]  # fmt: skip
    return render_report(summarize(QuestionSet("a set", questions), runs, sections))


def gold(number: int) -> tuple[Gold, ...]:
    return (Gold("guide.md", Span(10 * number + 3, 10 * number + 4)),) if number != 5 else ()


def outcome(key: str, number: int, shift: int) -> Outcome:
    names = [f"guide.md#part-{(number + place * place) % 30}" for place in range(number % shift, number % shift + 12)]
    found = tuple(FoundSection(name, "guide.md", Span(1, 2), 1.0) for name in dict.fromkeys(names))
    return Outcome(key, found, abstained=False, confidence=0.5, milliseconds=5.0 + number)


def seen_by_browser(path: Path, width: int, *flags: str) -> dict[str, object]:
    """What the probe found; the page is as wide as a phone where the window cannot be."""
    narrow = path.with_name(f"{width}.html")
    style = f"<style>html {{ width: {width}px }}</style></head>"
    narrow.write_text(path.read_text(encoding="utf-8").replace("</head>", style), encoding="utf-8")
    command = [BROWSER, *FLAGS, *flags, f"--user-data-dir={path.parent / 'profile'}", f"--window-size={width},900"]
    command += ["--virtual-time-budget=4000", "--dump-dom", narrow.as_uri()]
    dom = subprocess.run(command, capture_output=True, check=True, timeout=50, encoding="utf-8").stdout
    title = re.search(r"<title>(\{.*?\})</title>", dom, re.DOTALL)
    assert title, dom[:500]
    content: dict[str, object] = json.loads(html.unescape(title[1]))
    return content


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    allowed = page().replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'")  # the probe alone
    path.write_text(allowed.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [400, 820, 1500])
def test_the_page_fits_its_window(probed: Path, width: int) -> None:
    seen = seen_by_browser(probed, width)
    assert seen["width"] == width
    assert seen["outside"] == [], "nothing sticks out to the side"
    assert seen["loaded"] == 0, "nothing is fetched"
    assert seen["plots"] == 10
    assert seen["opened"] == 1, "a square opens its question"
