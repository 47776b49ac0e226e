// A click on a cell, or on any link to one, opens its evidence beside the table; arrow keys walk from cell to cell.
// Without this script the links lead to the same evidence further down the page.
(function () {
  "use strict";
  const panel = document.getElementById("panel");
  const body = document.getElementById("panel-body");
  let home = null;

  function putBack() {
    if (home) {
      home.place.replaceWith(home.detail);
      home = null;
    }
  }

  function show(detail) {
    putBack();
    home = { detail: detail, place: document.createComment(detail.id) };
    detail.replaceWith(home.place);
    body.replaceChildren(detail);
    if (!panel.open) panel.showModal();
    body.scrollTop = 0;
  }

  if (panel && typeof panel.showModal === "function") {
    document.addEventListener("click", (event) => {
      const link = event.target.closest("a[href^='#cell.']");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      const detail = document.getElementById(link.getAttribute("href").slice(1));
      if (!detail) return;
      event.preventDefault();
      show(detail);
    });
    // The close event arrives late; another cell may be open by then.
    panel.addEventListener("close", () => { if (!panel.open) putBack(); });
    panel.addEventListener("click", (event) => {
      if (event.target === panel || event.target.closest(".close")) panel.close();
    });
  }

  const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  for (const grid of document.querySelectorAll("table.grid")) {
    grid.addEventListener("keydown", (event) => {
      const move = moves[event.key];
      const cell = event.target.closest("td");
      if (!move || !cell) return;
      const rows = [...grid.querySelectorAll("tbody tr")].filter((row) => row.offsetParent !== null);
      let row = rows.indexOf(cell.parentElement);
      let column = cell.cellIndex;
      for (;;) {
        row += move[0];
        column += move[1];
        const next = rows[row] && rows[row].cells[column];
        if (!next || next.tagName !== "TD") return;
        const link = next.querySelector("a");
        if (link) {
          event.preventDefault();
          link.focus();
          return;
        }
      }
    });
  }
})();
