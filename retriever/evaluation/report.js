// Narrows the list of questions; without scripts all of them are there.
"use strict";
const form = document.getElementById("filter");
const questions = [...document.querySelectorAll("details.question")];
const shown = document.getElementById("shown");

function narrow() {
  const words = form.elements.words.value.toLowerCase();
  const kind = form.elements.kind.value;
  const result = form.elements.result.value;
  let count = 0;
  for (const question of questions) {
    const fits =
      (!kind || question.dataset.kind === kind) &&
      (!result || question.dataset.results.split(" ").includes(result)) &&
      question.textContent.toLowerCase().includes(words);
    question.hidden = !fits;
    count += fits;
  }
  shown.textContent = `${count} of ${questions.length} shown`;
}

function open_target() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.matches("details.question")) {
    target.hidden = false;
    target.open = true;
    target.scrollIntoView();
  }
}

form.hidden = false;
form.addEventListener("input", narrow);
form.addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("hashchange", open_target);
narrow();
open_target();
