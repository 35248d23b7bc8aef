// From the controller's documents to what is shown: pure functions, no page.

export const MOST_FLOWS = 20_000; // a plan with more is not fetched just to name who is on a link
const FULL = 1.005;
const HELD_UP = 0.995;
const LEVELS = [0.001, 0.25, 0.5, 0.75, 0.95];

/** 0 (idle) to 5 (full): how an utilisation is coloured and how thick it is. null: -1. */
export function level(utilisation) {
  if (utilisation === null) return -1;
  const above = LEVELS.findIndex((bound) => utilisation < bound);
  return above < 0 ? LEVELS.length : above;
}

const LAYERS = ["core", "spine", "aggregation", "leaf"];

/** Order of roles, from the top down. */
export const compareRoles = (a, b) => LAYERS.indexOf(a) - LAYERS.indexOf(b);

/** The switches of each layer, from the top down. */
export function layersOf(fabric) {
  return LAYERS.map((role) => fabric.switches.filter((one) => one.role === role)).filter((layer) => layer.length > 0);
}

/** The names of the pods, in the order of the fabric; none where there are no aggregation switches. */
export const podsOf = (fabric) => [...new Set(fabric.switches.map((one) => one.pod).filter((pod) => pod !== null))];

/** The numbers of the planes, where NICs have a port in each of several; none where they have one port. */
export const planesOf = (fabric) => [...new Set(fabric.switches.map((one) => one.plane).filter((plane) => plane !== null))].sort((a, b) => a - b);

/** The planes that have leaves of their own, so that each can be shown alone, with what it shares with others above. */
export const planesOfLeaves = (fabric) => (fabric.switches.every((one) => one.role !== "leaf" || one.plane !== null) ? planesOf(fabric) : []);

/** The planes that have switches of their own in all layers, with none in common: these can be shown side by side. */
export const separatePlanes = (fabric) => (fabric.switches.every((one) => one.plane !== null) ? planesOf(fabric) : []);

/** The number of a plane by its name, if a fabric has it; null: it has not. */
export const planeNamed = (fabric, name) => planesOf(fabric).find((plane) => `plane${plane}` === name) ?? null;

/** The number of the plane that is selected, or of that of the switch, pod, cable or port that is; null: none. */
export function planeOf(fabric, cables, selected) {
  if (selected === null) return null;
  const port = fabric.hosts.find((one) => `host:${one.name}` === selected);
  const name = cables.find((one) => one.id === selected)?.lower ?? port?.leaf ?? selected;
  return planeNamed(fabric, name) ?? fabric.switches.find((one) => one.name === name || (one.pod !== null && one.pod === name))?.plane ?? null;
}

/** The switches and hosts of one plane, with those that it shares with others, and their cables; all for null. */
export function onlyPlane(fabric, cables, plane) {
  if (plane === null) return { fabric, cables };
  const names = new Set(fabric.switches.filter((one) => one.plane === plane).map((one) => one.name));
  for (const role of ["leaf", "aggregation"]) {
    const lower = new Set(fabric.switches.filter((one) => one.role === role && names.has(one.name)).map((one) => one.name));
    for (const cable of cables) if (lower.has(cable.lower)) names.add(cable.upper);
  }
  const switches = fabric.switches.filter((one) => names.has(one.name));
  return { fabric: { ...fabric, switches, hosts: fabric.hosts.filter((one) => names.has(one.leaf)) }, cables: cables.filter((one) => names.has(one.lower)) };
}

/** The pod that is selected, or that of the switch or cable that is; null: none. */
export function podOf(fabric, cables, selected) {
  if (selected === null) return null;
  const name = cables.find((one) => one.id === selected)?.lower ?? selected;
  return fabric.switches.find((one) => one.name === name || (one.pod !== null && one.pod === name))?.pod ?? null;
}

/** The fabric's cables, each with the ids of its two directed links. */
export function cablesOf(fabric) {
  const place = new Map(fabric.switches.map((one) => [one.name, one]));
  return fabric.links.map((cable) => {
    const copy = cable.id.slice(cable.a.length + cable.b.length + 1); // ":2" of a parallel cable
    return { ...cable, plane: place.get(cable.a)?.plane ?? null, pod: place.get(cable.a)?.pod ?? null, lower: cable.a, upper: cable.b, uplink: `${cable.a}->${cable.b}${copy}`, downlink: `${cable.b}->${cable.a}${copy}` };
  });
}

/**
 * link id -> [{id, job, collective, src, dst, share, speed, wants, period, duty}] of a plan's flows; `wants`: Gbit/s on
 * that link, for its collective to be as fast as it would be alone; `duty`: the part of each period in which it is sent.
 */
export function flowsByLink(plan) {
  const rows = new Map(plan.collectives.map((row) => [`${row.job}/${row.name}`, row]));
  const byLink = new Map();
  for (const flow of plan.flows) {
    const { speed = null, ideal_seconds: seconds = null, period_seconds: period = null, duty = null } = rows.get(`${flow.job}/${flow.collective}`) ?? {};
    for (const path of flow.paths) {
      const wants = seconds > 0 ? (flow.bytes * 8e-9 * path.share) / seconds : 0;
      for (const link of path.links) add(byLink, link, { ...flow, share: path.share, speed, wants, period, duty });
    }
  }
  return byLink;
}

/** The same from a trace: the links that flows really take. Without speeds: the switches do not tell them. */
export function tracedByLink(trace) {
  const byLink = new Map();
  for (const flow of trace.flows) {
    for (const link of flow.real ?? []) add(byLink, link, { ...flow, speed: null });
  }
  return byLink;
}

/**
 * The flows that `keep` takes, a row for each path: {id, src, dst, share, rate, pace, links}; `rate` in Gbit/s as planned,
 * null where no plan says it; `pace` in Gbit/s that the host is asked to keep, null for none; `links` null where the path is not known. null: neither a plan nor a trace is there.
 */
export function placedFlows(shown, trace, keep) {
  if (shown.view === "now" && trace !== null) {
    return trace.flows.filter(keep).map((flow) => ({ ...flow, share: 1, rate: null, pace: null, links: flow.real ?? null }));
  }
  if (shown.plan === null) return null;
  const rows = new Map(shown.plan.collectives.map((row) => [`${row.job}/${row.name}`, row]));
  return shown.plan.flows.filter(keep).flatMap((flow) => flow.paths.map((path) => {
    const { speed = null, ideal_seconds: seconds = null } = rows.get(`${flow.job}/${flow.collective}`) ?? {};
    const rate = seconds > 0 && speed !== null ? (flow.bytes * 8e-9 * path.share * speed) / seconds : null;
    return { ...flow, share: path.share, rate, pace: path.pace_gbps ?? null, links: path.links };
  }));
}

function add(byLink, link, flow) {
  const there = byLink.get(link);
  if (there === undefined) byLink.set(link, [flow]);
  else there.push(flow);
}

/**
 * What is to be shown of each directed link. A collision is where flows want more than there is, and are slower than
 * they would be alone. (All collectives count together here, so one of a job's other phases may count that does not run
 * at the time.)
 * @param view "now" (measured where that is known), "plan" or "ecmp"
 * @param plan the plan document whose loads these are, if it is there; null, too, where switches do not follow it
 * @param trace to say who is on a link now, in place of the plan
 * @returns {{view, loads: Map, measured: number, flows: Map, plan}} loads by link id: {id, capacity, gbps, utilisation,
 *   source, up, drained, dropped, errors, background, flows, wanted, sharing, contended}; `sharing`: how many flows the plan places there
 */
export function scenario(view, links, plan, trace = null) {
  const planned = plan === null ? new Map() : flowsByLink(plan);
  const shown = view === "now" && trace !== null ? tracedByLink(trace) : planned;
  const loads = new Map();
  let measured = 0;
  for (const link of links.links) {
    const known = view === "now" && link.utilisation !== null && link.utilisation !== undefined;
    measured += known ? 1 : 0;
    const load = link.load_gbps / link.gbps;
    const wishes = planned.get(link.id) ?? [];
    const wanted = wishes.reduce((sum, flow) => sum + flow.wants, 0);
    loads.set(link.id, {
      id: link.id,
      capacity: link.gbps,
      gbps: known ? link.rate_gbps : link.load_gbps,
      utilisation: known ? link.utilisation : load,
      source: known ? "measured" : view === "ecmp" ? "ECMP" : "planned",
      up: link.up,
      drained: link.drained,
      dropped: link.dropped ?? null,
      errors: link.errors ?? null,
      background: link.background_gbps ?? null,
      flows: shown.get(link.id) ?? [],
      wanted,
      sharing: wishes.length,
      contended: wanted > FULL * link.gbps && wishes.some((flow) => flow.speed < HELD_UP),
    });
  }
  return { view, loads, measured, plan };
}

/** How a cable is as a whole: "failed", "contended", "drained", "unknown" or "fine". */
export function condition(cable, loads) {
  if (!cable.up) return "failed";
  // Collisions are of the plan in view, and are named whatever is known of the cable now.
  const ends = [loads.get(cable.uplink), loads.get(cable.downlink)];
  if (!cable.drained && ends.some((load) => load?.contended)) return "contended";
  // So is a drain: it was asked for, and a drained cable carries nothing.
  if (cable.drained) return "drained";
  return cable.known === false ? "unknown" : "fine";
}

/** The degree of a collision, for its colour: 2, 3, or 4 for four flows and more. null: there is none. */
export const degree = (load) => (load?.contended ? Math.min(4, Math.max(2, load.sharing)) : null);

const NEWS = 0.1;

/**
 * Directed links between switches, busiest first; those with a collision before others as busy.
 * @param kept Map of the loads by which links were put in order before, which is changed: a link changes its place only
 *   for a load that is otherwise by a tenth of its capacity, so that rows do not jump with every reading
 */
export function busiest(cables, loads, words, kept) {
  const wanted = words.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const rows = [];
  for (const cable of cables) {
    const state = condition(cable, loads);
    for (const [id, direction] of [[cable.uplink, "up"], [cable.downlink, "down"]]) {
      const load = loads.get(id);
      if (load === undefined) continue;
      const own = state === "contended" && !load.contended ? "fine" : state;
      const ends = wanted.length === 0 ? "" : load.flows.map((flow) => `${flow.job} ${flow.src} ${flow.dst}`).join(" ");
      const plane = cable.plane === null ? "" : `plane${cable.plane}`;
      const text = `${id} ${cable.id} ${plane} ${own === "contended" ? "collision" : own} ${ends}`.toLowerCase();
      if (!(Math.abs(load.utilisation - kept.get(id)) <= NEWS)) kept.set(id, load.utilisation);
      if (wanted.every((word) => text.includes(word))) rows.push({ cable, direction, state: own, ...load });
    }
  }
  const rank = (row) => (row.state === "contended" ? 1 : 0);
  const step = (row) => Math.round(kept.get(row.id) * 20);
  return rows.sort((a, b) => step(b) - step(a) || rank(b) - rank(a) || b.wanted - a.wanted || compareNames(a.id, b.id));
}

const collator = new Intl.Collator("en", { numeric: true });
export const compareNames = (a, b) => collator.compare(a, b);

/** The bound that applies to a plan: that for single paths, where one is proved. */
export const boundOf = (plan) => plan.bound_single ?? plan.bound_split;

/** job -> {speed, bound, gap} of its slowest collective under a plan; `weights` by job. */
export function jobSpeeds(plan, weights) {
  const slowest = new Map();
  for (const row of plan.collectives) {
    if (row.speed === null) continue;
    const before = slowest.get(row.job);
    if (before === undefined || row.speed < before) slowest.set(row.job, row.speed);
  }
  const speeds = new Map();
  for (const [job, speed] of slowest) {
    const weight = weights.get(job) ?? 1;
    const near = plan.levels.findIndex((step) => Math.abs(step.level - speed / weight) <= 1e-6 * Math.max(1, step.level));
    // What is proved of the plan is proved of its first level. A bound of a later level holds for plans whose earlier
    // levels are at theirs; one that is above its bound has only gained by what another lost.
    const proved = near === 0 ? boundOf(plan) : (plan.levels[near]?.bound ?? null);
    const bound = proved === null || proved * weight < speed - 1e-6 ? null : proved * weight;
    speeds.set(job, { speed, bound, gap: bound === null || speed <= 0 ? null : bound / speed - 1 });
  }
  return speeds;
}

/** The link that most jobs of a plan's schedule share, of these the one whose flows want the largest part; null: none. */
export function sharedLink(plan) {
  const scheduled = new Set(plan.schedule.jobs.map((one) => one.job));
  const capacity = new Map(plan.links.map((link) => [link.id, link.gbps]));
  let best = null;
  for (const [id, flows] of flowsByLink(plan)) {
    const jobs = new Set(flows.map((flow) => flow.job).filter((job) => scheduled.has(job))).size;
    const part = flows.reduce((sum, flow) => sum + flow.wants, 0) / (capacity.get(id) ?? 1);
    const better = best === null || jobs > best.jobs || (jobs === best.jobs && (part > best.part || (part === best.part && compareNames(id, best.id) < 0)));
    if (jobs > 1 && better) best = { id, jobs, part };
  }
  return best?.id ?? null;
}

/**
 * When jobs of a schedule send on a link: over one period if all have the same, else over two of the longest. A job is
 * shown as if it were alone, and as if it computed first and then sent all its phases.
 * @returns {{length, jobs, most}} seconds; {job, sends: [[from, to]], part} by job; how many jobs send at once at most
 */
export function timeLine(plan, link) {
  const times = new Map(plan.times.jobs.map((one) => [one.job, one]));
  const here = new Set((flowsByLink(plan).get(link) ?? []).map((flow) => flow.job));
  const shifts = plan.schedule.jobs.filter((one) => here.has(one.job) && times.has(one.job));
  const periods = shifts.map((one) => one.period_seconds);
  const longest = Math.max(...periods);
  const length = longest - Math.min(...periods) <= 1e-6 * longest ? longest : 2 * longest;
  const jobs = shifts.map((one) => {
    const { compute_seconds: computes, alone_seconds: alone } = times.get(one.job);
    const sends = [];
    for (let k = -2; one.shift_seconds + k * one.period_seconds < length; k += 1) {
      const begin = one.shift_seconds + k * one.period_seconds;
      const [from, to] = [Math.max(0, begin + computes), Math.min(length, begin + alone)];
      if (to > from) sends.push([from, to]);
    }
    return { job: one.job, sends, part: sends.reduce((sum, [from, to]) => sum + to - from, 0) / length };
  });
  const edges = jobs.flatMap((one) => one.sends.flatMap(([from, to]) => [[from, 1], [to, -1]]));
  // Who ends at the time at which another begins does not meet it, whatever rounding says.
  edges.sort((a, b) => (Math.abs(a[0] - b[0]) <= 1e-9 * length ? a[1] - b[1] : a[0] - b[0]));
  let [now, most] = [0, 0];
  for (const [, step] of edges) most = Math.max(most, (now += step));
  return { length, jobs, most };
}

/** The gap of the slowest job by the rules that switches hold: {gap}; null where a job's speed is not known. */
export function inForce(jobs, plan) {
  const placed = jobs.filter((job) => !job.left_out && job.flows > 0 && job.min_speed !== null);
  if (placed.length === 0 || placed.some((job) => job.speed === null)) return { gap: null };
  return { gap: gapOf(plan == null ? null : boundOf(plan), Math.min(...placed.map((job) => job.speed / (job.planned_weight ?? job.weight)))) };
}

/** What a bound leaves above a speed, as a part of it; null where either is not known, or the bound does not apply. */
export function gapOf(bound, speed) {
  return bound === null || speed === null || speed <= 0 || bound < speed - 1e-6 ? null : bound / speed - 1;
}

/** How a trace ended, in words: flows off their planned paths, and flows whose paths are not known. */
export function traceText(trace) {
  const differ = trace.flows.filter((flow) => flow.differs).length;
  const unknown = trace.flows.filter((flow) => flow.how === "none").length;
  const hashed = trace.mode === "ecmp" ? "; mode ecmp: no plan is in force" : "";
  const pathless = trace.flows.filter((flow) => flow.planned === null && flow.arrives !== true).length;
  const without = pathless > 0 ? `, ${pathless} without a path` : "";
  return `${trace.flows.length} ${trace.flows.length === 1 ? "flow" : "flows"} traced, ${differ} not as planned, ${unknown} not known${without}${hashed}`;
}

/** Who is on a link, in a few words: "gpt3-a 2, llama-b 1". */
export function who(flows) {
  const counts = new Map();
  for (const flow of flows) counts.set(flow.job, (counts.get(flow.job) ?? 0) + 1);
  return [...counts].map(([job, count]) => (count === 1 ? job : `${job} ×${count}`)).join(", ");
}
