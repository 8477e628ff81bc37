// The frame of the page: which view is shown, and what the header tells.

import { follow, get } from "./api.js";
import { showBackups } from "./backups.js";
import { el, problem, visible } from "./dom.js";
import { showEvents } from "./events.js";
import { openIdentities } from "./identities.js";
import { showLocks } from "./locks.js";
import { showOverview } from "./overview.js";
import { showSessions, showWatches } from "./tables.js";
import { showTree } from "./tree.js";

const VIEWS = {
  overview: showOverview,
  tree: showTree,
  locks: showLocks,
  sessions: showSessions,
  watches: showWatches,
  events: showEvents,
};
const looks = []; // the newest last
const listeners = new Set(); // of the view that is shown
let ensemble = null;
let shownHash = null;
let leaveView = () => {};

// `#/watches?session=0x1` → ["watches", { session: "0x1" }]
function place() {
  const [name, query] = location.hash.replace(/^#\/?/, "").split("?");
  return [name in VIEWS ? name : "overview", Object.fromEntries(new URLSearchParams(query))];
}

function show() {
  if (location.hash === "#view" || location.hash === shownHash) return;
  shownHash = location.hash;
  leaveView();
  listeners.clear();
  const [name, query] = place();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash !== `#/${name}`) link.removeAttribute("aria-current");
    else {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }
  const view = document.getElementById("view");
  view.replaceChildren();
  view.dataset.view = name;
  document.title = `${name} · ${ensemble.name} · Raykeeper`;
  leaveView = VIEWS[name]({ view, query, ensemble, looks, onLook: (each) => listeners.add(each) }) ?? (() => {});
}

function addLook(look) {
  looks.push(look);
  while (looks.length > ensemble.looks_kept) looks.shift();
  tellState();
  for (const each of listeners) each(look);
}

let isThere = true;

function tellState() {
  const state = document.getElementById("state");
  const look = looks.at(-1);
  let [text, kind] = ["waiting for the servers", "warning"];
  if (!isThere) [text, kind] = ["`raykeeper ui` does not answer any more", "bad"];
  else if (look?.problem) [text, kind] = [visible(look.problem), "bad"];
  else if (look) {
    const { leader, servers } = look.load;
    const down = servers.filter((each) => each.role === "down").length;
    const epoch = servers.find((each) => each.server_id === leader)?.stats?.epoch;
    text = leader === null ? "no leader" : `server ${leader} leads, epoch ${epoch}`;
    if (down) text += `, ${down} of ${servers.length} down`;
    kind = leader === null ? "bad" : down ? "warning" : "good";
  }
  if (state.textContent !== text) state.textContent = text;
  state.className = kind;
}

async function start() {
  document.getElementById("identities").addEventListener("click", openIdentities);
  try {
    ensemble = await get("ensemble");
  } catch (error) {
    document.getElementById("view").replaceChildren(problem(error.message));
    return;
  }
  document.getElementById("ensemble").textContent = ensemble.name;
  if (ensemble.shows_backups) {
    VIEWS.backups = showBackups;
    document.querySelector("nav").append(el("a", { href: "#/backups" }, "Backups"));
  }
  tellState();
  follow(addLook, (there) => {
    isThere = there;
    tellState();
  });
  window.addEventListener("hashchange", show);
  show();
}

start();
