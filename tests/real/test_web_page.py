"""The web page in a real browser: asking, reading, walking the tree, by mouse, by keys and without a script."""

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Dialog, Page, Request, ViewportSize, sync_playwright

from tests.real.loopback import LoopbackHandler, serving
from tests.real.served import Served, indexed, served
from tests.real.web_documents import PAGES, write_pictures
from tests.shelf import WORDS_ALONE
from tests.tables import read_table

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), "")
pytestmark = pytest.mark.skipif(not BROWSER, reason="there is no Chromium on this machine")

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
QUESTION = "what pays for the journey of a letter?"


@dataclass
class Seen:
    """A page, and what it did that it must not do."""

    page: Page
    url: str
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Errors of scripts, and what the content security policy refused."""

    def open(self, address: str) -> Page:
        self.page.goto(self.url + address)
        return self.page

    def check(self) -> None:
        """Asserts that it did nothing that it must not do, and forgets what it did."""
        problems = self.problems + [address for address in self.requests if not address.startswith(self.url)]
        self.requests.clear()
        self.problems.clear()
        assert problems == [], "no script fails, and nothing is fetched from elsewhere"

    def ask(self, question: str) -> Page:
        self.open("/")
        self.page.get_by_label("Question").fill(question)
        self.page.keyboard.press("Enter")
        self.page.locator(".hits article").first.wait_for()
        self.page.wait_for_load_state()  # the tree comes after the hits
        return self.page


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    index = indexed(tmp_path_factory.mktemp("web"), PAGES)
    write_pictures(index.parent / "docs")
    with served(index, "--web") as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def tab(browser: Browser, server: Served, **options: Any) -> Iterator[Seen]:  # noqa: ANN401 - playwright's
    context = browser.new_context(**options)
    seen = Seen(context.new_page(), server.url)

    def note(request: Request) -> None:
        seen.requests.append(request.url)

    def refuse(dialog: Dialog) -> None:
        seen.problems.append(dialog.message)
        dialog.dismiss()

    seen.page.on("request", note)
    seen.page.on("pageerror", lambda error: seen.problems.append(str(error)))
    # What a failed page is fetched with is no problem: its status is what it is to be.
    seen.page.on("console", lambda said: seen.problems.append(said.text) if "status of" not in said.text else None)
    seen.page.on("dialog", refuse)
    yield seen
    seen.check()
    context.close()


WINDOW: ViewportSize = {"width": 1400, "height": 900}


@pytest.fixture(scope="module")
def shared_tab(browser: Browser, server: Served) -> Iterator[Seen]:
    with tab(browser, server, viewport=WINDOW) as seen:
        yield seen


@pytest.fixture
def seen(shared_tab: Seen) -> Iterator[Seen]:
    """A tab as new: to open another one takes twice the time of a test."""
    yield shared_tab
    shared_tab.page.emulate_media(color_scheme="light")
    shared_tab.page.set_viewport_size(WINDOW)
    shared_tab.page.evaluate("localStorage.clear(); sessionStorage.clear()")
    shared_tab.check()


def test_a_question_is_answered_with_its_section(seen: Seen) -> None:
    page = seen.ask(QUESTION)
    first = page.locator(".hits article").first
    assert first.locator("h2 a").inner_text() == "Stamps"
    assert first.locator(".crumbs").inner_text().split() == ["mail.md", "Mail"]
    box = page.locator("section.answer")
    assert box.locator("h2").inner_text() == "Answer"
    assert box.locator("blockquote .text").first.inner_text().startswith("A stamp pays for the journey of a letter.")
    assert page.locator("main").inner_text().count("A stamp pays for") == 1, "no sentence is shown twice"
    assert page.title().startswith(QUESTION), "a screen reader says it of a page that has come"
    assert "A section probably answers this" in page.locator(".facts").inner_text()
    assert f"question={QUESTION.split()[0]}" in page.url
    link = first.locator(".citation").get_attribute("href") or ""
    assert re.fullmatch(r"vscode://file/.*/docs/mail\.md:(9|11)", link)
    lit = page.locator("#documents .lit > .row", has=page.get_by_role("link", name="Stamps", exact=True))
    assert lit.inner_text().split() == ["Stamps", "hit", "1"]


def test_a_hit_opens_and_its_links_lead_on(seen: Seen) -> None:
    page = seen.ask(QUESTION)
    page.locator(".hits h2 a").first.click()
    page.get_by_role("heading", level=1, name="Stamps").wait_for()
    assert page.locator("#documents [aria-current=page]").inner_text() == "Stamps"
    assert page.locator("mark").count() > 0, "the question's words are still marked"
    page.get_by_role("link", name="bees").first.click()
    page.get_by_role("heading", level=1, name="Bees").wait_for()
    page.get_by_role("link", name="tomatoes").first.click()
    page.get_by_role("heading", level=1, name="Blight").wait_for()
    assert page.locator(".text h2").all_inner_texts() == ["In a greenhouse"], "what is below it is shown with it"
    assert "Bees" in page.locator(".around section", has_text="Backlinks").inner_text()
    seen.open(f"/read?node=mail.md%23mail/stamps&first=11&question={QUESTION}#passage")
    assert page.locator("#passage").evaluate("node => node === document.querySelector(':target')")
    page.get_by_role("link", name="Back to the answer").click()
    page.locator(".hits article").first.wait_for()


def test_the_tree_shows_the_way_to_the_hits_and_a_folder_lists_what_it_holds(seen: Seen) -> None:
    page = seen.ask("thing number 7")
    tree = page.get_by_role("navigation", name="Documents")
    assert tree.locator(".lit").count() == 5
    tree.get_by_role("link", name=re.compile("more in Many")).click()
    page.get_by_role("heading", level=1, name="Many").wait_for()
    seen.open("/read?node=/")
    page.get_by_role("main").get_by_role("link", name="garden/").click()
    page.get_by_role("main").get_by_role("link", name="Tomatoes", exact=True).click()
    page.get_by_role("heading", level=1, name="Tomatoes").wait_for()


@pytest.mark.parametrize(("verdict", "question", "headline"), read_table("found", "Headlines"))
def test_a_headline_says_how_sure_the_answer_is(seen: Seen, verdict: str, question: str, headline: str) -> None:
    page = seen.ask(question)
    assert page.locator("section.answer").get_attribute("class") == f"answer {verdict}"
    assert page.locator("#verdict").inner_text() == headline
    assert page.locator("section.answer blockquote").count() == (1 if verdict == "none" else 2)


def test_a_follow_up_is_understood_by_the_questions_of_the_tab(seen: Seen) -> None:
    page = seen.ask(QUESTION)
    page.get_by_label("Question").fill("and how does it travel?")
    page.keyboard.press("Enter")
    note = page.locator(".note")
    note.wait_for()
    assert note.inner_text().startswith("understood as: and how does it travel? pays journey letter")
    page.get_by_text("Ask it as it stands").click()
    page.locator(".note").wait_for(state="detached")
    assert page.locator("#ask [name=after]").count() == 1, "the next question follows this one alone"
    page.go_back()
    page.locator(".note").wait_for()
    assert page.locator("#ask [name=after]").count() == 2


def test_filters_are_chosen_under_more(seen: Seen) -> None:
    page = seen.ask("flowers of tomatoes")
    page.get_by_text("Filters", exact=True).click()
    folders = page.locator("datalist#in option").evaluate_all("all => all.map(one => one.value)")
    assert folders == ["garden", "garden/deep", "garden/deep/er"]
    page.get_by_label("Folder").fill("garden/deep")
    page.keyboard.press("Enter")
    page.wait_for_url("**in=garden**")
    page.locator(".facts", has_text="in:garden/deep").wait_for()
    assert page.get_by_label("Folder", exact=True).input_value() == "garden/deep"
    page.get_by_label("Question").press_sequentially("!", delay=20)  # what is found as one types is in it as well
    page.locator(".hits.typed article").first.wait_for()
    assert page.locator(".typed .crumbs").all_inner_texts() == ["garden deep er well.md"]
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Folder", exact=True).fill("gardn")
    page.keyboard.press("Enter")
    page.locator("#results", has_text="did you mean garden?").wait_for()
    assert page.get_by_label("Folder", exact=True).input_value() == "gardn", "a typo can be corrected where it was made"


def test_each_filter_can_be_removed_by_itself(seen: Seen) -> None:
    page = seen.open("/?question=flowers+of+tomatoes&in=garden&in=letters&since=2020")
    chips = page.locator("#ask .chips li")
    shown = [text.split()[0] for text in chips.all_inner_texts()]
    assert shown == ["in:garden", "in:letters", "since:2020"]
    chips.first.click()
    page.wait_for_url("**question=flowers%20of%20tomatoes&in=letters&since=2020")
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("or folder").fill("garden/deep")
    page.keyboard.press("Enter")
    page.locator("#ask .chips", has_text="in:garden/deep").wait_for()
    assert chips.count() == 3


def test_results_come_as_one_types_and_go_with_the_question(seen: Seen) -> None:
    page = seen.open("/")
    page.get_by_role("heading", name="Ask these documents").wait_for()
    page.get_by_label("Question").press_sequentially("pays for a lett", delay=20)
    page.locator(".hits.typed article").first.wait_for()
    page.locator(".typed li:first-child h2 a", has_text="Stamps").wait_for()
    assert page.url == f"{seen.url}/", "what is typed is no page to go back to"
    page.get_by_label("Question").fill("")
    page.get_by_role("heading", name="Ask these documents").wait_for()
    page.get_by_label("Question").press_sequentially("stamp", delay=20)
    page.keyboard.press("Enter")
    page.locator("section.answer").wait_for()
    assert page.locator(".typed").count() == 0
    asked = [address for address in seen.requests if "question=" in address]
    assert len(asked) < len("pays for a lett") / 2 + 2, "not a search for every key"
    page.wait_for_timeout(300)
    assert page.locator(".typed").count() == 0, "an answer that comes late takes the place of none"


def test_home_suggests_questions_and_remembers_in_this_browser(seen: Seen) -> None:
    page = seen.open("/")
    examples = page.get_by_role("region", name="For example").get_by_role("link")
    assert examples.all_inner_texts()[:2] == ["Bees", "Tomatoes"]
    assert page.get_by_role("main").get_by_role("link", name="garden/").count() == 1
    recent = page.get_by_role("region", name="Recently asked")
    assert not recent.is_visible()
    seen.ask(QUESTION)
    seen.ask("<b>what</b> is a well?")
    seen.open("/")
    assert recent.get_by_role("link").all_inner_texts() == ["<b>what</b> is a well?", QUESTION]
    page.get_by_role("button", name="Forget these questions").click()
    seen.open("/")
    assert not recent.is_visible()


def test_a_citation_is_copied(seen: Seen) -> None:
    seen.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = seen.ask(QUESTION)
    button = page.locator(".hits article").first.get_by_role("button", name="Copy citation mail.md:")
    button.click()
    button.filter(has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("mail.md:")
    seen.open("/read?node=mail.md")
    page.get_by_role("button", name="Copy code").first.click()
    page.locator(".copy", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "stamp.pay(letter)"


def test_the_home_of_a_flat_folder_lists_its_files_the_latest_first(seen: Seen, tmp_path: Path) -> None:
    index = indexed(tmp_path, {"old.md": "# Old well\n", "new.md": "# New pump\n"}, WORDS_ALONE)
    os.utime(tmp_path / "docs" / "old.md", (1e9, 1e9))
    with served(index, "--web") as server:
        flat = replace(seen, url=server.url)
        files = flat.open("/").locator(".listed li:visible")
        assert [text.partition(" ")[0] for text in files.all_inner_texts()] == ["New", "Old"]
        seen.page.get_by_label("Filter the files").fill("well")
        assert files.count() == 1
        flat.check()


def test_the_keyboard_alone_is_enough(seen: Seen) -> None:
    page = seen.ask(QUESTION)
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('li').id") == "hit-1"
    page.keyboard.press("j")
    second = page.locator(".hits > li").nth(1).get_attribute("id")
    assert page.evaluate("document.activeElement.closest('li').id") == second
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="Stamps").wait_for()
    page.wait_for_load_state()  # the script that knows the keys
    page.keyboard.press("Control+k")
    assert page.evaluate("document.activeElement.id") == "question"
    page.locator("#documents [aria-current=page]").focus()
    page.keyboard.press("Enter")
    page.locator(".document h1").wait_for()


def test_a_hostile_document_is_text(seen: Seen) -> None:
    page = seen.ask("where does the zebra cross?")
    assert "Hostile" in page.locator(".hits h2").first.inner_text()
    seen.open("/read?node=hostile.md")
    assert page.title() != "owned"
    shown = page.locator(".document").inner_text()
    assert "document.title" in shown, "a script is shown as it is written"
    assert not set(shown) & {"\u202e", "\x1b", "\x08"}
    assert page.locator("main :is(script, iframe, style, img, form, object, [onerror], [onload])").count() == 0
    assert page.get_by_role("link", name="far").get_attribute("rel") == "noreferrer noopener"
    assert page.locator(".picture", has_text="zebra").count() == 1
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 360, "a long word and a wide table fit a phone"


PAGE_ADDRESSES = dict(read_table("web_addresses", "Pages that are looked at"))
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
RUN_AXE = "more => axe.run({...more, rules: {'target-size': {enabled: true}}, resultTypes: ['violations']})"
COLORS = {"runOnly": ["color-contrast", "link-in-text-block"]}  # what a dark page may have wrong besides


@pytest.mark.parametrize("name", PAGE_ADDRESSES)
def test_a_page_is_accessible(seen: Seen, name: str) -> None:
    page = seen.open(PAGE_ADDRESSES[name])
    if name == "typed":
        page.get_by_label("Question").press_sequentially("pays for a lett")
        page.locator(".hits.typed article").first.wait_for()
    # What is folded is checked as well.
    page.evaluate("document.querySelectorAll('details').forEach((one) => one.setAttribute('open', ''))")
    page.evaluate(AXE)
    violations = []
    for look in ("light", "dark", "phone"):
        page.emulate_media(color_scheme="dark" if look == "dark" else "light")
        page.set_viewport_size({"width": 360, "height": 900} if look == "phone" else WINDOW)
        violations += [
            f"{look}: {rule['id']} at {node['target']}: {rule['help']}"
            for rule in page.evaluate(RUN_AXE, COLORS if look == "dark" else {})["violations"]
            for node in rule["nodes"]
        ]
    assert not violations, "\n".join(violations)
    assert page.evaluate("document.documentElement.scrollWidth") == 360, "it fits a phone"


# A space at the end of a line counts as moved by a pixel when the next word arrives: nobody sees it. The columns of a
# table find their widths as its rows arrive.
WATCH_SHIFTS = """
window.shifts = [];
const said = ({node}) => node && !node.parentElement?.closest("table") && node.textContent.trim();
new PerformanceObserver((list) => shifts.push(
    ...list.getEntries().filter((one) => one.sources.some(said)).map((one) => [one.value, ...one.sources.map(said)])))
  .observe({type: "layout-shift", buffered: true});
"""


class _SlowLine(LoopbackHandler):
    """Sends on what the server of this address answers: pages line by line, then the script."""

    protocol_version = "HTTP/1.0"  # the end of the connection is the end of the page
    server_url = ""

    def do_GET(self) -> None:
        answer = httpx.get(self.server_url + self.path)
        self.send_response(answer.status_code)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.end_headers()
        if not self.path.startswith(("/static/page.css", "/?", "/read")):
            time.sleep(2)
        for line in answer.content.splitlines(keepends=True):
            self.wfile.write(line)
            if "html" in answer.headers["Content-Type"]:
                time.sleep(1 if line == b"</head>\n" else 0.005)  # the style sheet is there before the first line


def test_nothing_moves_while_the_page_arrives(browser: Browser, server: Served) -> None:
    handler = type("_Handler", (_SlowLine,), {"server_url": server.url})
    with (
        serving(handler) as relay,
        tab(browser, replace(server, url=relay.url), viewport=WINDOW) as seen,
    ):
        seen.page.add_init_script(WATCH_SHIFTS)
        page = seen.open(PAGE_ADDRESSES["answered"])
        page.wait_for_load_state("networkidle")
        assert page.evaluate("shifts") == []
        painted, ended = page.evaluate(
            "[performance.getEntriesByName('first-contentful-paint')[0].startTime,"
            " performance.getEntriesByType('navigation')[0].loadEventStart]"
        )
    assert painted < ended - 1000, "it was painted before all of it was there"


def test_everything_works_without_a_script(browser: Browser, server: Served) -> None:
    with tab(browser, server, java_script_enabled=False) as seen:
        page = seen.ask(QUESTION)
        page.locator("#documents").get_by_role("link", name="Mail", exact=True).first.click()
        page.locator(".document h1").wait_for()
