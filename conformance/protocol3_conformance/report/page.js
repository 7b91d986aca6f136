"use strict";
for (const section of document.querySelectorAll("section.table")) {
  const rows = [...section.querySelectorAll("tbody tr")];
  const search = section.querySelector("input");
  const buttons = [...section.querySelectorAll("button[data-state]")];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const show = () => {
    const wanted = buttons.filter((one) => one.getAttribute("aria-pressed") === "true").map((one) => one.dataset.state);
    const word = search.value.trim().toLowerCase();
    for (const row of rows) {
      row.hidden = !((!wanted.length || wanted.includes(row.dataset.state)) && texts.get(row).includes(word));
    }
  };
  search.addEventListener("input", show);
  for (const button of buttons) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      show();
    });
  }
}
