// The identities of the viewer: who the servers take the viewer for.

import { get, send } from "./api.js";
import { button, code, el, field, problem } from "./dom.js";

export async function openIdentities() {
  const shown = el("ul", { "aria-label": "Identities" });
  const told = el("div");
  const scheme = el("select", {}, ["scrypt", "digest"].map((each) => el("option", {}, each)));
  const user = el("input", { type: "text", autocomplete: "off", required: true });
  const password = el("input", { type: "password", autocomplete: "off", required: true });
  const dialog = el("dialog", { "aria-labelledby": "identities-title", on: { close: () => dialog.remove() } });
  const act = async (action) => {
    try {
      const { identities } = await action();
      told.replaceChildren();
      shown.replaceChildren(...identities.map((each) => el("li", {}, code(`${each.scheme}:${each.user}`))));
      window.dispatchEvent(new Event("identities"));
    } catch (error) {
      told.replaceChildren(problem(error.message));
    }
  };
  const submit = (event) => {
    event.preventDefault();
    const body = { scheme: scheme.value, credential: `${user.value}:${password.value}` };
    password.value = "";
    act(() => send("POST", "identities", body));
  };
  dialog.append(
    el("h2", { id: "identities-title" }, "Identities"),
    el("p", {}, "Znodes are read and changed with these. They end with your session."),
    shown,
    told,
    el(
      "form",
      { on: { submit } },
      field("Scheme", scheme),
      field("User", user),
      field("Password", password),
      el("button", { type: "submit" }, "Add"),
    ),
    el(
      "div",
      { class: "bar" },
      button("Forget all", () => act(() => send("DELETE", "identities"))),
      button("Close", () => dialog.close()),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  act(() => get("identities"));
}
