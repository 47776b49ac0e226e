// What only a server has: runs in progress, and the files of every run. In a folder this file is empty.
(function () {
  "use strict";
  function link(place, href, text) {
    const made = document.createElement("a");
    made.href = href;
    made.textContent = text;
    place.append(made, " ");
    return made;
  }
  document.addEventListener("DOMContentLoaded", () => {
    const root = document.body.dataset.root;
    const live = link(document.querySelector("header.site nav"), `${root}live.html`, "Live");
    if (document.body.dataset.here === "live") live.setAttribute("aria-current", "page");
    const ways = document.getElementById("ways");
    if (ways === null) return;
    const files = `${root}files/${encodeURIComponent(ways.dataset.page)}/`;
    if (ways.textContent.trim()) ways.append(" · ");
    if (ways.dataset.report !== undefined) link(ways, `${files}report.html`, "The run's own report");
    link(ways, `${root}live/${encodeURIComponent(ways.dataset.page)}.html`, "As it went on");
    link(ways, `${files}verdict.json`, "Verdict");
    link(ways, `${files}harness.jsonl`, "Log of the harness");
  });
})();
