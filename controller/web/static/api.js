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

function headers(more = {}) {
  const secret = token.get();
  return secret ? { ...more, Authorization: `Bearer ${secret}` } : more;
}

async function fetched(path, options) {
  try {
    return await fetch(path, { cache: "no-store", credentials: "omit", redirect: "error", ...options });
  } catch (error) {
    throw new Problem(0, { detail: ["AbortError", "TimeoutError"].includes(error.name) ? "no answer in time" : "there is no connection to the controller" });
  }
}

async function problemOf(response) {
  const document = await response.json().catch(() => null);
  return new Problem(response.status, document && typeof document === "object" ? document : { title: response.statusText });
}

/** The document that a request is answered with; null where there is none. Throws a Problem. */
export async function ask(method, path, body, signal = AbortSignal.timeout(ANSWER_MS)) {
  const json = body === undefined ? {} : { "Content-Type": "application/json" };
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const response = await fetched(path, { method, headers: headers({ Accept: "application/json", ...json }), body: sent, signal });
  if (!response.ok) throw await problemOf(response);
  const text = await response.text().catch(() => {
    throw new Problem(0, { detail: "the answer broke off" });
  });
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    throw new Problem(0, { detail: "the answer is not JSON" });
  }
}

export const read = (path) => ask("GET", path);

/**
 * Events for as long as a connection lasts; throws a Problem at its end, whatever that is. EventSource cannot send a
 * token, so the stream is read here (WHATWG HTML, section 9.2.6, as our controller writes it).
 */
export async function follow(after, { opened, event }) {
  const giveUp = new AbortController();
  let timer = setTimeout(() => giveUp.abort(), SILENCE_MS);
  try {
    const query = after === null ? "" : `?after=${encodeURIComponent(after)}`;
    const response = await fetched(`v1/events${query}`, { headers: headers({ Accept: "text/event-stream" }), signal: giveUp.signal });
    if (!response.ok) throw await problemOf(response);
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
    giveUp.abort();
  }
}
