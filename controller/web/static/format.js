// Numbers and times for people. What is not known is a dash, never a zero.

export const DASH = "–";

export const number = (value, digits = 3) => (value === null || value === undefined ? DASH : value.toFixed(digits));

export function percent(value) {
  if (value === null || value === undefined) return DASH;
  const whole = Math.abs(value) < 0.0005 ? 0 : value * 100;
  return `${whole > 0 && whole < 1 ? whole.toFixed(1) : Math.round(whole)} %`;
}

/** A rate, given in Gbit/s, in the unit in which it has one to three digits before the point. */
export function rate(value) {
  if (value === null || value === undefined) return DASH;
  if (value === 0) return "0";
  for (const [unit, factor] of [["Tbit/s", 1e3], ["Gbit/s", 1], ["Mbit/s", 1e-3], ["kbit/s", 1e-6]]) {
    // From where it would be written as 1,000 of the next smaller unit.
    if (value >= 0.9995 * factor) return `${Number((value / factor).toPrecision(3))} ${unit}`;
  }
  return `${Number((value * 1e9).toPrecision(3))} bit/s`;
}

export function size(bytes) {
  for (const [unit, factor] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (bytes >= factor) return `${Number((bytes / factor).toPrecision(3))} ${unit}`;
  }
  return `${bytes} B`;
}

export function seconds(value) {
  for (const [unit, factor] of [["s", 1], ["ms", 1e3]]) {
    if (value * factor >= 1) return `${Number((value * factor).toPrecision(4))} ${unit}`;
  }
  return `${Number((value * 1e6).toPrecision(4))} µs`;
}

let zone = "UTC"; // as the fairspine command; undefined: the browser's own

/** Show times in "utc" or "local". */
export function useZone(name) {
  zone = name === "utc" ? "UTC" : undefined;
}

/** The parts of a time in the zone that is shown; null where the text is no time. */
function partsOf(when) {
  if (Number.isNaN(when.getTime())) return null;
  const format = new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return Object.fromEntries(format.formatToParts(when).map(({ type, value }) => [type, value]));
}

/** 14:28:21 */
export function clock(text) {
  const at = partsOf(new Date(text));
  return at === null ? String(text) : `${at.hour}:${at.minute}:${at.second}`;
}

/** The time of day; on another day than today its date, too. Both are of one zone. */
export function moment(text, now = new Date()) {
  const [at, today] = [partsOf(new Date(text)), partsOf(now)];
  if (at === null) return String(text);
  const same = ["year", "month", "day"].every((part) => at[part] === today[part]);
  return same ? clock(text) : `${at.year === today.year ? "" : `${at.year}-`}${at.month}-${at.day} ${at.hour}:${at.minute}`;
}

export const words = (name) => String(name).replaceAll("_", " ");

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;
