"""The table of docs/OPERATIONS.md that says what becomes of an act that meets another one."""

from pathlib import Path

GOES_ON, WAITS, REFUSED = "goes on", "waits", "refused"
_HEADING = "## Acts that meet"


def overlaps() -> dict[str, dict[str, str]]:
    """Return for each act, and each thing that may be under way, the outcome."""
    text = (Path(__file__).parents[3] / "docs" / "OPERATIONS.md").read_text()
    lines = text.partition(_HEADING)[2].partition("\n## ")[0].splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    (_, *situations), _, *acts = ([cell.strip().replace("`", "") for cell in row] for row in rows)
    return {act: dict(zip(situations, cells, strict=True)) for act, *cells in acts}
