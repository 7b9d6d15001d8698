"""The metadata of wallets."""

from __future__ import annotations

from dataclasses import replace

from usagebill.core.errors import NotFound
from usagebill.core.metadata import Metadata, checked_metadata, merged_metadata
from usagebill.core.wallets import Wallet
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.operations.wallet_ledger import tell_wallet
from usagebill.operations.wallets.inputs import MetadataInput
from usagebill.queries.customers import customer_by_external_id
from usagebill.queries.wallets import wallet_by_code, wallet_by_id
from usagebill.requests.inputs import is_given
from usagebill.runtime.work import Work


def _stored(work: Work, wallet: Wallet, metadata: Metadata | None) -> Metadata | None:
    changed = replace(wallet, metadata=metadata, updated_at=work.now)
    work.tx.replace(changed)
    tell_wallet(work, "wallet.updated", changed)
    return metadata


@without_backlog(Unrelated.NOT_BILLED)
def replace_metadata(work: Work, wallet_id: str, request: MetadataInput) -> Metadata | None:
    """Replace the metadata of the wallet; if absent, nothing changes. Raises `NotFound` and `Invalid`."""
    return _replaced(work, wallet_by_id(work, wallet_id), request)


@without_backlog(Unrelated.NOT_BILLED)
def replace_metadata_of_customer(work: Work, external_id: str, code: str, request: MetadataInput) -> Metadata | None:
    """The same for the customer's wallet with this code."""
    return _replaced(work, _by_code(work, external_id, code), request)


def _replaced(work: Work, wallet: Wallet, request: MetadataInput) -> Metadata | None:
    if not is_given(request.metadata) or request.metadata is None:
        return wallet.metadata
    return _stored(work, wallet, checked_metadata(request.metadata))


@without_backlog(Unrelated.NOT_BILLED)
def merge_metadata(work: Work, wallet_id: str, request: MetadataInput) -> Metadata | None:
    """Set the keys that are sent, and keep the others. Raises `NotFound` and `Invalid`."""
    return _merged(work, wallet_by_id(work, wallet_id), request)


@without_backlog(Unrelated.NOT_BILLED)
def merge_metadata_of_customer(work: Work, external_id: str, code: str, request: MetadataInput) -> Metadata | None:
    """The same for the customer's wallet with this code."""
    return _merged(work, _by_code(work, external_id, code), request)


def _merged(work: Work, wallet: Wallet, request: MetadataInput) -> Metadata | None:
    if not is_given(request.metadata) or request.metadata is None:
        return wallet.metadata
    merged = merged_metadata(wallet.metadata, checked_metadata(request.metadata))
    return _stored(work, wallet, None if merged is None else checked_metadata(merged))


@without_backlog(Unrelated.NOT_BILLED)
def delete_metadata(work: Work, wallet_id: str) -> None:
    """Remove the wallet's metadata, if there is any. Raises `NotFound`."""
    _stored(work, wallet_by_id(work, wallet_id), None)


@without_backlog(Unrelated.NOT_BILLED)
def delete_metadata_of_customer(work: Work, external_id: str, code: str) -> None:
    """The same for the customer's wallet with this code."""
    _stored(work, _by_code(work, external_id, code), None)


@without_backlog(Unrelated.NOT_BILLED)
def delete_metadata_key(work: Work, wallet_id: str, key: str) -> Metadata:
    """Remove one key, if present. Raises `NotFound` for the wallet, or if it has no metadata."""
    return _without(work, wallet_by_id(work, wallet_id), key)


@without_backlog(Unrelated.NOT_BILLED)
def delete_metadata_key_of_customer(work: Work, external_id: str, code: str, key: str) -> Metadata:
    """The same for the customer's wallet with this code."""
    return _without(work, _by_code(work, external_id, code), key)


def _without(work: Work, wallet: Wallet, key: str) -> Metadata:
    if wallet.metadata is None:
        raise NotFound("metadata", key)
    left = {name: value for name, value in wallet.metadata.items() if name != key}
    work.tx.replace(replace(wallet, metadata=left, updated_at=work.now))
    return left


def _by_code(work: Work, external_id: str, code: str) -> Wallet:
    return wallet_by_code(work, customer_by_external_id(work, external_id), code)
