"""A finding of the doctor, and the rule that it comes from."""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from msgspec import Struct

from raykeeper.clusters.doctor.rules.facts import EnsembleFacts


class Severity(Enum):
    """How bad a finding is."""

    WARNING = "warning"
    """All is served, but less than it should be stands between that and a fault."""
    ERROR = "error"
    """Something that the ensemble should do is not done, or its data is in danger."""


class Finding(Struct, frozen=True):
    """Something that is not as it should be."""

    rule: str
    """The name of the rule, such as `server.down`; docs/OPERATIONS.md has all of them."""
    severity: Severity
    about: str
    """Such as "server 3", "node b/5d0e12ab", or "the ensemble"."""
    text: str
    """What was found, with its figures."""
    meaning: str
    advice: str
    """What to do."""


class Fault(Struct, frozen=True):
    """What a rule finds: the part of a finding that differs from time to time."""

    about: str
    text: str


class Rule(Struct, frozen=True):
    """One row of the table: a question to the facts, and what its findings mean."""

    name: str
    severity: Severity
    meaning: str
    advice: str
    """`{name}` stands for the name of the ensemble."""
    find: Callable[[EnsembleFacts], Iterator[Fault]]

    def findings(self, facts: EnsembleFacts) -> list[Finding]:
        """Return what this rule finds."""
        advice = self.advice.replace("{name}", facts.name)
        return [
            Finding(self.name, self.severity, fault.about, fault.text, self.meaning, advice)
            for fault in self.find(facts)
        ]


THE_ENSEMBLE = "the ensemble"


def server_text(server_id: int) -> str:
    """Return how a finding names a server."""
    return f"server {server_id}"


def servers_text(server_ids: Sequence[int], last: str = "and") -> str:
    """Return how a text names several servers: "servers 1, 2 and 3", "server 1, 2 or 3"."""
    numbers = [str(each) for each in server_ids]
    if len(numbers) == 1:
        return server_text(server_ids[0])
    noun = "servers" if last == "and" else "server"
    return f"{noun} {', '.join(numbers[:-1])} {last} {numbers[-1]}"


def bytes_text(count: int) -> str:
    """Return a number of bytes in MiB, or in GiB from one GiB on."""
    if count >= 1 << 30:
        return f"{count >> 30}.{((count & ((1 << 30) - 1)) * 10) >> 30} GiB"
    return f"{count >> 20} MiB"
