// Certified accuracy against radius, with the paper's curves.

const MANY = 6;  // runs; of more, those of one sigma are shown first
const curves = data("curves-data");
const state = { measure: "all", sigma: "all", hidden: new Set() };
curves.paper.forEach((curve, i) => { if (!curve.shown) state.hidden.add("paper" + i); });

const decimals = String(curves.step).length - 2;
const radiusText = (k) => (k * curves.step).toFixed(Math.max(decimals, 2));
const isNumber = (x) => x !== undefined;
const ofSigma = (curve) => state.sigma === "all" || curve.sigma === state.sigma;

// The runs that are drawn now, each with its points.
function drawn(list, pointsOf) {
  return list.filter((run) => ofSigma(run) && !state.hidden.has("run" + run.number)).map((run) => {
    const points = pointsOf(run), whole = points.whole[0];
    const share = (part) => (whole ? part / whole : 0);
    return { ...run, ...points, whole, values: points.part.map(share), kind: kindOfLine(run.number) };
  });
}

function papers() {
  if (state.measure === "certified") return [];
  return curves.paper.filter((curve, i) => ofSigma(curve) && !state.hidden.has("paper" + i));
}

// A share holds up to the place at which it was counted, so every step goes straight down, and never too far right.
function along(f, shares) {
  const x = (k) => f.x(f.axis.x.low + k * f.step);
  return shares.flatMap((share, k) => [...(k ? [[x(k - 1), f.y(share)]] : []), [x(k), f.y(share)]]);
}

function curvesView() {
  const chosen = drawn(curves.runs, (run) => run.measures[state.measure]), shown = chosen.filter((run) => run.whole), paper = papers();
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
    tip: (k) => [element("b", {}, `radius ${radiusText(k)}`), ...chosen.map((run) => tipLine(run, k)), ...paperTips(paper, k * curves.step)],
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

// Where a curve ends above 0, nothing is known of what lies beyond; nor where it is a share of no images.
function tipLine(run, k) {
  const inside = k < run.values.length, key = element("span", { class: `key ${run.kind}` });
  if (!run.whole || (!inside && run.part.at(-1) > 0)) return element("p", { "data-run": run.number }, key, `${run.name} `, element("strong", {}, "–"));
  const [part, value] = inside ? [run.part[k], run.values[k]] : [0, 0];
  const interval = inside ? ` (${percent(run.low[k])} to ${percent(run.high[k])})` : "";
  return element("p", { "data-run": run.number }, key, `${run.name} `, element("strong", {}, percent(value)), element("small", {}, ` ${number(part)} of ${number(run.whole)}${interval}`));
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
  const draws = [chart($("chart"), curvesView), ...(votes.runs.length ? [chart($("chart-votes"), votesView)] : [])];
  const draw = () => draws.forEach((each) => each());
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
