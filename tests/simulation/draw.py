"""The plan of a seed: a mix of everything, or now and then a rota or a campaign; its world."""

from tests.simulation.campaigns import draw_campaign
from tests.simulation.plan import Plan, draw_mix
from tests.simulation.recipes.plans import draw_recipe_plan
from tests.simulation.rota import draw_rota


def draw_plan(seed: int, recipe: str = "") -> Plan:
    """Always the same for a seed, and a recipe if there is one."""
    if recipe:
        return draw_recipe_plan(seed, recipe)
    return draw_rota(seed) or draw_campaign(seed) or draw_mix(seed)
