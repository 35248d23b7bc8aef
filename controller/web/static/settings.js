// What a reader has chosen for this browser: the zone of times, and light or dark. Kept until it is changed.

import { byId, mark, say } from "./dom.js";
import { useZone } from "./format.js";

const KEYS = { zone: "fairspine-zone", theme: "fairspine-theme" };
const CHOICES = { zone: ["utc", "local"], theme: ["system", "light", "dark"] };

function kept(name) {
  const value = localStorage.getItem(KEYS[name]);
  return CHOICES[name].includes(value) ? value : CHOICES[name][0];
}

function apply() {
  useZone(kept("zone"));
  const theme = kept("theme");
  mark(document.documentElement, "data-theme", theme === "system" ? null : theme);
  for (const name of Object.keys(KEYS)) byId(name).value = kept(name);
}

/** Take over what was chosen before; `changed` is called when something else is chosen. */
export function beginSettings(changed) {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  say(byId("zone-local"), `${own === "UTC" ? "Local time" : own} (local)`);
  apply();
  for (const [name, key] of Object.entries(KEYS)) {
    byId(name).addEventListener("change", (event) => {
      localStorage.setItem(key, event.target.value);
      apply();
      changed();
    });
  }
  // Another tab has changed it.
  window.addEventListener("storage", () => {
    apply();
    changed();
  });
}
