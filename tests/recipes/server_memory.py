"""What the servers of a stage keep for its members: the watches, and the history of changes."""

from raykeeper.server.context import ServerContext
from tests.harness.recipe_stage import RecipeStage


def watches(stage: RecipeStage) -> int:
    """How many watches are set on all servers together."""
    return sum(context.watches.count for context in _contexts(stage))


def forget(stage: RecipeStage) -> None:
    """No server knows any more what happened up to now: who was away is told RESYNC."""
    for context in _contexts(stage):
        context.change_log.reset(context.state.zxid)


def _contexts(stage: RecipeStage) -> list[ServerContext]:
    return [host.server._context for host in stage.servers.hosts.values()]
