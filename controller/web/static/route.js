// What is shown, in the page's URL: it can be kept, sent, and gone back to.

const VALUES = { view: ["now", "plan", "ecmp"], shape: ["drawing", "matrix"] };

/**
 * What is chosen: `selected` is the id of a cable or a switch, or "job:NAME" or "host:NAME"; null: nothing. `shape`
 * null: as it suits the fabric. `plane`: the number of the only plane that is shown; null: all.
 */
export const chosen = { view: "now", shape: null, selected: null, words: "", hosts: "", fold: true, plane: null };

const search = () => {
  const parts = { show: chosen.selected, view: chosen.view === "now" ? null : chosen.view, shape: chosen.shape, find: chosen.words || null, hosts: chosen.hosts || null, fold: chosen.fold ? null : "no", plane: chosen.plane };
  return new URLSearchParams(Object.entries(parts).filter(([, value]) => value !== null)).toString();
};

/** Take over what the URL says; what it does not know is left out. */
function take() {
  const said = new URLSearchParams(location.hash.slice(1));
  const oneOf = (name, otherwise) => (VALUES[name].includes(said.get(name)) ? said.get(name) : otherwise);
  Object.assign(chosen, { view: oneOf("view", "now"), shape: oneOf("shape", null), selected: said.get("show"), words: said.get("find") ?? "", hosts: said.get("hosts") ?? "", fold: said.get("fold") !== "no", plane: /^[1-9]\d{0,3}$/.test(said.get("plane") ?? "") ? Number(said.get("plane")) : null });
}

/** Begin with the URL, and follow it; `changed` is called when it has changed. */
export function beginRoute(changed) {
  take();
  window.addEventListener("popstate", () => {
    take();
    changed();
  });
}

/** Choose something, as a new entry of the browser's history (`step`) or in place of the present one. */
export function go(change, step = true) {
  Object.assign(chosen, change);
  const hash = search();
  if (hash === location.hash.slice(1)) return;
  const url = hash === "" ? location.pathname + location.search : `#${hash}`;
  if (step) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
}
