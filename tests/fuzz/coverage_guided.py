"""The decoders under a fuzzer that is guided by the branches it reaches (libFuzzer, by atheris).

    pip install 'raykeeper[fuzz]'
    python -m tests.fuzz.coverage_guided --seconds 60          # each target in a process of its own
    python -m tests.fuzz.coverage_guided "peer frame" --seconds 600

It checks what `test_decoders.check` checks. What it found is written to `--corpus`, so a later run
begins where an earlier one ended; an input that breaks the property is left there as `crash-…`.

msgspec is compiled, so its branches are not seen: frames are tried at random there. What guides is
the Python: the loader of snapshots, the files of a disk, the settings, ZooKeeper's records, and a
whole server.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

MISSING = (
    "atheris is not installed: pip install 'raykeeper[fuzz]' (Linux on x86-64, Python 3.11 to 3.13)"
)
SETTINGS_FILE = "settings file"
SERVER = "server, from a client"
PORT = "server, from a client of ZooKeeper"
SAMPLES = 40


def main() -> int:
    """Fuzz the targets that are named, or all. The exit code is 1 if one was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.coverage_guided")
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--corpus", type=Path, default=Path("/tmp/raykeeper-fuzz"))
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        import atheris
    except ImportError:
        print(MISSING)
        return 2
    if options.here:
        _fuzz(atheris, options.targets[0], options.corpus, options.seconds)
        return 0
    worst = 0
    for target in options.targets or _targets():
        print(f"== {target}", flush=True)
        corpus = options.corpus / target.replace(" ", "-")
        corpus.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", __spec__.name, target, "--here"]
        command += ["--seconds", str(options.seconds), "--corpus", str(corpus)]
        worst = max(worst, int(subprocess.run(command, check=False).returncode != 0))
    return worst


def _targets() -> list[str]:
    from tests.fuzz.decoders import DECODERS

    return [*DECODERS, SETTINGS_FILE, SERVER, PORT]


def _fuzz(atheris: Any, target: str, corpus: Path, seconds: int) -> None:
    """Never returns: libFuzzer ends the process."""
    with atheris.instrument_imports(include=["raykeeper", "tests.fuzz"]):
        from tests.fuzz.decoders import DECODERS
        from tests.fuzz.test_clients import HOSTILE, Scene, encoded_frames
        from tests.fuzz.test_decoders import check
        from tests.fuzz.test_jute_clients import check_stream, streams
        from tests.fuzz.test_texts import check_settings, documents

    def serve(data: bytes) -> None:
        scene = Scene(1)
        scene.send(HOSTILE, data)
        scene.check()

    if target == SETTINGS_FILE:
        valid = documents.map(lambda text: text.encode("utf-8", "surrogatepass"))
        file = Path(tempfile.mkdtemp()) / "settings.yaml"
        run = lambda data: check_settings(file, data)  # noqa: E731
    elif target == SERVER:
        valid, run = encoded_frames, serve
    elif target == PORT:
        valid, run = streams, check_stream
    else:
        decoder = DECODERS[target]
        valid = decoder.values.map(decoder.encode)
        run = lambda data: check(target, data)  # noqa: E731
    _write_corpus(corpus, valid)
    arguments = [sys.argv[0], f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=4096"]
    arguments += ["-print_final_stats=1", "-verbosity=1", f"-artifact_prefix={corpus}/"]
    atheris.Setup([*arguments, str(corpus)], lambda data: run(bytes(data)))
    atheris.Fuzz()


def _write_corpus(corpus: Path, valid: st.SearchStrategy[bytes]) -> None:
    """Begin with valid encodings: from nothing a fuzzer would seek them for ever."""
    found: list[bytes] = []

    @settings(max_examples=SAMPLES, database=None, derandomize=True, deadline=None)
    @given(valid)
    def collect(data: bytes) -> None:
        found.append(data)

    collect()
    Random(0).shuffle(found)
    for number, data in enumerate(found):
        (corpus / f"sample-{number}").write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
