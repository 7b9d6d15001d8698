"""Usage: what a subscription has used, priced as its charges price it."""

from usagebill.operations.usage.charges import ChargeResult, ChargeScope, charge_results

__all__ = ["ChargeResult", "ChargeScope", "charge_results"]
