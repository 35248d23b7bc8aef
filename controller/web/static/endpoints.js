// A selected job or host: what it is, its history, and its flows with their paths and rates.

import { el } from "./dom.js";
import { DASH, number, percent, rate, size } from "./format.js";
import { historyOf } from "./history.js";
import { placedFlows, planeOf } from "./model.js";
import { nicOf } from "./nic.js";
import { facts } from "./parts.js";

const MOST_FLOWS = 200;

export function jobParts(job, state, actions) {
  const { shown, trace } = state;
  return [
    facts([
      ["State", job.left_out ?? (job.active ? "active" : "not active")],
      ["Speed", `${number(job.speed)}, planned ${number(job.min_speed)}`],
      ["Flows", `${job.flows}, ${size(job.bytes)}`],
      ["Tenant", job.tenant ?? null],
      ["Weight", job.planned_weight ? `${job.weight}, among all jobs ${number(job.planned_weight)}` : job.weight],
      ["Class", job.classes ? job.classes.join(", ") : null],
      ["Pushed", `by ${job.by}`],
    ]),
    historyOf("jobs", [job.name], actions.redraw),
    ...flowParts(placedFlows(shown, trace, (flow) => flow.job === job.name), state, actions),
  ];
}

export function hostParts(host, state, actions) {
  const { shown, trace } = state;
  const [out, into] = [`${host.name}->${host.leaf}`, `${host.leaf}->${host.name}`];
  const loads = [out, into].map((id) => shown.loads.get(id));
  const loadText = (load) => (load === undefined ? DASH : `${rate(load.gbps)} of ${rate(load.capacity)}, ${percent(load.utilisation)}, ${load.source}`);
  return [
    facts([
      ["State", host.up ? "up" : "✕ down"],
      ["NIC", host.nic === null ? null : `${host.nic}, plane ${planeOf(state.fabric, [], `host:${host.name}`)}`],
      ["Leaf", `${host.leaf} port ${host.port ?? DASH}`],
      ["Address", `${host.ip}, ${host.mac}`],
      ["Server", `${host.server}, rail ${host.rail}`],
      ["Sends", loadText(loads[0])],
      ["Receives", loadText(loads[1])],
    ]),
    el("p", { class: "actions" }, chooser(host.leaf, actions)),
    ...portsOf(host, state, actions),
    ...(state.agents ? [nicOf(host.name, actions.redraw)] : []),
    historyOf("links", [out, into], actions.redraw),
    ...flowParts(placedFlows(shown, trace, (flow) => flow.src === host.name || flow.dst === host.name), state, actions),
  ];
}

/** The ports of the same NIC, in the order of their planes; nothing if it has only one. */
function portsOf(host, { fabric, shown }, actions) {
  if (host.nic === null) return [];
  const plane = new Map(fabric.switches.map((one) => [one.name, one.plane]));
  const ports = fabric.hosts.filter((one) => one.nic === host.nic).sort((a, b) => plane.get(a.leaf) - plane.get(b.leaf));
  const list = el("ul", { class: "flows" });
  for (const port of ports) {
    const [out, into] = [shown.loads.get(`${port.name}->${port.leaf}`), shown.loads.get(`${port.leaf}->${port.name}`)];
    const name = port === host ? el("b", {}, port.name) : el("button", { type: "button", class: "name", "data-act": `port-${port.name}`, onclick: () => actions.choose(`host:${port.name}`) }, port.name);
    list.append(el("li", {}, name, ` plane ${plane.get(port.leaf)}, ${port.leaf}, ${port.up ? "up" : "✕ down"}: sends ${percent(out?.utilisation)}, receives ${percent(into?.utilisation)}`));
  }
  return [el("h3", {}, `Ports of NIC ${host.nic}`), list];
}

function chooser(id, actions) {
  return el("button", { type: "button", class: "name", "data-act": `show-${id}`, onclick: () => actions.choose(id) }, id);
}

function flowParts(flows, state, actions) {
  if (flows === null) return [el("h3", {}, "Flows"), el("p", { class: "note" }, "Their paths are not known here: the plan is not in force, or it has too many flows. Trace reads them from the switches.")];
  const cables = new Map(state.cables.flatMap((cable) => [[cable.uplink, cable.id], [cable.downlink, cable.id]]));
  const list = el("ul", { class: "flows" });
  for (const flow of flows.slice(0, MOST_FLOWS)) {
    const planned = flow.rate === null ? "" : `, ${rate(flow.rate)} planned`;
    const pace = flow.pace === null ? "" : `, paced at ${rate(flow.pace)}`;
    const part = flow.share < 1 ? `, ${percent(flow.share)} of the flow` : "";
    list.append(el("li", {}, el("code", {}, flow.id), ` ${flow.src} → ${flow.dst}${planned}${pace}${part}: `, ...pathParts(flow.links, cables, actions)));
  }
  if (flows.length > MOST_FLOWS) list.append(el("li", {}, `and ${flows.length - MOST_FLOWS} more`));
  return [el("h3", {}, `Flows (${flows.length})`), flows.length === 0 ? el("p", { class: "note" }, "None.") : list];
}

function pathParts(links, cables, actions) {
  const between = (links ?? []).map((link) => cables.get(link)).filter((id) => id !== undefined);
  if (between.length === 0) return [links === null || links.length === 0 ? "path not known" : "within its leaf"];
  return between.flatMap((id, k) => (k === 0 ? [chooser(id, actions)] : [" ", chooser(id, actions)]));
}
