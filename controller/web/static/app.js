// The page: what it knows, when it asks for more, and what people do with it.

import { follow, Problem, read, readLinks, token } from "./api.js";
import { showAlerts } from "./alerts.js";
import { showCircuits } from "./circuits.js";
import { askToken, chooseMode, confirmDrain, confirmRollback, problemText, showSurvival } from "./dialogs.js";
import { showDetail } from "./detail.js";
import { byId, mark, say } from "./dom.js";
import { addEvent, EARLIER, showEvents } from "./events.js";
import { clock, DASH, number, plural, words } from "./format.js";
import { showFigure, showScale } from "./figure.js";
import { showLearned } from "./learned.js";
import { lastHeard, showConnection, showHead, showTiles } from "./head.js";
import { cablesOf, MOST_FLOWS, planesOf, podsOf, scenario, traceText } from "./model.js";
import { beginRoute, chosen, go } from "./route.js";
import { showSchedule } from "./schedule.js";
import { beginSettings } from "./settings.js";
import { showHistory, showHosts, showJobs, showLinks, showSwitches, showTenants } from "./tables.js";

const PLANS = 30;
const PERIOD_SECONDS = 5;
const SETTLE_MS = 150; // a change makes several events: one look behind them is enough

const known = {
  who: null, fabric: null, cables: [], links: null, learned: null, jobs: [], times: null, tenants: [], health: null, plans: [], plan: null,
  hashed: null, // {links, plan} under ECMP
  trace: null,
  circuits: null, // of an optical fabric
  newest: 0, // epoch of the newest plan that an event told of: its record may be kept a little later
};

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// -- asking ------------------------------------------------------------------------------------------------------

let loading = null;
let again = false;

/** Look at everything anew; looks do not overlap, and a wish that comes during one is granted behind it. */
function refresh() {
  again = true;
  loading ??= (async () => {
    try {
      while (again) {
        again = false;
        await load().catch(async (problem) => {
          await trouble(problem);
          if (problem.status === 401) again = true; // there is another token now
        });
      }
    } finally {
      loading = null;
    }
  })();
  return loading;
}

/** Ask whose token the page has; an answer for a former token is of no use. */
async function identify() {
  for (;;) {
    const secret = token.get();
    const who = await read("v1/whoami");
    if (secret !== token.get()) continue;
    known.who = who;
    return;
  }
}

async function load() {
  if (known.who === null) await identify();
  const [fabric, links, jobs, health, plans, learned] = await Promise.all(
    [read("v1/fabric"), readLinks(known.links), read("v1/jobs"), read("v1/health"), read(`v1/plans?limit=${PLANS}`), read("v1/learned")],
  );
  Object.assign(known, { fabric, links, learned, jobs: jobs.jobs, times: jobs.times ?? null, tenants: jobs.tenants ?? [], health, plans: plans.plans, cables: cablesOf(fabric) });
  if (health.enforcement === "circuits") {
    known.circuits = await read("v1/circuits");
    answered();
    draw();
    return;
  }
  const few = health.flows <= MOST_FLOWS;
  const epoch = Math.max(known.newest, known.plans[0]?.epoch ?? 0);
  if (!few) known.plan = null;
  else if (known.plan === null || known.plan.computed.epoch !== epoch || known.plan.version !== fabric.version) {
    known.plan = { ...(await read("v1/plan")), version: fabric.version };
    known.trace = null;
    known.hashed = null;
  }
  if (chosen.view === "ecmp") await loadHashed();
  answered();
  draw();
}

/** The same flows as hashing would place them. */
async function loadHashed() {
  if (known.hashed !== null) return;
  const few = known.health.flows <= MOST_FLOWS;
  const [links, plan] = await Promise.all([read("v1/links?under=ecmp"), few ? read("v1/plan?under=ecmp") : null]);
  known.hashed = { links, plan };
}

/** What changes without an event: counters, and the health. */
async function tick() {
  for (;;) {
    await sleep(1000 * Math.max(1, known.links?.period || PERIOD_SECONDS));
    if (document.hidden || known.links === null || loading !== null) continue;
    try {
      if (known.circuits !== null || known.who === null) {
        await refresh();
        continue;
      }
      const [links, jobs, health, plans, learned] = await Promise.all([readLinks(known.links), read("v1/jobs"), read("v1/health"), read(`v1/plans?limit=${PLANS}`), read("v1/learned")]);
      // What is known of cables depends on the connected switches.
      const news = plans.plans[0]?.epoch !== known.plans[0]?.epoch || health.switches.connected !== known.health.switches.connected;
      // A plan that the network brought about is kept a little later than it is told.
      if (news) {
        await refresh();
      } else {
        Object.assign(known, { links, learned, jobs: jobs.jobs, times: jobs.times ?? null, tenants: jobs.tenants ?? [], health, plans: plans.plans });
        answered();
        draw();
      }
    } catch (problem) {
      await trouble(problem);
    }
  }
}

let streaming = false; // the stream of events is open

/** The controller has answered: one request that failed is forgotten, unless the stream of events is gone, too. */
function answered() {
  if (streaming) showConnection("live", "live");
}

async function listen() {
  let after = null;
  let pause = 500;
  for (;;) {
    try {
      await follow(after, EARLIER, {
        opened: () => {
          pause = 500;
          streaming = true;
          answered();
          refresh();
        },
        event: (event) => {
          after = event.id;
          answered();
          if (event.kind === "plan" && event.data.epoch > known.newest) known.newest = event.data.epoch;
          addEvent(event);
          showEvents();
          setTimeout(refresh, SETTLE_MS);
        },
      });
    } catch (problem) {
      streaming = false;
      await trouble(problem);
    }
    await sleep(pause);
    pause = Math.min(2 * pause, 5000);
  }
}

let asking = null;
let declined = false;
const patient = []; // what goes on when there is a token

/** Ask for a token, once; who does not want to give one finds the button. Returns when there is one. */
async function needToken(problem) {
  known.who = null;
  showConnection("lost", "a token is required");
  if (!declined) {
    asking ??= askToken(problem.message).finally(() => (asking = null));
    declined = !(await asking);
  }
  if (declined) await new Promise((resolve) => patient.push(resolve));
}

/** No connection, or no token: say so, ask for one; everything goes on by itself afterwards. */
async function trouble(problem) {
  if (!(problem instanceof Problem)) throw problem;
  if (problem.status === 401) await needToken(problem);
  else if (problem.status === 503) showConnection("waiting", problem.message);
  else if (problem.status === 0) showConnection("lost", "connection lost; trying again");
  else complain(problem);
  draw();
}

// -- showing -----------------------------------------------------------------------------------------------------

function complain(problem) {
  say(byId("failed"), problemText(problem));
  setTimeout(() => say(byId("failed"), ""), 15_000);
}

function report(text) {
  say(byId("said"), text);
  setTimeout(() => say(byId("said"), ""), 8_000);
}

let waiting = false;

/** Draw in the next frame, however often it is asked for until then. */
function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    drawNow();
  });
}

function drawNow() {
  showWho();
  showEvents();
  showChoices();
  if (known.fabric === null) return;
  const { fabric, cables, health, plans } = known;
  if (known.circuits !== null) {
    showHead(health, known.circuits.epoch);
    showAlertsOf(health);
    showCircuits(known.circuits, known.jobs);
    return;
  }
  const hashed = chosen.view === "ecmp" ? known.hashed : null;
  const planned = known.plan?.plan ?? null;
  const shown = shownNow(hashed, planned);
  const drained = new Set(plans[0]?.drained ?? []);
  const states = new Map(fabric.switches.map((one) => [one.name, drained.has(one.name) ? "drained" : one.connected ? "up" : "away"]));
  for (const part of [...podsOf(fabric), ...planesOf(fabric).map((plane) => `plane${plane}`)]) states.set(part, drained.has(part) ? "drained" : "up");
  showHead(health, known.plan?.computed.epoch ?? plans[0]?.epoch);
  showTiles(shown, hashed === null ? (planned ?? plans[0]) : hashed.plan?.plan, plans[0], cables, known.jobs);
  showFigure(fabric, cables, shown, states, choose);
  say(byId("source"), sourceText(shown));
  const note = showLinks(cables, shown, chosen.words, chosen.selected, choose);
  say(byId("links-note"), known.trace !== null && shown.view === "now" ? `${note} Flows as traced at ${clock(known.trace.at)}.` : note);
  say(byId("jobs-note"), jobsText(health, hashed));
  showTenants(known.tenants);
  showJobs(known.jobs, hashed === null ? planned : shown.plan, hashed === null ? null : planned, chosen.view === "now", chosen.selected, choose);
  showSchedule(hashed === null ? planned : null);
  showLearned(known.learned);
  showSwitches(fabric, cables, states, chosen.selected, choose);
  say(byId("hosts-note"), showHosts(fabric.hosts, shown.loads, chosen.hosts, chosen.selected, choose));
  showHistory(plans, rollBack, allowed);
  showAlertsOf(health);
  showDetail(chosen.selected, { fabric, cables, jobs: known.jobs, shown, states, trace: known.trace, agents: health.agents !== null }, { change, choose, allowed, only: (plane) => {
    go({ plane });
    draw();
  }, onlyPlane: chosen.plane, redraw: draw, drainedIds: drained });
}

function showAlertsOf(health) {
  const past = lastHeard();
  showAlerts(past === null ? health.reasons : [`The controller does not answer, ${past}; what the page shows is from then.`, ...health.reasons], health.degraded_service);
}

function shownNow(hashed, planned) {
  if (hashed !== null) return scenario("ecmp", hashed.links, hashed.plan?.plan ?? null);
  if (chosen.view !== "now") return scenario("plan", known.links, planned);
  // Switches that follow another plan, or none, have other flows on their links than this one.
  return scenario("now", known.links, known.health.mode === "planned" ? planned : null, known.trace);
}

function showWho() {
  const { who } = known;
  say(byId("who"), who === null ? "Token…" : who.secured ? `${who.name} (${who.role})` : "no token required");
  mark(byId("who"), "disabled", who !== null && !who.secured);
  allowed(byId("change-mode"), known.health === null ? "the state of the controller is not known yet" : null);
}

/** Leave a button to whoever may write; `reason`: why even they cannot use it now. */
function allowed(button, reason) {
  const may = known.who?.role === "write";
  const why = may ? reason : known.who === null ? "your role is not known yet" : `the role of token ${known.who.name} is read`;
  mark(button, "disabled", why !== null);
  mark(button, "title", why);
}

/** The controls as the URL says. */
function showChoices() {
  for (const input of document.querySelectorAll('input[name="view"]')) input.checked = input.value === chosen.view;
}

function sourceText(shown) {
  if (chosen.view === "ecmp") return shown.view === "ecmp" ? "Loads of the same flows if switches hashed them (policy ecmp, seed 0)." : "Computing the loads under hashing…";
  if (shown.view === "plan") return `Loads of plan ${known.plan?.computed.epoch ?? DASH} at its speeds.`;
  const all = shown.loads.size;
  const when = known.links.measured ? `, ${clock(known.links.measured)}` : "";
  const rest = known.health.mode === "planned" ? "planned loads" : `planned loads (not enforced in mode ${known.health.mode})`;
  if (shown.measured === 0) return `No counters yet: ${rest} are shown.`;
  return shown.measured === all ? `Measured on all ${all} links${when}.` : `Measured on ${shown.measured} of ${all} links${when}; ${rest} on the others.`;
}

function jobsText(health, hashed) {
  const speed = "Speed of the slowest collective: its time alone divided by its time";
  if (hashed !== null) return `${speed}, if switches hashed.`;
  const { times } = known;
  const expected = times === null ? "" : ` Expected iterations as planned: ${number(times.slowdown)} times as long as alone, at least ${number(times.bound)}.`;
  if (chosen.view === "plan") return `${speed}, as planned.${expected}`;
  return `${speed}, by the rules that switches hold; ${DASH}: not known.${health.mode === "planned" ? expected : ` The mode is ${health.mode}.`}`;
}

// -- doing -------------------------------------------------------------------------------------------------------

function choose(id) {
  go({ selected: chosen.selected === id ? null : id });
  draw();
}

/** The fields as the URL says; not with each drawing, because somebody may be typing. */
function showWords() {
  byId("find").value = chosen.words;
  byId("find-hosts").value = chosen.hosts;
}

/** Follow what the URL says now. */
function chosenAnew() {
  showWords();
  draw();
  if (chosen.view === "ecmp") refresh();
}

async function change(id, drained) {
  const done = await confirmDrain(id, drained);
  if (done === null) return;
  const used = done.links.flatMap((one) => one.still_used);
  const kept = used.length > 0 ? `; still used: ${[...new Set(used)].join(", ")}` : "";
  report(`${done.links.map((one) => one.id).join(", ")} ${drained ? "drained" : "undrained"}, plan ${done.epoch}${kept}`);
  await refresh();
}

async function rollBack(plan) {
  const done = await confirmRollback(plan, known.plans[0]);
  if (done === null) return;
  report(`rolled back: plan ${done.epoch} uses the paths of plan ${plan.epoch}, ${plural(done.moved, "flow")} moved`);
  await refresh();
}

async function changeMode() {
  const done = await chooseMode(known.health);
  if (done === null) return;
  report(`mode ${done.mode}, enforced by ${words(done.enforcement)}`);
  await refresh();
}

async function trace() {
  mark(byId("trace"), "aria-busy", "true");
  try {
    known.trace = await read("v1/trace");
    report(traceText(known.trace));
  } catch (problem) {
    if (problem instanceof Problem && problem.status === 401) await trouble(problem);
    else complain(problem);
  } finally {
    mark(byId("trace"), "aria-busy", null);
  }
  draw();
}

function begin() {
  beginSettings(draw);
  beginRoute(chosenAnew);
  showWords();
  showScale();
  showWho();
  for (const input of document.querySelectorAll('input[name="view"]')) {
    input.addEventListener("change", () => {
      go({ view: input.value });
      chosenAnew();
    });
  }
  for (const input of document.querySelectorAll('input[name="shape"]')) {
    input.addEventListener("change", () => {
      go({ shape: input.value });
      draw();
    });
  }
  byId("find").addEventListener("input", (event) => {
    go({ words: event.target.value }, false);
    draw();
  });
  byId("find-hosts").addEventListener("input", (event) => {
    go({ hosts: event.target.value }, false);
    draw();
  });
  byId("fold").addEventListener("change", (event) => {
    go({ fold: event.target.checked });
    draw();
  });
  byId("plane").addEventListener("change", (event) => {
    go({ plane: event.target.value === "" ? null : Number(event.target.value) });
    draw();
  });
  byId("trace").addEventListener("click", trace);
  byId("survive").addEventListener("click", showSurvival);
  byId("change-mode").addEventListener("click", changeMode);
  byId("who").addEventListener("click", async () => {
    if (!(await askToken(token.get() ? "Enter another token, or leave it empty." : "The controller requires a token."))) return;
    declined = false;
    for (const go of patient.splice(0)) go();
    known.who = null;
    await refresh();
  });
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  listen();
  tick();
}

begin();
