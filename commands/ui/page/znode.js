// One znode: its value, Stat and ACL, and how it is changed where that is allowed.

import { get, send } from "./api.js";
import { button, code, count, el, field, grouped, problem, time, visible } from "./dom.js";
import { asHex, asJson, asText, base64Of, bytesOf, hexDigits, parseHex } from "./value.js";

export async function znodeDetails(section, path, ensemble, { isWanted, onDeleted, onCreated }) {
  section.setAttribute("aria-busy", "true");
  let content;
  try {
    const znode = await get("znode", { path });
    const reload = () => znodeDetails(section, path, ensemble, { isWanted, onDeleted, onCreated });
    content = [...parts(znode), ...(ensemble.may_edit ? edits(znode, reload, onDeleted, onCreated) : [])];
  } catch (error) {
    const hint = error.kind === "NoAuthError" ? el("p", {}, "Its ACL does not let you read it. “Identities”, above, says who you are.") : null;
    content = [problem(error.message), hint, ensemble.may_edit ? createForm(path, onCreated) : null];
  }
  section.removeAttribute("aria-busy");
  if (isWanted()) section.replaceChildren(el("h3", {}, code(path)), ...content.filter(Boolean));
}

function parts(znode) {
  return [valueView(znode), el("h4", {}, "Stat"), statList(znode.stat), el("h4", {}, "ACL"), aclList(znode.acls)];
}

function valueView(znode) {
  const size = znode.stat.data_length;
  const shown = el("pre", { class: "value", tabindex: 0, role: "region", "aria-label": "The value" });
  let part = znode;
  const draw = () => {
    const bytes = bytesOf(part);
    const ways = { text: () => asText(bytes), json: () => asJson(bytes), hex: () => asHex(bytes, part.offset) };
    shown.textContent = ways[section.querySelector("input:checked").value]();
    const end = part.offset + bytes.length;
    told.textContent = end - part.offset < size ? `bytes ${grouped(part.offset)} to ${grouped(end)} of ${grouped(size)}` : count(size, "byte");
    before.hidden = part.offset === 0;
    after.hidden = end >= size;
  };
  const move = async (offset) => {
    try {
      part = await get("znode", { path: znode.path, offset });
      draw();
    } catch (error) {
      told.textContent = visible(error.message);
    }
  };
  const told = el("span", { class: "dim", role: "status" });
  const length = bytesOf(znode).length;
  const before = button("Earlier part", () => move(Math.max(0, part.offset - length)));
  const after = button("Next part", () => move(part.offset + length));
  const first = znode.is_text ? (looksLikeJson(znode) ? "json" : "text") : "hex";
  const choices = ["text", "json", "hex"].map((way) =>
    el("label", {}, el("input", { type: "radio", name: "way", value: way, checked: way === first, on: { change: draw } }), ` ${way === "json" ? "JSON" : way}`),
  );
  const section = el(
    "div",
    { class: "value-view" },
    el("fieldset", { class: "bar" }, el("legend", {}, "Value"), choices, told),
    shown,
    el("div", { class: "bar" }, before, after, el("a", { href: `/api/v1/value?path=${encodeURIComponent(znode.path)}`, download: "value.bin" }, "Download")),
  );
  draw();
  return section;
}

function looksLikeJson(znode) {
  if (!/^\s*[[{]/.test(znode.value ?? "")) return false;
  try {
    JSON.parse(znode.value);
    return true;
  } catch {
    return false;
  }
}

function statList(stat) {
  const shown = {
    version: stat.version,
    "value": count(stat.data_length, "byte"),
    children: grouped(stat.num_children),
    "ephemeral owner": stat.ephemeral_owner ?? "none",
    created: moment(stat.ctime, stat.czxid, "with the ensemble"),
    changed: moment(stat.mtime, stat.mzxid, "never"),
    "children changed": `zxid ${stat.pzxid}, version ${stat.cversion}`,
    "ACL version": stat.aversion,
  };
  return el("dl", { class: "stat" }, Object.entries(shown).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value)))));
}

// What no transaction did has the time 0, which is no time.
function moment(iso, zxid, otherwise) {
  return zxid === "0:0" ? otherwise : `${time(iso)} UTC, zxid ${zxid}`;
}

function aclList(acls) {
  const rows = acls.map((each) => el("li", {}, code(`${each.scheme}:${each.id}`), ` ${each.permissions.join(", ") || "nothing"}`));
  return el("ul", { class: "acls" }, rows);
}

function edits(znode, reload, onDeleted, onCreated) {
  const isWhole = bytesOf(znode).length === znode.stat.data_length;
  const editor = isWhole ? setForm(znode, reload) : el("p", { class: "dim" }, "A value of this size cannot be edited here.");
  // Nobody can delete the root.
  const deletion = znode.path === "/" ? null : deleteForm(znode, onDeleted);
  return [el("h4", {}, "Change"), editor, deletion, createForm(znode.path, onCreated)];
}

function setForm(znode, reload) {
  const bytes = bytesOf(znode);
  const input = el("textarea", { rows: 6, spellcheck: "false" });
  input.value = znode.is_text ? znode.value : hexDigits(bytes);
  const told = el("div");
  const submit = async (event) => {
    event.preventDefault();
    const value = znode.is_text ? new TextEncoder().encode(input.value) : parseHex(input.value);
    if (value === null) {
      told.replaceChildren(problem("A binary value is written as hex digits, two for each byte."));
      return;
    }
    try {
      await send("PUT", "znode", { path: znode.path, version: znode.stat.version, value_base64: base64Of(value) });
      await reload();
    } catch (error) {
      const again = error.kind === "BadVersionError" ? button("Show the newest", reload) : null;
      told.replaceChildren(problem(error.message), ...(again ? [again] : []));
    }
  };
  const label = znode.is_text ? "New value" : "New value, in hex";
  return el("form", { class: "set", on: { submit } }, field(label, input), el("button", { type: "submit" }, `Save over version ${znode.stat.version}`), told);
}

function deleteForm(znode, onDeleted) {
  const told = el("div");
  const { path, stat } = znode;
  const ask = () => {
    const dialog = el("dialog", { "aria-labelledby": "delete-title", on: { close: () => dialog.remove() } });
    const act = async () => {
      dialog.close();
      try {
        await send("DELETE", `znode?${new URLSearchParams({ path, version: stat.version })}`);
        onDeleted();
      } catch (error) {
        told.replaceChildren(problem(error.message));
      }
    };
    dialog.append(
      el("h2", { id: "delete-title" }, "Delete this znode?"),
      el("p", {}, code(path), ` at version ${stat.version}`),
      el("div", { class: "bar" }, button("Delete", act, { class: "danger" }), button("Keep", () => dialog.close(), { autofocus: true })),
    );
    document.body.append(dialog);
    dialog.showModal();
  };
  return el("div", {}, button("Delete …", ask, { class: "danger", id: "delete" }), told);
}

function createForm(parent, onCreated) {
  const start = parent === "/" ? "/" : `${parent}/`;
  const path = el("input", { type: "text", value: start, spellcheck: "false", required: true });
  const value = el("textarea", { rows: 2, spellcheck: "false" });
  const kind = el("select", {}, ["persistent", "sequence", "container"].map((each) => el("option", {}, each)));
  const told = el("div");
  const submit = async (event) => {
    event.preventDefault();
    const body = { path: path.value, value: value.value, sequence: kind.value === "sequence", container: kind.value === "container" };
    try {
      const created = await send("POST", "znode", body);
      told.replaceChildren(el("p", { role: "status" }, `created ${visible(created.path)}`));
      onCreated(created.path);
    } catch (error) {
      told.replaceChildren(problem(error.message));
    }
  };
  return el(
    "details",
    { class: "create" },
    el("summary", {}, "Create a znode"),
    el("form", { on: { submit } }, field("Path", path), field("Value", value), field("Kind", kind), el("button", { type: "submit" }, "Create"), told),
  );
}
