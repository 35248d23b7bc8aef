// The fabric as a drawing: a row for each layer, a line for each cable. The half of a line at the lower switch shows what
// that sends up, the half at the upper one what comes down. For the mouse; the tables say the same to everybody else.

import { mark, say, svg } from "./dom.js";
import { percent, rate } from "./format.js";
import { condition, degree, layersOf, level } from "./model.js";
import { placesOf, WIDTH } from "./places.js";

const SIGNS = { failed: "✕", unknown: "?", drained: "⊘", fine: "" };

/** A drawing of one topology, to be updated as often as its loads change. */
export class Drawing {
  constructor(fabric, cables, choose) {
    const layers = layersOf(fabric);
    const { height, places, frames } = placesOf(fabric);
    const widest = Math.max(1, ...layers.map((layer) => layer.length));
    this.root = svg("svg", {
      class: `drawing${widest > 12 ? " dense" : ""}${widest > 32 ? " crowded" : ""}`,
      viewBox: `0 0 ${WIDTH} ${height}`,
      preserveAspectRatio: "xMidYMid meet",
      "aria-hidden": "true", // the tables are its equivalent, with names and states
    });
    this.root.style.setProperty("min-width", `${Math.max(520, widest * 11)}px`);
    this.frames = frames.map((frame) => this.#frame(frame));
    this.root.append(...this.frames.map(({ group }) => group));
    this.lines = new Map();
    const lines = svg("g");
    this.root.append(lines);
    for (const cable of [...cables].sort((a, b) => copyOf(a) - copyOf(b))) lines.append(this.#cable(cable, places));
    this.signs = svg("g", { class: "signs" });
    this.root.append(this.signs);
    for (const shown of this.lines.values()) this.signs.append(...shown.signs);
    this.switches = new Map();
    for (const one of layers.flat()) this.root.append(this.#switch(one, places.get(one.name)));
    this.root.addEventListener("click", (event) => {
      const at = event.target.closest("[data-id]");
      choose(at === null ? null : at.dataset.id);
    });
  }

  /** The frame of a plane of NICs with several ports, or of a pod, which is chosen by its name. */
  #frame({ name, kind, x, y, width, height, title: at }) {
    const title = svg("title");
    const label = svg("text", { class: "name", x: x + width / 2, y: at, dy: "0.35em" }, name);
    const sign = svg("text", { class: "state", x: x + width - 12, y: at, dy: "0.35em" });
    const group = svg("g", { class: kind, "data-id": name }, title, svg("rect", { class: "frame", x, y, width, height, rx: 6 }), label, sign);
    return { name, group, title, sign };
  }

  #cable(cable, place) {
    const shift = copyOf(cable) * 7; // parallel cables lie side by side
    const [from, to] = [place.get(cable.lower), place.get(cable.upper)];
    const [x1, y1, x2, y2] = [from.x + shift, from.y - 14, to.x + shift, to.y + 14];
    const [x, y] = [(x1 + x2) / 2, (y1 + y2) / 2];
    const up = svg("line", { class: "half", x1, y1, x2: x, y2: y });
    const down = svg("line", { class: "half", x1: x, y1: y, x2, y2 });
    // Signs sit off the middle, where all lines of a symmetric fabric would cross.
    const [sign, other] = [0.3, 0.7].map((part) => svg("text", { class: "sign", x: x1 + (x2 - x1) * part, y: y1 + (y2 - y1) * part, dy: "0.35em" }));
    const title = svg("title");
    const group = svg("g", { class: "cable", "data-id": cable.id }, title, svg("line", { class: "hit", x1, y1, x2, y2 }), up, down);
    this.lines.set(cable.id, { group, up, down, signs: [sign, other], title });
    return group;
  }

  #switch(one, { x, y, room, turned, above, middle }) {
    const width = Math.min(88, room - Math.min(6, room / 5));
    const title = svg("title");
    const label = svg("text", { class: "name" }, one.name);
    if (turned) {
      mark(label, "transform", `translate(${x} ${y + (above ? -16 : 16)}) rotate(-90)`);
      mark(label, "class", `name turned ${above ? "above" : "below"}`);
      mark(label, "dy", "0.35em");
      label.style.setProperty("font-size", `${Math.min(12, room * 0.8)}px`);
    } else {
      mark(label, "x", x);
      mark(label, "y", y);
      mark(label, "dy", "0.35em");
    }
    const box = svg("rect", { class: "box", x: x - width / 2, y: y - 13, width, height: 26, rx: 4 });
    // Beside the box where no cable ends; between two layers there is room only in it.
    const inside = turned || middle;
    const sign = svg("text", { class: "state", x: inside && !turned ? x - width / 2 + 8 : x, y: inside ? y : y + (above ? -22 : 24), dy: "0.35em" });
    const group = svg("g", { class: `node ${one.role}`, "data-id": one.name }, title, box, label, sign);
    this.switches.set(one.name, { name: one.name, group, title, sign });
    return group;
  }

  /** Show the same cables as they are now: loads, states of switches (name -> "up", "away", "drained"), and what is selected. */
  update(cables, loads, states, selected) {
    for (const cable of cables) {
      const { group, up, down, signs, title } = this.lines.get(cable.id);
      const state = condition(cable, loads);
      const ends = [loads.get(cable.uplink), loads.get(cable.downlink)];
      const near = selected !== null && [cable.id, cable.lower, cable.upper, cable.pod, cable.plane === null ? null : `plane${cable.plane}`].includes(selected);
      for (const [k, line] of [up, down].entries()) {
        const collision = state === "contended" && ends[k]?.contended;
        mark(line, "class", `half l${level(ends[k]?.utilisation ?? null)}${collision ? " contended" : ""}`);
        const whole = k === 0 && state !== "contended"; // of the cable, not of one direction
        mark(line, "data-degree", collision ? degree(ends[k]) : null);
        mark(signs[k], "data-degree", collision ? degree(ends[k]) : null);
        mark(signs[k], "data-state", state);
        mark(signs[k], "data-near", near);
        say(signs[k], collision ? `▲${ends[k].sharing}` : whole ? SIGNS[state] : "");
      }
      mark(group, "data-state", state);
      mark(group, "data-near", near);
      say(title, `${cable.id}, ${state === "contended" ? "collision" : state}\nup ${loadText(ends[0])}\ndown ${loadText(ends[1])}`);
    }
    for (const { name, group, sign, title } of [...this.switches.values(), ...this.frames]) {
      const state = states.get(name);
      mark(group, "data-state", state);
      mark(group, "data-selected", selected === name);
      say(sign, state === "drained" ? "⊘" : state === "away" ? "✕" : "");
      say(title, `${name}: ${state === "away" ? "not connected" : state}`);
    }
    mark(this.root, "data-selecting", selected !== null);
  }
}

/** 0 for the first of parallel cables, 1 for the next. */
function copyOf(cable) {
  const copy = cable.uplink.slice(cable.lower.length + cable.upper.length + 2);
  return copy === "" ? 0 : Number(copy.slice(1)) - 1;
}

const loadText = (load) => (load === undefined ? "–" : `${rate(load.gbps)} of ${rate(load.capacity)} (${percent(load.utilisation)}, ${load.source}${load.contended ? `, ${load.sharing} flows collide` : ""})`);
