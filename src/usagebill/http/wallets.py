"""Wallets over HTTP, by id and by their code below a customer, with their metadata."""

from __future__ import annotations

from collections.abc import Mapping

from usagebill.core.metadata import Metadata
from usagebill.http.endpoints import Endpoint
from usagebill.operations import wallets
from usagebill.queries.customers import customer_by_external_id
from usagebill.runtime.work import Reader
from usagebill.views.wallets import wallet_view

_BY_ID = "/wallets/{wallet_id}"
_BY_CODE = "/customers/{external_id}/wallets/{code}"


def _metadata_view(_: Reader, metadata: Metadata | None) -> Mapping[str, str | None] | None:
    return metadata


ENDPOINTS: list[Endpoint] = [
    Endpoint(
        "POST",
        "/wallets",
        wallets.create,
        body=wallets.WalletInput,
        root="wallet",
        returns="wallet",
        view=wallet_view,
        summary="Create a wallet",
    ),
    Endpoint(
        "GET",
        "/wallets",
        wallets.list_all,
        query=wallets.WalletFilters,
        paged=True,
        returns="wallets",
        view=wallet_view,
        summary="List wallets",
    ),
    Endpoint(
        "GET",
        _BY_ID,
        wallets.show,
        query=wallets.WalletOptions,
        returns="wallet",
        view=wallet_view,
        summary="Get a wallet",
    ),
    Endpoint(
        "PUT",
        _BY_ID,
        wallets.update,
        find=wallets.get,
        body=wallets.WalletUpdate,
        root="wallet",
        returns="wallet",
        view=wallet_view,
        summary="Change a wallet",
    ),
    Endpoint("DELETE", _BY_ID, wallets.terminate, returns="wallet", view=wallet_view, summary="End a wallet"),
    Endpoint(
        "POST",
        f"{_BY_ID}/metadata",
        wallets.replace_metadata,
        body=wallets.MetadataInput,
        returns="metadata",
        view=_metadata_view,
        summary="Replace the metadata of a wallet",
    ),
    Endpoint(
        "PUT",
        f"{_BY_ID}/metadata",
        wallets.merge_metadata,
        body=wallets.MetadataInput,
        returns="metadata",
        view=_metadata_view,
        summary="Set keys of the metadata of a wallet",
    ),
    Endpoint(
        "DELETE",
        f"{_BY_ID}/metadata",
        wallets.delete_metadata,
        returns="metadata",
        view=_metadata_view,
        summary="Remove the metadata of a wallet",
    ),
    Endpoint(
        "DELETE",
        f"{_BY_ID}/metadata/{{key}}",
        wallets.delete_metadata_key,
        returns="metadata",
        view=_metadata_view,
        summary="Remove one key of the metadata of a wallet",
    ),
    Endpoint(
        "POST",
        "/customers/{external_id}/wallets",
        wallets.create_of_customer,
        find=customer_by_external_id,
        found_first=True,
        body=wallets.WalletInput,
        root="wallet",
        returns="wallet",
        view=wallet_view,
        summary="Create a wallet of a customer",
    ),
    Endpoint(
        "GET",
        "/customers/{external_id}/wallets",
        wallets.list_of_customer,
        query=wallets.WalletFilters,
        paged=True,
        returns="wallets",
        view=wallet_view,
        summary="List the wallets of a customer",
    ),
    Endpoint(
        "GET",
        _BY_CODE,
        wallets.show_of_customer,
        query=wallets.WalletOptions,
        returns="wallet",
        view=wallet_view,
        summary="Get a wallet of a customer",
    ),
    Endpoint(
        "PUT",
        _BY_CODE,
        wallets.update_of_customer,
        find=wallets.get_of_customer,
        found_first=True,
        body=wallets.WalletUpdate,
        root="wallet",
        returns="wallet",
        view=wallet_view,
        summary="Change a wallet of a customer",
    ),
    Endpoint(
        "DELETE",
        _BY_CODE,
        wallets.terminate_of_customer,
        returns="wallet",
        view=wallet_view,
        summary="End a wallet of a customer",
    ),
    Endpoint(
        "POST",
        f"{_BY_CODE}/metadata",
        wallets.replace_metadata_of_customer,
        body=wallets.MetadataInput,
        returns="metadata",
        view=_metadata_view,
        summary="Replace the metadata of a customer's wallet",
    ),
    Endpoint(
        "PUT",
        f"{_BY_CODE}/metadata",
        wallets.merge_metadata_of_customer,
        body=wallets.MetadataInput,
        returns="metadata",
        view=_metadata_view,
        summary="Set keys of the metadata of a customer's wallet",
    ),
    Endpoint(
        "DELETE",
        f"{_BY_CODE}/metadata",
        wallets.delete_metadata_of_customer,
        returns="metadata",
        view=_metadata_view,
        summary="Remove the metadata of a customer's wallet",
    ),
    Endpoint(
        "DELETE",
        f"{_BY_CODE}/metadata/{{key}}",
        wallets.delete_metadata_key_of_customer,
        returns="metadata",
        view=_metadata_view,
        summary="Remove one key of the metadata of a customer's wallet",
    ),
]
