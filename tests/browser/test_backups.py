"""The backups and archives, in a browser."""

from pathlib import Path

from tests.browser.shown import shown
from tests.browser.test_accessibility import CONTRAST, LABELS
from tests.harness.backup_sources import write_archive
from tests.harness.chromium import Browser
from tests.unit.clusters.backups.test_loading import LOG

EVIL = "<img src=x onerror=document.title='owned'>"


async def test_backups_are_shown_and_html_in_names_is_text(
    browser: Browser, tmp_path: Path
) -> None:
    archive = tmp_path / EVIL
    write_archive(archive, LOG, [10, 12, 14])
    (archive / f"{EVIL}.rkb").write_bytes(b"<b>no backup</b>")
    places = (str(archive), str(tmp_path / "nothing"))
    async with shown(browser, backups=places, backup_files_max=3) as on:
        caller = on.source.servers[2].caller(1)
        for number in range(19):
            caller.ask(caller.create(f"/n{number}"))
        on.source.pass_time(1_000)
        await on.open("backups")
        await on.tab.until_text(".told", "3 files in 2 places")
        rows = [each.split("\t") for each in await on.texts("#view tbody tr")]
        assert [each[1] for each in rows] == ["piece", "whole", "unknown"]
        assert (rows[0][3], rows[0][5], rows[0][7]) == ("1:12", "1:14", "coord")
        assert (rows[1][3], rows[1][5], rows[1][7]) == ("0:0", "1:10", "coord")
        assert rows[2][0] == f"{EVIL}.rkb"
        assert (await on.texts("#view h3"))[0] == str(archive)
        (end,) = await on.texts(".behind")
        assert end.startswith("The archive reaches up to 1:14, ")
        assert "behind the ensemble by 6 transactions, at most" in end
        problems = await on.texts("#view .problem")
        assert problems[0] == f"{archive / EVIL}.rkb is no backup of Raykeeper"
        assert problems[1].startswith("1 file more not read: at most 3 files (--backup-files)")
        assert problems[2] == f"{tmp_path / 'nothing'} does not exist"
        assert await on.tab.evaluate("document.querySelectorAll('#view img, #view b').length") == 0
        assert await on.tab.evaluate("document.title") == "backups · coord · Raykeeper"
        assert await on.tab.evaluate(LABELS) == []
        assert await on.tab.evaluate(CONTRAST) == []
        await on.tab.look(390, 800)
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await on.tab.evaluate(wide) <= 0
    async with shown(browser) as on:
        assert "Backups" not in await on.texts("nav a"), "nobody asked for it"
