// Sessions and watches: tables of which more rows are fetched on demand.

import { get } from "./api.js";
import { button, code, count, el, field, grouped, problem, table, time, visible } from "./dom.js";

export function clientText(row) {
  if (row.port) return `client of ZooKeeper at ${row.host}:${row.port}`;
  return row.identity || row.host || "";
}

export function serverProblems(servers) {
  const told = servers.filter((each) => each.problem).map((each) => {
    const what = each.role === "down" ? "is down: " : "";
    return problem(`server ${each.server_id} ${what}${each.problem}`);
  });
  if (!servers.some((each) => each.has_leader)) told.push(problem("No server has a leader: what is shown may be old."));
  return told;
}

const SESSION_HEADINGS = [
  "session", "client", "server", "since (UTC)", "users",
  ...["timeout", "ephemerals", "watches", "waiting"].map((text) => ({ text, number: true })),
];

export function showSessions({ view }) {
  const told = el("p", { class: "told", role: "status" });
  const body = el("div");
  const more = button("More sessions", () => load());
  const refresh = button("Refresh", () => begin());
  view.append(el("h2", {}, "Sessions"), el("div", { class: "bar" }, told, refresh), body, more);
  let [rows, after] = [[], "0"];
  const begin = () => {
    [rows, after] = [[], "0"];
    return load();
  };
  async function load() {
    let page;
    try {
      page = await get("sessions", { after });
    } catch (error) {
      body.replaceChildren(problem(error.message));
      return;
    }
    const known = page.sessions.filter((each) => each.session_id !== null);
    // Connections without a session come with each page.
    rows = [...rows.filter((each) => each.session_id !== null), ...page.sessions];
    after = known.at(-1)?.session_id ?? after;
    const who = page.told_by === null ? "no server can list the sessions" : `as server ${page.told_by} knows them`;
    told.textContent = `${count(page.total, "session")}, ${who}; ${grouped(rows.length)} shown`;
    more.hidden = page.left_out === 0 || known.length === 0;
    body.replaceChildren(table("Sessions", SESSION_HEADINGS, rows.map(sessionRow)), ...serverProblems(page.servers));
  }
  begin();
}

function sessionRow(each) {
  const { session_id: id } = each;
  return [
    id === null ? "none" : el("a", { href: `#/watches?session=${id}`, title: "its watches" }, id),
    visible(clientText(each)),
    each.server_id === null ? "none" : String(each.server_id),
    time(each.connected_at),
    visible(each.users.join(", ")),
    `${each.timeout_ms / 1000} s`,
    grouped(each.ephemerals),
    each.watches === null ? "" : grouped(each.watches),
    each.outstanding === null ? "" : grouped(each.outstanding),
  ];
}

export function showWatches({ view, query }) {
  const path = el("input", { type: "text", value: query.path ?? "", placeholder: "/a", spellcheck: "false" });
  const session = el("input", { type: "text", value: query.session ?? "", placeholder: "0x1f", spellcheck: "false" });
  const submit = (event) => {
    event.preventDefault();
    load();
  };
  const form = el(
    "form",
    { class: "bar", on: { submit } },
    field("That fire for the znode", path),
    field("Of the session", session),
    el("button", { type: "submit" }, "Show"),
  );
  const told = el("p", { class: "told", role: "status" });
  const body = el("div");
  view.append(el("h2", {}, "Watches"), form, told, body);
  async function load() {
    try {
      const page = await get("watches", { path: path.value, session: session.value, limit: 1000 });
      told.textContent = `${count(page.watches.length + page.left_out, "watch", "watches")} of ${grouped(page.total)}; ${grouped(page.watches.length)} shown`;
      const rows = page.watches.map((each) => [
        el("a", { href: `#/tree?path=${encodeURIComponent(each.path)}` }, code(each.path)),
        each.kind,
        each.session_id ?? "none",
        String(each.server_id),
        visible(clientText(each)),
      ]);
      body.replaceChildren(table("Watches", ["znode", "kind", "session", "server", "client"], rows), ...serverProblems(page.servers));
    } catch (error) {
      told.textContent = "";
      body.replaceChildren(problem(error.message));
    }
  }
  load();
}
