"""The plan of a seed: a mix of everything, or now and then a rota or a campaign."""

from tests.simulation.campaigns import draw_campaign
from tests.simulation.plan import Plan, draw_mix
from tests.simulation.rota import draw_rota


def draw_plan(seed: int) -> Plan:
    """Always the same for a seed."""
    return draw_rota(seed) or draw_campaign(seed) or draw_mix(seed)
