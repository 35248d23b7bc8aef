// The page of an optical fabric: its circuits, panels, shards and servers, in place of links and paths.

import { byId, mark, row, say, sync } from "./dom.js";
import { DASH, number, plural, size } from "./format.js";

const MOST_CIRCUITS = 400;
const STATES = { lit: "lit", failed: "✕ failed", dark: "dark" };
const WORST_FIRST = { failed: 0, dark: 1, lit: 2 };

export function showCircuits(circuits, jobs) {
  mark(document.body, "data-circuits", true);
  mark(byId("circuits"), "hidden", false);
  const stage = circuits.stage === null ? "no change is under way" : `stage ${circuits.stage.number} of ${circuits.stage.of}: ${circuits.stage.doing}`;
  const failed = circuits.circuits.filter((one) => one.state === "failed").length;
  say(byId("circuits-note"), `${plural(circuits.circuits.length, "circuit")}, ${failed} failed; ${stage}.`);
  const speeds = new Map(jobs.map((job) => [job.name, job]));
  sync(byId("shard-rows"), circuits.shards, (shard) => shard.jobs.join(), () => row(6, [1, 2, 3, 4, 5]), (made, shard) => {
    const texts = [shard.jobs.join(", "), shard.servers.length, number(speeds.get(shard.jobs[0])?.speed ?? null), number(shard.over_ideal), number(shard.over_bound), number(shard.tax)];
    texts.forEach((text, k) => say(made.cells[k], text));
  });
  const rows = [...circuits.circuits].sort((a, b) => WORST_FIRST[a.state] - WORST_FIRST[b.state]);
  sync(byId("circuit-rows"), rows.slice(0, MOST_CIRCUITS), (one) => `${one.switch} ${one.in_port} ${one.out_port}`, () => row(5, [3]), (made, one) => {
    const texts = [`${one.switch} ${one.in_port} → ${one.out_port}`, `${one.from} NIC ${one.from_nic}`, `${one.to} NIC ${one.to_nic}`, size(one.bytes), STATES[one.state]];
    texts.forEach((text, k) => say(made.cells[k], text));
    mark(made.cells[4], "title", one.reason);
  });
  sync(byId("panel-rows"), circuits.panels, (one) => one.name, () => row(3, [1]), (made, one) => {
    const state = one.error ?? (one.connected ? (one.confirmed ? "confirmed" : "not confirmed yet") : "✕ not connected");
    [one.name, one.circuits, state].forEach((text, k) => say(made.cells[k], text));
  });
  sync(byId("server-rows"), circuits.servers, (one) => one.server, () => row(3, [1]), (made, one) => {
    const state = one.heard_seconds === null ? (one.needed ? "✕ no agent" : DASH) : one.confirmed ? "confirmed" : "not confirmed yet";
    [one.server, one.heard_seconds === null ? DASH : number(one.heard_seconds), state].forEach((text, k) => say(made.cells[k], text));
  });
}
