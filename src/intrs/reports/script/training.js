// Learning curves.

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
