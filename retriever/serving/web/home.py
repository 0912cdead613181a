"""The page without a question: what can be asked here, how it stands, and how else it can be asked."""

from collections.abc import Sequence

from retriever.display.phrases import counted, size
from retriever.serving.web.addresses import address
from retriever.serving.web.elements import Content, Html, element, markup
from retriever.serving.web.frame import note
from retriever.serving.web.site import Site, Visit
from retriever.settings.layers import profile_names, profile_summary
from retriever.status import Status
from retriever.store.recorded import StoredQuery

MAX_NAMED_FILES = 20
MAX_QUESTIONS = 15


def home(site: Site, status: Status, history: Sequence[StoredQuery], visit: Visit) -> Html:
    """The main part of the page; `history` is what was recorded, the youngest first."""
    state = status.index
    folders = [element("li", element("code", folder)) for folder in state.folders]
    facts = {
        "Holds": f"{counted(state.documents, 'file')}, {counted(state.sections, 'section')}, "
        f"{counted(state.chunks, 'passage')} ({status.coverage:.0%} with a vector)",
        "Index": f"generation {state.generation}, {size(status.size_bytes)}, {status.encoder}",
        "Freshness": "up to date"
        if not status.changed_files
        else f"{counted(len(status.changed_files), 'file')} changed",
        "Broken links": f"{status.broken_links:,}",
    }
    return markup(
        element("h1", "Ask these documents", class_="asked"),
        element("ul", folders, class_="folders"),
        element("dl", [[element("dt", name), element("dd", value)] for name, value in facts.items()], class_="facts"),
        _files("changed since they were indexed", [(path, "") for path in status.changed_files]),
        _files("could not be read, or not all of them", list(status.skipped)),
        _history(history, visit),
        _profiles(site),
    )


def _files(what: str, files: list[tuple[str, str]]) -> Content:
    if not files:
        return None
    items = [
        element("li", element("code", path), f": {reason}" if reason else None)
        for path, reason in files[:MAX_NAMED_FILES]
    ]
    more = element("li", f"and {len(files) - MAX_NAMED_FILES:,} more") if len(files) > MAX_NAMED_FILES else None
    summary = element("summary", f"{counted(len(files), 'file')} {what}")
    return note(element("details", summary, element("ul", items, more)))


def _history(history: Sequence[StoredQuery], visit: Visit) -> Content:
    """The last questions, each to be asked again; only where the reader had them recorded."""
    if not history:
        return None
    items = []
    for query in history[:MAX_QUESTIONS]:
        again = address("/", question=query.question, profile=visit.profile)
        when = element("time", query.asked_at[:16].replace("T", " "), datetime=query.asked_at, class_="quiet")
        asked = element("a", query.question, href=again, dir="auto")
        items.append(element("li", when, " ", asked, element("span", f" {query.verdict}", class_="quiet")))
    named = element("h2", "Asked before", id="history-title")
    return element("section", named, element("ul", items), class_="history", aria_labelledby="history-title")


def _profiles(site: Site) -> Html:
    known = profile_names()
    rows = [
        [element("dt", name), element("dd", profile_summary(name) if name in known else "A file of your own.")]
        for name in site.profiles
    ]
    named = element("h2", "Profiles", id="profiles-title")
    return element("section", named, element("dl", rows), class_="profiles", aria_labelledby="profiles-title")
