"""`python -m examples` lists the examples, `python -m examples katta` runs one.

An example runs as a module that is imported, so that Ray finds its classes by name in other
processes.
"""

import sys
from importlib import import_module
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = sorted(p.stem for p in FOLDER.glob("*.py") if "\ndef main() " in p.read_text())

if len(sys.argv) == 2 and sys.argv[1] in NAMES:
    import_module(f"examples.{sys.argv[1]}").main()
else:
    for name in NAMES:
        first, *_ = (import_module(f"examples.{name}").__doc__ or "").splitlines()
        print(f"python -m examples {name:18} {first}")
    sys.exit(len(sys.argv) > 1)
