// The backups and archives in the places that `raykeeper ui --backups` names.

import { get } from "./api.js";
import { button, code, count, el, grouped, problem, table, time, visible } from "./dom.js";

const HEADINGS = [
  "file", "kind", { text: "bytes", number: true }, "from zxid", "from (UTC)", "to zxid", "to (UTC)", "ensemble",
];

export function showBackups({ view }) {
  const told = el("p", { class: "told", role: "status" });
  const body = el("div");
  view.append(el("h2", {}, "Backups"), el("div", { class: "bar" }, told, button("Refresh", () => load())), body);
  async function load() {
    told.textContent = "reading the places";
    let page;
    try {
      page = await get("backups");
    } catch (error) {
      told.textContent = "";
      body.replaceChildren(problem(error.message));
      return;
    }
    const files = page.places.reduce((sum, each) => sum + each.backups.length, 0);
    told.textContent = `${count(files, "file")} in ${count(page.places.length, "place")}; only their manifests are read`;
    body.replaceChildren(
      ...(page.problem ? [problem(`How far the ensemble is, is not known: ${page.problem}`)] : []),
      ...page.places.map((each) => placeOf(each, page)),
    );
  }
  load();
}

function placeOf(place, page) {
  const notes = [];
  if (place.left_out) {
    notes.push(problem(`${count(place.left_out, "file")} more not read: at most ${grouped(page.files_max)} files (--backup-files) and ${page.timeout_s} s (--backup-timeout-s) for each place`));
  }
  if (place.other_files) notes.push(el("p", { class: "dim" }, `${count(place.other_files, "other file")}, whose names do not end with .rkb`));
  return el(
    "section",
    { class: "place", "aria-label": visible(place.place) },
    el("h3", {}, code(place.place)),
    place.problem ? problem(place.problem) : null,
    place.archive ? archiveOf(place.archive, page) : null,
    place.backups.filter((each) => each.problem).map((each) => problem(each.problem)),
    place.backups.length ? table(`Backups in ${visible(place.place)}`, HEADINGS, place.backups.map(row)) : el("p", { class: "dim" }, "No backup was read here."),
    notes,
  );
}

function archiveOf(archive, page) {
  if (archive.end === null) return null;
  const end = `The archive reaches up to ${archive.end}${archive.end_time ? `, ${time(archive.end_time)} UTC` : ""}`;
  return el("div", {}, el("p", { class: "behind" }, `${end}; ${behind(archive, page)}.`), archive.problem ? problem(archive.problem) : null);
}

function behind({ end, behind_txns: txns, behind_s: seconds }, { newest }) {
  if (newest !== null && end === newest) return "nothing is missing";
  const told = [];
  if (txns !== null) told.push(count(txns, "transaction"));
  if (seconds !== null) told.push(`at most ${span(seconds)}`);
  return told.length ? `behind the ensemble by ${told.join(", ")}` : "how far behind the ensemble is not known";
}

function span(seconds) {
  if (seconds < 120) return `${Math.ceil(seconds)} s`;
  return seconds < 7200 ? `${Math.ceil(seconds / 60)} min` : `${Math.ceil(seconds / 3600)} h`;
}

function row(each) {
  return [
    code(each.file),
    each.kind,
    each.bytes === null ? "" : grouped(each.bytes),
    each.from_zxid ?? "",
    time(each.from_time),
    each.zxid ?? "",
    time(each.time),
    visible(each.ensemble ?? ""),
  ];
}
