// Why the health is not ok: faults first, then why jobs are, or may be, slow. Many of one kind are one line to open.

import { byId, el, mark, say, sync } from "./dom.js";
import { plural } from "./format.js";

const ALONE = 2; // so many of one kind are shown one by one
const NAMED = 3; // so many names are in the line of a group
const NAME = /[^\s,;:()]*\d[^\s,;:()]*/g;

/** Texts that differ only in names with a number and in numbers, together: [{key, texts}], in the order of the first. */
export function grouped(texts) {
  const groups = new Map();
  for (const text of texts) {
    const key = text.replace(NAME, "…");
    groups.set(key, [...(groups.get(key) ?? []), text]);
  }
  return [...groups].flatMap(([key, members]) => (members.length > ALONE ? [{ key, texts: members }] : members.map((text) => ({ key: text, texts: [text] }))));
}

/** "3 × is missing: leaf1-spine1, leaf2-spine1, leaf3-spine1": what the first names are of, and of whom it is so. */
export function summaryOf({ key, texts }) {
  if (!key.includes("…")) return `${texts.length} × ${key}`;
  const names = texts.map((text) => text.match(NAME)[0]);
  const [what] = key.split(/:\s/);
  const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : "";
  return `${texts.length} × ${what.replace(/^…\s*/, "")}: ${names.slice(0, NAMED).join(", ")}${more}`;
}

export function showAlerts(reasons, service) {
  const kinds = [["fault", reasons, ""], ["service", service, "Degraded service: "]];
  const items = kinds.flatMap(([kind, texts, before]) => grouped(texts).map((group) => ({ ...group, kind, before, many: group.texts.length > 1 })));
  if (items.length === 0) items.push({ key: "", texts: ["No problems."], kind: "none", before: "", many: false });
  const count = [reasons.length > 0 ? plural(reasons.length, "fault") : "", service.length > 0 ? `${service.length} degraded` : ""].filter((text) => text !== "");
  say(byId("reasons-title"), ["Health", ...count].join(" · "));
  sync(byId("reasons"), items, (item) => `${item.kind} ${item.many} ${item.key}`, (item) => (item.many ? el("li", {}, el("details", {}, el("summary"), el("ul"))) : el("li")), (made, item) => {
    mark(made, "data-kind", item.kind);
    if (!item.many) return say(made, `${item.before}${item.texts[0]}`);
    const [summary, list] = made.firstElementChild.children;
    say(summary, `${item.before}${summaryOf(item)}`);
    return sync(list, item.texts, (text) => text, () => el("li"), (line, text) => say(line, text));
  });
}
