"""Made by `python -m tests.library_stubs`."""

from collections.abc import Sequence
from datetime import date
from typing import ClassVar

from usagebill.bindings import Messages, Resource, Views
from usagebill.records import ActivityLog, ApiLog, Pages, SecurityLog

class ActivityLogs(Resource):
    """What has changed, by whom, with the values before and after."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def get(self, activity_id: str) -> ActivityLog:
        """An activity, as long as it is kept. Raises `NotFound`.

        activity_id: The activity, by id.
        """

    def list(
        self,
        *,
        from_date: date | str | None = ...,
        to_date: date | str | None = ...,
        activity_types: Sequence[str] | None = ...,
        activity_sources: Sequence[str] | None = ...,
        user_emails: Sequence[str] | None = ...,
        external_customer_id: str | None = ...,
        external_subscription_id: str | None = ...,
        resource_ids: Sequence[str] | None = ...,
        resource_types: Sequence[str] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[ActivityLog]:
        """The activities of the last days (`Settings.listed_log_days`), newest first. Raises `Invalid` for no date.

        from_date: Keeps those of this day or later.
        to_date: Keeps those of this day or earlier.
        activity_types: Keeps these types of change.
        activity_sources: Keeps changes made by these. One of api, front, system.
        user_emails: Keeps changes made by users of these addresses; there are none.
        external_customer_id: The customer, by your own id.
        external_subscription_id: The subscription, by your own id.
        resource_ids: Keeps those of these records, by id.
        resource_types: Keeps those of records of these kinds.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class ApiLogs(Resource):
    """Requests that were to change something, and their answers."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def get(self, request_id: str) -> ApiLog:
        """The last request with this id, as long as it is kept. Raises `NotFound`.

        request_id: The request, by id.
        """

    def list(
        self,
        *,
        from_date: date | str | None = ...,
        to_date: date | str | None = ...,
        http_methods: Sequence[str] | None = ...,
        http_statuses: Sequence[str] | None = ...,
        api_version: str | None = ...,
        request_paths: Sequence[str] | None = ...,
        clients: Sequence[str] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[ApiLog]:
        """The requests of the last days (`Settings.listed_log_days`), newest first. Raises `Invalid` for no date.

        from_date: Keeps those of this day or later.
        to_date: Keeps those of this day or earlier.
        http_methods: Keeps requests of these methods.
        http_statuses: Keeps those answered so: a status, `succeeded` or `failed`.
        api_version: Keeps requests of this version.
        request_paths: Keeps requests of these paths.
        clients: Keeps requests of these clients.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class SecurityLogs(Resource):
    """What happened to keys, endpoints, connections and billing entities."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def get(self, log_id: str) -> SecurityLog:
        """An event, as long as it is kept. Raises `NotFound`.

        log_id: The log, by id.
        """

    def list(
        self,
        *,
        from_date: date | str | None = ...,
        to_date: date | str | None = ...,
        user_ids: Sequence[str] | None = ...,
        api_key_ids: Sequence[str] | None = ...,
        log_types: Sequence[str] | None = ...,
        log_events: Sequence[str] | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[SecurityLog]:
        """Events up to `to_date`, newest first. Raises `Invalid` without it, and for what is no date.

        from_date: Keeps those of this day or later.
        to_date: Keeps those of this day or earlier.
        user_ids: Keeps those of these users; there are none.
        api_key_ids: Keeps those of these API keys, by id.
        log_types: Keeps these types of entry. One of api_key, billing_entity, integration, webhook_endpoint.
        log_events: Keeps these events.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """
