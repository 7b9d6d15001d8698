"""Plans with their charges, filters, fixed charges and overrides."""

from usagebill.operations.plans.charge_endpoints import (
    create_charge as create_charge,
    create_filter as create_filter,
    create_fixed_charge as create_fixed_charge,
    delete_charge as delete_charge,
    delete_filter as delete_filter,
    delete_fixed_charge as delete_fixed_charge,
    get_charge as get_charge,
    get_filter as get_filter,
    get_fixed_charge as get_fixed_charge,
    list_charges as list_charges,
    list_filters as list_filters,
    list_fixed_charges as list_fixed_charges,
    update_charge as update_charge,
    update_filter as update_filter,
    update_fixed_charge as update_fixed_charge,
)
from usagebill.operations.plans.creation import (
    create as create,
    list_all as list_all,
)
from usagebill.operations.plans.deletion import delete as delete
from usagebill.operations.plans.effective import (
    delete_scheduled_prices as delete_scheduled_prices,
    update_scheduled_prices as update_scheduled_prices,
)
from usagebill.operations.plans.inputs import (
    AppliedPricingUnitInput as AppliedPricingUnitInput,
    ChargeFilterInput as ChargeFilterInput,
    ChargeFilterUpdate as ChargeFilterUpdate,
    ChargeInput as ChargeInput,
    ChargeOptions as ChargeOptions,
    ChargeUpdate as ChargeUpdate,
    FilterOptions as FilterOptions,
    FixedChargeInput as FixedChargeInput,
    FixedChargeOptions as FixedChargeOptions,
    FixedChargeUpdate as FixedChargeUpdate,
    MetadataInput as MetadataInput,
    MinimumCommitmentInput as MinimumCommitmentInput,
    PlanInput as PlanInput,
    PlanOverridesInput as PlanOverridesInput,
    PlanUpdate as PlanUpdate,
    ScheduledPricesUpdate as ScheduledPricesUpdate,
    UsageThresholdInput as UsageThresholdInput,
)
from usagebill.operations.plans.metadata import (
    delete_metadata as delete_metadata,
    delete_metadata_key as delete_metadata_key,
    merge_metadata as merge_metadata,
    replace_metadata as replace_metadata,
)
from usagebill.operations.plans.overrides import (
    Overridden as Overridden,
    apply_overrides as apply_overrides,
    is_units_only as is_units_only,
    override as override,
)
from usagebill.operations.plans.update import update as update
from usagebill.operations.plans.versions import list_versions as list_versions
