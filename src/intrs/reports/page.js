"use strict";
// Draws the curves and the images of this page from the JSON above. Text reaches the page as text, never as HTML.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = (id) => JSON.parse($(id).textContent);
  const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
  const number = (x) => x.toLocaleString("en-US");
  const percent = (x) => (100 * x).toFixed(1) + " %";

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function svg(name, attributes = {}, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  // --- Charts -------------------------------------------------------------------------------------------------------
  // A chart is drawn anew whenever something changes. Its view, a function, says what there is to draw now:
  //   x, y        axes: low, high, text(value) of a tick; x has a label, and whole if only whole numbers make sense
  //   shapes(f)   elements to draw, f turning values into pixels by f.x and f.y
  //   lines(f)    what carries a name: name, kind, points in pixels
  //   words       boxes of words that shapes drew, which names must not cover
  //   step, last  places that can be pointed at: x.low + k * step for k = 0 .. last; leap of them for PageUp
  //   dots(k, f)  [y in pixels, kind] of what is at the place;  tip(k)  what is said of it, a heading and paragraphs

  const NARROW = 560;  // pixels
  const path = (points) => "M" + points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");

  function chart(node, view) {
    let cursor = null, width = 0;

    function draw() {
      const f = frame(node, view());
      const picture = svg("svg", { viewBox: `0 0 ${f.width} ${f.height}`, height: f.height, "aria-hidden": "true" });
      picture.append(...axes(f), ...f.shapes(f), ...names(f));
      node.replaceChildren(picture);
      node.classList.toggle("narrow", f.width < NARROW);
      node.setAttribute("aria-valuemin", f.axis.x.low);
      node.setAttribute("aria-valuemax", f.axis.x.low + f.last * f.step);
      if (cursor !== null) drawCursor(picture, f, clamp(cursor, 0, f.last));
    }

    function drawCursor(picture, f, k) {
      const value = f.axis.x.low + k * f.step, x = f.x(value);
      const dots = f.dots(k, f).map(([y, kind]) => svg("circle", { class: `dot ${kind}`, cx: x, cy: y, r: 4.5 }));
      picture.append(svg("g", { class: "pointed" }, svg("line", { class: "cursor", x1: x, x2: x, y1: f.box.top, y2: f.box.bottom }), ...dots));
      const tip = element("div", { class: "tip" }, ...f.tip(k));
      node.append(tip);
      const wide = tip.offsetWidth, left = x + 14 + wide <= f.width ? x + 14 : x - 14 - wide;
      tip.style.left = clamp(left, 0, Math.max(0, f.width - wide)) + "px";
      node.setAttribute("aria-valuenow", value);
      node.setAttribute("aria-valuetext", tip.innerText.replace(/\n+/g, "; "));
    }

    function pointAt(event) {
      const f = frame(node, view()), x = event.clientX - node.getBoundingClientRect().left;
      const share = (x - f.box.left) / (f.box.right - f.box.left);
      cursor = clamp(Math.round((share * (f.axis.x.high - f.axis.x.low)) / f.step), 0, f.last);
      draw();
    }

    function moveByKey(event) {
      const { last, leap } = view(), now = cursor ?? 0;
      const next = {
        ArrowRight: now + 1, ArrowUp: now + 1, ArrowLeft: now - 1, ArrowDown: now - 1,
        PageUp: now + leap, PageDown: now - leap, Home: 0, End: last,
      }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      cursor = clamp(next, 0, last);
      draw();
    }

    function forget() {
      cursor = null;
      draw();
    }

    node.addEventListener("pointermove", pointAt);
    node.addEventListener("pointerdown", pointAt);
    node.addEventListener("pointerleave", () => { if (document.activeElement !== node) forget(); });
    node.addEventListener("focus", () => { if (cursor === null) { cursor = 0; draw(); } });
    node.addEventListener("blur", forget);
    node.addEventListener("keydown", moveByKey);
    new ResizeObserver(() => { if (node.clientWidth !== width) { width = node.clientWidth; draw(); } }).observe(node);
    return draw;
  }

  function frame(node, view) {
    const width = Math.max(node.clientWidth, 240), height = clamp(0.52 * width, 270, 470);
    const box = { left: 46, right: width - 14, top: 10, bottom: height - 44 };
    const { x, y } = view;
    return {
      ...view, width, height, box, axis: { x, y },
      x: (value) => box.left + ((value - x.low) / (x.high - x.low)) * (box.right - box.left),
      y: (value) => box.bottom - ((value - y.low) / (y.high - y.low)) * (box.bottom - box.top),
    };
  }

  function niceStep(span, most, whole = false) {
    const base = 10 ** Math.floor(Math.log10(span / most));
    const found = (whole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).map((m) => m * base).find((step) => span / step <= most + 1e-9);
    return whole ? Math.max(1, found) : found;
  }

  // The multiples of a step that an axis shows.
  function ticks({ low, high, whole }, most) {
    const step = niceStep(high - low, most, whole), made = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9; k++) made.push(k * step);
    return made;
  }

  function axes(f) {
    const { box } = f, made = [];
    for (const value of ticks(f.axis.y, 5)) {
      const y = f.y(value);
      made.push(
        svg("line", { class: y > box.bottom - 0.5 ? "axis" : "grid", x1: box.left, x2: box.right, y1: y, y2: y }),
        svg("text", { x: box.left - 8, y: y + 4, "text-anchor": "end" }, f.axis.y.text(value)),
      );
    }
    for (const value of ticks(f.axis.x, Math.max(3, Math.floor(f.width / 80)))) {
      const x = f.x(value);
      made.push(
        svg("line", { class: "axis", x1: x, x2: x, y1: box.bottom, y2: box.bottom + 5 }),
        svg("text", { x, y: box.bottom + 19, "text-anchor": "middle" }, f.axis.x.text(value)),
      );
    }
    const middle = (box.left + box.right) / 2;
    return [...made, svg("text", { x: middle, y: f.height - 5, "text-anchor": "middle" }, f.axis.x.label)];
  }

  // Every line carries its name where the fewest other things are in the way.
  function names(f) {
    const lines = f.lines(f), obstacles = lines.flatMap((line) => dense(line.points)), taken = [...f.words(f)];
    return lines.map((line) => {
      const name = shorten(line.name, f.width < NARROW ? 21 : 44), place = bestPlace(f, line.points, 7.3 * name.length, obstacles, taken);
      taken.push(place);
      return svg("text", { class: `name ${line.kind}`, x: place.left, y: place.bottom - 4 }, name);
    });
  }

  // Names tend to begin alike, so the end is kept too.
  function shorten(name, most) {
    const half = Math.floor((most - 1) / 2);
    return name.length > most ? `${name.slice(0, most - 1 - half)}…${name.slice(-half)}` : name;
  }

  function dense(points) {
    return points.flatMap(([x, y], i) => {
      if (!i) return [[x, y]];
      const [x0, y0] = points[i - 1], pieces = Math.ceil(Math.hypot(x - x0, y - y0) / 6) || 1;
      return Array.from({ length: pieces }, (_, k) => [x0 + ((x - x0) * (k + 1)) / pieces, y0 + ((y - y0) * (k + 1)) / pieces]);
    });
  }

  function bestPlace(f, points, width, obstacles, taken) {
    let best = null;
    for (let i = 0; i < points.length; i += Math.max(1, Math.floor(points.length / 60))) {
      for (const [dx, dy] of [[8, -4], [8, 20], [-width - 8, 20], [-width - 8, -4]]) {
        const left = points[i][0] + dx, bottom = points[i][1] + dy;
        const place = { left, bottom, right: left + width, top: bottom - 17 };
        const cost = placeCost(f, place, obstacles, taken) + (dx < 0 ? 0.5 : 0) + 0.2 * (i / points.length);
        if (!best || cost < best.cost) best = { ...place, cost };
      }
    }
    return best;
  }

  function placeCost(f, place, obstacles, taken) {
    const { left, right, top, bottom } = place;
    const beyond = Math.max(0, f.box.left + 4 - left) + Math.max(0, right - f.width) + Math.max(0, f.box.top - top) + Math.max(0, bottom - f.box.bottom + 2);
    const covered = obstacles.filter(([x, y]) => x > left - 2 && x < right + 2 && y > top - 1 && y < bottom + 1).length;
    const overlaps = taken.filter((other) => left < other.right && right > other.left && top < other.bottom && bottom > other.top).length;
    return 8 * beyond + covered + 1000 * overlaps;
  }

  const kindOfLine = (i) => `s${i % 8}${i >= 8 ? " again" : ""}`;

  function legendItem(id, hidden, key, name, redraw) {
    const box = element("input", { type: "checkbox", id });
    box.checked = !hidden.has(id);
    box.addEventListener("change", () => { hidden[box.checked ? "delete" : "add"](id); redraw(); });
    return element("li", {}, element("label", {}, box, key, name));
  }

  // --- Curves -------------------------------------------------------------------------------------------------------

  const MANY = 6;  // runs; of more, those of one sigma are shown first
  const curves = data("curves-data");
  const state = { measure: "all", sigma: "all", hidden: new Set() };
  curves.paper.forEach((curve, i) => { if (!curve.shown) state.hidden.add("paper" + i); });

  const decimals = String(curves.step).length - 2;
  const radiusText = (k) => (k * curves.step).toFixed(Math.max(decimals, 2));
  const isNumber = (x) => x !== undefined;
  const ofSigma = (curve) => state.sigma === "all" || curve.sigma === state.sigma;

  // The runs that are drawn now, as points of the chosen measure.
  function runs() {
    return curves.runs.filter((run) => ofSigma(run) && !state.hidden.has("run" + run.number)).map((run) => {
      const points = run.measures[state.measure], whole = points.whole[0];
      const share = (part) => (whole ? part / whole : 0);
      return { ...run, ...points, whole, values: points.part.map(share), kind: kindOfLine(run.number) };
    });
  }

  function papers() {
    if (state.measure === "certified") return [];
    return curves.paper.filter((curve, i) => ofSigma(curve) && !state.hidden.has("paper" + i));
  }

  const along = (f, shares) => shares.map((share, k) => [f.x(k * curves.step), f.y(share)]);

  function curvesView() {
    const shown = runs(), paper = papers();
    const right = Math.max(0.1, ...shown.map((run) => (run.values.length - 1) * curves.step), ...paper.flatMap((curve) => curve.radii));
    const top = Math.max(0.1, ...shown.flatMap((run) => run.high), ...paper.flatMap((curve) => curve.values));
    return {
      x: { low: 0, high: right, text: (value) => String(Number(value.toFixed(3))), label: "certified ℓ2 radius (pixel range = 1)" },
      y: { low: 0, high: Math.min(1, Math.ceil(10 * top + 0.2) / 10), text: (value) => `${Math.round(100 * value)} %` },
      shapes: (f) => [...paper.flatMap((curve) => paperShapes(f, curve)), ...shown.flatMap((run) => band(f, run)), ...shown.map((run) => line(f, run))],
      lines: (f) => [
        ...shown.map((run) => ({ name: run.name, kind: run.kind, points: along(f, run.values) })),
        ...paper.map((curve) => ({ name: curve.short, kind: "paper", points: dense(paperPoints(f, curve)) })),
      ],
      words: () => [],
      step: curves.step,
      last: Math.max(1, ...shown.map((run) => run.values.length - 1)),
      leap: Math.max(1, Math.round(0.25 / curves.step)),
      dots: (k, f) => shown.filter((run) => k < run.values.length).map((run) => [f.y(run.values[k]), run.kind]),
      tip: (k) => [element("b", {}, `radius ${radiusText(k)}`), ...shown.map((run) => tipLine(run, k)), ...paperTips(paper, k * curves.step)],
    };
  }

  function band(f, run) {
    const last = run.part.findLastIndex((part) => part > 0) + 1;
    const edge = along(f, run.low.slice(0, last)).reverse();
    return last ? [svg("path", { class: `band ${run.kind}`, d: path([...along(f, run.high.slice(0, last)), ...edge]) + "Z" })] : [];
  }

  const line = (f, run) => svg("path", { class: `line ${run.kind}`, "data-run": run.number, d: path(along(f, run.values)) });

  const paperPoints = (f, curve) =>
    curve.radii.map((radius, i) => [f.x(radius), f.y(curve.values[i])]);

  function paperShapes(f, curve) {
    const points = paperPoints(f, curve);
    return [svg("path", { class: "line paper", d: path(points) }), ...points.map(([x, y]) => mark(curve.method, x, y))];
  }

  // A shape for each of the paper's methods: circle, square, triangle.
  function mark(method, x, y) {
    if (method === 0) return svg("circle", { class: "mark paper", cx: x, cy: y, r: 3.6 });
    if (method === 1) return svg("rect", { class: "mark paper", x: x - 3.3, y: y - 3.3, width: 6.6, height: 6.6 });
    return svg("path", { class: "mark paper", d: path([[x, y - 4.2], [x + 4, y + 3], [x - 4, y + 3]]) + "Z" });
  }

  function tipLine(run, k) {
    const inside = k < run.values.length;
    const [part, value] = inside ? [run.part[k], run.values[k]] : [0, 0];
    const interval = inside ? ` (${percent(run.low[k])} to ${percent(run.high[k])})` : "";
    return element("p", { "data-run": run.number }, element("span", { class: `key ${run.kind}` }), `${run.name} `, element("strong", {}, percent(value)), element("small", {}, ` ${number(part)} of ${number(run.whole)}${interval}`));
  }

  function paperTips(paper, radius) {
    return paper.flatMap((curve) => {
      const i = curve.radii.findIndex((r) => Math.abs(r - radius) < curves.step / 2);
      return i < 0 ? [] : [element("p", {}, `${curve.name} `, element("strong", {}, `${Math.round(100 * curve.values[i])} %`))];
    });
  }

  const paperKey = (curve) => svg("svg", { viewBox: "0 0 20 14", "aria-hidden": "true" }, svg("path", { class: "line paper", d: "M0 7H20" }), mark(curve.method, 10, 7));

  function drawLegend(redraw) {
    const item = (id, key, name) => legendItem(id, state.hidden, key, name, redraw);
    $("legend").replaceChildren(
      ...curves.runs.filter(ofSigma).map((run) => item("run" + run.number, element("span", { class: `key ${kindOfLine(run.number)}` }), run.name)),
      ...curves.paper.flatMap((curve, i) => (ofSigma(curve) ? [item("paper" + i, paperKey(curve), curve.name)] : [])),
    );
  }

  // Many runs at several sigmas are not to be read in one picture, so there is a choice of sigma.
  function startSigmas(choose) {
    const counts = new Map();
    for (const { sigma } of curves.runs) if (sigma !== null) counts.set(sigma, (counts.get(sigma) ?? 0) + 1);
    if (counts.size < 2 || curves.runs.length <= counts.size) return;
    if (curves.runs.length > MANY) state.sigma = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a))[0];
    for (const value of ["all", ...counts.keys()]) {
      const input = element("input", { type: "radio", name: "sigma", value });
      input.checked = value === state.sigma;
      input.addEventListener("change", () => { state.sigma = value; choose(); });
      $("sigma").append(element("label", {}, input, element("span", {}, value === "all" ? "all σ" : `σ ${value}`)));
    }
    $("sigma").hidden = false;
  }

  function startCurves() {
    if (!curves.runs.length) $("curves").hidden = true;
    const draw = chart($("chart"), curvesView);
    const chooseSigma = () => { drawLegend(draw); draw(); };
    function chooseMeasure() {
      state.measure = document.querySelector("input[name=measure]:checked").value;
      document.body.dataset.measure = state.measure;
      draw();
    }
    document.querySelectorAll("input[name=measure]").forEach((input) => input.addEventListener("change", chooseMeasure));
    startSigmas(chooseSigma);
    drawLegend(draw);
    chooseMeasure();
  }

  // --- Training -----------------------------------------------------------------------------------------------------

  const FEW = 60;  // epochs; of more, only the line is drawn
  const trainings = data("training-data");
  const leftOut = new Set();
  const PHASES = { float: "float", qat: "quantization-aware" };
  const SERIES = {
    loss: [{ key: "loss", name: () => "loss", style: "" }],
    accuracy: [{ key: "watched", name: (run) => run.watched_name, style: "" }, { key: "train", name: () => "training", style: " dashed" }],
  };

  // Nice limits about all values; a margin if there is only one.
  function limits(values, most) {
    const [low, high] = values.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
    const step = niceStep(Math.max(high - low, 0.02), 5);
    return { low: Math.max(0, Math.floor(low / step + 1e-9) * step), high: Math.min(most, Math.ceil(high / step + 0.1) * step) };
  }

  function trainingView(what) {
    const shown = trainings.filter((run) => !leftOut.has("training" + run.number));
    const series = SERIES[what], several = trainings.length > 1;
    const values = shown.flatMap((run) => series.flatMap(({ key }) => run[key]));
    const last = Math.max(1, ...shown.map((run) => run.loss.length));
    const lines = shown.flatMap((run) => series.map((one) => ({
      run, ...one, values: run[one.key], kind: kindOfLine(run.number), name: several ? `${run.name}, ${one.name(run)}` : one.name(run),
    })));
    const points = (f, { values }) => values.map((value, k) => [f.x(k + 1), f.y(value)]);
    const said = (value) => (what === "loss" ? value.toFixed(3) : percent(value));
    const exact = (value) => (what === "loss" ? String(Number(value.toFixed(4))) : `${Number((100 * value).toFixed(1))} %`);
    return {
      x: { low: 1, high: Math.max(last, 2), whole: true, text: String, label: "epoch" },
      y: { ...limits(values.length ? values : [0], what === "loss" ? Infinity : 1), text: exact },
      shapes: (f) => [...shown.flatMap((run) => boundary(f, run)), ...lines.flatMap((each) => [
        svg("path", { class: `line ${each.kind}${each.style}`, "data-training": each.run.number, "data-series": each.key, d: path(points(f, each)) }),
        ...(each.values.length <= FEW ? points(f, each).map(([cx, cy]) => svg("circle", { class: `speck ${each.kind}`, cx, cy, r: 1.9 })) : []),
      ])],
      lines: (f) => lines.map((each) => ({ ...each, points: points(f, each) })),
      words: (f) => shown.flatMap((run) => (begins(run) ? [boundaryWords(f, run)] : [])),
      step: 1,
      last: last - 1,
      leap: 5,
      dots: (k, f) => lines.filter(({ values }) => k < values.length).map(({ values, kind }) => [f.y(values[k]), kind]),
      tip: (k) => [element("b", {}, `epoch ${k + 1}`), ...shown.filter((run) => k < run.loss.length).map((run) => trainingTip(run, k, series, said))],
    };
  }

  function trainingTip(run, k, series, said) {
    const numbers = series.flatMap(({ key, name }, i) => [i ? ", " : "", `${name(run)} `, element("strong", {}, said(run[key][k]))]);
    const phase = PHASES[k < run.float_epochs ? "float" : "qat"];
    return element("p", { "data-training": run.number }, element("span", { class: `key ${kindOfLine(run.number)}` }), `${run.name} `, ...numbers, element("small", {}, ` ${phase}`));
  }

  // Where quantization-aware training begins, if there was a float phase before it.
  const begins = (run) => run.float_epochs > 0 && run.float_epochs < run.loss.length;

  function boundaryWords(f, run) {
    const x = f.x(run.float_epochs + 0.5), text = `${PHASES.qat} from ${run.float_epochs + 1} on`, wide = 6.4 * text.length;
    const top = f.box.top + 15 * trainings.filter(begins).indexOf(run), after = x + 6 + wide <= f.width;
    return { x, text, after, left: after ? x + 6 : x - 6 - wide, right: after ? x + 6 + wide : x - 6, top, bottom: top + 15 };
  }

  function boundary(f, run) {
    if (!begins(run)) return [];
    const { x, text, after, bottom } = boundaryWords(f, run), kind = trainings.length > 1 ? kindOfLine(run.number) : "paper";
    return [
      svg("line", { class: `boundary ${kind}`, "data-training": run.number, x1: x, x2: x, y1: f.box.top, y2: f.box.bottom }),
      svg("text", { class: "boundary-words", x: after ? x + 6 : x - 6, y: bottom - 3, "text-anchor": after ? "start" : "end" }, text),
    ];
  }

  function startTraining() {
    if (!trainings.length) return;
    const draws = [chart($("chart-loss"), () => trainingView("loss")), chart($("chart-accuracy"), () => trainingView("accuracy"))];
    const redraw = () => draws.forEach((draw) => draw());
    if (trainings.length > 1) $("training-legend").replaceChildren(...trainings.map((run) => legendItem("training" + run.number, leftOut, element("span", { class: `key ${kindOfLine(run.number)}` }), run.name, redraw)));
    redraw();
  }

  // --- The table, for other documents -------------------------------------------------------------------------------

  function cellText(cell) {
    const seen = (node) => node && node.getClientRects().length > 0;
    const find = (kind) => [...cell.querySelectorAll(kind)].find(seen);
    const value = find(".value"), interval = find(".interval");
    const text = (value || cell).textContent.trim();
    return interval ? `${text} (${interval.textContent.trim()})` : text;
  }

  const tableCells = () => [...$("numbers").rows].map((row) => [...row.cells].map(cellText));

  function markdown() {
    const [head, ...rows] = tableCells().map((row) => row.map((text) => text.replace(/[\\|`*_<>\[\]]/g, "\\$&")));
    const line = (cells) => `| ${cells.join(" | ")} |`;
    return [line(head), line(head.map((_, i) => (i ? "---:" : "---"))), ...rows.map(line)].join("\n") + "\n";
  }

  const LATEX = {
    "\\": "\\textbackslash{}", "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "_": "\\_", "{": "\\{", "}": "\\}",
    "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "σ": "$\\sigma$", "≥": "$\\ge$", "–": "--", "<": "$<$", ">": "$>$",
  };

  function latex() {
    const [head, ...rows] = tableCells().map((row) => row.map((text) => text.replace(/[\\&%$#_{}~^σ≥–<>]/g, (c) => LATEX[c])));
    const line = (cells) => `  ${cells.join(" & ")} \\\\`;
    return [`\\begin{tabular}{l${"r".repeat(head.length - 1)}}`, "  \\hline", line(head), "  \\hline", ...rows.map(line), "  \\hline", "\\end{tabular}"].join("\n") + "\n";
  }

  async function copy(text, what) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = element("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    $("copied").textContent = `${what} copied`;
    setTimeout(() => { $("copied").textContent = ""; }, 4000);
  }

  function startTable() {
    $("copy-markdown").addEventListener("click", () => copy(markdown(), "Markdown"));
    $("copy-latex").addEventListener("click", () => copy(latex(), "LaTeX"));
    $("intervals").addEventListener("change", () => document.body.classList.toggle("without-intervals", !$("intervals").checked));
  }

  // --- Images -------------------------------------------------------------------------------------------------------

  const AT_ONCE = 24;
  const SIGNS = { right: "✓", wrong: "✗", abstained: "○" };
  const gallery = data("gallery-data");
  let shownCards = AT_ONCE;

  const run = () => gallery.runs[$("pick-run").selectedIndex];
  const className = (c) => run().classes[c] ?? `class ${c}`;
  const kindOf = (card) => (card.predict === null ? "abstained" : card.predict === card.label ? "right" : "wrong");
  const share = (card) => (isNumber(card.votes) ? card.votes / card.n : 0);
  const reach = (card) => card.radius ?? -1;
  const ORDERS = {
    index: (a, b) => a.idx - b.idx, far: (a, b) => reach(b) - reach(a), near: (a, b) => reach(a) - reach(b),
    many: (a, b) => share(b) - share(a), few: (a, b) => share(a) - share(b),
  };

  function chosen() {
    const label = $("pick-class").value, kind = $("pick-kind").value, order = ORDERS[$("pick-sort").value];
    const fits = (card) => (label === "every" || card.label === Number(label)) && (kind === "every" || kindOf(card) === kind);
    return run().cards.filter(fits).sort((a, b) => order(a, b) || a.idx - b.idx);
  }

  function drawCards() {
    const cards = chosen(), all = run().cards.length;
    $("cards").replaceChildren(...cards.slice(0, shownCards).map(cardElement));
    const part = run().images > all ? `, evenly spread over ${number(run().images)}` : "";
    $("count").textContent = `${number(cards.length)} of ${number(all)} images${part}`;
    $("more").hidden = cards.length <= shownCards;
  }

  function cardElement(card) {
    const kind = kindOf(card), label = className(card.label);
    const verdict = { right: label, wrong: card.predict === null ? "" : `${className(card.predict)}, but it is ${label}`, abstained: `no answer, it is ${label}` }[kind];
    const pair = element("div", { class: "pair" }, picture(gallery.pictures[card.picture], `image ${card.idx}, ${label}`));
    if (card.noisy) pair.append(picture(card.noisy, `the same with noise`));
    const fine = `#${card.idx}` + (card.radius === null ? "" : ` · radius ${card.radius.toFixed(3)}`);
    return element("li", { class: "card", "data-kind": kind, "data-idx": card.idx, "data-label": card.label, "data-radius": card.radius ?? "", "data-votes": card.votes ?? "" },
      pair,
      element("p", { class: "verdict" }, element("span", { class: `sign ${kind}`, "aria-hidden": "true" }, SIGNS[kind]), verdict),
      element("p", { class: "fine" }, fine),
      ...(card.top ? [voteBars(card)] : []));
  }

  const picture = (source, text) => element("img", { src: source, alt: text, loading: "lazy" });

  function voteBars(card) {
    const bars = element("div", { class: "votes" });
    for (const [c, count] of card.top) {
      const bar = svg("svg", { viewBox: `0 0 ${card.n} 1`, preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("rect", { class: "ground", width: card.n, height: 1 }),
        svg("rect", { class: c === card.label ? "true" : "", width: count, height: 1 }));
      bars.append(element("span", { title: className(c) }, className(c)), bar, element("span", {}, number(count)));
    }
    return bars;
  }

  function chooseRun() {
    const labels = [...new Set(run().cards.map((card) => card.label))].sort((a, b) => a - b);
    const options = labels.map((c) => element("option", { value: c }, className(c)));
    $("pick-class").replaceChildren(element("option", { value: "every" }, "all"), ...options);
    refresh();
  }

  function refresh() {
    shownCards = AT_ONCE;
    drawCards();
  }

  function showMore() {
    const before = $("cards").children.length;
    shownCards += AT_ONCE;
    drawCards();
    const next = $("cards").children[before];
    if (next) { next.tabIndex = -1; next.focus({ preventScroll: true }); }
  }

  function startGallery() {
    if (!gallery.runs.length) {
      $("images").hidden = !$("images").querySelector("ul.note").textContent;
      return;
    }
    $("gallery").hidden = false;
    $("pick-run").replaceChildren(...gallery.runs.map((each) => element("option", {}, each.name)));
    $("pick-run").parentElement.hidden = gallery.runs.length === 1;
    $("pick-run").addEventListener("change", chooseRun);
    for (const id of ["pick-class", "pick-kind", "pick-sort"]) $(id).addEventListener("change", refresh);
    $("more").addEventListener("click", showMore);
    chooseRun();
  }

  document.body.dataset.measure = "all";
  startCurves();
  startTraining();
  startTable();
  startGallery();
})();
