// The tables: busiest links, jobs, switches and plan history. Each keeps its rows from look to look.

import { byId, el, mark, row, say, sync } from "./dom.js";
import { DASH, moment, number, percent, plural, rate, seconds, size } from "./format.js";
import { busiest, compareNames, compareRoles, degree, gapOf, jobSpeeds, level, who } from "./model.js";

const MOST_LINKS = 60;
const MOST_HOSTS = 60;
const STATES = { failed: "✕ failed", unknown: "? unknown", drained: "⊘ drained", fine: "" };

/** A button that looks like a name and selects it. */
function chooser(choose) {
  return el("button", { type: "button", class: "name", onclick: (event) => choose(event.currentTarget.dataset.id) });
}

function showChooser(button, text, id, selected) {
  say(button, text);
  mark(button, "data-id", id);
  mark(button, "aria-pressed", selected === id ? "true" : "false");
}

const order = new Map(); // by view: the loads by which its links are in order

export function showLinks(cables, shown, words, selected, choose) {
  if (!order.has(shown.view)) order.set(shown.view, new Map());
  const rows = busiest(cables, shown.loads, words, order.get(shown.view));
  sync(byId("links"), rows.slice(0, MOST_LINKS), (item) => item.id, () => {
    const made = row(6, [2, 4]);
    made.cells[0].append(chooser(choose), el("span", { class: "badge" }));
    made.cells[1].append(el("span", { class: "meter", "aria-hidden": "true" }, el("span")), el("span", { class: "value" }));
    return made;
  }, (made, item) => {
    const [button, badge] = made.cells[0].children;
    showChooser(button, item.id, item.cable.id, selected);
    say(badge, item.state === "contended" ? `▲${item.sharing} collision` : STATES[item.state]);
    mark(badge, "data-state", item.state);
    mark(badge, "data-degree", degree(item));
    const [meter, value] = made.cells[1].children;
    mark(meter, "data-level", item.state === "contended" ? "contended" : level(item.utilisation));
    meter.firstElementChild.style.setProperty("width", `${Math.min(100, Math.max(0, item.utilisation * 100))}%`);
    say(value, item.state === "failed" ? DASH : percent(item.utilisation));
    say(made.cells[2], item.state === "failed" ? DASH : rate(item.gbps));
    mark(made.cells[2], "title", item.wanted > 0 ? `of ${rate(item.capacity)}; its flows need ${rate(item.wanted)}` : `of ${rate(item.capacity)}`);
    say(made.cells[3], item.source);
    say(made.cells[4], item.flows.length);
    say(made.cells[5], who(item.flows) || DASH);
    mark(made.cells[5], "title", who(item.flows));
  });
  const lost = [...shown.loads.values()].reduce((sum, load) => sum + (load.dropped ?? 0), 0);
  const cut = rows.length > MOST_LINKS ? `The ${MOST_LINKS} busiest of ${rows.length}; find others by name.` : plural(rows.length, "link");
  return `${cut}${lost > 0 ? ` Packets dropped at ports since they started: ${lost}.` : ""}`;
}

/**
 * @param plan whose speeds they have; @param planned where that is ECMP's: the plan to compare with; else null
 * @param now whether the speeds by the rules that switches hold are shown, in place of the plan's
 */
export function showJobs(jobs, plan, planned, now, selected, choose) {
  const weights = new Map(jobs.map((job) => [job.name, job.planned_weight ?? job.weight]));
  const speeds = plan === null ? new Map() : jobSpeeds(plan, weights);
  const before = planned === null ? new Map() : jobSpeeds(planned, weights);
  const hashed = planned !== null;
  sync(byId("jobs"), jobs, (job) => job.name, () => {
    const made = row(9, [1, 2, 3, 4, 5, 6, 7]);
    made.cells[0].append(chooser(choose));
    return made;
  }, (made, job) => {
    const own = speeds.get(job.name);
    const speed = now ? job.speed : (own?.speed ?? (hashed ? null : job.min_speed));
    const slower = hashed && (own?.speed ?? 1) < (before.get(job.name)?.speed ?? 0) - 0.0005;
    showChooser(made.cells[0].firstElementChild, job.name, `job:${job.name}`, selected);
    mark(made.cells[0], "title", `${job.name}${job.tenant ? ` of ${job.tenant}` : ""}, pushed by ${job.by}`);
    say(made.cells[1], number(speed));
    mark(made.cells[1], "data-worse", slower);
    mark(made.cells[1], "title", hashed ? `planned: ${number(before.get(job.name)?.speed)}` : now ? `planned: ${number(job.min_speed)}` : null);
    say(made.cells[2], number(own?.bound));
    say(made.cells[3], percent(now ? gapOf(own?.bound ?? null, speed) : own?.gap));
    // Expected iterations are those of the plan: nothing is known of them under ECMP, or where it is not in force.
    const expected = hashed || (now && !(job.active && job.speed !== null)) ? null : job.times;
    say(made.cells[4], number(expected?.slowdown));
    mark(made.cells[4], "title", expected ? `an iteration takes ${seconds(expected.iteration_seconds)}, alone ${seconds(expected.alone_seconds)}` : null);
    say(made.cells[5], percent(expected?.duty));
    mark(made.cells[5], "title", expected ? `it computes for ${seconds(expected.compute_seconds)} of an iteration` : null);
    say(made.cells[6], job.flows);
    say(made.cells[7], size(job.bytes));
    say(made.cells[8], job.left_out ? (job.flows === 0 && job.collectives > 0 ? "no flows" : "left out") : job.active ? "active" : "not active");
    mark(made.cells[8], "title", job.left_out);
    mark(made.cells[8], "data-state", job.active ? "fine" : "waiting");
  });
}

/** What the jobs of each tenant get by the plan, in words; nothing on a fabric without tenants. */
export function showTenants(tenants) {
  const one = (row) => `${row.name} (weight ${row.weight}): ${plural(row.jobs, "job")}, ${plural(row.flows, "flow")}, planned speed ${number(row.min_speed)}${row.slowdown === null ? "" : `, slowdown ${number(row.slowdown)}`}`;
  byId("tenants-note").hidden = tenants.length === 0;
  say(byId("tenants-note"), tenants.length === 0 ? "" : `Tenants: ${tenants.map(one).join("; ")}.`);
}

export function showSwitches(fabric, cables, states, selected, choose) {
  const rows = [...fabric.switches].sort((a, b) => compareRoles(a.role, b.role) || compareNames(a.name, b.name));
  const count = new Map();
  for (const cable of cables) {
    for (const end of [cable.lower, cable.upper]) {
      const [up, all] = count.get(end) ?? [0, 0];
      count.set(end, [up + (cable.up ? 1 : 0), all + 1]);
    }
  }
  sync(byId("switch-rows"), rows, (one) => one.name, () => {
    const made = row(4, [3]);
    made.cells[0].append(chooser(choose));
    return made;
  }, (made, one) => {
    const state = states.get(one.name);
    showChooser(made.cells[0].firstElementChild, one.name, one.name, selected);
    say(made.cells[1], one.plane === null ? one.role : `${one.role}, plane ${one.plane}`);
    mark(made.cells[1], "title", made.cells[1].textContent);
    say(made.cells[2], state === "away" ? "✕ not connected" : state === "drained" ? "⊘ drained" : "connected");
    mark(made.cells[2], "data-state", state);
    const [up, all] = count.get(one.name) ?? [0, 0];
    say(made.cells[3], `${up} of ${all}`);
  });
}

/** Hosts whose name, leaf, server or address has all the words in it. Returns what is to be said below. */
export function showHosts(hosts, loads, words, selected, choose) {
  const wanted = words.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const matching = hosts.filter((host) => {
    const text = `${host.name} ${host.nic ?? ""} ${host.leaf} ${host.server} ${host.ip}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
  // The name that is typed comes before those that begin with it.
  const exact = (host) => (wanted.includes(host.name.toLowerCase()) ? 0 : 1);
  matching.sort((a, b) => exact(a) - exact(b) || compareNames(a.nic ?? a.name, b.nic ?? b.name) || compareNames(a.name, b.name));
  sync(byId("hosts"), matching.slice(0, MOST_HOSTS), (host) => host.name, () => {
    const made = row(5, [3, 4]);
    made.cells[0].append(chooser(choose));
    return made;
  }, (made, host) => {
    showChooser(made.cells[0].firstElementChild, host.name, `host:${host.name}`, selected);
    say(made.cells[1], host.leaf);
    say(made.cells[2], host.server);
    say(made.cells[3], rate(loads.get(`${host.name}->${host.leaf}`)?.gbps));
    say(made.cells[4], rate(loads.get(`${host.leaf}->${host.name}`)?.gbps));
  });
  return matching.length > MOST_HOSTS ? `${MOST_HOSTS} of ${matching.length} hosts; find others by name, leaf, server or address.` : plural(matching.length, "host");
}

export function showHistory(plans, rollBack, allowed) {
  sync(byId("history"), plans, (plan) => plan.epoch, (plan) => {
    const made = row(7, [0, 4, 5]);
    made.cells[6].append(el("button", { type: "button", class: "small action", onclick: () => rollBack(plan) }, "Roll back"));
    mark(made.cells[6].firstElementChild, "aria-label", `Roll back to plan ${plan.epoch}`);
    return made;
  }, (made, plan) => {
    say(made.cells[0], plan.epoch);
    say(made.cells[1], moment(plan.at));
    mark(made.cells[1], "title", plan.at);
    say(made.cells[2], plan.cause);
    mark(made.cells[2], "title", plan.cause);
    say(made.cells[3], plan.by ?? "the network");
    say(made.cells[4], number(plan.slowest));
    mark(made.cells[4], "title", `planned: ${number(plan.min_speed)}${plan.unroutable > 0 ? `, with ${plan.unroutable} of ${plan.flows} flows without a path` : ""}`);
    say(made.cells[5], plan.moved);
    allowed(made.cells[6].firstElementChild, plan.epoch === plans[0].epoch ? "this is the newest plan" : null);
  });
}
