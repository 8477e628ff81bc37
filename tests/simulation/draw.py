"""The plan of a seed: mostly a mix of all faults, sometimes rotating outages or a campaign."""

from random import Random

from msgspec.structs import replace

from tests.simulation.campaigns import draw_campaign
from tests.simulation.jute_clients.plans import JUTE, draw_jute_plan
from tests.simulation.keepers.plans import KEEPER, draw_keeper_plan
from tests.simulation.members.plans import MEMBERS, draw_members_plan
from tests.simulation.plan import Plan, draw_mix
from tests.simulation.recipes.plans import draw_recipe_plan
from tests.simulation.rotating_outages import draw_rotating_outages
from tests.simulation.timing import TimingPlan, least_session_ms, least_sync_ms
from tests.simulation.transfers.plans import TRANSFER, draw_transfer_plan, with_mixed_settings
from tests.simulation.upgrades.plans import UPGRADE, draw_upgrade_plan

TIMED_SHARE = 0.3
"""How many of the seeds have other timings than the usual ones, in which faults meet often."""


def draw_plan(seed: int, recipe: str = "") -> Plan:
    """Return the plan of a seed, and of a recipe if one is given; always the same plan."""
    if recipe == KEEPER:
        return draw_keeper_plan(seed)
    if recipe == UPGRADE:
        return _timed(draw_upgrade_plan(seed))
    if recipe == MEMBERS:
        return _timed(draw_members_plan(seed))
    if recipe == JUTE:
        return _timed(draw_jute_plan(seed))
    if recipe == TRANSFER:
        return with_mixed_settings(_timed(draw_transfer_plan(seed)))
    if recipe:
        return _timed(draw_recipe_plan(seed, recipe))
    return _timed(draw_rotating_outages(seed) or draw_campaign(seed) or draw_mix(seed))


def _timed(plan: Plan) -> Plan:
    """Add a user's time settings: any with which the plan's links and disks can work."""
    random = Random(f"{plan.seed}.timing")
    if random.random() >= TIMED_SHARE:
        return plan
    force_ms = max(server.sync_ms_max for server in plan.servers)
    touch_ms = max(server.touch_ms + server.tracker_ms_max for server in plan.servers)
    sync_limit = random.choice([2, 3, 4, 10])
    patience_ms = least_sync_ms(plan.delay_ms_max, force_ms)
    tick_ms = max(random.choice([50, 100, 200, 500, 1_000]), -(-patience_ms // sync_limit))
    init_ms = max(2_000, 6 * patience_ms)
    init_limit = max(sync_limit, random.choice([2, 5, 20, 40]), -(-init_ms // tick_ms))
    session_ms = least_session_ms(plan.delay_ms_max, touch_ms)
    session_min_ms = max(random.choice([100, 300, 500, 1_000, 2_000]), session_ms)
    session_max_ms = max(random.choice([2_000, 20_000, 20_000]), session_min_ms)
    wishes_ms = [session_min_ms, session_min_ms, 2 * session_min_ms, 5 * session_min_ms]
    return replace(
        plan,
        timing=TimingPlan(tick_ms, init_limit, sync_limit, session_min_ms, session_max_ms),
        clients=tuple(
            replace(client, timeout_ms=random.choice(wishes_ms)) for client in plan.clients
        ),
    )
