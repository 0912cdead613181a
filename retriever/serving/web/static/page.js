// What the page does more with a script: it asks without loading anew and shows what is found as one types, opens branches
// of the tree in their place, goes through the hits by keys, copies, and remembers the last questions in this browser.
// Everything here but the last has a form or a link behind it that works without.
"use strict";

const question = document.getElementById("question");
const said = document.getElementById("said");

async function fetched(address, signal) {
  const response = await fetch(address, { headers: { Accept: "text/html" }, signal });
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

function say(text) {
  said.textContent = "";
  requestAnimationFrame(() => { said.textContent = text; });
}

// The last questions, which this browser alone keeps; it may refuse to keep anything

const RECENT = "hybrid-retrieve.recent";
const MAX_RECENT = 10;

function recent() {
  try {
    const known = JSON.parse(localStorage.getItem(RECENT) ?? "[]");
    return Array.isArray(known) ? known.filter((item) => typeof item === "string").slice(0, MAX_RECENT) : [];
  } catch {
    return [];
  }
}

function keepRecent(questions) {
  try {
    localStorage.setItem(RECENT, JSON.stringify(questions.slice(0, MAX_RECENT)));
  } catch { /* then none are shown */ }
}

function rememberQuestion() {
  const asked = question.value.trim();
  if (asked) keepRecent([asked, ...recent().filter((item) => item !== asked)]);
}

function showRecent() {
  const section = document.getElementById("recent");
  if (!section) return;
  const links = recent().map((asked) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `/?${new URLSearchParams({ question: asked })}`;
    link.textContent = asked;
    link.dir = "auto";
    item.append(link);
    return item;
  });
  section.querySelector("ul").replaceChildren(...links);
  section.hidden = !links.length;
  section.querySelector("button").onclick = () => {
    keepRecent([]);
    section.hidden = true;
    question.focus();
    say("Cleared");
  };
}

// As one types: titles and passages in place of the results, which come back when the question is emptied

const PAUSE_MS = 120;
let pause = 0;
let typed = null; // the request that is under way
let before = null; // the results that what is typed has taken the place of

function stopTyping() {
  clearTimeout(pause);
  typed?.abort();
  typed = null;
}

function readForm() {
  const filled = [...new FormData(document.getElementById("ask"))].filter(([, value]) => value.trim());
  return new URLSearchParams(filled);
}

async function showTyped() {
  const request = typed = new AbortController();
  try {
    const next = await fetched(`/?${readForm()}&typing=true`, request.signal);
    const found = next.getElementById("results");
    if (typed !== request || !found?.querySelector(".hits, .nothing")) return;
    const results = document.getElementById("results");
    before ??= results;
    results.replaceWith(found);
    pause = setTimeout(() => say(`${found.querySelectorAll(".hits > li").length} sections so far`), 900);
  } catch { /* the next key, or Enter, asks again */ }
}

question.addEventListener("input", (event) => {
  stopTyping();
  const asked = question.value.trim();
  if (event.isComposing) return;
  if (!asked && before) {
    document.getElementById("results").replaceWith(before);
    before = null;
  } else if ([...asked].length > 1) {
    pause = setTimeout(showTyped, PAUSE_MS);
  }
});

// While the documents are read: the page that was wanted comes by itself, and meanwhile a question can be written

const LOOK_MS = 700;
let looking = 0;

function followIndexing() {
  clearTimeout(looking);
  if (document.querySelector(".waiting")) looking = setTimeout(lookAgain, LOOK_MS);
  else if (document.getElementById("embedding")) looking = setTimeout(lookAtShare, 3 * LOOK_MS);
}

async function lookAgain() {
  try {
    const next = await fetched(location.pathname + location.search);
    if (next.querySelector(".waiting")) {
      document.getElementById("results").replaceWith(next.getElementById("results"));
      followIndexing();
      return;
    }
    document.getElementById("page").replaceWith(next.getElementById("page"));
    document.title = next.title;
    document.body.className = next.body.className;
    prepare();
    if (question.value.trim() && !new URLSearchParams(location.search).has("question")) showTyped();
    say("The documents can be asked now");
  } catch {
    followIndexing();
  }
}

async function lookAtShare() {
  try {
    const next = await fetched("/");
    const note = document.getElementById("embedding");
    const now = next.getElementById("embedding");
    if (now && note) note.replaceWith(now);
    else if (note) note.remove();
  } catch { /* the next look */ }
  followIndexing();
}

// Asking

async function show(address, remember) {
  stopTyping();
  before = null;
  const page = document.getElementById("page");
  page.setAttribute("aria-busy", "true");
  try {
    const next = await fetched(address);
    page.replaceWith(next.getElementById("page"));
    document.title = next.title;
    document.body.className = next.body.className;
    if (remember) history.pushState({}, "", address);
    question.value = next.getElementById("question").value;
    document.querySelector("#ask .more > div").replaceWith(next.querySelector("#ask .more > div"));
    for (const old of document.querySelectorAll("#ask [name=after]")) old.remove();
    document.getElementById("ask").append(...next.querySelectorAll("#ask [name=after]"));
    document.querySelector("#preferences [name=back]").value = location.pathname + location.search;
    scrollTo(0, 0);
    prepare();
    announce();
  } catch {
    location.assign(address); // the browser says better than this page could what is wrong
  }
}

function announce() {
  const hits = document.querySelectorAll(".hits > li").length;
  const verdict = document.querySelector(".verdict strong");
  const failure = document.querySelector(".failure p");
  if (failure) say(failure.textContent);
  else if (verdict) say(`${verdict.textContent}. ${hits} ${hits === 1 ? "section" : "sections"}.`);
}

document.getElementById("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  rememberQuestion();
  show(`/?${readForm()}`, true);
});
document.querySelector("#ask .more").addEventListener("change", () => {
  if (question.value.trim()) document.getElementById("ask").requestSubmit();
});
addEventListener("popstate", () => show(location.pathname + location.search, false));

// The tree

async function openBranch(twig) {
  const item = twig.closest("li");
  const list = item.querySelector(":scope > ul");
  const opening = twig.getAttribute("aria-expanded") !== "true";
  if (opening && !list) {
    const branch = await fetched(`${twig.href}&fragment=true`);
    const below = branch.querySelector("ul");
    if (!below) return location.assign(twig.href);
    below.classList.remove("tree");
    item.append(below);
  } else if (list) {
    list.hidden = !opening;
  }
  twig.setAttribute("aria-expanded", String(opening));
}

async function fillGap(more) {
  const gap = more.closest("li");
  const branch = await fetched(`${more.href}&fragment=true`);
  const items = [...branch.querySelectorAll("ul:first-of-type > li")];
  if (!items.length) return location.assign(more.href);
  gap.replaceWith(...items);
  items[0].querySelector(".row > a:not(.twig)")?.focus();
}

function walkTree(event, row) {
  const rows = [...document.querySelectorAll("#documents .row > a:not(.twig), #documents .more")];
  const shown = rows.filter((item) => item.checkVisibility());
  const twig = row.parentElement.querySelector(".twig");
  const isOpen = twig?.getAttribute("aria-expanded") === "true";
  const at = shown.indexOf(row);
  const parent = row.closest("ul")?.parentElement.querySelector(":scope > .row > a:not(.twig)");
  const steps = {
    ArrowDown: () => shown[at + 1]?.focus(),
    ArrowUp: () => shown[at - 1]?.focus(),
    ArrowRight: () => (twig && !isOpen ? openBranch(twig) : shown[at + 1]?.focus()),
    ArrowLeft: () => (isOpen ? openBranch(twig) : parent?.focus()),
    Home: () => shown[0]?.focus(),
    End: () => shown.at(-1)?.focus(),
  };
  if (!steps[event.key]) return;
  event.preventDefault();
  steps[event.key]();
}

// Clicks on what a script does better, unless another tab or window is wanted

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  const plain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  if (!link || !plain) return;
  if (link.closest(".hits")) rememberQuestion();
  const action = link.matches(".twig") ? () => openBranch(link)
    : link.matches(".more") && link.closest(".tree") ? () => fillGap(link)
    : link.matches(".tabs a:not([data-streamed])") ? () => show(link.getAttribute("href"), true)
    : link.matches("a.citation") && !("editor" in preferences.dataset) ? () => askEditor(link)
    : null;
  if (!action) return;
  event.preventDefault();
  action();
});

// Keys

const hits = () => [...document.querySelectorAll(".hits article")];

function goTo(article) {
  article?.focus({ preventScroll: true });
  article?.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  const inTree = event.target.closest?.("#documents .row > a:not(.twig), #documents .more");
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    question.focus();
    question.select();
  } else if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
  } else if (inTree) {
    walkTree(event, inTree);
  } else if (event.target === question && event.key === "ArrowDown" && hits().length) {
    event.preventDefault();
    goTo(hits()[0]);
  } else if (event.target.closest?.(".hits")) {
    fromHit(event);
  }
});

// Letters are keys only where a hit has the focus, so that they stay letters to speech input everywhere else.
function fromHit(event) {
  const all = hits();
  const at = all.indexOf(event.target.closest("article"));
  if (event.key === "j" || event.key === "k") goTo(all[at + (event.key === "j" ? 1 : -1)]);
  else if (event.key === "Escape") question.focus();
  else if (event.key === "Enter" && event.target.matches("article")) event.target.querySelector("h2 a").click();
  else return;
  event.preventDefault();
}

// What is copied: a citation, a link as notes write it, the text as it is shown

async function copy(text, button) {
  await navigator.clipboard.writeText(text);
  say("Copied");
  const label = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = label; }, 1500);
}

function addCopy(after, label, described, what) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet copy";
  button.textContent = label;
  button.setAttribute("aria-label", described);
  button.addEventListener("click", () => copy(what(), button));
  after.after(button);
  return button;
}

// Citations and preferences

const preferences = document.getElementById("preferences");
const editors = document.getElementById("editors");

async function keepEditor(name) {
  preferences.dataset.editor = "";
  const chosen = new URLSearchParams({ back: "/", theme: preferences.elements.theme.value, editor: name });
  preferences.elements.editor.value = name;
  await fetch("/preferences", { method: "POST", body: chosen, redirect: "manual" });
  // The server makes the addresses that editors know.
  const links = (within) => [...within.querySelectorAll("#page a.citation")];
  const next = links(await fetched(location.pathname + location.search));
  links(document).forEach((link, place) => { if (next[place]) link.href = next[place].href; });
}

function askEditor(link) {
  editors.showModal();
  editors.onclick = async (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    editors.close();
    if (!button.value) return;
    await keepEditor(button.value);
    location.assign(link.href);
  };
}

const rankOf = (item) => Number(item.querySelector(":scope > .row > .rank")?.lastChild.textContent);

function prepare() {
  for (const link of document.querySelectorAll("#page .citation")) {
    const text = link.closest("article")?.querySelector(".text");
    const cited = addCopy(link, "Copy", `Copy ${link.dataset.copy}`, () => link.dataset.copy);
    const linked = addCopy(cited, "[[ ]]", `Copy the link ${link.dataset.link}`, () => link.dataset.link);
    if (text) addCopy(linked, "Text", `Copy the text of ${link.dataset.copy}`, () => textOf(text));
  }
  showRecent();
  followIndexing();
  const tree = document.getElementById("documents");
  const lit = tree?.querySelector(".here") ?? [...(tree?.querySelectorAll(".lit") ?? [])].find((item) => rankOf(item) === 1);
  if (lit && lit.getBoundingClientRect().top > tree.getBoundingClientRect().bottom - 80) {
    tree.scrollTop = lit.getBoundingClientRect().top - tree.getBoundingClientRect().top - 120;
  }
}

// As it is shown; what is folded has no `innerText`.
function textOf(text) {
  const folded = text.closest("details:not([open])");
  if (folded) folded.open = true;
  const shown = text.innerText;
  if (folded) folded.open = false;
  return shown.trim();
}

preferences.querySelector("button").hidden = true;
preferences.addEventListener("change", () => preferences.requestSubmit());
prepare();
