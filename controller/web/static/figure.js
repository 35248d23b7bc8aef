// The fabric as a drawing or a matrix: which of them, of which planes, and the controls beside it.

import { byId, el, mark, say, sync } from "./dom.js";
import { Drawing } from "./draw.js";
import { foldable, Matrix } from "./matrix.js";
import { layersOf, onlyPlane, planeOf, planesOfLeaves, podOf, podsOf } from "./model.js";
import { chosen } from "./route.js";

const MOST_DRAWN = 64; // switches of a layer; beyond, the matrix
const MOST_OPEN = 24; // switches of a layer; beyond, the matrix unless the drawing is chosen

let figure = null; // {topology, drawn}

function showPlanes(planes) {
  mark(byId("planes"), "hidden", planes.length === 0);
  const options = [["", "all"], ...planes.map((plane) => [String(plane), `plane${plane}`])];
  sync(byId("plane"), options, ([value]) => value, ([value]) => el("option", { value }), (node, [, text]) => say(node, text));
  byId("plane").value = chosen.plane ?? "";
}

export function showFigure(whole, every, shown, states, choose) {
  const planes = planesOfLeaves(whole);
  showPlanes(planes);
  const only = planes.includes(chosen.plane) ? chosen.plane : null;
  const { fabric, cables } = onlyPlane(whole, every, only);
  const widest = Math.max(0, ...layersOf(fabric).map((layer) => layer.length));
  const large = widest > MOST_DRAWN;
  const kind = large ? "matrix" : (chosen.shape ?? (widest > MOST_OPEN ? "matrix" : "drawing"));
  const folds = kind === "matrix" && foldable(fabric);
  const fold = folds && chosen.fold;
  mark(byId("folding"), "hidden", !folds);
  byId("fold").checked = fold;
  const pods = podsOf(fabric);
  say(byId("fold-name"), pods.length > 0 ? "Fold cores" : "Fold spines");
  const open = kind === "matrix" ? { pod: podOf(fabric, cables, chosen.selected), plane: planeOf(fabric, cables, chosen.selected) } : null;
  for (const input of document.querySelectorAll('input[name="shape"]')) {
    input.checked = input.value === kind;
    mark(input, "disabled", large && input.value === "drawing");
  }
  const topology = JSON.stringify([kind, fold, open, only, fabric.switches.map((one) => one.name), cables.map((cable) => cable.id)]);
  if (figure?.topology !== topology) {
    const focused = document.activeElement.closest?.("[role=grid]") != null; // the keyboard focus stays in the grid
    figure = { topology, drawn: kind === "matrix" ? new Matrix(fabric, cables, choose, fold, open) : new Drawing(fabric, cables, choose) };
    byId("canvas").replaceChildren(figure.drawn.root);
    if (focused) figure.drawn.focus?.(chosen.selected);
  }
  figure.drawn.update(cables, shown.loads, states, chosen.selected);
}

export function showScale() {
  const steps = ["idle", "25 %", "50 %", "75 %", "95 %", "full"].map((text, k) => el("span", {}, el("i", { class: `l${k}`, "aria-hidden": "true" }), text));
  const signs = [["▲", "collision"], ["✕", "failed"], ["⊘", "drained"]].map(([sign, text]) => el("span", {}, el("b", { "data-state": text === "collision" ? "contended" : text, "aria-hidden": "true" }, sign), text));
  byId("scale").replaceChildren(...steps, ...signs);
}
