// A chart is drawn anew whenever something changes. Its view, a function, says what there is to draw now:
//   x, y        axes: low, high, text(value) of a tick; x has a label, and whole if only whole numbers make sense, or
//               marks: the values that may have a tick, the most important first
//   shapes(f)   elements to draw, f turning values into pixels by f.x and f.y
//   lines(f)    what carries a name: name, kind, points in pixels
//   words       boxes of words that shapes drew, which names must not cover
//   step, last  places that can be pointed at: x.low + k * step for k = 0 .. last; leap of them for PageUp
//   dots(k, f)  [y in pixels, kind] of what is at the place;  tip(k)  what is said of it, a heading and paragraphs

const NARROW = 560;  // pixels
const APART = 46;  // pixels between marks, for words such as 99.9 %
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

// As many of an axis's own marks as have room beside each other.
function roomy(f, marks) {
  return marks.reduce((kept, mark) => (kept.every((other) => Math.abs(f.x(other) - f.x(mark)) >= APART) ? [...kept, mark] : kept), []);
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
  const { marks } = f.axis.x;
  for (const value of marks ? roomy(f, marks) : ticks(f.axis.x, Math.max(3, Math.floor(f.width / 80)))) {
    const x = f.x(value), text = f.axis.x.text(value), ends = x + 3.6 * text.length > f.width;  // paper would cut it off
    made.push(
      svg("line", { class: "axis", x1: x, x2: x, y1: box.bottom, y2: box.bottom + 5 }),
      svg("text", { x: ends ? f.width : x, y: box.bottom + 19, "text-anchor": ends ? "end" : "middle" }, text),
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
