// The last 24 hours of what is selected: drawings of loads of links or of the speed of a job, and the same in words.

import { read } from "./api.js";
import { el, svg } from "./dom.js";
import { moment, percent } from "./format.js";

const [WIDTH, HEIGHT, TOP, FOOT] = [360, 96, 8, 16];
const FRESH_MS = 10_000; // the controller takes a sample every 10 s
const SPANS = ["10 minutes", "2 hours", "24 hours"]; // the controller's resolutions, finest first
const KINDS = {
  links: { unit: "of the capacity", worst: "highest" },
  jobs: { unit: "of the speed alone", worst: "lowest" },
};
let span = 1;
let panel = null; // the one on the page: {key, root, documents, asked, problem}

/** The element with the history of links or of a job, the same one for as long as the same is asked for. */
export function historyOf(kind, names, redraw) {
  const key = [kind, ...names].join("\n");
  if (panel?.key !== key) panel = { key, kind, names, root: el("div", { class: "past" }), documents: null, asked: -FRESH_MS, problem: "" };
  if (performance.now() - panel.asked >= FRESH_MS) load(panel, redraw);
  show(panel, redraw);
  return panel.root;
}

async function load(wanted, redraw) {
  wanted.asked = performance.now();
  try {
    wanted.documents = await Promise.all(wanted.names.map((name) => read(`v1/${wanted.kind}/${encodeURIComponent(name)}/history`)));
    wanted.problem = "";
  } catch (problem) {
    wanted.problem = problem.message;
  }
  if (panel === wanted) redraw();
}

function show({ root, kind, documents, problem }, redraw) {
  const choices = SPANS.map((name, k) => el("button", { type: "button", class: "small", "data-act": `span-${k}`, "aria-pressed": k === span ? "true" : "false", onclick: () => {
    span = k;
    redraw();
  } }, name));
  const parts = [el("h3", {}, "Last ", ...choices)];
  if (problem !== "") parts.push(el("p", { class: "note" }, `No history: ${problem}`));
  for (const one of documents ?? []) parts.push(...chart(kind, one));
  root.replaceChildren(...parts);
}

function chart(kind, { id, series }) {
  const one = series[span];
  const text = summary(kind, id, one);
  if (one === undefined || one.mean.every((value) => value === null)) return [el("p", { class: "note" }, text)];
  const top = Math.max(1, ...one.worst.filter((value) => value !== null));
  const count = Math.max(2, one.mean.length);
  const x = (k) => (k / (count - 1)) * WIDTH;
  const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - FOOT);
  const begin = new Date(Date.parse(one.end) - one.mean.length * one.step_seconds * 1000);
  const root = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": text });
  root.append(svg("line", { class: "axis", x1: 0, y1: y(0), x2: WIDTH, y2: y(0) }), svg("line", { class: "axis whole", x1: 0, y1: y(1), x2: WIDTH, y2: y(1) }));
  for (const name of ["worst", "mean"]) root.append(svg("path", { class: name, d: line(one[name], x, y) }));
  root.append(svg("text", { x: 0, y: HEIGHT - 3 }, moment(begin)), svg("text", { x: WIDTH, y: HEIGHT - 3, "text-anchor": "end" }, moment(one.end)));
  return [el("p", { class: "note" }, text), root];
}

/** A line through the known values; one between two unknown ones is a dot. */
function line(values, x, y) {
  let path = "";
  values.forEach((value, k) => {
    if (value === null) return;
    const begins = k === 0 || values[k - 1] === null;
    path += begins ? `M${x(k)} ${y(value)}h0.01` : `L${x(k)} ${y(value)}`;
  });
  return path;
}

function summary(kind, id, one) {
  const known = (one?.mean ?? []).filter((value) => value !== null);
  if (known.length === 0) return `${id}: nothing is known of the last ${SPANS[span]}.`;
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  const worst = one.worst.filter((value) => value !== null);
  const extreme = kind === "links" ? Math.max(...worst) : Math.min(...worst);
  return `${id}: mean ${percent(mean)} ${KINDS[kind].unit}, ${KINDS[kind].worst} ${percent(extreme)}, now ${percent(one.mean.at(-1))}.`;
}
