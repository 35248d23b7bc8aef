// Numbers and times for people. What is not known is a dash, never a zero.

export const DASH = "–";

export const number = (value, digits = 3) => (value === null || value === undefined ? DASH : value.toFixed(digits));

export function percent(value) {
  if (value === null || value === undefined) return DASH;
  const whole = Math.abs(value) < 0.0005 ? 0 : value * 100;
  return `${whole > 0 && whole < 1 ? whole.toFixed(1) : Math.round(whole)} %`;
}

export function gbps(value) {
  if (value === null || value === undefined) return DASH;
  if (value === 0) return "0";
  return value >= 100 ? value.toFixed(0) : value >= 0.01 ? value.toPrecision(3) : value >= 0.00005 ? value.toFixed(4) : value.toExponential(1);
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

export function clock(text) {
  const when = new Date(text);
  return Number.isNaN(when.getTime()) ? String(text) : when.toLocaleTimeString("en-GB");
}

export function moment(text) {
  const when = new Date(text);
  if (Number.isNaN(when.getTime())) return String(text);
  const today = when.toDateString() === new Date().toDateString();
  return today ? clock(text) : `${when.toISOString().slice(5, 10)} ${clock(text).slice(0, 5)}`;
}

export const words = (name) => String(name).replaceAll("_", " ");

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;
