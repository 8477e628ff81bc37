"""Run every mutation from seed 1 on until it is found, on all cores."""

import json
import time
from collections.abc import Iterable
from functools import partial

from msgspec import Struct
from rich.console import Console
from rich.progress import Progress

from tests.simulation.mutations.catalogue import FOUND, LIMIT_S, failure_at, seeds_found
from tests.simulation.mutations.mutation import Mutation
from tests.simulation.workers import Lost, Workers

CHUNK = 20
"""Seeds that are run in one go."""
GRACE_S = 600.0


class Chunk(Struct, frozen=True):
    """Some seeds for one mutation, given by its index in the list."""

    place: int
    first: int
    count: int


class Found(Struct, frozen=True):
    """The first seed of a chunk that finds the mutation, if any, and the broken promise."""

    seed: int | None
    kind: str = ""
    cpu_s: float = 0.0


class Measuring:
    """The search for the first seed that finds each mutation."""

    def __init__(self, mutations: list[Mutation], bound: int) -> None:
        self.found: dict[int, Found] = {}
        self.seconds: dict[int, float] = {}
        self._mutations = mutations
        self._bound = bound
        self._due = [Chunk(place, 1, min(CHUNK, bound)) for place in range(len(mutations))]

    def run(self, jobs: int, console: Console) -> None:
        """Give each mutation as many seeds as it needs, at most the bound."""
        names = [mutation.name for mutation in self._mutations]
        task = partial(_try, tuple(names))
        workers = Workers[Chunk, Found](jobs, task, lambda chunk: chunk.count * LIMIT_S + GRACE_S)
        with Progress(console=console) as progress:
            bar = progress.add_task("mutations", total=len(names))
            for chunk, answer in workers.run(self._next):
                self._take(chunk, answer)
                if chunk.place in self.found:
                    self._say(progress, chunk.place)
                progress.update(bar, completed=len(self.found))

    def _next(self) -> Chunk | None:
        # Mutations with the fewest tried seeds come first.
        self._due.sort(key=lambda chunk: chunk.first, reverse=True)
        return self._due.pop() if self._due else None

    def _take(self, chunk: Chunk, answer: Found | Lost) -> None:
        place = chunk.place
        if isinstance(answer, Lost):
            answer = Found(chunk.first, f"process lost: {answer.reason}")
        self.seconds[place] = self.seconds.get(place, 0.0) + answer.cpu_s
        first = chunk.first + chunk.count
        if answer.seed is not None or first > self._bound:
            self.found[place] = answer
        else:
            self._due.append(Chunk(place, first, min(CHUNK, self._bound + 1 - first)))

    def _say(self, progress: Progress, place: int) -> None:
        found = self.found[place]
        seed = "survives" if found.seed is None else f"seed {found.seed}"
        text = f"{self._mutations[place].name}: {seed}, {self.seconds[place]:.1f} s {found.kind}"
        progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def table(self) -> Iterable[str]:
        """Rows of the table in docs/TESTING.md."""
        yield "| rule | mutation | seeds needed | what broke |"
        yield "|---|---|---|---|"
        for place, mutation in enumerate(self._mutations):
            found = self.found.get(place, Found(None))
            seeds = f"{found.seed}" if found.seed is not None else f"**more than {self._bound}**"
            yield f"| {mutation.rule} | {mutation.what} | {seeds} | {_shown(found.kind)} |"

    def keep(self) -> None:
        """Write the seeds to `found.json`; seeds of other mutations stay."""
        kept = seeds_found() if FOUND.exists() else {}
        for place, found in self.found.items():
            name = self._mutations[place].name
            if found.seed is not None:
                kept[name] = found.seed
            else:
                kept.pop(name, None)
        FOUND.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")


def _shown(kind: str) -> str:
    """Return the name of the broken promise, or of the error."""
    error, _, rest = kind.partition(" in ")
    where, _, words = rest.partition(": ")
    if error != "AssertionError":
        return f"`{error}`" if error else ""
    return words if words and not words.startswith("assert ") else f"assertion in `{where}`"


def _try(names: tuple[str, ...], chunk: Chunk) -> Found:
    """Try the seeds of one chunk; runs in a worker process."""
    from tests.simulation.mutations.catalogue import all_mutations

    mutation = next(each for each in all_mutations() if each.name == names[chunk.place])
    began = time.process_time()
    for seed in range(chunk.first, chunk.first + chunk.count):
        failure = failure_at(mutation, seed)
        if failure is not None:
            return Found(seed, failure.kind, time.process_time() - began)
    return Found(None, "", time.process_time() - began)
