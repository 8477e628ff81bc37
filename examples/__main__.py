"""List the programs to begin with, or copy them into a folder.

python -m raykeeper.examples                   lists them
python -m raykeeper.examples FOLDER            copies them into FOLDER
python -m raykeeper.examples.elected_service   runs one as it is
"""

import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS = sorted(file for file in HERE.glob("[!_]*.py"))


def main() -> None:
    """As the arguments say.

    Raises:
        SystemExit: a program of that name is in the folder already, or the usage is wrong.
    """
    if len(sys.argv) == 1:
        for program in PROGRAMS:
            first = re.match(r'"""(.*)', program.read_text(encoding="utf-8"))
            print(f"python -m raykeeper.examples.{program.stem:16} {first and first[1]}")
        print("python -m raykeeper.examples FOLDER           copies them to FOLDER")
        print("python -m raykeeper.examples.systems          lists larger systems")
        return
    if len(sys.argv) > 2 or sys.argv[1].startswith("-"):
        sys.exit((__doc__ or "").strip())
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    there = [program.name for program in PROGRAMS if (folder / program.name).exists()]
    if there:
        sys.exit(f"nothing was copied, {folder} has {', '.join(there)} already")
    for program in PROGRAMS:
        shutil.copy(program, folder)
        print(f"python {folder / program.name}")


if __name__ == "__main__":
    main()
