// Jobs that nobody has pushed: what was seen of them, how sure that is, and what a plan would gain.

import { byId, mark, row, say, sync } from "./dom.js";
import { number, percent, plural, seconds, size } from "./format.js";

const DOES = {
  observe: "they are only shown (learning = observe)",
  act: "they are planned beside pushed jobs (learning = act)",
  off: "no traffic is looked at (learning = off)",
};

/** Show the learned jobs; the panel is hidden where there are none. */
export function showLearned(list) {
  const jobs = list?.jobs ?? [];
  mark(byId("learned"), "hidden", jobs.length === 0);
  if (jobs.length === 0) return;
  sync(byId("learned-rows"), jobs, (job) => job.name, () => row(10, [1, 2, 3, 4, 5, 6, 7, 8]), (made, job) => {
    const known = job.hashed_speed !== null && job.planned_speed !== null;
    say(made.cells[0], job.name);
    mark(made.cells[0], "title", job.groups.map((group) => `${group.shape} of ${plural(group.hosts, "host")}, phase ${group.phase}, ${size(group.bytes)} a flow`).join("; "));
    say(made.cells[1], job.hosts);
    say(made.cells[2], job.flows);
    say(made.cells[3], size(job.bytes));
    say(made.cells[4], job.period_seconds === null ? "none" : seconds(job.period_seconds));
    mark(made.cells[4], "title", `${plural(job.iterations, "iteration")} seen`);
    say(made.cells[5], percent(job.confidence));
    say(made.cells[6], number(job.hashed_speed));
    say(made.cells[7], number(job.planned_speed));
    say(made.cells[8], known && job.hashed_speed > 0 ? `${number(job.planned_speed / job.hashed_speed, 2)} times` : number(null));
    const some = job.planned_flows > 0 ? `${job.planned_flows} of ${job.flows} planned` : "hashed";
    say(made.cells[9], job.planned ? "planned" : some);
    mark(made.cells[9], "data-state", job.planned ? "fine" : "waiting");
  });
  say(byId("learned-note"), `${plural(jobs.length, "job")} from ${plural(list.qps, "QP")}: ${DOES[list.learning]}. Sure: part of the flows whose volume is known. Speeds are those of the slowest group.`);
}
