// The admin interface of `raykeeper ui` (docs/UI.md), and its stream of looks.

export class ApiError extends Error {
  constructor(status, document) {
    super(document.error);
    this.status = status;
    this.kind = document.kind;
  }
}

export async function get(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null);
  return request("GET", `${path}?${new URLSearchParams(given)}`);
}

export async function send(method, path, body = undefined) {
  return request(method, path, body ?? {});
}

async function request(method, path, body = undefined) {
  const options = { method };
  if (body !== undefined) {
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(`/api/v1/${path}`, options);
  } catch {
    throw new ApiError(0, { error: "`raykeeper ui` does not answer any more", kind: "Gone" });
  }
  if (response.status === 401) {
    location.reload(); // to the login page: it was started again
  }
  const document = await response.json().catch(() => ({ error: response.statusText, kind: "NoJson" }));
  if (!response.ok) throw new ApiError(response.status, document);
  return document;
}

// Calls `show` with each look, old ones first; `tell` with whether the stream is there. Streams only
// while the page is seen: a browser allows few connections, and nobody looks at a hidden plot.
export function follow(show, tell) {
  let stream = null;
  let last = 0;
  const open = () => {
    stream = new EventSource(`/api/v1/stream?after=${last}`);
    stream.addEventListener("open", () => tell(true));
    stream.addEventListener("error", () => {
      tell(false);
      if (stream?.readyState === EventSource.CLOSED) retry();
    });
    stream.addEventListener("message", (event) => {
      const look = JSON.parse(event.data);
      last = look.number;
      tell(true);
      show(look);
    });
  };
  const close = () => {
    stream?.close();
    stream = null;
  };
  const retry = () => {
    close();
    setTimeout(async () => {
      await get("ensemble").catch(() => {}); // to the login page, if it was started again
      if (stream === null && !document.hidden) open();
    }, 3000);
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else if (stream === null) open();
  });
  open();
}
