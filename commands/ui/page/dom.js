// Elements, made of texts only: nothing that a client of the ensemble wrote is ever parsed as HTML.
// The Content-Security-Policy forbids it besides (require-trusted-types-for).

const SVG = "http://www.w3.org/2000/svg";

export function el(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

// Properties: `on` has listeners, all others are attributes; null and false leave one out.
function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name === "on") {
      for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
    } else if (value !== null && value !== false && value !== undefined) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.flat().filter((each) => each !== null && each !== undefined));
  return element;
}

// Characters that no one sees, or that turn the direction of writing, as escapes.
export function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029]/gu, escaped);
}

// The same of a text of several lines.
export function visibleLines(text) {
  return text.replace(/[^\n\t\P{C}]|[\u2028\u2029]/gu, escaped);
}

function escaped(character) {
  return `\\u{${character.codePointAt(0).toString(16)}}`;
}

export function code(text, properties = {}) {
  return el("code", properties, visible(text));
}

export function button(text, action, properties = {}) {
  return el("button", { type: "button", ...properties, on: { click: action } }, text);
}

export function problem(text) {
  return el("p", { class: "problem", role: "alert" }, visible(String(text)));
}

// A table; a cell is a text, an element, or { value, number } for a number on the right.
export function table(caption, headings, rows) {
  const head = headings.map((each) =>
    el("th", { scope: "col", class: each.number ? "number" : null }, each.text ?? each),
  );
  const body = rows.map((cells) => el("tr", {}, cells.map((cell, at) => tableCell(cell, headings[at]))));
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", { class: "unseen" }, caption),
      el("thead", {}, el("tr", {}, head)),
      el("tbody", {}, body),
    ),
  );
}

function tableCell(cell, heading) {
  if (cell instanceof Element && cell.tagName === "TD") return cell;
  return el("td", { class: heading?.number ? "number" : null }, cell ?? "");
}

export function field(label, input) {
  const id = input.id || `field-${fieldNumber++}`;
  input.id = id;
  return el("span", { class: "field" }, el("label", { for: id }, label), input);
}

let fieldNumber = 1;

export function count(number, singular, plural = `${singular}s`) {
  return `${grouped(number)} ${number === 1 ? singular : plural}`;
}

export function grouped(number) {
  return number.toLocaleString("en");
}

// "14:02:05" of today, else with the day, and with another year; all times are UTC.
export function time(iso) {
  if (!iso) return "";
  const today = new Date().toISOString().slice(0, 10);
  const [day, clock] = [iso.slice(0, 10), iso.slice(11, 19)];
  if (day === today) return clock;
  return `${day.slice(0, 4) === today.slice(0, 4) ? day.slice(5) : day} ${clock}`;
}

// How long ago, roughly; "" for a time to come, as clocks may differ.
export function ago(iso) {
  const seconds = Math.round((Date.now() - Date.parse(iso)) / 1000);
  if (!(seconds >= 0)) return "";
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}
