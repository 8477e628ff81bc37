"""Distributed training: when a rank dies, all ranks meet again and go on from the checkpoint.

    python -m raykeeper.examples.systems training_ranks

Four actors fit a line to their shares of the data, and add their gradients up after each step, over
sockets: rank 0 listens. Who is rank 0, and at which port, they learn from a rendezvous. Whoever
sees a connection break leaves, and comes back for the next generation, as does a new actor in the
place of the dead one. In the end the line is that of an undisturbed training, bit for bit.

    /train                       the rendezvous: generation, ranks, addresses
    /train/participant-<n>       ephemeral: one rank
    /checkpoint                  step and weights, written by rank 0 of the newest generation
"""

import json
import os
import signal
import socket
from contextlib import ExitStack
from typing import Any

import ray
from ray.exceptions import RayActorError

from raykeeper.client import Client
from raykeeper.client.errors import BrokenBarrierError
from raykeeper.client.recipes.recipe import Blocking
from raykeeper.client.recipes.rendezvous import Generation
from raykeeper.clusters import Ensemble
from raykeeper.examples.systems.scene import PATIENCE_S, SESSION_S, expect, scene, start, tell

SIZE, STEPS, CHECKPOINT = 4, 60, "/checkpoint"
DEATH = 37  # the step at which one rank of the first generation dies
Weights = list[float]


def gradient(rank: int, weights: Weights) -> Weights:
    """Of the squared error of a line, on the share of one rank."""
    xs = [(rank + SIZE * n) / 40 for n in range(10)]
    errors = [weights[0] + weights[1] * x - (3 - 2 * x) for x in xs]
    return [sum(errors), sum(error * x for error, x in zip(errors, xs, strict=True))]


def step_on(weights: Weights, gradients: list[Weights]) -> Weights:
    """One step against the sum of all gradients, in the order of the ranks."""
    return [w - 0.02 * sum(parts) for w, *parts in zip(weights, *gradients, strict=True)]


class Rank:
    """Trains, from meeting to meeting."""

    def run(self, ensemble: Ensemble) -> tuple[list[str], Weights]:
        """Train; return the story and the weights."""
        story: list[str] = []
        with ensemble.connect(session_timeout_s=SESSION_S) as client:
            while True:
                with socket.create_server(("127.0.0.1", 0)) as server:
                    address = json.dumps(server.getsockname()).encode()
                    try:
                        with client.rendezvous("/train", SIZE, address) as meeting:
                            return story, self._train(client, meeting, server, story)
                    except (OSError, BrokenBarrierError):
                        continue  # somebody is gone: all meet again

    def _train(
        self, client: Client, meeting: Generation[Blocking], server: socket.socket, story: list[str]
    ) -> Weights:
        weights: Weights
        step, weights = json.loads(client.get(CHECKPOINT, consistency="linearizable")[0])
        story.append(f"generation {meeting.generation}, rank {meeting.rank}: from step {step}")
        with ExitStack() as stack:
            peers = [stack.enter_context(each) for each in connected(meeting, server)]
            files = [stack.enter_context(peer.makefile("rw")) for peer in peers]
            while step < STEPS:
                if (meeting.generation, meeting.rank, step) == (1, 2, DEATH):
                    os.kill(os.getpid(), signal.SIGKILL)
                mine = gradient(meeting.rank, weights)
                weights, step = step_on(weights, exchange(meeting.rank, files, mine)), step + 1
                if meeting.rank == 0 and step % 10 == 0:
                    with client.transaction() as t:  # nothing, if this generation is over
                        t.when_held(meeting)
                        t.set(CHECKPOINT, json.dumps([step, weights]).encode())
        return weights


def connected(meeting: Generation[Blocking], server: socket.socket) -> list[socket.socket]:
    """The connections of rank 0 to all others, in order; of another one, that to rank 0."""
    if meeting.rank > 0:
        peer = socket.create_connection(json.loads(meeting.members[0].data), PATIENCE_S)
        peer.sendall(b"%d" % meeting.rank)
        return [peer]
    server.settimeout(0.5)
    peers: dict[bytes, socket.socket] = {}
    while len(peers) < SIZE - 1:
        try:
            peer, _ = server.accept()
        except TimeoutError:
            meeting.broken.check()  # who has died will not connect any more
            continue
        peers[peer.recv(1)] = peer
    return [peers[rank] for rank in sorted(peers)]


def exchange(rank: int, files: list[Any], mine: Weights) -> list[Weights]:
    """The gradients of all ranks.

    Raises:
        ConnectionError: a rank is gone.
    """
    if rank > 0:
        print(json.dumps(mine), file=files[0], flush=True)
    lines = [file.readline() for file in files]
    if not all(lines):
        raise ConnectionError("a rank is gone")
    parts = [json.loads(line) for line in lines]
    if rank > 0:
        return list(parts[0])
    everything = [mine, *parts]
    for file in files:
        print(json.dumps(everything), file=file, flush=True)
    return everything


def main() -> None:
    with scene("train") as ensemble, ensemble.connect() as client:
        client.create(CHECKPOINT, json.dumps([0, [0.0, 0.0]]).encode())
        runs = [start(Rank).run.remote(ensemble) for _ in range(SIZE)]
        results = []
        while runs:
            [run], runs = ray.wait(runs)
            try:
                results.append(ray.get(run))
            except RayActorError:
                tell(f"a rank was killed at step {DEATH}; another actor is started in its place")
                runs.append(start(Rank).run.remote(ensemble))
        for line in sorted(line for story, _ in results for line in story):
            tell(line)
        plain = [0.0, 0.0]
        for _ in range(STEPS):
            plain = step_on(plain, [gradient(rank, plain) for rank in range(SIZE)])
        expect(all(weights == plain for _, weights in results), "the weights are the right ones")
        tell(f"all ranks have the line {plain[0]:.3f} {plain[1]:+.3f} x, that of a quiet training")
