// What the page does more with a script: it asks without loading anew and shows what is found as one types, goes through
// the hits by keys, copies citations and code, filters files, and remembers the last questions in this browser.
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
    const next = await fetched(`/typed?${readForm()}`, request.signal);
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

let shown = location.pathname + location.search;
let underWay = ""; // the address that is under way

async function show(address, remember) {
  if (underWay === address) return; // Enter in a filter submits the form, and so does the change of the filter
  underWay = address;
  stopTyping();
  before = null;
  const page = document.getElementById("page");
  page.setAttribute("aria-busy", "true");
  try {
    const next = await fetched(address);
    if (underWay !== address) return; // something else was asked meanwhile
    underWay = "";
    page.replaceWith(next.getElementById("page"));
    document.title = next.title;
    document.body.className = next.body.className;
    if (remember) history.pushState({}, "", address);
    shown = address;
    question.value = next.getElementById("question").value;
    for (const part of ["#ask .more > div", "#ask .chips"]) document.querySelector(part).replaceWith(next.querySelector(part));
    for (const old of document.querySelectorAll("#ask [name=after]")) old.remove();
    document.getElementById("ask").append(...next.querySelectorAll("#ask [name=after]"));
    scrollTo(0, 0);
    prepare();
    announce();
  } catch {
    location.assign(address); // the browser says better than this page could what is wrong
  }
}

function announce() {
  const hits = document.querySelectorAll(".hits > li").length;
  const verdict = document.querySelector(".verdict");
  const failure = document.querySelector(".failure p");
  if (failure) say(failure.textContent);
  else if (verdict) say(`${verdict.textContent.replace(/[.:]$/, "")}. ${hits} ${hits === 1 ? "section" : "sections"}.`);
}

document.getElementById("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  rememberQuestion();
  show(`/?${readForm()}`, true);
});
document.querySelector("#ask .more").addEventListener("change", () => {
  if (question.value.trim()) document.getElementById("ask").requestSubmit();
});
addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='/answer']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  say("The language model writes");
  show(link.getAttribute("href"), true);
});
addEventListener("popstate", () => {
  if (location.pathname + location.search !== shown) show(location.pathname + location.search, false); // else a fragment
});

addEventListener("click", (event) => { if (event.target.closest?.(".hits a")) rememberQuestion(); });

// Keys

const hits = () => [...document.querySelectorAll(".hits article")];

function goTo(article) {
  article?.focus({ preventScroll: true });
  article?.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    question.focus();
    question.select();
  } else if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
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

// Citations

async function copy(button, text) {
  const label = button.textContent;
  if (label === "Copied") return;
  await navigator.clipboard.writeText(text);
  say("Copied");
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = label; }, 1500);
}

addEventListener("click", (event) => {
  const button = event.target.closest?.(".copy");
  if (button) copy(button, button.dataset.copy ?? button.parentElement.querySelector("pre").textContent);
});

function addCopyButtons() {
  for (const code of document.querySelectorAll(".code:not(:has(.copy))")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy code");
    code.append(button);
  }
}

// The files of a folder, filtered as one types

addEventListener("input", (event) => {
  if (!event.target.matches?.(".filter")) return;
  const wanted = event.target.value.trim().toLowerCase();
  for (const item of event.target.nextElementSibling.children) {
    item.hidden = !item.textContent.toLowerCase().includes(wanted);
  }
});

function prepare() {
  showRecent();
  addCopyButtons();
  followIndexing();
  const tree = document.getElementById("documents");
  const lit = tree?.querySelector(".here, .lit");
  if (lit && lit.getBoundingClientRect().top > tree.getBoundingClientRect().bottom - 80) {
    tree.scrollTop = lit.getBoundingClientRect().top - tree.getBoundingClientRect().top - 120;
  }
}

prepare();
