// Votes for the true class, of the runs whose certified accuracy stands above: its legend leaves lines out here too.

const votes = data("votes-data");

function votesView() {
  const shown = drawn(votes.runs, (run) => run.points), last = votes.shares.length - 1, marks = new Map(votes.marks);
  return {
    x: { low: votes.low, high: votes.low + last * votes.step, marks: [...marks.keys()], text: (value) => marks.get(value), label: `votes for the ${votes.whose} class` },
    y: { low: 0, high: 1, text: (value) => `${Math.round(100 * value)} %` },
    shapes: (f) => [...half(f), ...shown.flatMap((run) => band(f, run)), ...shown.map((run) => line(f, run))],
    lines: (f) => shown.map((run) => ({ name: run.name, kind: run.kind, points: along(f, run.values) })),
    words: (f) => [halfWords(f)],
    step: votes.step,
    last,
    leap: Math.round(0.5 / votes.step),
    dots: (k, f) => shown.map((run) => [f.y(run.values[k]), run.kind]),
    tip: (k) => [element("b", {}, k < last ? `${votes.shares[k]} % of the votes or more` : "all votes"), ...shown.map((run) => tipLine(run, k))],
  };
}

// Phi^-1(1/2) is 0. The words stand below the curves, which begin high.
const halfWords = (f) => ({ left: f.x(0) + 6, right: f.x(0) + 110, top: f.box.bottom - 20, bottom: f.box.bottom - 4 });

function half(f) {
  const x = f.x(0), { left, bottom } = halfWords(f);
  return [
    svg("line", { class: "boundary paper", x1: x, x2: x, y1: f.box.top, y2: f.box.bottom }),
    svg("text", { class: "boundary-words", x: left, y: bottom - 3 }, "half of the votes"),
  ];
}
