"""Plans: what can be done with them, their charges, filters and fixed charges, and their overrides."""

from usagebill.core.plans import PlanDefinition
from usagebill.operations.plans.charge_endpoints import (
    create_charge,
    create_filter,
    create_fixed_charge,
    delete_charge,
    delete_filter,
    delete_fixed_charge,
    get_charge,
    get_filter,
    get_fixed_charge,
    list_charges,
    list_filters,
    list_fixed_charges,
    update_charge,
    update_filter,
    update_fixed_charge,
)
from usagebill.operations.plans.creation import create, list_all
from usagebill.operations.plans.deletion import delete
from usagebill.operations.plans.inputs import (
    AppliedPricingUnitInput,
    ChargeFilterInput,
    ChargeInput,
    ChargeOptions,
    FilterOptions,
    FixedChargeInput,
    FixedChargeOptions,
    MetadataInput,
    MinimumCommitmentInput,
    PlanInput,
    PlanOverridesInput,
    UsageThresholdInput,
)
from usagebill.operations.plans.metadata import delete_metadata, delete_metadata_key, merge_metadata, replace_metadata
from usagebill.operations.plans.overrides import Overridden, apply_overrides, is_units_only, override
from usagebill.operations.plans.records import get
from usagebill.operations.plans.update import update
from usagebill.queries.plans import definition, forget_definition

__all__ = [
    "AppliedPricingUnitInput",
    "ChargeFilterInput",
    "ChargeInput",
    "ChargeOptions",
    "FilterOptions",
    "FixedChargeInput",
    "FixedChargeOptions",
    "MetadataInput",
    "MinimumCommitmentInput",
    "Overridden",
    "PlanDefinition",
    "PlanInput",
    "PlanOverridesInput",
    "UsageThresholdInput",
    "apply_overrides",
    "create",
    "create_charge",
    "create_filter",
    "create_fixed_charge",
    "definition",
    "delete",
    "delete_charge",
    "delete_filter",
    "delete_fixed_charge",
    "delete_metadata",
    "delete_metadata_key",
    "forget_definition",
    "get",
    "get_charge",
    "get_filter",
    "get_fixed_charge",
    "is_units_only",
    "list_all",
    "list_charges",
    "list_filters",
    "list_fixed_charges",
    "merge_metadata",
    "override",
    "replace_metadata",
    "update",
    "update_charge",
    "update_filter",
    "update_fixed_charge",
]
