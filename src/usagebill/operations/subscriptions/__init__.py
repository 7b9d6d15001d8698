"""Subscriptions: created, changed, ended and billed over time."""

from usagebill.operations.subscriptions.creation import create
from usagebill.operations.subscriptions.inputs import (
    AuthorizationInput,
    AuthorizationOptions,
    StatusOptions,
    SubscriptionFilters,
    SubscriptionInput,
    SubscriptionTermination,
    SubscriptionUpdate,
)
from usagebill.operations.subscriptions.reading import get, get_of_status, list_all, list_of_customer
from usagebill.operations.subscriptions.schedule import reschedule_customer
from usagebill.operations.subscriptions.termination import cancel_pending, delete, terminate
from usagebill.operations.subscriptions.update import find_to_change, update

__all__ = [
    "AuthorizationInput",
    "AuthorizationOptions",
    "StatusOptions",
    "SubscriptionFilters",
    "SubscriptionInput",
    "SubscriptionTermination",
    "SubscriptionUpdate",
    "cancel_pending",
    "create",
    "delete",
    "find_to_change",
    "get",
    "get_of_status",
    "list_all",
    "list_of_customer",
    "reschedule_customer",
    "terminate",
    "update",
]
