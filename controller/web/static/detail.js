// What is selected, a cable, a switch, a job or a host: its state, its loads in both directions, the flows on it by name, and what can be done with it.

import { byId, el, say } from "./dom.js";
import { DASH, number, percent, plural, rate, seconds } from "./format.js";
import { hostParts, jobParts } from "./endpoints.js";
import { historyOf } from "./history.js";
import { condition, planeNamed, podOf, podsOf } from "./model.js";
import { facts } from "./parts.js";

const MOST_FLOWS = 200;
const ROLES = { aggregation: "aggregation switch", core: "core" };
const STATES = { failed: "✕ failed", unknown: "? unknown", drained: "⊘ drained", contended: "▲ collision", fine: "in use" };

/**
 * @param selected id of a cable or a switch, "job:NAME" or "host:NAME"; null: nothing
 * @param actions {change(id, drained), choose(id), redraw(), allowed(button, reason), drainedIds}
 */
export function showDetail(selected, state, actions) {
  const panel = byId("detail");
  // The buttons are made anew with the rest: whoever stands on one stays on it.
  const focused = panel.contains(document.activeElement) ? document.activeElement.dataset.act : undefined;
  const at = panel.scrollTop;
  const parts = partsOf(selected, state, actions);
  panel.replaceChildren(...(parts ?? [el("p", { class: "note" }, selected === null ? "Choose a link, a switch, a job or a host, in the drawing or in the tables." : `There is no ${selected.replace(":", " ")} (any more).`)]));
  say(byId("detail-title"), selected === null ? "Nothing selected" : selected.replace(/^(job|host):/, "$1 "));
  panel.scrollTop = at;
  if (focused !== undefined) panel.querySelector(`[data-act="${focused}"]`)?.focus({ preventScroll: true });
}

/** What is told of it; null: there is no such thing. */
function partsOf(selected, state, actions) {
  const { fabric, cables, jobs, shown, states } = state;
  const [, kind, name] = /^(job|host):(.*)$/.exec(selected ?? "") ?? [];
  const job = kind === "job" ? jobs.find((one) => one.name === name) : undefined;
  if (job !== undefined) return jobParts(job, state, actions);
  const host = kind === "host" ? fabric.hosts.find((one) => one.name === name) : undefined;
  if (host !== undefined) return hostParts(host, state, actions);
  const cable = cables.find((one) => one.id === selected);
  if (cable !== undefined) return cableParts(cable, fabric, shown, actions);
  const node = fabric.switches.find((one) => one.name === selected);
  if (node !== undefined) return switchParts(node, fabric, cables, shown, states, actions);
  if (podsOf(fabric).includes(selected)) return podParts(selected, state, actions);
  return planeNamed(fabric, selected) === null ? null : planeParts(planeNamed(fabric, selected), state, actions);
}

function cableParts(cable, fabric, shown, actions) {
  const parts = [facts([["State", STATES[condition(cable, shown.loads)]], ["Ends", `${cable.lower} port ${cable.a_port ?? DASH}, ${cable.upper} port ${cable.b_port ?? DASH}`], ["Plane", cable.plane]])];
  const own = actions.drainedIds.has(cable.id);
  parts.push(buttons(cable.id, own, actions));
  const by = [cable.lower, cable.upper, podOf(fabric, [], cable.lower), cable.plane === null ? null : `plane${cable.plane}`].filter((end) => actions.drainedIds.has(end));
  if (cable.drained && !own && by.length > 0) parts.push(el("p", { class: "note" }, `Drained with ${by.join(" and ")}.`));
  for (const [id, name] of [[cable.uplink, "up"], [cable.downlink, "down"]]) {
    const load = shown.loads.get(id);
    if (load === undefined) continue;
    parts.push(el("h3", {}, `${id} `, el("span", { class: "note" }, `${name}: ${rate(load.gbps)} of ${rate(load.capacity)}, ${percent(load.utilisation)}, ${load.source}`)));
    if (load.background !== null) parts.push(el("p", { class: "note" }, `In no plan: ${rate(load.background)}.`));
    if (load.dropped !== null || load.errors !== null) parts.push(el("p", { class: "note" }, `Since the port started: ${plural(load.dropped ?? 0, "packet")} dropped, ${plural(load.errors ?? 0, "error")}.`));
    if (load.contended) parts.push(el("p", { class: "collision" }, `▲${load.sharing} Collision of ${plural(load.sharing, "flow")}: ${rate(load.wanted)} are needed. Slower than alone: ${held(load.flows)}.`));
    parts.push(flowList(load.flows));
  }
  parts.push(historyOf("links", [cable.uplink, cable.downlink], actions.redraw));
  return parts;
}

function held(flows) {
  const slow = new Set(flows.filter((flow) => flow.speed !== null && flow.speed < 0.995).map((flow) => `${flow.job}/${flow.collective} (speed ${number(flow.speed)})`));
  return slow.size > 0 ? [...slow].join(", ") : "the collectives that share it";
}

function switchParts(node, fabric, cables, shown, states, actions) {
  const own = cables.filter((cable) => cable.lower === node.name || cable.upper === node.name);
  const above = own.filter((cable) => cable.lower === node.name);
  const state = states.get(node.name);
  const hosts = fabric.hosts.filter((host) => host.leaf === node.name);
  const parts = [
    facts([
      ["Role", ROLES[node.role] ?? null],
      ["State", state === "away" ? "✕ not connected" : state === "drained" ? "⊘ drained" : "connected"],
      ["Cables", `${own.filter((cable) => cable.up).length} of ${own.length} up`],
      ["Plane", node.plane],
      ["Plane of aggregation switches", node.plane === null ? null : node.agg_plane],
      [node.plane === null ? "Hosts" : "Ports of NICs", node.role === "leaf" ? hosts.length : null],
      ["Traffic", traffic(above.length > 0 ? above : own, shown)],
    ]),
    partsAbove(node, actions),
    buttons(node.name, actions.drainedIds.has(node.name), actions),
    el("h3", {}, "Cables"),
  ];
  const list = el("ul", { class: "flows" });
  for (const cable of own) {
    const [up, down] = [shown.loads.get(cable.uplink), shown.loads.get(cable.downlink)];
    const name = el("button", { type: "button", class: "name", "data-act": `cable-${cable.id}`, onclick: () => actions.choose(cable.id) }, cable.id);
    list.append(el("li", {}, name, ` ${STATES[condition(cable, shown.loads)]}, up ${percent(up?.utilisation)}, down ${percent(down?.utilisation)}`));
  }
  parts.push(list);
  if (hosts.length > 0) {
    const names = hosts.slice(0, MOST_FLOWS).flatMap((host) => [el("button", { type: "button", class: "name", "data-act": `host-${host.name}`, onclick: () => actions.choose(`host:${host.name}`) }, host.name), " "]);
    parts.push(el("h3", {}, node.plane === null ? "Hosts" : "Ports of NICs"), el("p", {}, ...names));
  }
  return parts;
}

/** Buttons for the pod and the plane of a switch, if it has them. */
function partsAbove(node, actions) {
  const names = [["pod", node.pod], ["plane", node.plane === null ? null : `plane${node.plane}`]].filter(([, name]) => name !== null);
  if (names.length === 0) return "";
  return el("p", { class: "actions" }, ...names.flatMap(([kind, name]) => [el("button", { type: "button", class: "name", "data-act": `${kind}-${name}`, onclick: () => actions.choose(name) }, name), " "]));
}

function planeParts(plane, { fabric, cables, shown, states }, actions) {
  const name = `plane${plane}`;
  const members = fabric.switches.filter((one) => one.plane === plane);
  const own = cables.filter((cable) => cable.plane === plane);
  const leaves = new Set(members.filter((one) => one.role === "leaf").map((one) => one.name));
  const ports = fabric.hosts.filter((host) => leaves.has(host.leaf));
  const away = members.filter((one) => states.get(one.name) === "away").length;
  const alone = actions.onlyPlane === plane;
  const list = members.slice(0, MOST_FLOWS).flatMap((one) => [el("button", { type: "button", class: "name", "data-act": `switch-${one.name}`, onclick: () => actions.choose(one.name) }, one.name), " "]);
  return [
    facts([
      ["State", actions.drainedIds.has(name) ? "⊘ drained: jobs send in it only what no other plane carries" : "in use"],
      ["Switches", `${members.length - away} of ${members.length} connected`],
      ["Cables", `${own.filter((cable) => cable.up).length} of ${own.length} up`],
      ["Ports of NICs", `${ports.filter((host) => host.up).length} of ${ports.length} up`],
      ["Traffic", `of leaves: ${traffic(own.filter((cable) => leaves.has(cable.lower)), shown)}`],
    ]),
    el("p", { class: "actions" }, el("button", { type: "button", class: "small", "data-act": "only-plane", onclick: () => actions.only(alone ? null : plane) }, alone ? "Show all planes" : `Show only ${name}`)),
    buttons(name, actions.drainedIds.has(name), actions),
    el("h3", {}, "Switches"),
    el("p", {}, ...list),
  ];
}

function podParts(pod, { fabric, cables, shown, states }, actions) {
  const members = fabric.switches.filter((one) => one.pod === pod);
  const names = new Set(members.map((one) => one.name));
  const own = cables.filter((cable) => names.has(cable.lower));
  const toCores = own.filter((cable) => !names.has(cable.upper));
  const away = members.filter((one) => states.get(one.name) === "away").length;
  const list = members.flatMap((one) => [el("button", { type: "button", class: "name", "data-act": `switch-${one.name}`, onclick: () => actions.choose(one.name) }, one.name), " "]);
  return [
    facts([
      ["State", actions.drainedIds.has(pod) ? "⊘ drained" : "in use"],
      ["Switches", `${members.length - away} of ${members.length} connected`],
      ["Cables", `${own.filter((cable) => cable.up).length} of ${own.length} up`],
      ["Hosts", fabric.hosts.filter((host) => names.has(host.leaf)).length],
      ["Traffic", `to cores and back: ${traffic(toCores, shown)}`],
    ]),
    buttons(pod, actions.drainedIds.has(pod), actions),
    el("h3", {}, "Switches"),
    el("p", {}, ...list),
  ];
}

/** What cables carry together, in both directions. */
function traffic(cables, shown) {
  const sum = (key) => cables.reduce((total, cable) => total + (shown.loads.get(cable[key])?.gbps ?? 0), 0);
  return `${rate(sum("uplink"))} up, ${rate(sum("downlink"))} down`;
}

function buttons(id, drained, actions) {
  const button = el("button", { type: "button", class: "action", "data-act": "drain", onclick: () => actions.change(id, !drained) }, drained ? `Undrain ${id}…` : `Drain ${id}…`);
  const reason = el("span", { class: "note" });
  actions.allowed(button, null);
  if (button.disabled) say(reason, button.title);
  return el("p", { class: "actions" }, button, reason);
}

function flowList(flows) {
  if (flows.length === 0) return el("p", { class: "note" }, "No flow of a job is known to use it.");
  const list = el("ul", { class: "flows" });
  for (const flow of flows.slice(0, MOST_FLOWS)) {
    const part = flow.share < 1 ? `, ${percent(flow.share)} of the flow` : "";
    const sends = typeof flow.duty === "number" ? `, sent ${percent(flow.duty)} of each ${seconds(flow.period)}` : "";
    const guessed = flow.how && flow.how !== "rules" ? `, by ${flow.how}, ${percent(flow.sure)} sure` : ""; // of a trace
    const differs = flow.differs ? " — not as planned" : "";
    list.append(el("li", {}, el("code", {}, flow.id), ` ${flow.src} → ${flow.dst}${part}${flow.speed === null ? "" : `, speed ${number(flow.speed)}`}${sends}${guessed}${differs}`));
  }
  if (flows.length > MOST_FLOWS) list.append(el("li", {}, `and ${flows.length - MOST_FLOWS} more`));
  return list;
}
