// Events: what each says, in words, and the list of the newest.

import { byId, el, say, sync } from "./dom.js";
import { moment, plural, words } from "./format.js";

export const EARLIER = 100; // events from before the page was opened
const MOST_EVENTS = 200;
const events = []; // the newest last

/** Add an event at the end of the list. */
export function addEvent(event) {
  events.push(event);
  if (events.length > MOST_EVENTS) events.shift();
}

/** Show the list. It stays at its end if it is there. */
export function showEvents() {
  const list = byId("events");
  const atEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 4;
  sync(list, events, (event) => event.id, (event) => el("p", {}, el("time", { datetime: event.at }), " ", el("strong", {}, event.kind), ` ${eventText(event.kind, event.data)}`), (made, event) => {
    say(made.firstElementChild, moment(event.at));
  });
  if (atEnd) list.scrollTop = list.scrollHeight;
}

const TEXTS = {
  plan: (data) => (data.state === "active" ? `${data.epoch} is active` : `${data.epoch} computed: ${data.cause}${by(data)}; slowest job ${data.slowest == null ? "unknown" : Number(data.slowest).toFixed(3)}, ${data.moved} moved`),
  link: (data) => ("drained" in data ? `${data.id} ${data.drained ? "drained" : "undrained"}${by(data)}` : `${data.id} ${data.up ? "is up" : "is down"}`),
  job: (data) => `${data.job} ${data.change}${by(data)}`,
  mode: (data) => `${data.mode}, enforced by ${words(data.enforcement)}${by(data)}`,
  schedule: (data) => `iterations of ${plural(data.jobs.length, "job")} begin at other times: ${data.jobs.join(", ")}`,
};

const NEEDED = { plan: ["state"], link: ["id"], job: ["change"], mode: ["mode", "enforcement"], schedule: ["jobs"] };

const by = (data) => (data.by ? `, by ${data.by}` : "");

/** What an event says, on a line; of a kind or a shape that is not known, all of it. */
export function eventText(kind, data) {
  if (NEEDED[kind]?.every((name) => name in data)) return TEXTS[kind](data);
  if (typeof data.text === "string") return data.text;
  return Object.entries(data).filter(([, value]) => value !== null).map(([name, value]) => `${name}=${valueText(value)}`).join(" ");
}

function valueText(value) {
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
  return typeof value === "string" && value !== "" && !value.includes(" ") ? value : JSON.stringify(value);
}
