// The images, to be filtered and sorted.

const AT_ONCE = 24;
const SIGNS = { right: "✓", wrong: "✗", abstained: "○", unknown: "•" };
const gallery = data("gallery-data");
let shownCards = AT_ONCE;

const run = () => gallery.runs[$("pick-run").selectedIndex];
const className = (c) => run().classes[c] ?? `class ${c}`;
const kindOf = (card) => (card.predict === null ? "abstained" : card.label === null ? "unknown" : card.predict === card.label ? "right" : "wrong");
const shownClass = (card) => card.label ?? card.predict;  // the true one, if it is known
const share = (card) => (isNumber(card.votes) ? card.votes / card.n : 0);
const reach = (card) => card.radius ?? -1;
const ORDERS = {
  index: (a, b) => a.idx - b.idx, far: (a, b) => reach(b) - reach(a), near: (a, b) => reach(a) - reach(b),
  many: (a, b) => share(b) - share(a), few: (a, b) => share(a) - share(b),
};

function chosen() {
  const label = $("pick-class").value, kind = $("pick-kind").value, order = ORDERS[$("pick-sort").value];
  const fits = (card) => (label === "every" || shownClass(card) === Number(label)) && (kind === "every" || kindOf(card) === kind);
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
  const kind = kindOf(card), known = card.label !== null, label = known ? className(card.label) : "";
  const predicted = card.predict === null ? "" : className(card.predict);
  const verdict = { right: label, wrong: `${predicted}, but it is ${label}`, abstained: known ? `abstained, it is ${label}` : "abstained", unknown: predicted }[kind];
  const pair = element("div", { class: "pair" }, picture(gallery.pictures[card.picture], `image ${card.idx}, ${known ? label : card.file ?? predicted}`));
  if (card.noisy) pair.append(picture(card.noisy, `the same with noise`));
  const fine = (card.file ?? `#${card.idx}`) + (card.radius === null ? "" : ` · radius ${card.radius.toFixed(3)}`);
  return element("li", { class: "card", "data-kind": kind, "data-idx": card.idx, "data-label": card.label ?? "", "data-radius": card.radius ?? "", "data-votes": card.votes ?? "" },
    pair,
    element("p", { class: "verdict" }, element("span", { class: `sign ${kind}`, "aria-hidden": "true" }, SIGNS[kind]), verdict),
    element("p", { class: "fine" }, fine),
    ...(card.top ? [voteBars(card)] : []),
    ...(card.page ? [element("p", { class: "fine" }, element("a", { href: card.page }, "certify it in this browser"))] : []));
}

const picture = (source, text) => element("img", { src: source, alt: text });

function voteBars(card) {
  const bars = element("div", { class: "votes" });
  for (const [c, count] of card.top) {
    const bar = svg("svg", { viewBox: `0 0 ${card.n} 1`, preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "ground", width: card.n, height: 1 }),
      svg("rect", { class: c === shownClass(card) ? "true" : "", width: count, height: 1 }));
    bars.append(element("span", { title: className(c) }, className(c)), bar, element("span", {}, number(count)));
  }
  return bars;
}

function chooseRun() {
  const labels = [...new Set(run().cards.map(shownClass))].filter((c) => c !== null).sort((a, b) => a - b);
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

// Paper has room for all of the run's images.
function showAll() {
  shownCards = Infinity;
  drawCards();
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
  if (gallery.runs.every((each) => each.cards.every((card) => card.label === null))) $("pick-kind").parentElement.hidden = true;
  for (const id of ["pick-class", "pick-kind", "pick-sort"]) $(id).addEventListener("change", refresh);
  $("more").addEventListener("click", showMore);
  addEventListener("beforeprint", showAll);
  chooseRun();
}
