"""Plans: what can be done with them, their charges, filters and fixed charges, and their overrides."""

from usagebill.core.plans import PlanDefinition
from usagebill.definitions import definition, forget_definition

__all__ = ["PlanDefinition", "definition", "forget_definition"]
