"""The web page in a real browser: asking, reading, walking the tree, by mouse, by keys and without a script."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, Request, sync_playwright

from tests.real.served import Served, indexed, served
from tests.real.web_documents import PAGES, write_pictures

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), "")
pytestmark = pytest.mark.skipif(not BROWSER, reason="there is no Chromium on this machine")

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
QUESTION = "what pays for the journey of a letter?"
WIDTHS = (360, 800, 1400)


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

    def ask(self, question: str) -> Page:
        self.open("/")
        self.page.get_by_label("Question").fill(question)
        self.page.keyboard.press("Enter")
        self.page.locator(".hits article").first.wait_for()
        return self.page


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    index = indexed(tmp_path_factory.mktemp("web"), PAGES)
    write_pictures(index.parent / "docs")
    with served(index, "--web", "--record") as server:
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
    assert seen.problems == []
    assert [address for address in seen.requests if not address.startswith(server.url)] == [], "nothing from elsewhere"
    context.close()


@pytest.fixture
def seen(browser: Browser, server: Served) -> Iterator[Seen]:
    with tab(browser, server, viewport={"width": 1400, "height": 900}) as seen:
        yield seen


def focused(page: Page) -> str:
    text: str = page.evaluate("document.activeElement.textContent.trim() || document.activeElement.id")
    return text


def test_a_question_is_answered_with_its_section(seen: Seen) -> None:
    page = seen.ask(QUESTION)
    first = page.locator(".hits article").first
    assert first.locator("h2 a").inner_text() == "Stamps"
    assert first.locator(".crumbs").inner_text().split() == ["mail.md", "Mail"]
    assert "stamp.pay(letter)" in first.locator(".code").inner_text()
    assert {word.lower() for word in first.locator("mark").all_inner_texts()} >= {"pays", "journey", "letter"}
    count = page.locator(".hits article").count()
    assert count > 2
    assert page.locator("#said").inner_text() == f"Answered. {count} sections."
    assert page.locator(".verdict").inner_text().startswith("Answered")
    assert "up to date" in page.locator(".facts").inner_text()
    assert f"question={QUESTION.split()[0]}" in page.url
    link = first.locator(".citation").get_attribute("href") or ""
    assert re.fullmatch(r"vscode://file/.*/docs/mail\.md:11", link)
    lit = page.locator("#documents .lit > .row", has=page.get_by_role("link", name="Stamps", exact=True))
    assert lit.inner_text().split() == ["Stamps", "hit", "1"]


def test_a_hit_opens_and_its_links_lead_on(seen: Seen) -> None:
    page = seen.ask(QUESTION)
    page.locator(".hits h2 a").first.click()
    page.get_by_role("heading", level=1, name="Stamps").wait_for()
    assert page.locator("#passage").evaluate("node => node === document.querySelector(':target')")
    assert page.locator("#documents [aria-current=page]").inner_text() == "Stamps"
    assert page.locator("mark").count() > 0, "the question's words are still marked"
    page.get_by_role("link", name="bees").first.click()
    page.get_by_role("heading", level=1, name="Bees").wait_for()
    page.get_by_role("link", name="tomatoes").first.click()
    page.get_by_role("heading", level=1, name="Blight").wait_for()
    assert page.locator(".text h2").all_inner_texts() == ["In a greenhouse"], "what is below it is shown with it"
    assert "Bees" in page.locator(".around section", has_text="Linked from").inner_text()
    page.get_by_role("link", name="Back to the answer").click()
    page.locator(".hits article").first.wait_for()


@pytest.mark.slow
def test_the_tree_opens_branch_by_branch_and_comes_in_parts(seen: Seen) -> None:
    page = seen.open("/")
    tree = page.get_by_role("navigation", name="Documents")
    assert tree.get_by_role("link", name="Item 7", exact=True).count() == 0
    tree.get_by_role("link", name="Contents of Many").click()
    tree.get_by_role("link", name="Item 7", exact=True).wait_for()
    assert tree.get_by_role("link", name="Item 220", exact=True).count() == 0, "a large family is not sent at once"
    tree.get_by_role("link", name="30 more").click()
    tree.get_by_role("link", name="Item 220", exact=True).wait_for()
    twig = tree.get_by_role("link", name="Contents of Many")
    twig.click()
    assert twig.get_attribute("aria-expanded") == "false"
    assert not tree.get_by_role("link", name="Item 7", exact=True).is_visible()
    tree.get_by_role("link", name="Contents of garden").click()
    tree.get_by_role("link", name="Tomatoes", exact=True).click()
    page.get_by_role("heading", level=1, name="Tomatoes").wait_for()


@pytest.mark.slow
def test_the_why_view_takes_the_answer_apart(seen: Seen) -> None:
    page = seen.ask(QUESTION)
    page.get_by_role("link", name="Why these").click()
    page.locator(".time-line").wait_for()
    stages = page.locator(".time-line tbody th").all_inner_texts()
    assert [name for name in ("refresh", "semantic", "keyword", "neighbors", "fuse", "total") if name in stages] == [
        "refresh", "semantic", "keyword", "neighbors", "fuse", "total",
    ]  # fmt: skip
    shares = page.locator(".shares tbody tr").first
    assert shares.locator("rect").count() >= 2, "the parts of the first hit's score"
    assert "#1" in shares.inner_text()
    rankings = page.locator(".rankings h3").all_inner_texts()
    assert {"semantic", "keyword"} <= set(rankings)
    assert page.locator(".signals tbody tr").count() == 5
    page.go_back()
    page.locator(".hits article").first.wait_for()


@pytest.mark.slow
def test_the_short_answer_comes_above_its_sections(browser: Browser, server: Served) -> None:
    """Without a model it is quoted; with and without a script."""
    for scripts in (True, False):
        with tab(browser, server, java_script_enabled=scripts) as seen:
            page = seen.ask("what pays for a letter?")
            page.get_by_role("link", name="Answer", exact=True).click()
            page.wait_for_url("**/answer?**")
            sentences = page.locator(".short li")
            assert sentences.first.inner_text().startswith("A stamp pays for the journey of a letter.")
            assert page.locator(".hits > li").count()
            sentences.first.get_by_role("link").click()
            assert "A stamp pays for" in page.locator("main").inner_text()


def test_the_profile_is_switched_in_its_place(seen: Seen) -> None:
    page = seen.ask(QUESTION)
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Profile").select_option("fast")
    page.wait_for_url("**profile=fast**")
    page.locator(".hits article").first.wait_for()
    page.get_by_role("link", name="Why these").click()
    page.locator(".time-line").wait_for()
    assert "near in the tree" not in page.locator(".rankings h3").all_inner_texts()
    assert page.get_by_label("Profile").input_value() == "fast"


def test_a_follow_up_is_understood_by_the_questions_of_the_tab(seen: Seen) -> None:
    page = seen.ask(QUESTION)
    page.get_by_label("Question").fill("and how does it travel?")
    page.keyboard.press("Enter")
    note = page.locator(".note")
    note.wait_for()
    assert note.inner_text().startswith("understood as: and how does it travel? pays journey letter")
    page.get_by_text("Why these").click()
    page.locator(".note").wait_for()
    assert "understood as" in page.locator(".note").inner_text(), "the other view keeps the questions"
    page.get_by_text("ask it as it stands").click()
    page.locator(".note").wait_for(state="detached")
    assert page.locator("#ask [name=after]").count() == 1, "the next question follows this one alone"
    page.go_back()
    page.locator(".note").wait_for()
    assert page.locator("#ask [name=after]").count() == 2


def test_filters_are_chosen_under_more(seen: Seen) -> None:
    page = seen.ask("flowers of tomatoes")
    page.get_by_text("More", exact=True).click()
    folders = page.locator("datalist#folders option").evaluate_all("all => all.map(one => one.value)")
    assert folders == ["garden", "garden/deep", "garden/deep/er"]
    page.get_by_label("Folder").fill("garden/deep")
    page.keyboard.press("Enter")
    page.wait_for_url("**in=garden**")
    page.locator("code", has_text="in:garden/deep").wait_for()
    page.get_by_role("link", name="Why these").click()
    page.locator(".time-line").wait_for()
    assert "in=garden" in page.url
    assert page.get_by_label("Folder").input_value() == "garden/deep"
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Question").press_sequentially("!", delay=20)  # what is found as one types is in it as well
    page.locator(".hits.typed article").first.wait_for()
    assert page.locator(".typed .crumbs").all_inner_texts() == ["garden/deep/er/well.md"]
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Folder").fill("gardn")
    page.keyboard.press("Enter")
    page.locator("#results", has_text="did you mean garden?").wait_for()
    assert page.get_by_label("Folder").input_value() == "gardn", "a slip can be mended where it was made"
    assert page.get_by_label("Question").input_value() == "!flowers of tomatoes"


def test_results_come_as_one_types_and_go_with_the_question(seen: Seen) -> None:
    page = seen.open("/")
    page.get_by_role("heading", name="Ask these documents").wait_for()
    page.get_by_label("Question").press_sequentially("pays for a lett", delay=20)
    page.locator(".hits.typed article").first.wait_for()
    page.locator(".typed li:first-child h2 a", has_text="Stamps").wait_for()
    assert page.url == f"{seen.url}/", "what is typed is no page to go back to"
    assert page.locator(".typed mark").count() > 0
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('li').id") == "hit-1"
    page.get_by_label("Question").fill("")
    page.get_by_role("heading", name="Ask these documents").wait_for()
    page.get_by_label("Question").press_sequentially("stamp", delay=20)
    page.keyboard.press("Enter")
    page.locator(".hits details").first.wait_for()
    assert page.locator(".typed").count() == 0
    asked = [address for address in seen.requests if "question=" in address]
    assert len(asked) < len("pays for a lett") / 2 + 2, "not a search for every key"
    page.wait_for_timeout(300)
    assert page.locator(".typed").count() == 0, "an answer that comes late takes the place of none"


def test_home_suggests_questions_and_remembers_in_this_browser(seen: Seen) -> None:
    page = seen.open("/")
    examples = page.get_by_role("region", name="For example").get_by_role("link")
    assert "Bees" in examples.all_inner_texts()
    folders = page.get_by_role("region", name="Folders")
    assert folders.get_by_role("link", name="garden/").count() == 1
    recent = page.get_by_role("region", name="Recently asked")
    assert not recent.is_visible()
    examples.first.click()
    page.locator(".hits article").first.wait_for()
    seen.ask(QUESTION)
    seen.ask("<b>what</b> is a well?")
    seen.open("/")
    assert recent.get_by_role("link").all_inner_texts() == ["<b>what</b> is a well?", QUESTION]
    assert page.get_by_role("region", name="Asked before").get_by_role("link", name=QUESTION).count(), "by --record"
    recent.get_by_role("link", name=QUESTION).click()
    page.locator(".hits article").first.wait_for()
    seen.open("/")
    page.get_by_role("button", name="Clear").click()
    assert not recent.is_visible()
    seen.open("/")
    assert not recent.is_visible()


def test_a_citation_a_link_and_a_text_are_copied(browser: Browser, server: Served) -> None:
    with tab(browser, server, permissions=["clipboard-read", "clipboard-write"]) as seen:
        page = seen.ask(QUESTION)
        first = page.locator(".hits article").first
        copied = {}
        for name in ("Copy mail.md:", "Copy the link", "Copy the text"):
            button = first.get_by_role("button", name=name)
            button.click()
            button.filter(has_text="Copied").wait_for()
            copied[name] = page.evaluate("navigator.clipboard.readText()")
        assert copied["Copy mail.md:"] == "mail.md:11"
        assert copied["Copy the link"] == "[[mail#Stamps]]"
        assert copied["Copy the text"].startswith("A stamp pays for the journey of a letter.")


def test_the_editor_is_chosen_once(browser: Browser, server: Served) -> None:
    with tab(browser, server) as seen:
        page = seen.ask(QUESTION)
        page.locator("a.citation").first.click()
        page.get_by_role("dialog").get_by_role("button", name="Obsidian").click()
        page.wait_for_selector("a.citation[href^='obsidian://']")
        page.wait_for_timeout(200)
        opened = [address for address in seen.requests if address.startswith("obsidian://open?path=")]
        assert len(opened) == 1, "it is opened at once"
        assert page.get_by_label("Citations open in").input_value() == "obsidian"
        seen.open(f"/?question={QUESTION}")
        page.locator("a.citation").first.click()
        assert not page.get_by_role("dialog").is_visible(), "it is asked once"
        seen.requests[:] = [address for address in seen.requests if not address.startswith("obsidian:")]


def test_pictures_below_the_folders_are_shown(seen: Seen) -> None:
    page = seen.open("/read?node=notes.md")
    loaded = "(one) => one.complete || new Promise((done) => { one.onload = one.onerror = done; })"
    for place in range(page.locator("main img").count()):
        page.locator("main img").nth(place).evaluate(loaded)
    assert page.evaluate("[...document.images].map((one) => one.naturalWidth)") == [1, 20, 0], "the last is none"
    assert page.locator(".callout .title").inner_text() == "Mind the gap"
    assert page.locator(".text input[type=checkbox]").count() == 2
    assert page.locator("math msup mn").text_content() == "2"
    seen.page.goto(f"{seen.url}/picture?name=attachments/drawing.svg")
    assert page.evaluate("document.documentElement.tagName") == "svg"


def test_the_keyboard_alone_is_enough(seen: Seen) -> None:
    page = seen.ask(QUESTION)
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('li').id") == "hit-1"
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.closest('li').id") == "hit-2"
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="Stamps").wait_for()
    page.keyboard.press("Control+k")
    assert page.evaluate("document.activeElement.id") == "question"
    page.locator("#documents [aria-current=page]").focus()
    page.keyboard.press("ArrowLeft")
    assert focused(page) == "Mail"
    page.keyboard.press("Home")
    assert focused(page) == "docs/"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator(".document h1").wait_for()


@pytest.mark.slow
def test_the_first_tab_skips_to_the_results(seen: Seen) -> None:
    page = seen.open(f"/?question={QUESTION}")
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the results"
    page.keyboard.press("Enter")
    page.wait_for_function("location.hash === '#results'")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")
    order = page.evaluate("[...document.querySelectorAll('header, main, nav#documents, footer')].map((e) => e.tagName)")
    assert order == ["HEADER", "MAIN", "NAV", "FOOTER"]
    nameless = page.evaluate(
        "[...document.querySelectorAll('a, button, input:not([type=hidden]), select')].filter((e) => "
        "!(e.textContent.trim() || e.ariaLabel || (e.labels && e.labels.length))).map((e) => e.outerHTML)"
    )
    assert nameless == []


def test_a_hostile_document_is_text(seen: Seen) -> None:
    page = seen.ask("where does the zebra cross?")
    assert "Hostile" in page.locator(".hits h2").first.inner_text()
    seen.open("/read?node=hostile.md")
    assert page.title() != "owned"
    shown = page.locator(".document").inner_text()
    assert "<iframe src=" in shown, "HTML is shown as it is written"
    assert not set(shown) & {"\u202e", "\x1b", "\x08"}
    allowed = ("/", "#", "https://evil.example/page", "vscode://file/")
    addresses = page.evaluate("[...document.querySelectorAll('main a')].map((item) => item.getAttribute('href'))")
    assert all(address.startswith(allowed) for address in addresses), addresses
    assert page.locator("main :is(script, iframe, style, img, form, object, [onerror], [onload])").count() == 0
    assert page.get_by_role("link", name="far").get_attribute("rel") == "noreferrer noopener"
    assert page.locator(".picture", has_text="zebra").count() == 1


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_fits_its_window(browser: Browser, server: Served, width: int) -> None:
    addresses = ("/", f"/?question={QUESTION}&view=why", "/read?node=hostile.md", "/tree?node=many.md")
    with tab(browser, server, viewport={"width": width, "height": 800}) as seen:
        for address in addresses:
            page = seen.open(address)
            assert page.evaluate("document.documentElement.scrollWidth") == width, address
            tree, main = page.locator("#documents").bounding_box(), page.locator("main").bounding_box()
            assert tree is not None
            assert main is not None
            beside = tree["x"] >= main["x"] + main["width"]
            assert beside == (width > 768), "beside the results, or below them"


def channel(page: Page, script: str) -> float:
    """The mean of a colour's red, green and blue, 0 to 255."""
    numbers = re.findall(r"[\d.]+", page.evaluate(script))[:3]
    return sum(map(float, numbers)) / 3


PAPER, INK = "getComputedStyle(document.body).backgroundColor", "getComputedStyle(document.body).color"


@pytest.mark.slow
def test_dark_and_light_follow_the_system_and_the_switch(browser: Browser, server: Served) -> None:
    with tab(browser, server, color_scheme="dark") as seen:
        page = seen.open(f"/?question={QUESTION}")
        assert channel(page, PAPER) < 60 < 180 < channel(page, INK)
        page.get_by_label("Colours").select_option("light")
        page.wait_for_selector("html[data-theme=light]")
        assert channel(page, PAPER) > 200 > 80 > channel(page, INK)
        assert page.locator(".hits article").count() == 5, "the same answer, in another light"
        page.get_by_label("Citations open in").select_option("jetbrains")
        page.wait_for_selector("a.citation[href^='idea://open?file=']")
        seen.open("/read?node=mail.md")
        assert page.locator("html").get_attribute("data-theme") == "light", "it is remembered"


@pytest.mark.slow
def test_everything_works_without_a_script(browser: Browser, server: Served) -> None:
    with tab(browser, server, java_script_enabled=False) as seen:
        page = seen.ask(QUESTION)
        page.get_by_text("More", exact=True).click()
        page.get_by_label("Profile").select_option("recall")
        page.get_by_role("button", name="Ask").click()
        page.wait_for_url("**profile=recall**")
        second = page.locator(".hits details").nth(1)
        second.locator("summary").click()
        assert second.locator(".text").is_visible()
        page.get_by_role("link", name="Why these").click()
        page.locator(".time-line").wait_for()
        page.get_by_role("link", name="Contents of Many").click()
        page.get_by_role("heading", level=1, name="Many").wait_for()
        page.get_by_role("main").get_by_role("link", name="30 more").click()
        page.get_by_role("main").get_by_role("link", name="Item 220", exact=True).click()
        page.get_by_role("heading", level=1, name="Item 220").wait_for()
        page.get_by_label("Colours").select_option("dark")
        page.get_by_role("button", name="Keep").click()
        page.wait_for_selector("html[data-theme=dark]")
        page.get_by_role("heading", level=1, name="Item 220").wait_for()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        ("/read?node=nowhere.md", 404, "is not in the index"),
        ("/?question=x&profile=none", 422, "must be one of"),
        ("/?question=x&view=who", 422, "view must be '' or 'why'"),
        ("/tree?node=many.md&count=0", 422, "count must be greater than or equal to 1"),
        ("/nowhere", 404, "there is no such page"),
        ("/read?node=empty.md", 200, "It holds no text."),
    ],
)
def test_what_cannot_be_shown_says_why(seen: Seen, address: str, status: int, says: str) -> None:
    response = seen.page.goto(seen.url + address)
    assert response is not None
    assert response.status == status
    assert says in seen.page.locator("main").inner_text()
    seen.page.get_by_label("Question").wait_for()
