"""The route of the backups: what is in the places that `--backups` names.

A place is read in a thread of its own, at most one at a time for each place, so a disk or a store
that does not answer keeps neither the page nor its other places waiting.
"""

import asyncio
import re
import time
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from raykeeper.clusters.backups.catalog import Catalog, CatalogEntry, fill_catalog
from raykeeper.clusters.backups.places import place_at
from raykeeper.commands.output import Document, time_field
from raykeeper.commands.ui.answers import ApiError, answer
from raykeeper.commands.ui.settings import PageSettings
from raykeeper.commands.ui.source import Source
from raykeeper.links.daemon_threads import SharedCall
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import Millis, Zxid, counter_of, epoch_of, format_zxid

GRACE_S: Final = 1.0
"""What the last file may take beyond the time for a place."""
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*@")


class BackupRoutes:
    """Reads backup files, of which none is changed."""

    def __init__(self, source: Source, settings: PageSettings) -> None:
        """`source` tells how far the ensemble is."""
        self._source = source
        self._places = settings.backups
        self._files_max = settings.backup_files_max
        self._timeout_s = settings.backup_timeout_s
        self._catalogs: dict[str, Catalog] = {}
        self._read = SharedCall(self._read_place)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, to be added to an application."""
        return [web.get("/api/v1/backups", self._backups)]

    async def _backups(self, _request: web.Request) -> web.Response:
        if not self._places:
            raise ApiError(
                404, "no place is shown: start `raykeeper ui` with `--backups PLACE` for each"
            )
        catalogs = await asyncio.gather(*map(self._catalog_of, self._places))
        # Asked after the places are read, so that an archive is never ahead of what is told here.
        newest, problem = await self._newest()
        return answer(
            {
                "name": self._source.name,
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "newest": None if newest is None else format_zxid(newest),
                "problem": problem,
                "files_max": self._files_max,
                "timeout_s": self._timeout_s,
                "places": [
                    _place_document(place, catalog, self._source.name, newest)
                    for place, catalog in zip(self._places, catalogs, strict=True)
                ],
            }
        )

    async def _catalog_of(self, place: str) -> Catalog:
        try:
            return await asyncio.wait_for(self._read(place), self._timeout_s + GRACE_S)
        except TimeoutError:
            found = self._catalogs.get(place, Catalog())
            problem = f"{place} does not answer within {self._timeout_s:g} s"
            return Catalog(
                entries=list(found.entries),
                left_out=found.left_out,
                other_files=found.other_files,
                problem=problem,
            )
        except RayKeeperError as error:
            return Catalog(problem=str(error))

    def _read_place(self, place: str) -> Catalog:
        until = time.monotonic() + self._timeout_s
        catalog = self._catalogs[place] = Catalog()

        def is_over() -> bool:
            return time.monotonic() > until

        fill_catalog(catalog, place_at(place), self._files_max, is_over)
        return catalog

    async def _newest(self) -> tuple[Zxid | None, str]:
        """Return the newest transaction that a server has applied; None and why if none tells."""
        try:
            status = await self._source.status()
        except RayKeeperError as error:
            return None, str(error)
        applied = [each.last_zxid for each in status.servers if each.epoch]
        return (max(applied), "") if applied else (None, "no server says what it has applied")


def _place_document(place: str, catalog: Catalog, ensemble: str, newest: Zxid | None) -> Document:
    times = {
        each.closing.zxid: each.closing.time_ms
        for each in catalog.entries
        if each.closing is not None
    }
    archive = _archive_document(catalog, ensemble, newest, times) if catalog.is_archive else None
    return {
        "place": without_credentials(place),
        "problem": without_credentials(catalog.problem),
        "archive": archive,
        "backups": [
            _entry_document(each, times) for each in sorted(catalog.entries, key=_newest_first)
        ],
        "left_out": catalog.left_out,
        "other_files": catalog.other_files,
    }


def _newest_first(entry: CatalogEntry) -> tuple[int, bool, str]:
    """Order by the ends of the files; those without a known one come last."""
    return 1 if entry.closing is None else -entry.closing.zxid, entry.kind != "whole", entry.name


def _archive_document(
    catalog: Catalog, ensemble: str, newest: Zxid | None, times: dict[Zxid, Millis]
) -> Document:
    end, problem = catalog.end, ""
    behind_txns: int | None = None
    behind_s: float | None = None
    names = {each.opening.ensemble for each in catalog.entries if each.opening is not None}
    if names - {ensemble}:
        problem = f"it is an archive of {', '.join(sorted(names))}"
    elif end is not None and newest is not None:
        if end > newest:
            problem = (
                f"it goes on to {format_zxid(end)}, and the servers only to {format_zxid(newest)}: "
                "it is of another ensemble of this name, or a server that has more is down"
            )
        else:
            if epoch_of(end) == epoch_of(newest):
                behind_txns = counter_of(newest) - counter_of(end)
            if end == newest:
                behind_s = 0.0
            elif times.get(end):
                behind_s = max(0.0, round(time.time() - times[end] / 1000, 3))
    return {
        "end": None if end is None else format_zxid(end),
        "end_time": None if end is None else _time(times.get(end)),
        "behind_txns": behind_txns,
        "behind_s": behind_s,
        "problem": problem,
    }


def _entry_document(entry: CatalogEntry, times: dict[Zxid, Millis]) -> Document:
    opening, closing, after = entry.opening, entry.closing, entry.after
    document: dict[str, Any] = {
        "file": entry.name,
        "kind": entry.kind,
        "bytes": entry.bytes,
        "ensemble": None if opening is None else opening.ensemble,
        "ensemble_uuid": None if opening is None else opening.ensemble_uuid,
        "created": None if opening is None else _time(opening.created_ms),
        "from_zxid": None if after is None else format_zxid(after),
        "from_time": None if after is None else _time(times.get(after)),
        "zxid": None if closing is None else format_zxid(closing.zxid),
        "time": None if closing is None else _time(closing.time_ms),
        "txns": None if closing is None else closing.txns,
        "problem": without_credentials(entry.problem),
    }
    return document


def _time(time_ms: Millis | None) -> str | None:
    """Return a time in a document; None if the file does not know it, or it is none."""
    if not time_ms:
        return None
    try:
        return time_field(time_ms)
    except (OverflowError, ValueError, OSError):
        return None


def without_credentials(text: str) -> str:
    """Return a text without the users and passwords of the URLs in it."""
    return _CREDENTIALS.sub("", text)
