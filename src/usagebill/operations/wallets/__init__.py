"""Wallets: created, changed, topped up and ended."""

from usagebill.operations.wallets.creation import create, create_of_customer
from usagebill.operations.wallets.inputs import MetadataInput, WalletFilters, WalletInput, WalletOptions, WalletUpdate
from usagebill.operations.wallets.listing import (
    get,
    get_of_customer,
    list_all,
    list_of_customer,
    show,
    show_of_customer,
)
from usagebill.operations.wallets.metadata import (
    delete_metadata,
    delete_metadata_key,
    delete_metadata_key_of_customer,
    delete_metadata_of_customer,
    merge_metadata,
    merge_metadata_of_customer,
    replace_metadata,
    replace_metadata_of_customer,
)
from usagebill.operations.wallets.termination import terminate, terminate_of_customer
from usagebill.operations.wallets.update import update, update_of_customer

__all__ = [
    "MetadataInput",
    "WalletFilters",
    "WalletInput",
    "WalletOptions",
    "WalletUpdate",
    "create",
    "create_of_customer",
    "delete_metadata",
    "delete_metadata_key",
    "delete_metadata_key_of_customer",
    "delete_metadata_of_customer",
    "get",
    "get_of_customer",
    "list_all",
    "list_of_customer",
    "merge_metadata",
    "merge_metadata_of_customer",
    "replace_metadata",
    "replace_metadata_of_customer",
    "show",
    "show_of_customer",
    "terminate",
    "terminate_of_customer",
    "update",
    "update_of_customer",
]
