// A value as text, JSON or hex.

import { visibleLines } from "./dom.js";

const ROW = 16;

export function bytesOf(document) {
  if (document.value !== null) return new TextEncoder().encode(document.value);
  return Uint8Array.from(atob(document.value_base64), (each) => each.charCodeAt(0));
}

export function base64Of(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

// Of a part of a longer text the last character may be cut.
export function asText(bytes) {
  return visibleLines(new TextDecoder().decode(bytes));
}

export function asJson(bytes) {
  try {
    return visibleLines(JSON.stringify(JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)), null, 2));
  } catch (error) {
    return `It is no JSON: ${visibleLines(error.message)}`;
  }
}

export function asHex(bytes, offset) {
  const rows = [];
  for (let at = 0; at < bytes.length; at += ROW) {
    const part = [...bytes.subarray(at, at + ROW)];
    const hex = part.map((each) => each.toString(16).padStart(2, "0")).join(" ").padEnd(3 * ROW - 1);
    const text = part.map((each) => (each >= 32 && each < 127 ? String.fromCharCode(each) : ".")).join("");
    rows.push(`${(offset + at).toString(16).padStart(6, "0")}  ${hex}  ${text}`);
  }
  return rows.join("\n");
}

// Bytes written as hex digits, with any white space; null if it is something else.
export function parseHex(text) {
  const digits = text.replace(/\s/g, "");
  if (digits.length % 2 || /[^0-9a-f]/i.test(digits)) return null;
  return Uint8Array.from(digits.match(/../g) ?? [], (each) => parseInt(each, 16));
}

export function hexDigits(bytes) {
  return [...bytes].map((each) => each.toString(16).padStart(2, "0")).join(" ");
}
