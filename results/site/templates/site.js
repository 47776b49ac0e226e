// Filters of findings and runs. Data come as scripts, because a page from a folder may load nothing else.
window.sq = (function () {
  "use strict";
  const LIMIT = 200;
  const shards = new Map();
  let waiting = [];

  function words(text) { return text.toLowerCase().split(/\s+/).filter(Boolean); }
  function fits(text, wanted) { return wanted.every((word) => text.includes(word)); }
  function said(text) { document.getElementById("filter-count").textContent = text; }

  function filterRows(input) {
    const rows = [...document.querySelectorAll(`#${input.dataset.filter} tbody tr[data-text]`)];
    const bodies = new Set(rows.map((row) => row.parentElement));
    const texts = rows.map((row) => (row.dataset.text + " " + row.textContent).toLowerCase());
    function show() {
      const wanted = words(input.value);
      let shown = 0;
      rows.forEach((row, number) => { row.hidden = !fits(texts[number], wanted); shown += row.hidden ? 0 : 1; });
      for (const group of bodies) group.hidden = [...group.querySelectorAll("tr[data-text]")].every((row) => row.hidden);
      said(wanted.length ? `${shown} of ${rows.length}` : "");
    }
    input.addEventListener("input", show);
    fromAddress(input, show);
  }

  // ── runs ──
  function filterRuns(input) {
    const count = Number(input.dataset.runs);
    const body = document.querySelector("#runs tbody");
    const more = document.getElementById("more");
    const first = [...body.children];
    let runs = null, limit = LIMIT;
    function show() {
      const wanted = words(input.value);
      if (!wanted.length && limit === LIMIT) { body.replaceChildren(...first); said(""); more.hidden = first.length >= Number(input.dataset.total); return; }
      if (runs === null) { said("reading…"); loadAll(count, (rows) => { runs = rows; show(); }); return; }
      const found = runs.filter((run) => fits(run.text, wanted));
      body.replaceChildren(...found.slice(0, limit).map(rowOf));
      more.hidden = found.length <= limit;
      said(`${found.length.toLocaleString("en")} of ${runs.length.toLocaleString("en")}`);
    }
    input.addEventListener("input", () => { limit = LIMIT; show(); });
    more.addEventListener("click", () => { limit += LIMIT; show(); });
    fromAddress(input, show);
  }

  function rowOf(run) {
    const row = document.createElement("tr");
    const name = document.createElement("th");
    const link = document.createElement("a");
    name.scope = "row";
    link.href = `runs/${encodeURIComponent(run.page)}.html`;
    link.textContent = run.run;
    name.append(link);
    row.append(name);
    const chip = document.createElement("span");
    const [style, mark] = { valid: ["ok", "✓"], invalid: ["fail", "✕"], unknown: ["info", "?"] }[run.verdict] || ["other", "·"];
    chip.className = `chip ${style}`;
    chip.textContent = `${mark} ${run.verdict}`;
    const heads = document.querySelectorAll("#runs thead th");
    const cells = [chip, run.system, run.workloads, run.nemeses || "none", run.seed, run.found, run.races ? `${run.broken} of ${run.races}` : "–"];
    cells.forEach((cell, number) => {
      const place = document.createElement("td");
      if (number > 3) place.className = "number";
      place.dataset.label = heads[number + 1].textContent;
      place.append(cell);
      row.append(place);
    });
    return row;
  }

  function loadAll(count, done) {
    waiting.push(() => {
      if (shards.size < count) return false;
      const rows = [];
      for (let number = 0; number < count; number += 1) for (const run of shards.get(number)) rows.push(run);
      done(rows);
      return true;
    });
    for (let number = 0; number < count; number += 1) {
      const script = document.createElement("script");
      script.src = `${document.body.dataset.root}data/runs-${String(number).padStart(3, "0")}.js`;
      script.onerror = () => said("the list of runs could not be read");
      document.head.append(script);
    }
    settle();
  }

  function settle() { waiting = waiting.filter((ready) => !ready()); }

  function load([name, number, columns]) {
    if (name !== "runs") return;
    const rows = columns.run.map((run, place) => {
      const row = {};
      for (const key of Object.keys(columns)) row[key] = columns[key][place];
      row.text = [run, row.key, row.system, row.workloads, row.nemeses, `seed ${row.seed}`, row.verdict, row.findings].join(" ").toLowerCase();
      return row;
    });
    shards.set(number, rows);
    settle();
  }

  function fromAddress(input, show) {
    function read() {
      let wanted = "";
      try { wanted = decodeURIComponent(window.location.hash.slice(1)); } catch { return; }
      if (wanted && !document.getElementById(wanted)) { input.value = wanted; }
      show();
    }
    window.addEventListener("hashchange", read);
    read();
  }

  // ── a run in progress ──
  function follow(place) {
    const source = new EventSource(place.dataset.live);
    const put = (name, text) => { document.getElementById(`live-${name}`).textContent = text; };
    const list = (name, texts) => {
      const items = texts.map((text) => { const item = document.createElement("li"); item.textContent = text; return item; });
      document.getElementById(`live-${name}`).replaceChildren(...items);
    };
    source.onmessage = (message) => {
      const run = JSON.parse(message.data);
      put("state", run.running ? "in progress" : run.judged ? "ended, and judged" : "ended; not judged yet");
      put("time", `${run.seconds.toFixed(1)} s`);
      put("races", String(run.races));
      put("operations", `${run.operations.ok} ok, ${run.operations.fail} fail, ${run.operations.info} info`);
      put("rate", String(run.rate));
      list("phases", run.phases.map((phase) => `${phase.name}: ${phase.state}`));
      list("faults", run.faults.length ? run.faults : ["none"]);
      list("provisional", run.provisional.length ? run.provisional : ["none"]);
      list("signs", run.signs.length ? run.signs : ["none"]);
      const found = run.findings.map((one) => `${one.id} ${one.title}, ${one.rate}`);
      list("findings", found.length ? found : [run.judged ? "none" : "not judged yet"]);
    };
    source.addEventListener("end", () => source.close());
    source.onerror = () => { if (source.readyState === EventSource.CLOSED) put("state", "the connection has ended"); };
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const place of document.querySelectorAll("[data-live]")) follow(place);
    for (const input of document.querySelectorAll("input[type=search]")) {
      input.closest(".filter").hidden = false;
      if (input.dataset.runs !== undefined) filterRuns(input); else filterRows(input);
    }
  });
  return { load };
})();
