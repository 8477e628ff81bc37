"""The plan of a seed with clients of ZooKeeper's protocol: the usual faults, and more of clients.

All clocks run at the same rate: these clients keep no margin for a clock that is slow.
"""

from random import Random
from typing import Final

from msgspec.structs import replace

from tests.simulation.campaigns import draw_campaign
from tests.simulation.plan import Plan, draw_mix
from tests.simulation.recipes.plans import draw_client_faults
from tests.simulation.rotating_outages import draw_rotating_outages

JUTE: Final = "jute"
SHARE: Final = 0.6
"""How many of the clients speak ZooKeeper's protocol; one at least."""


def draw_jute_plan(seed: int) -> Plan:
    """Return the plan of a seed, always the same."""
    plan = draw_rotating_outages(seed) or draw_campaign(seed) or draw_mix(seed)
    random = Random(f"{seed}.jute")
    plan = with_jute_clients(random, plan)
    faults = plan.faults
    if faults and random.random() < 0.7:
        more = draw_client_faults(random, plan.safety_ms, len(plan.servers), len(plan.clients))
        faults = tuple(sorted([*faults, *more], key=lambda fault: fault.at_ms))
    return replace(plan, faults=faults)


def with_jute_clients(random: Random, plan: Plan) -> Plan:
    """Return the plan with some clients that speak ZooKeeper's protocol, and clocks of one rate."""
    first = random.randint(1, len(plan.clients))
    clients = tuple(
        replace(
            client,
            drift_ppm=0,
            speaks_jute=random.random() < SHARE or client.number == first,
        )
        for client in plan.clients
    )
    servers = tuple(replace(server, drift_ppm=0) for server in plan.servers)
    return replace(plan, servers=servers, clients=clients)
