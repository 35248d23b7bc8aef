// The fabric as a matrix, leaves down and spines across, or pods down and planes and cores across, or the planes of NICs
// down and the places of their spines across, for what a drawing cannot hold. A grid with one stop for the Tab key; arrow keys go from cell to cell (WAI-ARIA Authoring Practices, grid pattern).

import { el, mark, say } from "./dom.js";
import { percent, plural } from "./format.js";
import { condition, layersOf, level, planesOf, podsOf, separatePlanes } from "./model.js";

const SIGNS = { failed: "✕", unknown: "?", drained: "⊘", fine: "" };
const MOST_COLUMNS = 16; // beyond, neighbouring switches fold to a column
const WORST = ["fine", "drained", "unknown", "contended", "failed"];

/** Whether a fabric has so many switches in its top layer that they fold. */
export const foldable = (fabric) => groupsOf(fabric)[1].length > MOST_COLUMNS;

/** Columns: [{name, members}] of one or, folded, of neighbours; `groups`: [[name, switches]]. */
function columnsOf(groups, fold) {
  const size = fold ? Math.ceil(groups.length / MOST_COLUMNS) : 1;
  const columns = [];
  for (let k = 0; k < groups.length; k += size) {
    const own = groups.slice(k, k + size);
    const name = own.length === 1 ? own[0][0] : `${own[0][0]} to ${own.at(-1)[0]}`;
    columns.push({ name, members: own.flatMap(([, members]) => members) });
  }
  return columns;
}

/** The switches with the same place in each plane of NICs share a column: [[name, switches]]; `call`: how they are called. */
function alike(planes, call) {
  const most = Math.max(0, ...planes.map((own) => own.length));
  return Array.from({ length: most }, (_, k) => {
    const there = planes.map((own) => own[k]).filter((one) => one !== undefined);
    return [call(k, there), there.flatMap(([, members]) => members)];
  });
}

/** The columns of planes of aggregation switches, and of the switches of the top layer: [[name, switches]] each. */
function groupsOf(fabric) {
  const planes = separatePlanes(fabric);
  const tops = layersOf(fabric)[0].map((one) => [one.plane, [one.name, [one.name]]]);
  const aggs = new Map(); // plane of NICs -> plane of aggregation switches -> switches
  for (const { name, plane, agg_plane: own } of fabric.switches) {
    if (own === null) continue;
    if (!aggs.has(plane)) aggs.set(plane, new Map());
    aggs.get(plane).set(own, [...(aggs.get(plane).get(own) ?? []), name]);
  }
  const below = [...aggs].sort(([a], [b]) => a - b).map(([, own]) => [...own].sort(([a], [b]) => a - b).map(([number, members]) => [`plane${number}`, members]));
  if (planes.length < 2) return [below.flat().map(([name, members]) => [planesOf(fabric).length > 0 ? `agg ${name}` : name, members]), tops.map(([, top]) => top)];
  const word = below.length > 0 ? "core" : "spine";
  return [alike(below, (k) => `agg plane ${k + 1}`), alike(planes.map((plane) => tops.filter(([own]) => own === plane).map(([, top]) => top)), (k) => `${word} ${k + 1}`)];
}

/**
 * Rows: [{name, members, open, inner}]: leaves; or pods, each of one row, and behind the open one a row for each of its
 * switches; or planes of NICs, and behind the open one its leaves, or its pods.
 */
function rowsOf(fabric, open) {
  const planes = separatePlanes(fabric);
  if (planes.length > 1) {
    return planes.flatMap((plane) => {
      const own = fabric.switches.filter((one) => one.plane === plane);
      const isOpen = plane === open.plane;
      const inner = isOpen ? rowsOf({ ...fabric, switches: own }, open).map((row) => ({ ...row, inner: (row.inner ?? 0) + 1 })) : [];
      return [{ name: `plane${plane}`, members: own.map((one) => one.name), open: isOpen }, ...inner];
    });
  }
  const pods = podsOf(fabric);
  if (pods.length === 0) return fabric.switches.filter((one) => one.role === "leaf").map(({ name }) => ({ name, members: [name] }));
  return pods.flatMap((pod) => {
    const members = fabric.switches.filter((one) => one.pod === pod).map((one) => one.name);
    return [{ name: pod, members, open: pod === open.pod }, ...(pod === open.pod ? members.map((name) => ({ name, members: [name], inner: 1 })) : [])];
  });
}

/** What rows and columns are, and what a screen reader calls the whole. */
function namesOf(fabric) {
  const [planes, pods] = [separatePlanes(fabric).length > 1, podsOf(fabric).length > 0];
  if (planes && pods) return ["plane, pod \\ agg plane, core", "Cables by plane, pod, plane of aggregation switches, and core"];
  if (planes) return ["plane \\ spine", "Cables by plane and place of the spine in its plane"];
  if (pods && planesOf(fabric).length > 0) return ["pod \\ agg plane, core", "Cables by pod, plane of aggregation switches, and core"];
  return pods ? ["pod \\ plane, core", "Cables by pod, plane and core"] : ["leaf \\ spine", "Cables by leaf and spine"];
}

export class Matrix {
  /**
   * @param fold whether neighbouring switches of the top layer share a column, if there are many
   * @param open {pod, plane}: the pod and the plane whose parts have rows of their own; null: none
   */
  constructor(fabric, cables, choose, fold = false, open = { pod: null, plane: null }) {
    const columns = groupsOf(fabric).flatMap((groups) => columnsOf(groups, fold));
    const rows = rowsOf(fabric, open);
    this.choose = choose;
    this.cells = [];
    const across = new Map(columns.flatMap(({ members }, x) => members.map((name) => [name, x])));
    const pairs = new Map(); // lower switch -> for each column the cables
    for (const cable of cables) {
      if (!pairs.has(cable.lower)) pairs.set(cable.lower, columns.map(() => []));
      pairs.get(cable.lower)[across.get(cable.upper)]?.push(cable);
    }
    const [corner, called] = namesOf(fabric);
    const head = el("tr", { role: "row" }, el("th", { role: "columnheader", class: "corner" }, el("span", {}, corner)));
    for (const { name, members } of columns) head.append(el("th", { role: "columnheader", scope: "col", class: "column", "data-id": members[0] === name ? name : null }, el("span", {}, name)));
    this.heads = new Map([...head.children].filter((cell) => cell.dataset.id).map((cell) => [cell.dataset.id, cell]));
    const body = el("tbody");
    for (const { name: row, members, open: isOpen, inner } of rows) {
      const name = el("th", { role: "rowheader", scope: "row", "data-id": row, class: inner ? `inner${inner > 1 ? " deep" : ""}` : null, "aria-expanded": isOpen === undefined ? null : String(isOpen) }, row);
      this.heads.set(row, name);
      const line = el("tr", { role: "row" }, name);
      this.cells.push(
        columns.map((_, x) => {
          const pair = members.flatMap((member) => pairs.get(member)?.[x] ?? []);
          const node = el("td", { role: "gridcell", tabindex: "-1", class: pair.length > 0 ? "cell" : "cell none", "data-id": pair[0]?.id ?? null });
          line.append(node);
          return { node, pair, row };
        }),
      );
      body.append(line);
    }
    this.root = el("table", { class: "matrix", role: "grid", "aria-label": called }, el("thead", {}, head), body);
    const most = Math.max(1, rows.length, columns.length);
    this.root.style.setProperty("--cell", `${Math.max(17, Math.min(44, Math.floor(430 / most)))}px`);
    this.at = [0, 0];
    if (this.cells[0]?.[0]) mark(this.cells[0][0].node, "tabindex", "0");
    this.root.addEventListener("click", (event) => this.#clicked(event));
    this.root.addEventListener("keydown", (event) => this.#key(event));
  }

  #clicked(event) {
    const at = event.target.closest("[data-id]");
    if (at === null) return;
    const y = this.cells.findIndex((line) => line.some((cell) => cell.node === at));
    if (y >= 0) this.#go(y, this.cells[y].findIndex((cell) => cell.node === at));
    this.choose(at.classList.contains("cell") ? this.#worst() : at.dataset.id);
  }

  /** The worst cable of the cell with the focus. */
  #worst() {
    return this.cells[this.at[0]][this.at[1]].worst ?? null;
  }

  #key(event) {
    const [y, x] = this.at;
    const [last, end] = [this.cells.length - 1, this.cells[0].length - 1];
    const ways = {
      ArrowUp: [y - 1, x], ArrowDown: [y + 1, x], ArrowLeft: [y, x - 1], ArrowRight: [y, x + 1],
      Home: [event.ctrlKey ? 0 : y, 0], End: [event.ctrlKey ? last : y, end], PageUp: [y - 10, x], PageDown: [y + 10, x],
    };
    if (event.key in ways) this.#go(...ways[event.key]);
    else if (event.key === "Enter" || event.key === " ") this.choose(this.#worst());
    else return;
    event.preventDefault();
  }

  #go(y, x) {
    const [last, end] = [this.cells.length - 1, this.cells[0].length - 1];
    mark(this.cells[this.at[0]][this.at[1]].node, "tabindex", "-1");
    this.at = [Math.min(last, Math.max(0, y)), Math.min(end, Math.max(0, x))];
    const { node } = this.cells[this.at[0]][this.at[1]];
    mark(node, "tabindex", "0");
    node.focus();
  }

  /** Put the focus on the cell that shows most closely what is selected. */
  focus(selected) {
    let best = null;
    for (const [y, line] of this.cells.entries()) {
      for (const [x, { pair }] of line.entries()) {
        if (pair.some((cable) => cable.id === selected) && (best === null || pair.length < best.length)) best = { y, x, length: pair.length };
      }
    }
    if (best !== null) this.#go(best.y, best.x);
  }

  /** As ``Drawing.update``. A cell stands for all of its cables, the worst and busiest of them. */
  update(cables, loads, states, selected) {
    const now = new Map(cables.map((cable) => [cable.id, cable]));
    for (const line of this.cells) {
      for (const cell of line) {
        const { node, pair } = cell;
        if (pair.length === 0) continue;
        let state = "fine";
        let [up, down, sharing, collisions] = [-1, -1, 0, 0];
        let load = -1;
        cell.worst = undefined;
        for (const { id } of pair) {
          const cable = now.get(id);
          const own = condition(cable, loads);
          const ends = [loads.get(cable.uplink), loads.get(cable.downlink)];
          const [rising, falling] = ends.map((end) => end?.utilisation ?? -1);
          const flows = Math.max(0, ...ends.map((end) => (end?.contended ? end.sharing : 0)));
          const worse = WORST.indexOf(own) - WORST.indexOf(state);
          if (cell.worst === undefined || worse > 0 || (worse === 0 && (flows > sharing || (flows === sharing && Math.max(rising, falling) > load)))) {
            [cell.worst, state, load] = [id, own, Math.max(rising, falling)];
          }
          [up, down, sharing] = [Math.max(up, rising), Math.max(down, falling), Math.max(sharing, flows)];
          collisions += own === "contended" ? 1 : 0;
        }
        mark(node, "data-state", state);
        mark(node, "data-up", level(up < 0 ? null : up));
        mark(node, "data-down", level(down < 0 ? null : down));
        const chosen = pair.some((cable) => cable.id === selected);
        mark(node, "aria-selected", chosen ? "true" : "false");
        mark(node, "data-near", selected !== null && (chosen || cell.row === selected || pair.some((one) => one.upper === selected || one.lower === selected)));
        const names = pair.length > 2 ? `${pair[0].id} to ${pair.at(-1).id}` : pair.map((cable) => cable.id).join(", ");
        const called = state === "contended" ? `collision of ${plural(sharing, "flow")}${collisions > 1 ? ` (${collisions} cables)` : ""}` : state;
        const text = `${names}: ${called}, up ${percent(up < 0 ? null : up)}, down ${percent(down < 0 ? null : down)}`;
        mark(node, "aria-label", text);
        mark(node, "title", text);
        mark(node, "data-degree", state === "contended" ? Math.min(4, Math.max(2, sharing)) : null);
        say(node, state === "contended" ? sharing : SIGNS[state]);
      }
    }
    for (const [name, node] of this.heads) {
      mark(node, "data-state", states.get(name));
      mark(node, "data-near", selected === name);
    }
  }
}
