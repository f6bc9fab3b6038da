// Requests to the server. Every failure is a ServerError, whose message can be shown as it is.

const kKey = "tril-key";  // in sessionStorage
const kBroken = "The connection broke off before the answer was complete.";

export class ServerError extends Error {
  // `status` 0: the server was not reached. `retryAfter`: seconds, or null.
  constructor(message, {status = 0, code = "", field = "", retryAfter = null} = {}) {
    super(message);
    Object.assign(this, {status, code, field, retryAfter});
  }
}

let key = "";
try {
  key = sessionStorage.getItem(kKey) ?? "";
} catch {
  // Storage may be forbidden; then the key lasts as long as the page.
}

export function useKey(text) {
  key = text.trim();
  try {
    sessionStorage.setItem(kKey, key);
  } catch {
    // As above.
  }
}

export function hasKey() {
  return key !== "";
}

function errorIn(answer, {status = 0, retryAfter = null} = {}) {
  const error = answer?.error ?? {};
  return new ServerError(
      error.message || `The server answered ${status}.`,
      {status, code: error.code ?? "", field: error.field ?? "", retryAfter});
}

async function send(path, {body, signal} = {}) {
  const headers = {};
  if (hasKey()) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      signal,
      credentials: "omit",
      body: body === undefined ? undefined : JSON.stringify(body)
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server cannot be reached. Is it still running?");
  }
  if (response.ok) return response;
  const seconds = Number(response.headers.get("Retry-After"));
  const answer = await response.json().catch(() => null);
  throw errorIn(answer, {status: response.status, retryAfter: seconds > 0 ? seconds : null});
}

// Of a body, the promise that response.json() or response.text() gives.
async function whole(body) {
  try {
    return await body;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(
        error instanceof SyntaxError ?
            "The answer cannot be read: it is not that of a tril server." :
            kBroken);
  }
}

export async function getJson(path) {
  return whole((await send(path)).json());
}

export async function getText(path) {
  return whole((await send(path)).text());
}

export async function postJson(path, body, signal) {
  return whole((await send(path, {body, signal})).json());
}

// Server-sent events of a body, as {event, data}. An event ends with an empty line; a comment or a
// field that the page does not use is passed over.
export async function* eventsOf(chunks) {
  const decoder = new TextDecoder();
  let rest = "";
  let event = {event: "message", data: []};
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, {stream: true})).split(/\r?\n/);
    rest = lines.pop();
    for (const line of lines) {
      const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line);
      if (name === "event") event.event = value;
      if (name === "data") event.data.push(value);
      if (line !== "") continue;
      if (event.data.length > 0) yield {event: event.event, data: event.data.join("\n")};
      event = {event: "message", data: []};
    }
  }
}

async function* chunksOf(body) {
  const reader = body.getReader();
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    yield value;
  }
}

// Posts with stream: true; `partial(text)` is called for the text so far, and the result is the
// whole answer. A server that answers at once with JSON is understood too.
export async function postStream(path, body, {signal, partial}) {
  const response = await send(path, {body: {...body, stream: true}, signal});
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream"))
    return whole(response.json());
  try {
    for await (const {event, data} of eventsOf(chunksOf(response.body))) {
      const value = JSON.parse(data);
      if (event === "partial") partial(value.text);
      if (event === "error") throw errorIn(value);
      if (event === "done") return value;
    }
  } catch (error) {
    if (error instanceof ServerError || error.name === "AbortError") throw error;
    throw new ServerError(kBroken);
  }
  throw new ServerError("The connection ended before the answer was complete.");
}
