// What the page does more with a script: it asks without loading anew, opens branches of the tree in their place, goes
// through the hits by keys, copies citations. Everything here has a form or a link behind it that works without.
"use strict";

const root = document.documentElement;
root.classList.add("scripted");
const question = document.getElementById("question");
const said = document.getElementById("said");

async function fetched(address) {
  const response = await fetch(address, { headers: { Accept: "text/html" } });
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

function say(text) {
  said.textContent = "";
  requestAnimationFrame(() => { said.textContent = text; });
}

// Asking

async function show(address, remember) {
  const page = document.getElementById("page");
  page.setAttribute("aria-busy", "true");
  try {
    const next = await fetched(address);
    page.replaceWith(next.getElementById("page"));
    document.title = next.title;
    if (remember) history.pushState({}, "", address);
    for (const name of ["question", "profile"]) {
      document.getElementById(name).value = next.getElementById(name).value;
    }
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
  const asked = new URLSearchParams(new FormData(event.target));
  show(`/?${asked}`, true);
});
document.getElementById("profile").addEventListener("change", () => {
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
  const action = link.matches(".twig") ? () => openBranch(link)
    : link.matches(".more") && link.closest(".tree") ? () => fillGap(link)
    : link.matches(".tabs a") ? () => show(link.getAttribute("href"), true)
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

// Citations and preferences

const rankOf = (item) => Number(item.querySelector(":scope > .row > .rank")?.lastChild.textContent);

function prepare() {
  for (const link of document.querySelectorAll("#page .citation")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy ${link.dataset.copy}`);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(link.dataset.copy);
      say("Copied");
      button.textContent = "Copied";
    });
    link.after(button);
  }
  const tree = document.getElementById("documents");
  const lit = tree?.querySelector(".here") ?? [...(tree?.querySelectorAll(".lit") ?? [])].find((item) => rankOf(item) === 1);
  if (lit && lit.getBoundingClientRect().top > tree.getBoundingClientRect().bottom - 80) {
    tree.scrollTop = lit.getBoundingClientRect().top - tree.getBoundingClientRect().top - 120;
  }
}

const preferences = document.getElementById("preferences");
preferences.querySelector("button").hidden = true;
preferences.addEventListener("change", () => preferences.requestSubmit());
prepare();
