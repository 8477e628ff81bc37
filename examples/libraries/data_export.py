"""Ray Data: each block of the output is there once, although tasks run again, at a limited rate.

    python -m raykeeper.examples.libraries.data_export

Ray Data runs a task again when its process dies, also if the task had written its block already. So
a task writes a file of its own, and commits it by creating the znode of the block, which only one
can do. What the znodes name is the output. All tasks together obey a rate limit.
"""

import os
import signal
import tempfile
import uuid
from functools import partial
from pathlib import Path

import ray

from raykeeper.client import connect
from raykeeper.client.errors import NodeExistsError
from raykeeper.client.ray_tools import RateLimit
from raykeeper.clusters import launch

BLOCKS, ROWS = 12, 50
slowly = RateLimit("coord", "/limits/store", per_second=20, burst=5)


def creates(client, path, value=b""):
    """Whether it was this client that created the znode: of all who try, one does."""
    try:
        client.create(path, value, makepath=True)
    except NodeExistsError:
        return False
    return True


def export(rows, folder, root):
    """Write a block; a task calls it, and calls it again if its process has died."""
    block = int(rows["id"][0]) // ROWS
    with connect("coord") as client, slowly:
        file = Path(folder, f"{block:03}-{uuid.uuid4().hex}.txt")
        file.write_text("\n".join(str(each * each) for each in rows["id"]))
        if block == 3 and creates(client, f"{root}/killed/before"):
            os.kill(os.getpid(), signal.SIGKILL)
        if not creates(client, f"{root}/blocks/{block:03}", file.name.encode()):
            file.unlink()  # another run of this task has committed the block
        if block == 7 and creates(client, f"{root}/killed/after"):
            os.kill(os.getpid(), signal.SIGKILL)
    return {"block": [block]}


def main():
    ensemble = launch(name="coord", servers=3)  # starts Ray here if none runs
    with ensemble.connect() as client, tempfile.TemporaryDirectory() as folder:
        root = client.create("/exports/run-", sequence=True, makepath=True)
        numbers = ray.data.range(BLOCKS * ROWS, override_num_blocks=BLOCKS)
        write = partial(export, folder=folder, root=root)
        numbers.map_batches(write, batch_size=ROWS, num_cpus=0.5).materialize()

        client.sync()
        paths = [f"{root}/blocks/{name}" for name in sorted(client.get_children(f"{root}/blocks"))]
        names = [client.get(path)[0].decode() for path in paths]
        text = "\n".join(Path(folder, name).read_text() for name in names)
        print(f"tasks killed: {len(client.get_children(f'{root}/killed'))}")
        left = {file.name for file in Path(folder).iterdir()} - {*names}
        print(f"blocks committed: {len(names)}; files of tasks that died before: {len(left)}")
        expected = [number * number for number in range(BLOCKS * ROWS)]
        print(f"each row is there once: {[int(row) for row in text.split()] == expected}")
        client.delete(root, recursive=True)


if __name__ == "__main__":
    main()
