"""What every page has around it: the question box, the tree of documents, the preferences."""

from functools import cache
from hashlib import sha256
from pathlib import Path

from retriever.display.editors import EDITOR_TEMPLATES
from retriever.display.phrases import counted, freshness
from retriever.serving.web.elements import Content, Html, element, markup
from retriever.serving.web.site import THEMES, Site, Visit
from retriever.types import IndexState

STATIC = Path(__file__).parent / "static"
EDITOR_NAMES = {
    "vscode": "VS Code",
    "vim": "Vim",
    "emacs": "Emacs",
    "jetbrains": "JetBrains",
    "obsidian": "Obsidian",
}


@cache
def static_address(name: str) -> str:
    """The address of a file in static/, another one when the file changes: browsers keep what they have."""
    return f"/static/{name}?v={sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


def page(site: Site, visit: Visit, title: str, main: Content, tree: Content = None) -> Html:
    """A whole page; `title` comes before the program's name in the browser's own title."""
    theme = visit.preferences.theme
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} · Hybrid Retrieve" if title else "Hybrid Retrieve"),
        element("link", rel="icon", href=static_address("icon.svg"), type="image/svg+xml"),
        element("link", rel="stylesheet", href=static_address("page.css")),
        element("script", src=static_address("page.js"), defer=True),
    )
    body = element(
        "body",
        element("a", "Skip to the results", href="#results", class_="skip"),
        _top(site, visit),
        element("p", class_="unseen", id="said", role="status", aria_live="polite"),
        element(
            "div",
            element("main", main, id="results", tabindex="-1"),
            element(
                "nav",
                element("h2", "Documents", id="documents-title"),
                tree,
                id="documents",
                aria_labelledby="documents-title",
            )
            if tree
            else None,
            id="page",
            class_="columns",
        ),
        _bottom(visit),
    )
    shown = None if theme == "auto" else theme
    return markup(Html("<!doctype html>\n"), element("html", head, body, lang="en", data_theme=shown))


def freshness_line(state: IndexState) -> Html:
    """How much is searched, and how it stands to the files."""
    amount = f"{counted(state.sections, 'section')} in {counted(state.documents, 'file')}"
    stale = "stale" if state.stale_files else None
    return markup(amount, " · ", element("span", freshness(state), class_=stale))


def note(*contents: Content, kind: str = "note") -> Html:
    """Something that a reader should know before the rest."""
    return element("div", *contents, class_=kind, role="note")


def _top(site: Site, visit: Visit) -> Html:
    chosen = visit.profile or site.library.profile
    options = [element("option", name, value=name, selected=name == chosen) for name in site.profiles]
    form = element(
        "form",
        element("label", "Question", for_="question", class_="unseen"),
        element(
            "input",
            id="question",
            type="search",
            name="question",
            value=visit.question,
            placeholder="Ask these documents a question",
            required=True,
            maxlength=8000,
            autocomplete="off",
            spellcheck="false",
            aria_keyshortcuts="Control+K Meta+K",
            autofocus=not visit.question and visit.path == "/",
        ),
        element("label", "Profile", for_="profile", class_="unseen"),
        element("select", options, id="profile", name="profile"),
        element("button", "Ask", type="submit"),
        action="/",
        method="get",
        role="search",
        id="ask",
    )
    return element(
        "header",
        element("a", element("span", class_="sign", aria_hidden="true"), "Hybrid Retrieve", href="/", class_="name"),
        form,
        element("a", "Documents", href="#documents", class_="to-documents"),
        class_="top",
    )


def _bottom(visit: Visit) -> Html:
    chosen = visit.preferences
    form = element(
        "form",
        element("input", type="hidden", name="back", value=visit.path),
        _choice("theme", "Colours", THEMES, chosen.theme),
        _choice("editor", "Citations open in", {key: EDITOR_NAMES[key] for key in EDITOR_TEMPLATES}, chosen.editor),
        element("button", "Keep", type="submit", class_="quiet"),
        method="post",
        action="/preferences",
        id="preferences",
        aria_label="Preferences",
    )
    keys = element(
        "p",
        element("kbd", "Ctrl K"),
        " asks again, ",
        element("kbd", "↓"),
        " goes to the hits, ",
        element("kbd", "j"),
        " ",
        element("kbd", "k"),
        " from one to the next",
        class_="keys",
    )
    return element("footer", form, keys, element("a", "API", href="/openapi.json"))


def _choice(name: str, label: str, choices: dict[str, str], chosen: str) -> Html:
    options = [element("option", shown, value=key, selected=key == chosen) for key, shown in choices.items()]
    return element("label", f"{label} ", element("select", options, name=name))
