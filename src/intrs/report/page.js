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

  // --- Curves -------------------------------------------------------------------------------------------------------

  const NARROW = 560;  // pixels
  const curves = data("curves-data");
  const state = { measure: "all", hidden: new Set(), cursor: null };
  curves.paper.forEach((curve, i) => { if (!curve.shown) state.hidden.add("paper" + i); });

  const decimals = String(curves.step).length - 2;
  const radiusText = (k) => (k * curves.step).toFixed(Math.max(decimals, 2));
  const isNumber = (x) => x !== undefined;

  // The runs that are drawn now, as points of the chosen measure.
  function runs() {
    return curves.runs.filter((run) => !state.hidden.has("run" + run.number)).map((run) => {
      const points = run.measures[state.measure], whole = points.whole[0];
      const share = (part) => (whole ? part / whole : 0);
      return { ...run, ...points, whole, values: points.part.map(share), kind: "s" + (run.number % 8) };
    });
  }

  function papers() {
    if (state.measure === "certified") return [];
    return curves.paper.filter((_, i) => !state.hidden.has("paper" + i));
  }

  function niceStep(span, most) {
    const base = 10 ** Math.floor(Math.log10(span / most));
    return [1, 2, 2.5, 5, 10].map((m) => m * base).find((step) => span / step <= most + 1e-9);
  }

  function frame() {
    const width = Math.max($("chart").clientWidth, 240), height = clamp(0.52 * width, 270, 470);
    const shown = runs(), paper = papers();
    const right = Math.max(0.1, ...shown.map((run) => (run.values.length - 1) * curves.step), ...paper.flatMap((curve) => curve.radii));
    const top = Math.max(0.1, ...shown.flatMap((run) => run.high), ...paper.flatMap((curve) => curve.values));
    const most = Math.min(1, Math.ceil(10 * top + 0.2) / 10);
    const box = { left: 46, right: width - 14, top: 10, bottom: height - 44 };
    return {
      width, height, box, right, most, shown, paper,
      x: (radius) => box.left + (radius / right) * (box.right - box.left),
      y: (share) => box.bottom - (share / most) * (box.bottom - box.top),
    };
  }

  function draw() {
    const f = frame();
    const picture = svg("svg", { viewBox: `0 0 ${f.width} ${f.height}`, height: f.height, "aria-hidden": "true" });
    drawAxes(picture, f);
    f.paper.forEach((curve) => drawPaper(picture, f, curve));
    f.shown.forEach((run) => drawBand(picture, f, run));
    f.shown.forEach((run) => drawLine(picture, f, run));
    drawNames(picture, f);
    $("chart").replaceChildren(picture);
    $("chart").classList.toggle("narrow", f.width < NARROW);
    $("chart").setAttribute("aria-valuemax", lastPoint() * curves.step);
    if (state.cursor !== null) drawCursor(picture, f);
  }

  function drawAxes(picture, f) {
    const { box } = f, step = niceStep(f.most, 5);
    for (let k = 0; k * step <= f.most + 1e-9; k++) {
      const y = f.y(k * step);
      picture.append(
        svg("line", { class: k ? "grid" : "axis", x1: box.left, x2: box.right, y1: y, y2: y }),
        svg("text", { x: box.left - 8, y: y + 4, "text-anchor": "end" }, `${Math.round(100 * k * step)} %`),
      );
    }
    const across = niceStep(f.right, Math.max(3, Math.floor(f.width / 80)));
    for (let k = 0; k * across <= f.right + 1e-9; k++) {
      const x = f.x(k * across), text = String(Number((k * across).toFixed(3)));
      picture.append(
        svg("line", { class: "axis", x1: x, x2: x, y1: box.bottom, y2: box.bottom + 5 }),
        svg("text", { x, y: box.bottom + 19, "text-anchor": "middle" }, text),
      );
    }
    const middle = (box.left + box.right) / 2;
    picture.append(svg("text", { x: middle, y: f.height - 5, "text-anchor": "middle" }, "certified ℓ2 radius (pixel range = 1)"));
  }

  const path = (points) => "M" + points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
  const along = (f, shares) => shares.map((share, k) => [f.x(k * curves.step), f.y(share)]);

  function drawBand(picture, f, run) {
    const last = run.part.findLastIndex((part) => part > 0) + 1;
    const edge = along(f, run.low.slice(0, last)).reverse();
    if (last) picture.append(svg("path", { class: `band ${run.kind}`, d: path([...along(f, run.high.slice(0, last)), ...edge]) + "Z" }));
  }

  function drawLine(picture, f, run) {
    const again = run.number >= 8 ? " again" : "";
    picture.append(svg("path", { class: `line ${run.kind}${again}`, "data-run": run.number, d: path(along(f, run.values)) }));
  }

  const paperPoints = (f, curve) =>
    curve.radii.map((radius, i) => [f.x(radius), f.y(curve.values[i])]);

  function drawPaper(picture, f, curve) {
    const points = paperPoints(f, curve);
    picture.append(svg("path", { class: "line paper", d: path(points) }), ...points.map(([x, y]) => mark(curve.method, x, y)));
  }

  // A shape for each of the paper's methods: circle, square, triangle.
  function mark(method, x, y) {
    if (method === 0) return svg("circle", { class: "mark paper", cx: x, cy: y, r: 3.6 });
    if (method === 1) return svg("rect", { class: "mark paper", x: x - 3.3, y: y - 3.3, width: 6.6, height: 6.6 });
    return svg("path", { class: "mark paper", d: path([[x, y - 4.2], [x + 4, y + 3], [x - 4, y + 3]]) + "Z" });
  }

  // Every line carries its name where the fewest other things are in the way.
  function drawNames(picture, f) {
    const lines = [
      ...f.shown.map((run) => ({ name: run.name, kind: run.kind, points: along(f, run.values) })),
      ...f.paper.map((curve) => ({ name: curve.short, kind: "paper", points: dense(paperPoints(f, curve)) })),
    ];
    const obstacles = lines.flatMap((line) => dense(line.points)), taken = [];
    for (const line of lines) {
      const name = shorten(line.name, f.width < NARROW ? 21 : 44), place = bestPlace(f, line.points, 7.3 * name.length, obstacles, taken);
      taken.push(place);
      picture.append(svg("text", { class: `name ${line.kind}`, x: place.left, y: place.bottom - 4 }, name));
    }
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

  // --- The radius that is pointed at --------------------------------------------------------------------------------

  const lastPoint = () => Math.max(1, ...runs().map((run) => run.values.length - 1));

  function drawCursor(picture, f) {
    const k = clamp(state.cursor, 0, lastPoint()), radius = k * curves.step, x = f.x(radius);
    const group = svg("g", { class: "pointed" }, svg("line", { class: "cursor", x1: x, x2: x, y1: f.box.top, y2: f.box.bottom }));
    for (const run of f.shown) {
      if (k < run.values.length) group.append(svg("circle", { class: `dot ${run.kind}`, cx: x, cy: f.y(run.values[k]), r: 4.5 }));
    }
    picture.append(group);
    const tip = element("div", { class: "tip" }, element("b", {}, `radius ${radiusText(k)}`), ...f.shown.map((run) => tipLine(run, k)), ...paperTips(f, radius));
    $("chart").append(tip);
    const wide = tip.offsetWidth, left = x + 14 + wide <= f.width ? x + 14 : x - 14 - wide;
    tip.style.left = clamp(left, 0, Math.max(0, f.width - wide)) + "px";
    $("chart").setAttribute("aria-valuenow", radius);
    $("chart").setAttribute("aria-valuetext", tip.innerText.replace(/\n+/g, "; "));
  }

  function tipLine(run, k) {
    const inside = k < run.values.length;
    const [part, value] = inside ? [run.part[k], run.values[k]] : [0, 0];
    const interval = inside ? ` (${percent(run.low[k])} to ${percent(run.high[k])})` : "";
    return element("p", { "data-run": run.number }, element("span", { class: `key ${run.kind}` }), `${run.name} `, element("strong", {}, percent(value)), element("small", {}, ` ${number(part)} of ${number(run.whole)}${interval}`));
  }

  function paperTips(f, radius) {
    return f.paper.flatMap((curve) => {
      const i = curve.radii.findIndex((r) => Math.abs(r - radius) < curves.step / 2);
      return i < 0 ? [] : [element("p", {}, `${curve.name} `, element("strong", {}, `${Math.round(100 * curve.values[i])} %`))];
    });
  }

  function pointAt(event) {
    const f = frame(), x = event.clientX - $("chart").getBoundingClientRect().left;
    state.cursor = clamp(Math.round(((x - f.box.left) / (f.box.right - f.box.left)) * f.right / curves.step), 0, lastPoint());
    draw();
  }

  function moveByKey(event) {
    const leap = Math.max(1, Math.round(0.25 / curves.step)), now = state.cursor ?? 0;
    const next = {
      ArrowRight: now + 1, ArrowUp: now + 1, ArrowLeft: now - 1, ArrowDown: now - 1,
      PageUp: now + leap, PageDown: now - leap, Home: 0, End: lastPoint(),
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    state.cursor = clamp(next, 0, lastPoint());
    draw();
  }

  function forget() {
    state.cursor = null;
    draw();
  }

  const paperKey = (curve) => svg("svg", { viewBox: "0 0 20 14", "aria-hidden": "true" }, svg("path", { class: "line paper", d: "M0 7H20" }), mark(curve.method, 10, 7));

  function drawLegend() {
    const item = (id, key, name) => {
      const box = element("input", { type: "checkbox", id });
      box.checked = !state.hidden.has(id);
      box.addEventListener("change", () => { state.hidden[box.checked ? "delete" : "add"](id); draw(); });
      return element("li", {}, element("label", {}, box, key, name));
    };
    $("legend").replaceChildren(
      ...curves.runs.map((run) => item("run" + run.number, element("span", { class: `key s${run.number % 8}` }), run.name)),
      ...curves.paper.map((curve, i) => item("paper" + i, paperKey(curve), curve.name)),
    );
  }

  function chooseMeasure() {
    state.measure = document.querySelector("input[name=measure]:checked").value;
    document.body.dataset.measure = state.measure;
    draw();
  }

  function startCurves() {
    if (!curves.runs.length) $("curves").hidden = true;
    document.querySelectorAll("input[name=measure]").forEach((input) => input.addEventListener("change", chooseMeasure));
    const chart = $("chart");
    chart.addEventListener("pointermove", pointAt);
    chart.addEventListener("pointerdown", pointAt);
    chart.addEventListener("pointerleave", () => { if (document.activeElement !== chart) forget(); });
    chart.addEventListener("focus", () => { if (state.cursor === null) { state.cursor = 0; draw(); } });
    chart.addEventListener("blur", forget);
    chart.addEventListener("keydown", moveByKey);
    let width = 0;
    new ResizeObserver(() => { if (chart.clientWidth !== width) { width = chart.clientWidth; draw(); } }).observe(chart);
    drawLegend();
    chooseMeasure();
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
  startTable();
  startGallery();
})();
