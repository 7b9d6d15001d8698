"""An explained invoice: for each fee its events, arithmetic, discounts and taxes, and the steps to the total."""

from __future__ import annotations

from dataclasses import dataclass

from usagebill.core.billable_metrics import BillableMetric
from usagebill.core.events import Event
from usagebill.core.fees import Fee
from usagebill.core.invoices.explanation import Discount, Step, TaxStep
from usagebill.core.invoices.records import Invoice
from usagebill.core.plans import Charge
from usagebill.core.wallet_transactions import WalletTransaction
from usagebill.core.wallets import Wallet


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedEvent:
    """An event that a usage fee counts, with its current charge and metric."""

    event: Event
    metric: BillableMetric
    charge: Charge


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedUsage:
    """The events of a usage fee in order of time: all of them if `complete`, else the earliest ones.

    `charge` and `metric` are the current ones. `counting` leads from the events to the fee's units; it is empty if that
    can no longer be reconstructed.
    """

    charge: Charge
    metric: BillableMetric
    events: tuple[Event, ...]
    complete: bool
    counting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPrepayment:
    """Cents of a fee that a wallet paid by the transaction `outbound`, from the credits of `inbound`."""

    wallet: Wallet
    outbound: WalletTransaction
    inbound: WalletTransaction
    amount_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedFee:
    """`arithmetic` leads to the fee's amount; `discounts`, `taxes` and `prepaid` follow from it, each in order."""

    fee: Fee
    usage: ExplainedUsage | None
    arithmetic: tuple[str, ...]
    discounts: tuple[Discount, ...]
    taxes: tuple[TaxStep, ...]
    prepaid: tuple[ExplainedPrepayment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedInvoice:
    """`steps` lead from the sum of the fees to the amount due."""

    invoice: Invoice
    fees: tuple[ExplainedFee, ...]
    steps: tuple[Step, ...]
