// When the iterations of jobs begin, and who sends when on the link that most of them share: a time line.

import { byId, el, mark, row, say, svg, sync } from "./dom.js";
import { number, percent, seconds } from "./format.js";
import { sharedLink, timeLine } from "./model.js";

const [WIDTH, ROOM, LINE] = [900, 150, 24]; // of the drawing: all of it, the names, a job's line

/** Show the schedule of a plan; the panel is hidden where the plan has none. */
export function showSchedule(plan) {
  const schedule = plan?.schedule ?? null;
  mark(byId("schedule"), "hidden", schedule === null);
  if (schedule === null) return;
  sync(byId("schedule-rows"), schedule.jobs, (one) => one.job, () => row(6, [1, 2, 3, 4, 5]), (made, one) => {
    say(made.cells[0], one.job);
    say(made.cells[1], seconds(one.shift_seconds));
    say(made.cells[2], seconds(one.period_seconds));
    say(made.cells[3], one.hold ? "yes" : "no");
    say(made.cells[4], seconds(one.iteration_seconds));
    say(made.cells[5], percent(one.compatibility));
  });
  say(byId("schedule-note"), `Iterations: ${number(schedule.slowdown)} times as long as alone, if jobs begin them so; at least ${number(schedule.bound)} with any paths and shifts.`);
  const link = sharedLink(plan);
  const lines = link === null ? [] : timeLine(plan, link);
  byId("timeline").replaceChildren(link === null ? el("p", { class: "note" }, "No two of these jobs share a link.") : drawing(link, lines));
}

function drawing(link, { length, jobs, most }) {
  const height = (jobs.length + 2) * LINE;
  const at = (time) => ROOM + (time / length) * (WIDTH - ROOM - 10);
  const parts = jobs.map((one) => `${one.job} sends ${percent(one.part)} of the time`).join(", ");
  const root = svg("svg", { class: "timeline", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `${link}, ${seconds(length)}: ${parts}; at most ${most} at once` });
  jobs.forEach((one, k) => {
    root.append(svg("text", { x: ROOM - 8, y: (k + 0.5) * LINE, dy: "0.35em", "text-anchor": "end" }, one.job));
    for (const [from, to] of one.sends) root.append(svg("rect", { class: "sends", x: at(from), y: k * LINE + 4, width: Math.max(1, at(to) - at(from)), height: LINE - 8 }));
  });
  const foot = jobs.length * LINE;
  root.append(svg("line", { class: "axis", x1: ROOM, y1: foot, x2: WIDTH - 10, y2: foot }));
  for (const part of [0, 0.5, 1]) root.append(svg("text", { x: at(part * length), y: foot + LINE / 2, dy: "0.35em", "text-anchor": ["start", "middle", "end"][part * 2] }, seconds(part * length)));
  root.append(svg("text", { x: ROOM - 8, y: foot + LINE / 2, dy: "0.35em", "text-anchor": "end" }, link));
  return root;
}
