// Locks and their queues as pictures: who waits for whom.

import { get } from "./api.js";
import { ago, code, count, el, field, problem, svg, table, time, visible } from "./dom.js";
import { clientText, serverProblems } from "./tables.js";

const REFRESH_MS = 5_000;
const NARROW = 700; // pixels: below it a queue runs from top to bottom
const [WIDTH, HEIGHT, GAP] = [220, 80, 34];

export function showLocks({ view, query }) {
  const path = el("input", { type: "text", value: query.path ?? "/", spellcheck: "false" });
  const limit = 50;
  const submit = (event) => {
    event.preventDefault();
    shown = "";
    load();
  };
  const form = el("form", { class: "bar", on: { submit } }, field("At and below", path), el("button", { type: "submit" }, "Show"));
  const told = el("p", { class: "told", role: "status" });
  const body = el("div");
  view.append(el("h2", {}, "Locks"), form, told, body);
  let shown = "";
  let page = null;
  const draw = () => {
    const circle = new Set(page.cycles.flat());
    body.replaceChildren(
      ...page.cycles.map((each) => problem(`Sessions ${each.join(", ")} wait for each other. If each has one thread, this is a deadlock.`)),
      ...page.locks.map((each) => lockFigure(each, circle)),
      ...serverProblems(page.servers),
    );
  };
  async function load() {
    try {
      page = await get("locks", { path: path.value, limit, contenders: 10 });
    } catch (error) {
      shown = told.textContent = "";
      body.replaceChildren(problem(error.message));
      return;
    }
    const now = JSON.stringify(page.locks) + JSON.stringify(page.servers.map((each) => each.problem));
    if (now === shown) return; // so that scrolling and selections stay
    shown = now;
    const more = page.left_out ? `, ${page.left_out} more: name a path below which to look` : "";
    told.textContent = page.told_by === null ? "no server can tell the locks" : `${count(page.locks.length, "lock")}, as server ${page.told_by} knows them${more}`;
    draw();
  }
  load();
  const timer = setInterval(() => document.hidden || body.contains(document.activeElement) || load(), REFRESH_MS);
  const width = matchMedia(`(max-width: ${NARROW}px)`);
  const redraw = () => page && draw();
  width.addEventListener("change", redraw);
  return () => {
    clearInterval(timer);
    width.removeEventListener("change", redraw);
  };
}

function lockFigure(lock, circle) {
  const kind = lock.permits === null ? lock.kind : `${lock.kind} of ${lock.permits || "an unknown number"}`;
  const hidden = lock.holders + lock.waiting - lock.contenders.length;
  return el(
    "figure",
    { class: "lock" },
    el(
      "figcaption",
      {},
      el("h3", {}, el("a", { href: `#/tree?path=${encodeURIComponent(lock.path)}` }, code(lock.path))),
      el("span", { class: "dim" }, `${kind}: ${count(lock.holders, "holds", "hold")}, ${count(lock.waiting, "waits", "wait")}`),
    ),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `The queue of ${lock.path}` }, picture(lock, circle)),
    hidden > 0 ? el("p", { class: "dim" }, `${hidden} more behind them`) : null,
    el("details", {}, el("summary", {}, "As a table"), contenderTable(lock)),
  );
}

// Holders first; whoever waits stands one place behind the last of those it waits for.
function layOut(contenders) {
  const depths = new Map();
  const taken = [];
  return contenders.map((each) => {
    let depth = Math.max(-1, ...each.waits_for.map((name) => depths.get(name) ?? -1)) + 1;
    if (each.state === "waits" && depth === 0) depth = 1; // for a permit, or for one not shown
    depths.set(each.name, depth);
    taken[depth] ??= 0;
    return { ...each, depth, row: taken[depth]++ };
  });
}

function picture(lock, circle) {
  const isNarrow = innerWidth <= NARROW;
  const boxes = layOut(lock.contenders).map((each) => {
    const [across, along] = isNarrow ? [each.row, each.depth] : [each.depth, each.row];
    const [x, y] = [across * (WIDTH + GAP), along * (HEIGHT + (isNarrow ? GAP : 14))];
    return { ...each, x, y };
  });
  const byName = new Map(boxes.map((each) => [each.name, each]));
  const width = Math.max(...boxes.map((each) => each.x)) + WIDTH;
  const height = Math.max(...boxes.map((each) => each.y)) + HEIGHT;
  const arrows = boxes.flatMap((each) => each.waits_for.map((name) => arrow(each, byName.get(name), isNarrow)));
  const told = boxes.map((each) => `${who(each)} ${each.state}${waitsFor(each, byName)}`);
  return svg(
    "svg",
    { class: "queue", width: width + 4, height: height + 4, viewBox: `-2 -2 ${width + 4} ${height + 4}`, role: "img", "aria-label": told.join("; ") },
    svg("defs", {}, svg("marker", { id: "head", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { class: "head", d: "M0 0L8 4L0 8z" }))),
    arrows,
    boxes.map((each) => box(each, circle)),
  );
}

function waitsFor(each, byName) {
  const others = each.waits_for.map((name) => who(byName.get(name)));
  return others.length ? ` for ${others.join(" and ")}` : "";
}

function arrow(from, to, isNarrow) {
  const ends = isNarrow
    ? [from.x + WIDTH / 2, from.y, to.x + WIDTH / 2, to.y + HEIGHT]
    : [from.x, from.y + HEIGHT / 2, to.x + WIDTH, to.y + HEIGHT / 2];
  const [x1, y1, x2, y2] = ends;
  return svg("line", { class: "arrow", x1, y1, x2, y2, "marker-end": "url(#head)" });
}

function box(each, circle) {
  const kind = `${each.state}${circle.has(each.session_id) ? " circle" : ""}`;
  const since = `${each.state}${each.mode ? ` (${each.mode})` : ""} · ${ago(each.since) || time(each.since)}`;
  const [name, process] = ownerOf(each);
  return svg(
    "g",
    { class: `contender ${kind}`, transform: `translate(${each.x} ${each.y})` },
    svg("title", {}, visible(`${each.name}\n${clientText(each)}\n${each.identifier ?? ""}`)),
    svg("rect", { width: WIDTH, height: HEIGHT, rx: 8 }),
    svg("text", { class: "who", x: 10, y: 19 }, cut(name, 27)),
    svg("text", { x: 10, y: 36 }, cut(process, 32)),
    svg("text", { x: 10, y: 53 }, each.session_id ?? "lease"),
    svg("text", { class: "since", x: 10, y: 70 }, since),
  );
}

// Whose place it is: what it introduced itself with, else its program; and its process.
function ownerOf(each) {
  const line = clientText(each);
  // Such as `driver load.py 01000000 pid 77 on host/5d0e`: Ray's id says nothing to a reader.
  const [, program, process] = line.match(/^(.*?)(?: [0-9a-f]{8,})? (pid \d+.*)$/) ?? [null, line, ""];
  const own = each.identifier && each.identifier !== each.identity ? each.identifier : "";
  if (!own) return [program, process];
  return [own, process ? `${program} ${process}` : program];
}

function who(each) {
  return [visible(ownerOf(each)[0]), each.session_id ?? "a lease"].filter(Boolean).join(" ");
}

function cut(text, most) {
  const characters = [...visible(text)];
  return characters.length > most ? `${characters.slice(0, most - 1).join("")}…` : characters.join("");
}

function contenderTable(lock) {
  const headings = ["state", "session", "since (UTC)", "token", "server", "client", "identifier", "znode"];
  const rows = lock.contenders.map((each) => [
    each.mode ? `${each.state} (${each.mode})` : each.state,
    each.session_id ?? "none",
    time(each.since),
    each.token,
    each.server_id === null ? "none" : String(each.server_id),
    visible(clientText(each)),
    each.identifier === null ? "(hidden by its ACL)" : visible(each.identifier),
    code(each.name),
  ]);
  return table(`Contenders of ${lock.path}`, headings, rows);
}
