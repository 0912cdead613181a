// What the page does more with a script: it shows what is found as one types, goes through the hits by keys, copies
// citations and code, filters files, and remembers the last questions in this browser. All else is forms and links.
"use strict";

const question = document.getElementById("question");
const said = document.getElementById("said");

async function fetched(address, signal) {
  const response = await fetch(address, { signal });
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

function say(text) {
  said.textContent = "";
  requestAnimationFrame(() => { said.textContent = text; });
}

// The last questions, which this browser alone keeps; it may refuse to keep anything

const RECENT = "hybrid-retrieve.questions";
const MAX_RECENT = 10;

function keepQuestion() {
  try {
    const known = localStorage.getItem(RECENT)?.split("\n") ?? [];
    const asked = new Set([question.defaultValue.trim(), ...known].filter(Boolean));
    const kept = [...asked].slice(0, MAX_RECENT);
    localStorage.setItem(RECENT, kept.join("\n"));
    return kept;
  } catch {
    return [];
  }
}

function showRecent(questions) {
  const section = document.getElementById("recent");
  if (!section || !questions.length) return;
  for (const asked of questions) {
    const link = document.createElement("a");
    link.href = `/?${new URLSearchParams({ question: asked })}`;
    link.textContent = asked;
    link.dir = "auto";
    section.querySelector("ul").append(document.createElement("li"));
    section.querySelector("li:last-child").append(link);
  }
  section.hidden = false;
  section.querySelector("button").addEventListener("click", () => {
    localStorage.removeItem(RECENT);
    section.hidden = true;
    question.focus();
    say("Cleared");
  });
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

const LOOK_MS = 1000;

async function followIndexing() {
  const progress = document.querySelector("#reading, #embedding");
  if (!progress) return;
  try {
    const next = await fetched(location.href);
    const now = next.getElementById(progress.id);
    if (now) {
      progress.replaceWith(now);
    } else {
      document.getElementById("page").replaceWith(next.getElementById("page"));
      document.title = next.title;
      prepare();
      say("The documents can be asked now");
      if (question.value !== question.defaultValue) showTyped();
    }
  } catch { /* the next look */ }
  setTimeout(followIndexing, LOOK_MS);
}

// Asking: an address has no field that is empty, and a question that is there can be written on

if (question.autofocus) question.selectionStart = question.value.length;

document.getElementById("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  stopTyping();
  location.assign(`/?${readForm()}`);
});

// Keys

const hits = () => [...document.querySelectorAll(".hits h2 a")];

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    question.focus();
    question.select();
  } else if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
  } else if (event.target === question && event.key === "ArrowDown" && hits().length) {
    event.preventDefault();
    hits()[0].focus();
  } else if (event.target.closest?.(".hits")) {
    fromHit(event);
  }
});

// Letters are keys only where a hit has the focus, so that they stay letters to speech input everywhere else.
function fromHit(event) {
  const all = hits();
  const at = all.indexOf(event.target.closest("article").querySelector("h2 a"));
  if (event.key === "j") all[at + 1]?.focus();
  else if (event.key === "k") all[at - 1]?.focus();
  else if (event.key === "Escape") question.focus();
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
  showRecent(keepQuestion());
  addCopyButtons();
  const tree = document.getElementById("documents");
  const lit = tree?.querySelector(".here, .lit");
  if (lit) tree.scrollTop = lit.offsetTop - tree.clientHeight / 2;
}

prepare();
followIndexing();
