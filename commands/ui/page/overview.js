// The servers with their roles and what they do, plots of it, and where they run.

import { get } from "./api.js";
import { code, el, grouped, problem, table, visible } from "./dom.js";
import { plot } from "./plots.js";

const STATUS_MS = 10_000;
const PLOTS = [
  ["Reads", "per second", (each) => each.rates?.reads ?? null],
  ["Writes", "per second", (each) => each.rates?.updates ?? null],
  ["Time of a read", "ms", (each) => milliseconds(each.rates?.read_us)],
  ["Time of a write", "ms", (each) => milliseconds(each.rates?.update_us)],
];

export function showOverview({ view, looks, onLook }) {
  const servers = el("section", { id: "servers", "aria-label": "Servers" });
  const plots = el("section", { class: "plots", "aria-label": "Plots" });
  const places = el("section", { id: "places", "aria-label": "Where the servers run" });
  view.append(servers, plots, places);
  const draw = () => {
    const look = looks.at(-1);
    servers.replaceChildren(el("h2", {}, "Servers"), look ? serversOf(look) : el("p", {}, "waiting for the servers"));
    plots.replaceChildren(...PLOTS.map(([title, unit, valueOf]) => plot(title, unit, looks, valueOf)));
  };
  let drawing = 0;
  onLook(() => {
    // Old looks come by the hundred; one drawing shows them all.
    drawing ||= requestAnimationFrame(() => {
      drawing = 0;
      draw();
    });
  });
  draw();
  const tellPlaces = () => showPlaces(places);
  tellPlaces();
  const timer = setInterval(() => document.hidden || tellPlaces(), STATUS_MS);
  return () => {
    clearInterval(timer);
    cancelAnimationFrame(drawing);
  };
}

function milliseconds(us) {
  return us === null || us === undefined ? null : us / 1000;
}

const NUMBERS = [
  ["lag", (each) => each.lag],
  ["reads/s", (each) => each.rates?.reads],
  ["ms", (each) => milliseconds(each.rates?.read_us)?.toFixed(2)],
  ["writes/s", (each) => each.rates?.updates],
  ["ms", (each) => milliseconds(each.rates?.update_us)?.toFixed(2)],
  ["waiting", (each) => each.stats.outstanding],
  ["clients", (each) => each.stats.connections],
  ["sessions", (each) => each.stats.sessions],
  ["watches", (each) => each.stats.watches],
  ["znodes", (each) => each.stats.znodes],
  ["bytes", (each) => each.stats.data_bytes],
];

function serversOf(look) {
  if (look.problem) return problem(look.problem);
  const headings = ["server", "role", { text: "epoch", number: true }, "zxid"];
  const numbers = NUMBERS.map(([text]) => ({ text, number: true }));
  const rows = look.load.servers.map((each) => {
    const place = [String(each.server_id), role(each.role)];
    if (!each.stats) return [...place, el("td", { colspan: NUMBERS.length + 2, class: "bad" }, visible(each.problem))];
    const told = NUMBERS.map(([, valueOf]) => shown(valueOf(each)));
    return [...place, grouped(each.stats.epoch), code(each.last_zxid), ...told];
  });
  const problems = look.load.servers.filter((each) => each.stats && each.problem);
  return el(
    "div",
    {},
    table("Servers", [...headings, ...numbers], rows),
    problems.map((each) => problem(`server ${each.server_id}: ${each.problem}`)),
    look.load.leader === null ? problem("No server has a leader: what is shown may be old.") : null,
  );
}

function role(name) {
  return el("span", { class: `role ${name}` }, name);
}

function shown(value) {
  return typeof value === "number" ? grouped(value) : (value ?? "");
}

async function showPlaces(section) {
  let told;
  try {
    told = placesOf(await get("status"));
  } catch (error) {
    told = [problem(error.message)];
  }
  section.replaceChildren(el("h2", {}, "Where the servers run"), ...told);
}

function placesOf(status) {
  const headings = ["server", "Ray node", { text: "process", number: true }, "links", "for ZooKeeper's clients", "problem"];
  const rows = status.servers.map((each) => [
    String(each.server_id),
    code(each.node_id.slice(0, 8)),
    each.pid ? String(each.pid) : "",
    Object.entries(each.carriers).map(([peer, by]) => `${peer} by ${by}`).join(", "),
    visible([each.zookeeper, each.zookeeper_tls && `${each.zookeeper_tls} (TLS)`].filter(Boolean).join(", ")),
    visible(each.problem),
  ]);
  const told = [table("Where the servers run", headings, rows)];
  if (status.reason) told.push(problem(`There is no leader: ${status.reason}`));
  const { keeper } = status;
  if (keeper?.problem) told.push(problem(`keeper: ${keeper.problem}`));
  const waits = keeper && !keeper.leads && !keeper.problem;
  told.push(el("p", { class: "dim" }, keeper ? `The keeper ${waits ? "waits to be elected" : "moves servers from lost nodes"}.` : "No keeper moves servers from lost nodes (setting heal_after_s)."));
  return told;
}
