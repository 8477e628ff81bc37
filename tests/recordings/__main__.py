"""Record clients of ZooKeeper: each makes its tour on a server of Debian's package, or on that of
the folder of jars that `ZOOKEEPER_JARS` names.

python -m tests.recordings [NAME...]
"""

import subprocess
import sys

from tests.clients.programs import running
from tests.contract.test_zookeeper_clients import COMMANDS, ZK_CLI
from tests.differential.targets import PortTarget
from tests.differential.zookeeper_server import jars_folder, zookeeper_server
from tests.recordings.recorder import Recorder
from tests.recordings.test_recordings import DATA

NAMES = ("kazoo", "zkcli", "curator", "c", "node", "aiozk")


def record(name: str) -> None:
    """Write the recording of one client."""
    with zookeeper_server(jars_folder()) as server, Recorder(server) as recorder:
        version = ".".join(map(str, PortTarget(server).version))
        if name == "zkcli":
            typed = "".join(f"{command}\n" for command, _ in [*COMMANDS, ("quit", "")])
            words = [str(ZK_CLI), "-server", recorder.address]
            subprocess.run(words, input=typed, text=True, check=False, capture_output=True)
        else:
            with running(name, "tour", recorder.address) as program:
                told, complaint = program.communicate()
            assert told == "done\n", complaint
    path = DATA / f"{name}.txt"
    head = f"# Bytes between {name} and ZooKeeper {version}: python -m tests.recordings {name}"
    path.write_text("\n".join([head, *recorder.lines]) + "\n")
    print(path.name, len(recorder.lines), "frames")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or NAMES:
        record(chosen)
