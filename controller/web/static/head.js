// The top of the page: health, mode, plan, switches and the connection; and the same in the window's title and icon.

import { byId, mark, say } from "./dom.js";
import { clock, DASH, number, percent, plural, words } from "./format.js";
import { boundOf, condition, inForce } from "./model.js";

const SIGNS = { ok: "✓", starting: "…", degraded: "!" };
const ICONS = { good: "web/icon.svg", warn: "web/icon-warn.svg", bad: "web/icon-bad.svg" };
let state = "connecting";
let health = null;
let heard = null; // when the controller answered last

export function showConnection(now, text) {
  state = now;
  mark(byId("connection"), "data-state", now);
  say(byId("connection"), text);
  mark(byId("connection"), "title", text);
  mark(document.body, "data-stale", now === "lost");
  if (now === "live") heard = new Date();
  showPill();
  showTitle();
}

/** When the controller was heard last, if it is not heard now; else null. */
export const lastHeard = () => (state === "lost" ? `last heard ${heard === null ? "never" : clock(heard)}` : null);

/** The health; while the controller is not heard, it is not known. */
function showPill() {
  const past = lastHeard();
  if (past === null && health === null) return;
  const slow = health !== null && health.degraded_service.length > 0;
  const status = past === null ? health.status : "unknown";
  mark(byId("health"), "data-status", status);
  say(byId("health").firstElementChild, SIGNS[status] ?? "?");
  say(byId("health-text"), past ?? (slow && status === "ok" ? "ok, degraded service" : status));
  mark(byId("health"), "data-service", past === null && slow ? "degraded" : null);
  mark(byId("health"), "title", past ?? ([...health.reasons, ...health.degraded_service].join("\n") || null));
}

/** The state for who has the page in the background. */
function showTitle() {
  const [icon, text] = titleOf();
  if (document.title !== text) document.title = text;
  mark(byId("icon"), "href", ICONS[icon]);
}

function titleOf() {
  if (state === "lost") return ["bad", "✕ no connection · fairspine"];
  if (health === null) return ["good", "fairspine"];
  if (health.status !== "ok") return ["bad", `${SIGNS[health.status] ?? "?"} ${health.status}, ${plural(health.reasons.length, "fault")} · fairspine`];
  return health.degraded_service.length > 0 ? ["warn", "! degraded service · fairspine"] : ["good", "✓ ok · fairspine"];
}

export function showHead(now, epoch) {
  health = now;
  showPill();
  say(byId("mode"), health.mode);
  mark(byId("mode"), "data-unusual", health.mode !== "planned");
  say(byId("enforcement"), words(health.enforcement));
  say(byId("epoch"), epoch ?? DASH);
  say(byId("switches"), health.switches.expected === null ? health.switches.connected : `${health.switches.connected} of ${health.switches.expected}`);
  showCluster(health.cluster ?? null);
  showTitle();
}

/** Which replica leads; nothing for a controller in no cluster. */
function showCluster(cluster) {
  mark(byId("cluster"), "hidden", cluster === null);
  if (cluster === null) return;
  const live = cluster.replicas.filter((one) => one.live).length;
  const leader = cluster.leader === null ? "none" : cluster.leader.replace(/^https?:\/\//, "");
  say(byId("leader"), `${leader}, term ${cluster.term}, ${live} of ${plural(cluster.replicas.length, "replica")}`);
  mark(byId("cluster"), "title", cluster.replicas.map((one) => `${one.url} ${one.leads ? "leads" : one.live ? "follows" : "is missing"}`).join("\n") || null);
}

/** What planned values do not count, for people; null: they count all flows. */
export function leftOut(plan) {
  const count = Array.isArray(plan?.unroutable) ? plan.unroutable.length : (plan?.unroutable ?? 0);
  return count > 0 ? `leaves out ${plural(count, "flow")} without a path` : null;
}

/** @param plan whose values are shown; @param newest record of the newest plan */
export function showTiles(shown, plan, newest, cables, jobs) {
  const states = cables.map((cable) => condition(cable, shown.loads));
  const contended = shown.plan === null ? null : [...shown.loads.values()].filter((load) => load.contended && load.up).length;
  const names = { now: "Slowest job now", plan: "Slowest, as planned", ecmp: "Slowest under ECMP" };
  const slowest = health.slowest_job;
  const worth = shown.view === "now" ? { speed: slowest.speed, gap: inForce(jobs, plan).gap } : { speed: plan?.min_speed, gap: plan?.gap };
  const none = leftOut(plan);
  const about = shown.view === "now" ? (slowest.job ?? slowest.unknown ?? "no job uses the network") : none;
  say(byId("speed-name"), names[shown.view]);
  say(byId("tile-speed"), number(worth.speed));
  mark(byId("tile-speed"), "title", about);
  mark(byId("tile-speed"), "data-worse", worth.speed === 0);
  say(byId("bound-name"), none === null ? "Best possible" : "Best of routable");
  say(byId("gap-name"), none === null ? "Gap" : "Gap of routable");
  mark(byId("tile-bound"), "title", none);
  mark(byId("tile-gap"), "title", none);
  say(byId("tile-bound"), plan === undefined ? DASH : number(boundOf(plan)));
  say(byId("tile-gap"), percent(worth.gap));
  say(byId("tile-contended"), contended ?? DASH);
  mark(byId("tile-contended"), "data-worse", contended > 0);
  say(byId("tile-failed"), states.filter((one) => one === "failed").length);
  mark(byId("tile-failed"), "data-worse", states.includes("failed"));
  say(byId("tile-drained"), cables.filter((cable) => cable.drained).length);
  say(byId("tile-flows"), health.flows);
  say(byId("tile-moved"), newest?.moved ?? DASH);
}
