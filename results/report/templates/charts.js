// Draws the three charts of a report with uPlot, from the numbers in #chart-data.
(function () {
  "use strict";

  const data = JSON.parse(document.getElementById("chart-data").textContent);
  const OUTCOMES = ["ok", "info", "fail"];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const charts = [];

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  // A choice of series; `draw` is called with the chosen name now and at every change.
  function chooser(id, names, draw) {
    const select = document.getElementById(id);
    for (const name of names) {
      const option = document.createElement("option");
      option.textContent = name;
      option.value = name;
      select.append(option);
    }
    const again = () => draw(select.value);
    select.addEventListener("change", again);
    charts.push(again);
    again();
  }

  // Faults are shaded behind the lines, over the full height.
  function shade(chart) {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.fillStyle = colour("fault-fill");
    for (const [left, width] of spans(chart, data.faults)) ctx.fillRect(left, bbox.top, width, bbox.height);
    ctx.restore();
  }

  // The names of faults, and the strip of phases above the plot, are drawn last, so that no grid line crosses them.
  function names(chart) {
    const { ctx, bbox } = chart;
    const ratio = window.devicePixelRatio || 1;
    ctx.save();
    ctx.font = 11 * ratio + "px " + getComputedStyle(document.body).fontFamily;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    spans(chart, data.phases).forEach(([left, width, name], number) => {
      const top = bbox.top - 20 * ratio;
      ctx.fillStyle = colour(number % 2 ? "line" : "wash");
      ctx.fillRect(left, top, Math.max(width - ratio, ratio), 17 * ratio);
      if (ctx.measureText(name).width + 8 * ratio > width) return;
      ctx.fillStyle = colour("soft");
      ctx.fillText(name, left + 4 * ratio, top + 9 * ratio);
    });
    ctx.fillStyle = colour("info-ink");
    for (const [left, , name] of spans(chart, data.faults)) ctx.fillText(name, left + 4 * ratio, bbox.top + 9 * ratio);
    ctx.restore();
  }

  // [left, width, name] in canvas px of those of `stretches` ([name, begins, ends]) that are in view.
  function spans(chart, stretches) {
    const { left, width } = chart.bbox;
    const x = (seconds) => Math.min(left + width, Math.max(left, chart.valToPos(seconds, "x", true)));
    return stretches.map(([name, begins, ends]) => [x(begins), Math.max(x(ends) - x(begins), 1), name])
      .filter(([begins, , ]) => begins < left + width);
  }

  const SOLID = [];
  const DASHES = { solid: SOLID, dashed: [7, 3], dotted: [2, 3], double: [9, 3, 2, 3] };

  function options(element, series, scale, hooks) {
    const line = { stroke: colour("line"), width: 1 };
    const axis = { stroke: colour("soft"), grid: line, ticks: line };
    // On a logarithmic scale only the powers of ten get a line.
    const decades = (u, splits) => splits.map((split) => (scale.distr !== 3 || Math.abs(Math.log10(split) % 1) < 1e-6 ? split : null));
    return {
      width: Math.max(280, element.clientWidth - 14), height: 270, series, padding: [26, 14, 0, 0],
      scales: { x: { time: false }, y: scale },
      axes: [
        { ...axis, values: (u, ticks) => ticks.map((tick) => +tick.toFixed(3) + " s") },
        { ...axis, size: 64, grid: { ...line, filter: decades }, values: (u, ticks) => ticks.map((tick) => (tick == null ? "" : u.axes[1].words(tick))) },
      ],
      cursor: { focus: { prox: 24 } },
      legend: { markers: { width: 3, dash: (u, i) => u.series[i].word || "solid" } },
      hooks: { drawClear: [shade], draw: [...(hooks.draw || []), names] },
    };
  }

  function milliseconds(value) {
    if (value == null) return "–";
    return value >= 1000 ? +(value / 1000).toPrecision(3) + " s" : +value.toPrecision(3) + " ms";
  }

  const logarithmic = { distr: 3, log: 10 };

  function draw(id, make) {
    const element = document.getElementById(id);
    element.replaceChildren();
    const [settings, columns, words] = make(element);
    settings.axes[1].words = words;
    if (columns[0].length) new uPlot(settings, columns, element);
    else element.textContent = "No operation of this kind was completed.";
  }

  function line(label, stroke, word, value) {
    return { label, stroke, width: 1.8, dash: DASHES[word], word, value: (u, v) => value(v), points: { show: true, size: 5, fill: stroke }, spanGaps: false };
  }

  // A null point between two distant values keeps the line from crossing seconds without operations.
  function withGaps(t, columns) {
    const found = [[], ...columns.map(() => [])];
    t.forEach((second, i) => {
      if (i && second - t[i - 1] > 3) {
        found[0].push(second - 0.5);
        columns.forEach((_, column) => found[column + 1].push(null));
      }
      found[0].push(second);
      columns.forEach((values, column) => found[column + 1].push(values[i]));
    });
    return found;
  }

  function quantiles(name) {
    draw("quantiles", (element) => {
      const own = data.quantiles[name] || { t: [] };
      const styles = [["0.5", "ok", "solid"], ["0.95", "ok-ink", "dashed"], ["0.99", "info-ink", "dotted"], ["1", "fail-ink", "double"]];
      const series = [{ label: "time", value: (u, v) => (v == null ? "–" : v + " s") }];
      for (const [quantile, stroke, word] of styles) series.push(line("quantile " + quantile, colour(stroke), word, milliseconds));
      const columns = withGaps(own.t, styles.map(([quantile]) => own[quantile] || []));
      const settings = options(element, series, logarithmic, {});
      zoomable(settings);
      return [settings, columns, milliseconds];
    });
  }

  // The x scale starts with the whole run; a selection narrows it.
  function zoomable(settings) {
    let initial = true;
    const end = data.duration * 1.01;
    settings.scales.x.range = (u, min, max) => {
      if (initial || min == null || min === max) { initial = false; return [0, end]; }
      return [Math.max(0, min), Math.min(end, max)];
    };
    settings.hooks.ready = [(u) => {
      u.over.addEventListener("dblclick", () => u.setScale("x", { min: 0, max: end }));
    }];
  }

  // One mark per operation. Shape and colour show the outcome: circle ok, triangle info, cross fail.
  function mark(ctx, outcome, x, y, size) {
    ctx.beginPath();
    if (outcome === 0) ctx.arc(x, y, size, 0, 2 * Math.PI);
    else if (outcome === 1) { ctx.moveTo(x, y - size * 1.3); ctx.lineTo(x + size * 1.2, y + size); ctx.lineTo(x - size * 1.2, y + size); ctx.closePath(); }
    else { ctx.moveTo(x - size, y - size); ctx.lineTo(x + size, y + size); ctx.moveTo(x + size, y - size); ctx.lineTo(x - size, y + size); }
    if (outcome === 2) ctx.stroke(); else ctx.fill();
  }

  function raw(name) {
    draw("raw", (element) => {
      const points = data.raw;
      const chosen = points.names.indexOf(name);
      const kept = points.t.map((_, i) => i).filter((i) => chosen < 0 || points.f[i] === chosen);
      const columns = [kept.map((i) => points.t[i])];
      const marks = ["●", "▲", "✕"];
      const strokes = [colour("ok"), colour("info"), colour("fail-ink")];
      const series = [{ label: "time", value: (u, v) => (v == null ? "–" : v + " s") }];
      OUTCOMES.forEach((outcome, number) => {
        columns.push(kept.map((i) => (points.o[i] === number ? points.ms[i] : null)));
        series.push({ label: marks[number] + " " + outcome, stroke: strokes[number], paths: () => null, points: { show: false }, value: (u, v) => milliseconds(v) });
      });
      const scatter = (u) => {
        const ratio = window.devicePixelRatio || 1;
        u.ctx.save();
        u.ctx.beginPath();
        u.ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
        u.ctx.clip();
        u.ctx.lineWidth = 1.4 * ratio;
        OUTCOMES.forEach((_, number) => {
          if (!u.series[number + 1].show) return;
          u.ctx.fillStyle = u.ctx.strokeStyle = strokes[number];
          u.ctx.globalAlpha = 0.75;
          u.data[number + 1].forEach((value, i) => {
            if (value != null) mark(u.ctx, number, u.valToPos(u.data[0][i], "x", true), u.valToPos(value, "y", true), 2.8 * ratio);
          });
        });
        u.ctx.restore();
      };
      const settings = options(element, series, logarithmic, { draw: [scatter] });
      zoomable(settings);
      return [settings, columns, milliseconds];
    });
  }

  // Runs of zeros are left out; otherwise three lines would overlap along the axis.
  function withoutRest(counts) {
    return counts.map((count, i) => (count || counts[i - 1] || counts[i + 1] ? count : null));
  }

  function rates(name) {
    draw("rates", (element) => {
      const own = data.rates.f[name];
      const words = ["solid", "dotted", "dashed"];
      const strokes = ["ok", "info", "fail-ink"];
      const value = (v) => (v == null ? "–" : v + "/s");
      const series = [{ label: "time", value: (u, v) => (v == null ? "–" : v + " s") }];
      OUTCOMES.forEach((outcome, number) => {
        series.push({ ...line(outcome, colour(strokes[number]), words[number], value), points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) });
      });
      const settings = options(element, series, { range: (u, min, max) => [0, Math.max(1, max * 1.12)] }, {});
      zoomable(settings);
      return [settings, [data.rates.t, ...OUTCOMES.map((outcome) => withoutRest(own[outcome]))], (tick) => +tick.toPrecision(4) + ""];
    });
  }

  if (data.raw.t.length < data.raw.of) {
    document.getElementById("raw-note").textContent = data.raw.t.length.toLocaleString("en") + " of " + data.raw.of.toLocaleString("en") + " shown";
  }
  const everything = "all operations";
  chooser("quantiles-of", Object.keys(data.quantiles), quantiles);
  chooser("raw-of", [everything, ...data.raw.names], raw);
  chooser("rates-of", Object.keys(data.rates.f), rates);

  const redraw = () => charts.forEach((again) => again());
  dark.addEventListener("change", redraw);
  let last = window.innerWidth;
  let waiting = 0;
  window.addEventListener("resize", () => {
    if (window.innerWidth === last) return;
    last = window.innerWidth;
    window.clearTimeout(waiting);
    waiting = window.setTimeout(redraw, 150);
  });
})();
