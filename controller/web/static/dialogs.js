// Dialogs: a token, a change with its preview, the mode, a rollback. What the controller says to a change is shown as
// it says it.

import { ask, token } from "./api.js";
import { el, say } from "./dom.js";
import { ENFORCEMENTS } from "./enforcements.js";
import { DASH, number, percent, plural, words } from "./format.js";
import { boundOf } from "./model.js";

/** A modal dialog; resolves with what `close` is given, null when it is left (Escape, Cancel). */
function modal(title, fill) {
  return new Promise((resolve) => {
    const opener = document.activeElement;
    const heading = el("h2", { id: "dialog-title" }, title);
    const form = el("form", { method: "dialog" }, heading);
    const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, form);
    const act = opener?.dataset?.act;
    const close = (value) => {
      dialog.close();
      dialog.remove();
      const back = opener?.isConnected ? opener : act ? document.querySelector(`[data-act="${act}"]`) : null;
      back?.focus();
      resolve(value);
    };
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close(null);
    });
    fill(form, close);
    document.body.append(dialog);
    dialog.showModal();
  });
}

/**
 * The row of buttons below a dialog: what it does, and Cancel. The action's result closes it; a problem is shown. The
 * focus is never put on what changes the network.
 */
function foot(form, close, label, act) {
  const wrong = el("p", { class: "wrong", role: "alert" });
  const confirm = el("button", { type: "submit", class: "primary" }, label);
  const cancel = el("button", { type: "button", autofocus: form.querySelector("input[type=password]") === null, onclick: () => close(null) }, "Cancel");
  form.append(wrong, el("p", { class: "buttons" }, confirm, cancel));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (confirm.disabled) return;
    confirm.disabled = true;
    say(wrong, "");
    try {
      close(await act());
    } catch (problem) {
      say(wrong, problemText(problem));
      confirm.disabled = false;
      // A disabled button loses the focus.
      if (document.activeElement === document.body) cancel.focus();
    }
  });
  return { confirm, cancel, wrong };
}

export const problemText = (problem) => (problem.title && problem.title !== problem.message ? `${problem.title}: ${problem.message}` : problem.message);

/** Ask for a token. Resolves with whether there is another one now. */
export function askToken(reason) {
  return modal("Token", (form, close) => {
    const input = el("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false" });
    input.value = token.get();
    form.append(
      el("p", {}, reason),
      el("label", { for: "token" }, "Secret of a token"),
      input,
      el("p", { class: "note" }, "Stored until this tab is closed, and sent only to this controller. Create one with: fairspine token add NAME --role read|write"),
    );
    foot(form, close, "Use token", async () => {
      if (!/^[\x21-\x7e]*$/.test(input.value)) throw new Error("Invalid token: only printable ASCII characters without spaces are allowed.");
      token.set(input.value);
      return true;
    });
  });
}

/** Preview draining something (or taking it back), alone or with others by the same plan, and do it once that is confirmed. */
export function confirmDrain(id, drained) {
  const verb = drained ? "Drain" : "Undrain";
  return modal(`${verb} ${id}?`, (form, close) => {
    const others = el("input", { type: "text", id: "drain-others", autocomplete: "off", spellcheck: "false", placeholder: "spine2, leaf1-spine3" });
    const result = el("div", { class: "preview", role: "status" });
    form.append(el("label", { for: "drain-others" }, "Together with, by one plan"), others, result);
    const ids = () => [...new Set([id, ...others.value.split(/[\s,]+/)])].filter((one) => one !== "");
    const parts = foot(form, close, verb, () => ask("POST", "v1/fabric/links:drain", { ids: ids(), drained }));
    const preview = previews(result);
    const look = () => {
      parts.confirm.disabled = true;
      say(parts.confirm, ids().length === 1 ? `${verb} ${id}` : `${verb} these ${ids().length}`);
      say(parts.wrong, "");
      preview(drained ? { drain: ids() } : { undrain: ids() }, () => (parts.confirm.disabled = false), (problem) => {
        result.replaceChildren(el("p", { class: "note" }, "There is no preview, so the change cannot be confirmed."));
        say(parts.wrong, problemText(problem));
      });
    };
    others.addEventListener("input", look);
    look();
  });
}

/** A speed, or the expected one with its range where hashing decides it. */
function speedText(known, expected) {
  if (known !== null || expected === null) return number(known);
  return `about ${number(expected.mean)} (${number(expected.min)} to ${number(expected.max)})`;
}

/** A function that shows the preview of a change in an element; a later call gives up the one before. */
function previews(result) {
  let giveUp = new AbortController();
  return (change, done = () => null, failed = (problem) => result.replaceChildren(el("p", { class: "note" }, `There is no preview: ${problemText(problem)}`))) => {
    giveUp.abort();
    giveUp = new AbortController();
    const { signal } = giveUp;
    result.setAttribute("aria-busy", String(Object.keys(change).length > 0));
    if (Object.keys(change).length === 0) return result.replaceChildren();
    result.replaceChildren(el("p", { class: "note" }, "Computing the preview…"));
    const unless = (show) => (answer) => {
      if (signal.aborted) return;
      result.setAttribute("aria-busy", "false");
      show(answer);
    };
    ask("POST", "v1/plans:preview", change, signal).then(unless((preview) => {
      result.replaceChildren(...previewParts(preview));
      done();
    }), unless(failed));
    return null;
  };
}

const isSlower = (was, wasExpected, is, isExpected) => (is ?? isExpected?.mean ?? 0) < (was ?? wasExpected?.mean ?? 0) - 0.0005;

function previewParts(preview) {
  const { before, after } = preview;
  const rows = [
    ["Slowest job", speedText(before.slowest, before.expected), speedText(after.slowest, after.expected), isSlower(before.slowest, before.expected, after.slowest, after.expected)],
    ["Planned", number(before.min_speed), number(after.min_speed), after.min_speed < before.min_speed - 0.0005],
    ["Best possible", number(boundOf(before)), number(boundOf(after)), false],
    ["Gap", percent(before.gap), percent(after.gap), false],
    ["Flows without a path", before.unroutable, after.unroutable, after.unroutable > before.unroutable],
  ];
  for (const job of preview.jobs) rows.push([job.job, speedText(job.before, job.before_expected), speedText(job.after, job.after_expected), isSlower(job.before, job.before_expected, job.after, job.after_expected)]);
  const body = el("tbody");
  for (const [name, now, then, worse] of rows) {
    body.append(el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "number" }, now), el("td", { class: "number", "data-worse": worse }, then, worse ? " ▼" : "")));
  }
  const head = el("tr", {}, el("th", { scope: "col" }, "Value"), el("th", { scope: "col", class: "number" }, "Now"), el("th", { scope: "col", class: "number" }, "After"));
  const moved = preview.moved.slice(0, 5).join(", ") + (preview.moved_count > 5 ? ", …" : "");
  const parts = [
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Effect of the change" }, el("table", { "aria-label": "Effect of the change" }, el("thead", {}, head), body)),
    el("p", {}, preview.moved_count === 0 ? "No flow moves." : `${plural(preview.moved_count, "flow moves", "flows move")}: ${moved}`),
  ];
  if (preview.still_used.length > 0) parts.push(el("p", { class: "collision" }, `Stay in use, because no other path connects two leaves: ${preview.still_used.join(", ")}`));
  return parts;
}

const MOST_FAILURES = 50;

/** What each single failure would do to the jobs, worst first. Closing the dialog ends the analysis. */
export function showSurvival() {
  const giveUp = new AbortController();
  return modal("What if something fails?", (form, close) => {
    const result = el("div", { class: "preview", role: "status", "aria-busy": "true" }, el("p", { class: "note" }, "Planning for each failure of a cable or of a switch above the leaves…"));
    const done = el("button", { type: "button", onclick: () => close(null) }, "Close");
    form.append(result, el("p", { class: "actions" }, done));
    ask("POST", "v1/plans:survive", {}, giveUp.signal).then(
      (survival) => result.replaceChildren(...survivalParts(survival)),
      (problem) => result.replaceChildren(el("p", { class: "note" }, problemText(problem))),
    ).finally(() => result.setAttribute("aria-busy", "false"));
  }).finally(() => giveUp.abort());
}

function survivalParts(survival) {
  const slower = (row, k) => (row.speeds[k] ?? 1) < (survival.before.speeds[k] ?? 1) - 0.0005;
  const harmful = survival.failures.filter((row) => row.unroutable > 0 || row.speeds.some((_, k) => slower(row, k)));
  const body = el("tbody");
  for (const row of harmful.slice(0, MOST_FAILURES)) {
    const hurt = survival.jobs.filter((_, k) => slower(row, k));
    const who = hurt.slice(0, 3).join(", ") + (hurt.length > 3 ? ` and ${hurt.length - 3} more` : "");
    body.append(el("tr", {}, el("th", { scope: "row" }, row.names.join(" + ")), el("td", { class: "number" }, number(row.min_speed)), el("td", {}, who || DASH), el("td", { class: "number" }, row.moved)));
  }
  const head = el("tr", {}, ...["Failure", "Slowest job", "Jobs slowed", "Flows moved"].map((text) => el("th", { scope: "col" }, text)));
  const count = `${plural(survival.failures.length, "single failure")}: ${harmful.length} would slow some job down. Now the slowest job is at ${number(survival.before.min_speed)} of its speed alone on the whole fabric.`;
  if (harmful.length === 0) return [el("p", {}, count)];
  const more = harmful.length > MOST_FAILURES ? [el("p", { class: "note" }, `The ${MOST_FAILURES} worst of ${harmful.length}.`)] : [];
  const table = el("table", { "aria-label": "Failures, worst first" }, el("thead", {}, head), body);
  return [el("p", {}, count), el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Failures, worst first" }, table), ...more];
}

const MODES = {
  planned: "the newest plan is enforced",
  ecmp: "no plan is enforced; all traffic is hashed",
  frozen: "the rules on the switches do not change; changes take effect when the mode is planned again",
};

export function chooseMode(health) {
  return modal("Mode and enforcement", (form, close) => {
    const result = el("div", { class: "preview", role: "status" });
    form.append(radios("Mode", "mode-choice", MODES, health.mode), radios("Enforced by", "enforcement-choice", ENFORCEMENTS, health.enforcement), result);
    const wanted = () => {
      const chosen = new FormData(form);
      const change = { mode: chosen.get("mode-choice"), enforcement: chosen.get("enforcement-choice") };
      if (change.mode === health.mode) delete change.mode;
      if (change.enforcement === health.enforcement) delete change.enforcement;
      return change;
    };
    foot(form, close, "Set", () => (Object.keys(wanted()).length === 0 ? null : ask("PUT", "v1/mode", wanted())));
    // The mode can be set without its preview: it is the way out when something is wrong.
    const preview = previews(result);
    form.addEventListener("change", () => preview(wanted()));
  });
}

function radios(legend, name, choices, present) {
  const field = el("fieldset", {}, el("legend", {}, legend));
  for (const [value, meaning] of Object.entries(choices)) {
    field.append(el("label", { class: "choice" }, el("input", { type: "radio", name, value, checked: value === present }), el("span", {}, el("strong", {}, words(value)), ` ${meaning}`)));
  }
  return field;
}

export function confirmRollback(plan, newest) {
  return modal(`Roll back to plan ${plan.epoch}?`, (form, close) => {
    form.append(
      el("p", {}, `Plan ${plan.epoch} (${plan.cause}): planned speed ${number(plan.min_speed)}${plan.unroutable > 0 ? `, with ${plural(plan.unroutable, "flow")} that had no path` : ""}; that of the newest plan is ${newest === undefined ? DASH : number(newest.min_speed)}.`),
      el("p", { class: "note" }, "The present flows take the live paths of that plan. Jobs, drains and the mode do not change."),
    );
    foot(form, close, `Roll back to plan ${plan.epoch}`, () => ask("POST", `v1/plans/${plan.epoch}:rollback`, {}));
  });
}
