"""Wallets: created, changed, topped up and ended."""

from usagebill.operations.wallets.creation import (
    create as create,
    create_of_customer as create_of_customer,
)
from usagebill.operations.wallets.inputs import (
    MetadataInput as MetadataInput,
    WalletFilters as WalletFilters,
    WalletInput as WalletInput,
    WalletOptions as WalletOptions,
    WalletUpdate as WalletUpdate,
)
from usagebill.operations.wallets.listing import (
    get as get,
    get_of_customer as get_of_customer,
    list_all as list_all,
    list_of_customer as list_of_customer,
    show as show,
    show_of_customer as show_of_customer,
)
from usagebill.operations.wallets.metadata import (
    delete_metadata as delete_metadata,
    delete_metadata_key as delete_metadata_key,
    delete_metadata_key_of_customer as delete_metadata_key_of_customer,
    delete_metadata_of_customer as delete_metadata_of_customer,
    merge_metadata as merge_metadata,
    merge_metadata_of_customer as merge_metadata_of_customer,
    replace_metadata as replace_metadata,
    replace_metadata_of_customer as replace_metadata_of_customer,
)
from usagebill.operations.wallets.termination import (
    terminate as terminate,
    terminate_of_customer as terminate_of_customer,
)
from usagebill.operations.wallets.update import (
    update as update,
    update_of_customer as update_of_customer,
)
