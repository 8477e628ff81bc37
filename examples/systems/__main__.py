"""List the systems, or run one.

    python -m raykeeper.examples.systems          lists them
    python -m raykeeper.examples.systems katta    runs one

A system runs as a module that is imported, so that Ray finds its classes by name in other
processes.
"""

import sys
from importlib import import_module
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = sorted(p.stem for p in FOLDER.glob("*.py") if "\ndef main() " in p.read_text())

if len(sys.argv) == 2 and sys.argv[1] in NAMES:
    import_module(f"raykeeper.examples.systems.{sys.argv[1]}").main()
else:
    for name in NAMES:
        first, *_ = (import_module(f"raykeeper.examples.systems.{name}").__doc__ or "").splitlines()
        print(f"python -m raykeeper.examples.systems {name:18} {first}")
    sys.exit(len(sys.argv) > 1)
