"use strict";
for (const map of document.querySelectorAll(".map")) {
  const said = map.closest("figure").querySelector(".picked");
  let on = null;
  const pick = (mark) => {
    if (!mark || mark === on) return;
    if (on) on.classList.remove("on");
    on = mark;
    on.classList.add("on");
    said.textContent = on.querySelector("title").textContent;
  };
  const under = (event) => event.target.closest(".map g > *");
  map.addEventListener("pointerover", (event) => pick(under(event)));
  map.addEventListener("click", (event) => pick(under(event)));
  map.setAttribute("tabindex", "0");
  map.addEventListener("keydown", (event) => {
    const marks = [...map.querySelectorAll("g > *")];
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || !marks.length) return;
    event.preventDefault();
    pick(marks[(marks.indexOf(on) + step + marks.length) % marks.length]);
  });
}
