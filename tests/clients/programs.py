"""Build the programs of this folder, and start them."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).parent
BUILD: Final = HERE.parents[1] / "build"
NODE_MODULES: Final = BUILD / "node/node_modules"
_JARS: Final = Path("/usr/share/java")
_CLASSPATH: Final = ":".join(
    str(_JARS / f"{name}.jar")
    for name in (
        *("curator-recipes", "curator-framework", "curator-client", "guava"),
        *("zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop"),
        *("jackson-databind", "jackson-core", "jackson-annotations"),
    )
)
_C_HEADER: Final = Path("/usr/include/zookeeper/zookeeper.h")


class ClientProgram(NamedTuple):
    """One program: what it needs, and the words before its own."""

    missing: Callable[[], str]
    """Returns what is not installed; empty if it can run."""
    command: Callable[[], list[str]]
    """Builds the program if necessary."""


@contextmanager
def running(name: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program, killed when the block ends; its input, output and complaints are pipes."""
    with subprocess.Popen(
        [*PROGRAMS[name].command(), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NODE_PATH": str(NODE_MODULES)},
    ) as program:
        try:
            yield program
        finally:
            program.kill()


def _missing_c() -> str:
    if shutil.which("cc") is None:
        return "there is no C compiler"
    return "" if _C_HEADER.exists() else "Debian's package libzookeeper-mt-dev is not installed"


def _missing_curator() -> str:
    if shutil.which("javac") is None:
        return "there is no javac (Debian's package default-jdk-headless)"
    if any(not Path(jar).exists() for jar in _CLASSPATH.split(":")):
        return "Debian's package libcurator-recipes-java is not installed"
    return ""


def _missing_node() -> str:
    if shutil.which("node") is None:
        return "there is no node"
    if not (NODE_MODULES / "node-zookeeper-client").exists():
        return "npm's package node-zookeeper-client is not installed in build/node"
    return ""


def _missing_native() -> str:
    if shutil.which("node") is None:
        return "there is no node"
    if not (NODE_MODULES / "zookeeper/build/Release/zookeeper.node").exists():
        return "npm's package zookeeper is not built in build/node"
    return ""


def _missing_aiozk() -> str:
    return "" if importlib.util.find_spec("aiozk") else "PyPI's package aiozk is not installed"


def _built(source: Path, build: Callable[[Path], list[str]]) -> Path:
    """Return the folder with what the compiler made of a source; compile it once."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    folder = BUILD / "clients" / f"{source.stem}-{digest}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder.parent))
        subprocess.run(build(made), check=True)
        with suppress(OSError):  # another process was quicker
            made.rename(folder)
    return folder


def _c_command() -> list[str]:
    source = HERE / "c_client.c"

    def build(folder: Path) -> list[str]:
        return [
            "cc",
            "-Wall",
            "-DTHREADED",
            "-o",
            str(folder / "client"),
            str(source),
            "-lzookeeper_mt",
        ]

    return [str(_built(source, build) / "client")]


def _curator_command() -> list[str]:
    source = HERE / "CuratorClient.java"

    def build(folder: Path) -> list[str]:
        return ["javac", "-proc:none", "-cp", _CLASSPATH, "-d", str(folder), str(source)]

    classes = _built(source, build)
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return ["java", *quick, "-cp", f"{_CLASSPATH}:{classes}", "CuratorClient"]


def _python_command(name: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, str(HERE / f"{name}_client.py")]


def _native_command() -> list[str]:
    # The C client's own messages go to the standard output, so the program writes to another.
    script = 'exec node "$0" "$@" 3>&1 1>&2'
    return ["sh", "-c", script, str(HERE / "native_client.js")]


PROGRAMS: Final = {
    "kazoo": ClientProgram(lambda: "", _python_command("kazoo")),
    "c": ClientProgram(_missing_c, _c_command),
    "curator": ClientProgram(_missing_curator, _curator_command),
    "node": ClientProgram(_missing_node, lambda: ["node", str(HERE / "node_client.js")]),
    "native": ClientProgram(_missing_native, _native_command),
    "aiozk": ClientProgram(_missing_aiozk, _python_command("aiozk")),
}
