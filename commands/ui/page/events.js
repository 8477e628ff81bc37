// What the keeper decided, and what the servers did while `raykeeper ui` looked.

import { get } from "./api.js";
import { el, problem, visible } from "./dom.js";

export function showEvents({ view, onLook }) {
  const decisions = el("section", { "aria-label": "Decisions of the keeper" });
  const changes = el("section", { "aria-label": "Servers" });
  view.append(decisions, changes);
  let shown = "";
  async function load() {
    let page;
    try {
      page = await get("events");
    } catch (error) {
      shown = "";
      decisions.replaceChildren(problem(error.message));
      return;
    }
    const now = JSON.stringify(page);
    if (now === shown) return; // so that a selection stays
    shown = now;
    decisions.replaceChildren(
      el("h2", {}, "Decisions of the keeper"),
      page.problem ? problem(page.problem) : list(page.events, page.has_keeper ? "None yet." : "None; no keeper runs now."),
    );
    changes.replaceChildren(
      el("h2", {}, "Servers, since this page is served"),
      list(page.changes, "Nothing happened."),
    );
  }
  load();
  onLook(load);
}

// The newest first.
function list(events, none) {
  if (!events.length) return el("p", { class: "dim" }, none);
  const rows = events.toReversed().map((each) => {
    const at = `${each.time.slice(0, 10)} ${each.time.slice(11, 19)}`;
    return el("li", {}, el("time", { datetime: each.time }, at), " ", visible(each.text));
  });
  return el("ol", { class: "events" }, rows);
}
