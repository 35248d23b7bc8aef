// The fabric as a matrix, leaves down and spines across, for what a drawing cannot hold. A grid with one stop for the
// Tab key; arrow keys go from cell to cell (WAI-ARIA Authoring Practices, grid pattern).

import { el, mark, say } from "./dom.js";
import { percent, plural } from "./format.js";
import { condition, level } from "./model.js";

const SIGNS = { failed: "✕", drained: "⊘", fine: "" };
const MOST_COLUMNS = 16; // beyond, neighbouring spines fold to a column
const WORST = ["fine", "drained", "contended", "failed"];

const spinesOf = (fabric) => fabric.switches.filter((row) => row.role === "spine");

/** Whether a fabric has so many spines that they fold. */
export const foldable = (fabric) => spinesOf(fabric).length > MOST_COLUMNS;

/** Columns: [{name, spines}] of one spine each or, folded, of neighbours. */
function columnsOf(spines, fold) {
  const size = fold ? Math.ceil(spines.length / MOST_COLUMNS) : 1;
  const columns = [];
  for (let k = 0; k < spines.length; k += size) {
    const members = spines.slice(k, k + size).map((one) => one.name);
    columns.push({ name: members.length === 1 ? members[0] : `${members[0]} to ${members.at(-1)}`, spines: members });
  }
  return columns;
}

export class Matrix {
  /** @param fold whether neighbouring spines share a column, if there are many */
  constructor(fabric, cables, choose, fold = false) {
    const columns = columnsOf(spinesOf(fabric), fold);
    const leaves = fabric.switches.filter((row) => row.role === "leaf");
    this.choose = choose;
    this.cells = [];
    const between = new Map();
    for (const cable of cables) {
      const key = `${cable.leaf}\n${cable.spine}`;
      between.set(key, [...(between.get(key) ?? []), cable]);
    }
    const head = el("tr", { role: "row" }, el("th", { role: "columnheader", class: "corner" }, el("span", {}, "leaf \\ spine")));
    for (const { name, spines } of columns) head.append(el("th", { role: "columnheader", scope: "col", class: "column", "data-id": spines.length === 1 ? name : null }, el("span", {}, name)));
    this.heads = new Map([...head.children].filter((cell) => cell.dataset.id).map((cell) => [cell.dataset.id, cell]));
    const body = el("tbody");
    for (const leaf of leaves) {
      const name = el("th", { role: "rowheader", scope: "row", "data-id": leaf.name }, leaf.name);
      this.heads.set(leaf.name, name);
      const line = el("tr", { role: "row" }, name);
      this.cells.push(
        columns.map(({ spines }) => {
          const pair = spines.flatMap((spine) => between.get(`${leaf.name}\n${spine}`) ?? []);
          const node = el("td", { role: "gridcell", tabindex: "-1", class: "cell", "data-id": pair[0]?.id ?? null });
          line.append(node);
          return { node, pair };
        }),
      );
      body.append(line);
    }
    this.root = el("table", { class: "matrix", role: "grid", "aria-label": "Cables by leaf and spine" }, el("thead", {}, head), body);
    const most = Math.max(1, leaves.length, columns.length);
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

  /** As ``Drawing.update``. A cell stands for all cables between its two switches, the worst and busiest of them. */
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
        mark(node, "data-near", selected !== null && (chosen || pair[0].leaf === selected || pair.some((one) => one.spine === selected)));
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
