"""Wallets by id and by code, and lists of them."""

from __future__ import annotations

from collections.abc import Sequence

from usagebill.core.customers import Customer
from usagebill.core.wallets import Wallet
from usagebill.operations.customer_lists import entity_ids_of_codes
from usagebill.operations.wallets.inputs import WalletFilters, WalletOptions
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.wallets import wallet_by_code, wallet_by_id
from usagebill.rating.ongoing_usage import refreshed
from usagebill.requests.inputs import Paging, value_or
from usagebill.runtime.work import Reader, Work
from usagebill.storage.conditions import Condition, all_of, any_of, asc, desc, eq, missing, related, within
from usagebill.storage.ports import Page


def get(work: Work, wallet_id: str) -> Wallet:
    """The wallet with this id, active or terminated. Raises `NotFound`."""
    return wallet_by_id(work, wallet_id)


def get_of_customer(work: Work, external_id: str, code: str) -> Wallet:
    """The customer's wallet with this code: the active one, else the one that ended last. Raises `NotFound`."""
    return wallet_by_code(work, customer_by_external_id(work, external_id), code)


def show(reader: Reader, wallet_id: str, options: WalletOptions) -> Wallet:
    """The wallet with this id, active or terminated. Raises `NotFound`."""
    return _with_options(reader, wallet_by_id(reader, wallet_id), options)


def show_of_customer(reader: Reader, external_id: str, code: str, options: WalletOptions) -> Wallet:
    """The customer's wallet with this code: the active one, else the one that ended last. Raises `NotFound`."""
    customer = customer_by_external_id(reader, external_id)
    return _with_options(reader, wallet_by_code(reader, customer, code), options)


def _with_options(reader: Reader, wallet: Wallet, options: WalletOptions) -> Wallet:
    return refreshed(reader, wallet) if value_or(options.current_ongoing_balance, False) else wallet


def list_all(work: Work, options: WalletFilters, paging: Paging) -> Page[Wallet]:
    """Wallets, latest first, terminated ones too. Raises `NotFound` for an unknown customer or billing entity."""
    conditions: list[Condition] = []
    if options.external_customer_id:
        conditions.append(eq("customer_id", customer_by_external_id(work, options.external_customer_id).id))
    if options.currency:
        conditions.append(eq("currency", options.currency))
    codes = value_or(options.billing_entity_codes, ())
    if codes:
        conditions.append(_of_entities(entity_ids_of_codes(work, codes)))
    return work.page(Wallet, *conditions, paging=paging, order=[desc("created_at"), asc("id")])


def _of_entities(entity_ids: Sequence[str]) -> Condition:
    of_customer = related(Customer, "customer_id", within("billing_entity_id", entity_ids))
    return any_of(within("billing_entity_id", entity_ids), all_of(missing("billing_entity_id"), of_customer))


def list_of_customer(work: Work, external_id: str, options: WalletFilters, paging: Paging) -> Page[Wallet]:
    """The wallets of one customer. Raises `NotFound`."""
    customer = customer_by_external_id(work, external_id)
    return list_all(
        work,
        WalletFilters(
            external_customer_id=customer.external_id,
            currency=options.currency,
            billing_entity_codes=options.billing_entity_codes,
        ),
        paging,
    )
