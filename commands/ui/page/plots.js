// Plots of the newest looks: a line for each server, which differ in color and in dashes.

import { el, grouped, svg } from "./dom.js";

const [WIDTH, HEIGHT] = [600, 150];

// Draws a figure; `valueOf` returns the number of a server in a look, or null.
export function plot(title, unit, looks, valueOf) {
  const servers = [...new Set(looks.flatMap((look) => (look.load?.servers ?? []).map((each) => each.server_id)))];
  const end = looks.length ? Date.parse(looks.at(-1).time) : 0;
  const begin = looks.length > 1 ? Date.parse(looks[0].time) : end - 1000;
  const lines = servers.map((server, at) => ({ server, at, points: pointsOf(server, looks, valueOf) }));
  const values = lines.flatMap((line) => line.points.map(([, value]) => value)).filter((each) => each !== null);
  const top = roundUp(Math.max(0, ...values));
  const x = (time) => ((time - begin) / (end - begin)) * WIDTH;
  const y = (value) => HEIGHT - (value / top) * (HEIGHT - 4);
  const legend = lines.map((line) => legendEntry(line, unit));
  const told = lines.map((line) => `server ${line.server}: ${shownValue(line.points.at(-1)?.[1], unit)}`);
  return el(
    "figure",
    { class: "plot" },
    el("figcaption", {}, title, " ", el("span", { class: "dim" }, unit)),
    el(
      "div",
      { class: "canvas" },
      el("span", { class: "top dim" }, short(top)),
      el("span", { class: "middle dim" }, short(top / 2)),
      svg(
        "svg",
        { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${told.join(", ") || "nothing yet"}` },
        [0.5, 1].map((part) => svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(top * part), y2: y(top * part) })),
        lines.map((line) => svg("path", { class: `curve curve-${line.at % 6}`, d: pathOf(line.points, x, y) })),
      ),
    ),
    el("p", { class: "axis dim" }, el("span", {}, span(end - begin)), el("span", {}, "now")),
    el("ul", { class: "legend" }, legend),
  );
}

function pointsOf(server, looks, valueOf) {
  return looks.map((look) => {
    const found = look.load?.servers.find((each) => each.server_id === server);
    return [Date.parse(look.time), found ? valueOf(found) : null];
  });
}

// A line that is broken where a server told nothing.
function pathOf(points, x, y) {
  let [path, isDown] = ["", false];
  for (const [at, value] of points) {
    if (value !== null) {
      // A number that stands alone is a dot: a line to itself with round ends.
      path += `${isDown ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      if (!isDown) path += `L${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    }
    isDown = value !== null;
  }
  return path;
}

function legendEntry(line, unit) {
  const sample = svg(
    "svg",
    { class: "sample", viewBox: "0 0 24 8", "aria-hidden": true },
    svg("path", { class: `curve curve-${line.at % 6}`, d: "M0 4L24 4" }),
  );
  return el("li", {}, sample, ` ${line.server}: `, el("b", {}, shownValue(line.points.at(-1)?.[1], unit)));
}

function shownValue(value, unit) {
  if (value === null || value === undefined) return "–";
  return unit === "ms" ? value.toFixed(2) : grouped(Math.round(value));
}

function short(number) {
  return number >= 1e6 ? `${+(number / 1e6).toFixed(1)} M` : number >= 1e4 ? `${+(number / 1e3).toFixed(1)} k` : `${+number.toFixed(2)}`;
}

function roundUp(number) {
  if (number <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 5, 10].map((each) => each * size).find((each) => each >= number);
}

function span(ms) {
  const seconds = Math.round(ms / 1000);
  return seconds < 120 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
}
