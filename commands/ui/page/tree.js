// The tree: children are fetched when a znode is opened, a page at a time, so a million of them cost
// what a hundred cost. Keys are those of the ARIA pattern for trees.

import { get } from "./api.js";
import { el, field, grouped, problem, visible } from "./dom.js";
import { znodeDetails } from "./znode.js";

const PAGE = 100;

export function showTree({ view, query, ensemble }) {
  const path = query.path || "/";
  const tree = new Tree(query.root || (path === "/" ? "/" : parentOf(path)), (row) => select(row.path));
  const details = el("section", { class: "details", "aria-label": "The znode" });
  const goto = el("input", { type: "text", value: path, spellcheck: "false" });
  const submit = (event) => {
    event.preventDefault();
    location.hash = `#/tree?path=${encodeURIComponent(goto.value.trim() || "/")}`;
  };
  const form = el("form", { class: "bar", on: { submit } }, field("Path", goto), el("button", { type: "submit" }, "Go"));
  view.append(
    el("h2", {}, "Tree"),
    form,
    el("div", { class: "columns" }, el("section", { class: "browser", "aria-label": "Znodes" }, tree.element), details),
  );
  let selected = "";
  async function select(which) {
    selected = which;
    goto.value = which;
    await znodeDetails(details, which, ensemble, {
      isWanted: () => selected === which && details.isConnected,
      onDeleted: () => tree.forget(which),
      onCreated: (created) => tree.reload(parentOf(created)),
    });
  }
  tree.begin(path);
  select(path);
  const again = () => select(selected);
  window.addEventListener("identities", again);
  return () => window.removeEventListener("identities", again);
}

export function parentOf(path) {
  const at = path.lastIndexOf("/");
  return at <= 0 ? "/" : path.slice(0, at);
}

function childOf(path, name) {
  return path === "/" ? `/${name}` : `${path}/${name}`;
}

class Tree {
  constructor(root, onSelect) {
    this.onSelect = onSelect;
    this.rows = new Map(); // by path
    this.list = el("ul", { role: "tree", "aria-label": "Znodes", on: { keydown: (event) => this.onKey(event) } });
    this.root = this.addRow(this.list, { name: root, path: root, children: 1 }, 1);
    this.after = el("input", { type: "text", spellcheck: "false", placeholder: "a name" });
    const submit = (event) => {
      event.preventDefault();
      this.open(this.root, this.after.value);
    };
    this.element = el(
      "div",
      {},
      crumbs(root),
      this.list,
      el("form", { class: "bar begin", on: { submit } }, field(`Children of ${visible(root)} after the name`, this.after), el("button", { type: "submit" }, "List")),
    );
  }

  // Opens the root; `path` is selected if it is among the children shown.
  async begin(path) {
    await this.open(this.root);
    this.mark(this.rows.get(path) ?? this.root);
  }

  addRow(list, { name, path, children, session_id: session }, level) {
    const label = el("span", { class: "label" }, visible(name));
    const notes = [children ? grouped(children) : null, session ? "ephemeral" : null].filter(Boolean).join(", ");
    const line = el("div", { class: "line" }, el("span", { class: "twist", "aria-hidden": true }), label);
    if (notes && level > 1) line.append(" ", el("span", { class: "dim" }, notes));
    const item = el("li", { role: "treeitem", tabindex: -1, "aria-level": level, "aria-selected": "false", "aria-expanded": children ? "false" : null }, line);
    const row = { path, item, line, level, group: null };
    line.addEventListener("click", (event) => {
      this.mark(row, true);
      if (event.target.classList.contains("twist")) this.toggle(row);
      else this.onSelect(row);
    });
    line.addEventListener("dblclick", () => this.toggle(row));
    item.row = row;
    this.rows.set(path, row);
    list.append(item);
    return row;
  }

  isOpen(row) {
    return row.item.getAttribute("aria-expanded") === "true";
  }

  toggle(row) {
    if (this.isOpen(row)) this.close(row);
    else if (row.item.hasAttribute("aria-expanded")) return this.open(row);
  }

  close(row) {
    row.item.setAttribute("aria-expanded", "false");
    row.group?.remove();
    row.group = null;
  }

  async open(row, after = "") {
    this.close(row);
    row.item.setAttribute("aria-expanded", "true");
    row.group = el("ul", { role: "group" });
    row.item.append(row.group);
    await this.fetch(row, after);
  }

  async fetch(row, after) {
    const { group } = row;
    group.setAttribute("aria-busy", "true");
    let page;
    try {
      page = await get("children", { path: row.path, after, limit: PAGE });
    } catch (error) {
      group.append(el("li", { role: "none" }, problem(error.message)));
      return;
    } finally {
      group.removeAttribute("aria-busy");
    }
    for (const each of page.children) this.addRow(group, { ...each, path: childOf(row.path, each.name) }, row.level + 1);
    if (page.told_by === null) group.append(el("li", { role: "none" }, problem("no server can list the children")));
    else if (page.left_out && page.last) group.append(this.moreItem(row, page));
  }

  // An item in the place of the children that are not shown yet.
  moreItem(row, page) {
    const text = `${grouped(Math.min(PAGE, page.left_out))} more of ${grouped(page.left_out)}`;
    const line = el("div", { class: "line more" }, text);
    const item = el("li", { role: "treeitem", tabindex: -1, "aria-level": row.level + 1, "aria-selected": "false" }, line);
    const act = async () => {
      const before = item.previousElementSibling;
      item.remove();
      await this.fetch(row, page.last);
      const next = before?.nextElementSibling?.row;
      if (next) this.mark(next, true);
    };
    item.row = { item, act };
    line.addEventListener("click", act);
    return item;
  }

  // Makes a row the one that Tab reaches and that is selected.
  mark(row, hasFocus = false) {
    for (const each of this.list.querySelectorAll("[tabindex='0'], [aria-selected='true']")) {
      each.tabIndex = -1;
      each.setAttribute("aria-selected", "false");
    }
    row.item.tabIndex = 0;
    row.item.setAttribute("aria-selected", "true");
    if (hasFocus) row.item.focus();
  }

  forget(path) {
    const row = this.rows.get(path);
    this.rows.delete(path);
    const parent = this.rows.get(parentOf(path)) ?? this.root;
    if (row && row !== this.root) row.item.remove();
    this.mark(parent, true);
    this.onSelect(parent);
  }

  async reload(path) {
    const row = this.rows.get(path);
    if (!row) return;
    row.item.setAttribute("aria-expanded", "false");
    await this.open(row);
  }

  onKey(event) {
    const row = event.target.row;
    if (!row || event.ctrlKey || event.altKey || event.metaKey) return;
    const items = [...this.list.querySelectorAll("[role='treeitem']")];
    const at = items.indexOf(row.item);
    const go = (item) => item?.row && this.mark(item.row, true);
    const keys = {
      ArrowDown: () => go(items[at + 1]),
      ArrowUp: () => go(items[at - 1]),
      Home: () => go(items[0]),
      End: () => go(items.at(-1)),
      ArrowRight: () => {
        if (row.act) return;
        if (this.isOpen(row)) go(row.group.querySelector("[role='treeitem']"));
        else this.toggle(row);
      },
      ArrowLeft: () => {
        if (!row.act && this.isOpen(row)) this.close(row);
        else go(row.item.parentElement.closest("[role='treeitem']"));
      },
      Enter: () => (row.act ? row.act() : this.onSelect(row)),
      " ": () => (row.act ? row.act() : this.onSelect(row)),
    };
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  }
}

// The path to the root of the shown tree, each part of it a link.
function crumbs(root) {
  const parts = root === "/" ? [] : root.slice(1).split("/");
  const links = [link("/", "/")];
  parts.forEach((name, at) => links.push(link(`/${parts.slice(0, at + 1).join("/")}`, name)));
  return el("p", { class: "crumbs" }, "Below ", links.flatMap((each, at) => (at > 1 ? ["/", each] : [each])));
}

function link(path, text) {
  const encoded = encodeURIComponent(path);
  return el("a", { href: `#/tree?root=${encoded}&path=${encoded}` }, visible(text));
}
