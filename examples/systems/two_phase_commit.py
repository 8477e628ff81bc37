"""Two-phase commit: two banks move money, or neither does, whoever dies in between.

    python -m raykeeper.examples.systems two_phase_commit

Each bank is an actor with a file. Before it votes to commit it writes down what it has promised,
and a bank that is started again reads that, asks for the decision and keeps the promise. The
decision is one write to one znode, so nobody has to wait for a coordinator that died: the banks
find it dead and decide themselves, by the votes.

    /transfers/<n>               the decision, with sites, votes and the coordinator below it
"""

import json
import os
import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray
from ray.exceptions import RayActorError

from raykeeper.client import Client, Decision
from raykeeper.clusters import Ensemble
from raykeeper.examples.systems.scene import (
    PATIENCE_S,
    SESSION_S,
    expect,
    kill,
    scene,
    start,
    tell,
    until,
)

ROOT = "/transfers"
BEFORE_VOTE, AFTER_VOTE = "before it votes", "after its vote"


class Bank:
    """One account, in a file."""

    def __init__(self, ensemble: Ensemble, name: str, folder: str) -> None:
        self._name, self._file = name, Path(folder) / name
        self._balance, self._promised = 100, {}
        self._client = ensemble.connect(session_timeout_s=SESSION_S)
        if self._file.exists():
            self._balance, self._promised = json.loads(self._file.read_text())
            for transfer in list(self._promised):
                self._keep_promise(transfer)

    def take_part(self, transfer: str, dies: str = "") -> str:
        """Vote, and do what is decided. It may die, for the sake of the story."""
        commit = self._client.two_phase_commit(transfer)
        change = json.loads(commit.join(self._name))[self._name]
        can = self._balance + change >= 0
        if can:
            self._promised[transfer] = change
            self._save()
        if dies == BEFORE_VOTE:
            os.kill(os.getpid(), signal.SIGKILL)
        commit.vote(self._name, can)
        if dies == AFTER_VOTE:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._keep_promise(transfer)

    def _keep_promise(self, transfer: str) -> str:
        decision = self._client.two_phase_commit(transfer).outcome(timeout_s=PATIENCE_S)
        change = self._promised.pop(transfer, 0)
        self._balance += change if decision is Decision.COMMIT else 0
        self._save()
        return decision.name

    def _save(self) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(json.dumps([self._balance, self._promised]))
        draft.rename(self._file)  # all of it or nothing

    def balance(self) -> int:
        """Return the balance of the account."""
        return self._balance


class Coordinator:
    """Asks for votes, and is killed before it decides."""

    def begin(self, ensemble: Ensemble, transfer: str, changes: dict[str, int]) -> int:
        """Begin a transfer; the process id."""
        self._client = ensemble.connect(session_timeout_s=SESSION_S)
        self._client.two_phase_commit(transfer).begin(changes, json.dumps(changes).encode())
        return os.getpid()


class Town:
    """The two banks."""

    def __init__(self, ensemble: Ensemble, client: Client, folder: str) -> None:
        self.ensemble, self._client, self._folder = ensemble, client, folder
        self.banks: dict[str, Any] = {}
        for name in ("north", "south"):
            self._open(name)

    def _open(self, name: str) -> None:
        self.banks[name] = start(Bank, self.ensemble, name, self._folder)

    def transfer(self, title: str, amount: int, dying: str = "", dies: str = "") -> None:
        """Move money from the north to the south; one bank may die."""
        changes = {"north": -amount, "south": amount}
        commit = self._client.two_phase_commit(f"{ROOT}/{title}")
        commit.begin(changes, json.dumps(changes).encode())
        parts = {
            name: bank.take_part.remote(f"{ROOT}/{title}", dies if name == dying else "")
            for name, bank in self.banks.items()
        }
        decision = commit.decide(timeout_s=PATIENCE_S)
        self.end(title, amount, decision.name, parts)

    def end(self, title: str, amount: int, decision: str, parts: dict[str, Any]) -> None:
        """Wait until both banks have done what was decided, and tell of it."""
        for name, part in parts.items():
            try:
                expect(ray.get(part, timeout=PATIENCE_S) == decision, f"{name} does {decision}")
            except RayActorError:
                tell(f"{name} has died, and is opened again")
                self._open(name)
        balances = {name: ray.get(bank.balance.remote()) for name, bank in self.banks.items()}
        expect(sum(balances.values()) == 200, "no money is lost or made")
        tell(f"{title}, {amount} to the south: {decision}, now {balances}")
        self._client.two_phase_commit(f"{ROOT}/{title}").finish()


def main() -> None:
    with (
        TemporaryDirectory(prefix="raykeeper-banks-") as folder,
        scene("banks") as ensemble,
        ensemble.connect() as client,
    ):
        town = Town(ensemble, client, folder)
        town.transfer("all is well", 30)
        town.transfer("too much", 1000)
        town.transfer("the south dies before it votes", 5, "south", BEFORE_VOTE)
        town.transfer("the south dies after its vote", 10, "south", AFTER_VOTE)

        title, changes = "the coordinator dies", {"north": -20, "south": 20}
        path = f"{ROOT}/{title}"
        coordinator = start(Coordinator)
        pid = ray.get(coordinator.begin.remote(ensemble, path, changes))
        parts = {name: bank.take_part.remote(path) for name, bank in town.banks.items()}
        until(lambda watch: len(client.get_children(f"{path}/votes", watch)) == 2, "both votes")
        kill(pid)
        tell(f"both banks have voted; killed the coordinator, process {pid}")
        town.end(title, 20, "COMMIT", parts)
