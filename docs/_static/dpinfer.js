// What the theme leaves out for people who read with a keyboard, a screen reader or a telephone.
"use strict";

// Toggles of the side bar are named by the page whose children they show.
for (const toggle of document.querySelectorAll(".bd-links summary")) {
  const page = toggle.closest("li").querySelector("a");
  toggle.setAttribute("aria-label", `Pages below ${page.textContent.trim()}`);
}

// A folded cell is named by the words that it shows, and references are no list of list items.
for (const toggle of document.querySelectorAll("details.hide summary")) toggle.removeAttribute("aria-label");
for (const list of document.querySelectorAll(".citation-list[role]")) list.removeAttribute("role");

// Names in tables may break after a dot, an underscore, a bracket or a sign, where a telephone leaves no room.
for (const words of document.querySelectorAll(".bd-article td code .pre")) {
  const pieces = words.textContent.split(/(?<=[._(=+~,/-])(?=\w)/);
  words.replaceChildren(...pieces.flatMap((piece, place) => (place ? [document.createElement("wbr"), piece] : [piece])));
}

// A box that scrolls can be reached by the tabulator.
function reach() {
  for (const box of document.querySelectorAll("div.formula, div.cell_output div")) {
    const scrolls = box.scrollWidth > box.clientWidth && ["auto", "scroll"].includes(getComputedStyle(box).overflowX);
    if (scrolls) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}
window.addEventListener("load", reach);
window.addEventListener("resize", reach);
