// What the NIC of a selected host counts, by the report of its agent: pause frames by class, drops, ECN marks, CNPs.

import { read } from "./api.js";
import { el } from "./dom.js";
import { DASH } from "./format.js";
import { facts } from "./parts.js";

const FRESH_MS = 10_000; // agents report every 10 s
let agents = null; // of all hosts: {rows, asked, problem}

/** The element with the counters of a host. */
export function nicOf(host, redraw) {
  agents ??= { rows: null, asked: -FRESH_MS, problem: "" };
  if (performance.now() - agents.asked >= FRESH_MS) load(agents, redraw);
  const counters = agents.rows?.find((row) => row.host === host)?.counters ?? null;
  const note = agents.problem !== "" ? `Not known: ${agents.problem}` : agents.rows === null ? "Asked for." : "The agent of this host has not reported them.";
  return el("div", {}, el("h3", {}, "NIC, since its driver began"), counters === null ? el("p", { class: "note" }, note) : facts(rowsOf(counters)));
}

async function load(wanted, redraw) {
  wanted.asked = performance.now();
  try {
    wanted.rows = (await read("v1/hosts")).hosts;
    wanted.problem = "";
  } catch (problem) {
    wanted.problem = problem.message;
  }
  redraw();
}

function rowsOf(counters) {
  return [
    ["Paused", byClass(counters.pause_received, counters.link_pause_received, "all classes")],
    ["Pauses others", byClass(counters.pause_sent, counters.link_pause_sent, "all classes")],
    ["Dropped on receipt", byClass(counters.dropped, counters.received_dropped, "in all")],
    ["Dropped on sending", count(counters.sent_dropped)],
    ["ECN marks received", count(counters.ecn_marked)],
    ["CNPs", `${count(counters.cnp_received)} received, ${count(counters.cnp_sent)} sent`],
  ];
}

/** Counters of classes that are not 0, and that of the port; a dash is not known. */
function byClass(classes, port, name) {
  const known = (classes ?? []).map((value, number) => [number, value]).filter(([, value]) => value !== null);
  const some = known.filter(([, value]) => value > 0).map(([number, value]) => `class ${number}: ${count(value)}`);
  const none = known.length > 0 ? "0 in each class" : `by class ${DASH}`;
  return `${some.length > 0 ? some.join(", ") : none}; ${name} ${count(port)}`;
}

function count(value) {
  return value === null ? DASH : value.toLocaleString("en");
}
