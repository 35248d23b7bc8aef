// The controller's HTTP interface: requests with the token, problems as errors, and the stream of events.

const KEY = "fairspine-token";
const SILENCE_MS = 4_500; // the controller sends a heartbeat every 2 s; the page says within 5 s that it is gone
const ANSWER_MS = 30_000; // a request without an answer must not keep the page from asking again

/** An answer that is a problem (RFC 9457), or no answer at all: then `status` is 0. */
export class Problem extends Error {
  constructor(status, document) {
    const named = document.field ? [document.field, document.value === undefined ? null : JSON.stringify(document.value)] : [];
    super([...named.filter((part) => part), document.detail || document.title || `status ${status}`].join(": "));
    this.status = status;
    this.title = document.title || "The controller does not answer";
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY) || "",
  set: (secret) => (secret ? sessionStorage.setItem(KEY, secret) : sessionStorage.removeItem(KEY)),
};

async function fetched(path, options) {
  try {
    return await fetch(path, { cache: "no-store", credentials: "omit", redirect: "error", ...options });
  } catch (error) {
    throw new Problem(0, { detail: ["AbortError", "TimeoutError"].includes(error.name) ? "no answer in time" : "no connection to the controller" });
  }
}

async function problemOf(response) {
  const document = await response.json().catch(() => null);
  return new Problem(response.status, document && typeof document === "object" ? document : { title: response.statusText });
}

/**
 * The answer to a request with the present token; throws a Problem. Another token may be entered while a request with
 * the former one is on its way; its refusal says nothing of the present one, so the request is sent again.
 */
async function answerTo(path, headers, options) {
  for (;;) {
    const secret = token.get();
    const granted = secret ? { Authorization: `Bearer ${secret}` } : {};
    const response = await fetched(path, { ...options, headers: { ...headers, ...granted } });
    if (response.ok || response.status === 304) return response;
    const problem = await problemOf(response);
    if (problem.status !== 401 || secret === token.get()) throw problem;
  }
}

/** The document that a request is answered with; null where there is none. Throws a Problem. */
export async function ask(method, path, body, signal = AbortSignal.timeout(ANSWER_MS)) {
  const json = body === undefined ? {} : { "Content-Type": "application/json" };
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const response = await answerTo(path, { Accept: "application/json", ...json }, { method, body: sent, signal });
  return documentOf(response);
}

async function documentOf(response) {
  const text = await response.text().catch(() => {
    throw new Problem(0, { detail: "the connection ended during the answer" });
  });
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    throw new Problem(0, { detail: "the answer is not JSON" });
  }
}

const MOST_KEPT = 12;
const kept = new Map(); // path -> {tag, document} of its last answer, the path asked for least lately first

/** The document at a path. One that has not changed is not sent again, and is the same object as before. */
export async function read(path) {
  const known = kept.get(path);
  const condition = known === undefined ? {} : { "If-None-Match": known.tag };
  const signal = AbortSignal.timeout(ANSWER_MS);
  const response = await answerTo(path, { Accept: "application/json", ...condition }, { signal });
  if (response.status === 304) return known.document;
  const document = await documentOf(response);
  const tag = response.headers.get("ETag");
  kept.delete(path);
  if (tag !== null) kept.set(path, { tag, document });
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  return document;
}

/**
 * The list of links, of which only the changes are sent.
 * @param before what this returned last; null: everything is asked for
 */
export async function readLinks(before) {
  const list = await ask("GET", before === null ? "v1/links" : `v1/links?since=${encodeURIComponent(before.version)}`);
  const whole = before === null || list.since !== before.version;
  const rows = whole ? new Map() : new Map(before.byId);
  for (const link of list.links) rows.set(link.id, link);
  return { ...list, byId: rows, links: [...rows.values()] };
}

/**
 * Events for as long as a connection lasts; throws a Problem at its end, whatever that is. EventSource cannot send a
 * token, so the stream is read here (WHATWG HTML, section 9.2.6, as our controller writes it).
 * @param after id of the last event that is known; null: begin with so many `earlier` events
 */
export async function follow(after, earlier, { opened, event }) {
  const giveUp = new AbortController();
  let timer = setTimeout(() => giveUp.abort(), SILENCE_MS);
  // A page that the browser keeps to go back to must not hold one of its few connections to the controller.
  const hidden = () => giveUp.abort();
  window.addEventListener("pagehide", hidden);
  try {
    const query = after === null ? `?last=${earlier}` : `?after=${encodeURIComponent(after)}`;
    const response = await answerTo(`v1/events${query}`, { Accept: "text/event-stream" }, { signal: giveUp.signal });
    opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read().catch(() => ({ done: true }));
      if (done) throw new Problem(0, { detail: "the stream of events has ended" });
      clearTimeout(timer);
      timer = setTimeout(() => giveUp.abort(), SILENCE_MS);
      const blocks = (text + value).split("\n\n");
      text = blocks.pop();
      for (const block of blocks) {
        const data = block.split("\n").find((line) => line.startsWith("data: "));
        if (data !== undefined) event(JSON.parse(data.slice(6)));
      }
    }
  } finally {
    clearTimeout(timer);
    window.removeEventListener("pagehide", hidden);
    giveUp.abort();
  }
}
