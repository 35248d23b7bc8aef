// Parts that several panels are made of.

import { el } from "./dom.js";

/** A list of names with values; null ones are left out. */
export function facts(rows) {
  const list = el("dl", { class: "facts" });
  for (const [name, value] of rows) if (value !== null) list.append(el("div", {}, el("dt", {}, name), el("dd", {}, value)));
  return list;
}
