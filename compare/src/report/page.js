"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("thead th").forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    table.querySelectorAll("thead th").forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const key = row => row.cells[column].textContent.trim();
    const number = text => text === "" ? Infinity : parseFloat(text);
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      const [m, n] = [number(x), number(y)];
      const order = Number.isNaN(m) || Number.isNaN(n) ? x.localeCompare(y) : m === n ? 0 : m - n;
      return down ? -order : order;
    });
    body.append(...rows);
  }));
}
