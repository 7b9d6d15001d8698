"""Subscriptions: created, changed, ended and billed over time."""

from usagebill.operations.subscriptions.creation import create as create
from usagebill.operations.subscriptions.inputs import (
    AuthorizationInput as AuthorizationInput,
    AuthorizationOptions as AuthorizationOptions,
    StatusOptions as StatusOptions,
    SubscriptionFilters as SubscriptionFilters,
    SubscriptionInput as SubscriptionInput,
    SubscriptionTermination as SubscriptionTermination,
    SubscriptionUpdate as SubscriptionUpdate,
)
from usagebill.operations.subscriptions.reading import (
    get as get,
    get_of_status as get_of_status,
    list_all as list_all,
    list_of_customer as list_of_customer,
)
from usagebill.operations.subscriptions.schedule import reschedule_customer as reschedule_customer
from usagebill.operations.subscriptions.termination import (
    cancel_pending as cancel_pending,
    delete as delete,
    terminate as terminate,
)
from usagebill.operations.subscriptions.update import (
    find_to_change as find_to_change,
    update as update,
)
