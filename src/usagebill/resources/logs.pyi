"""Made by `python -m tests.library_stubs`."""

from collections.abc import Sequence
from datetime import date
from typing import ClassVar

from usagebill.bindings import Messages, Resource, Views
from usagebill.records import ActivityLog, ApiLog, Pages, SecurityLog

class ActivityLogs(Resource):
    """The log of changes: the actor, and the values before and after."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def get(self, activity_id: str) -> ActivityLog:
        """The activity with this id, while it is kept. Raises `NotFound`.

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
        """The activities of the last `Settings.listed_log_days` days, newest first. Raises `Invalid` for bad dates.

        from_date: Only those on or after this day.
        to_date: Only those on or before this day.
        activity_types: Only these types of change.
        activity_sources: Only changes from these sources. One of api, front, system.
        user_emails: Only changes by users with these addresses; there are no users.
        external_customer_id: The customer, by your own id.
        external_subscription_id: The subscription, by your own id.
        resource_ids: Only those of these records, by id.
        resource_types: Only those of records of these types.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class ApiLogs(Resource):
    """Requests that change something, and their answers."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def get(self, request_id: str) -> ApiLog:
        """The last request with this id, while it is kept. Raises `NotFound`.

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
        """The requests of the last `Settings.listed_log_days` days, newest first. Raises `Invalid` for bad dates.

        from_date: Only those on or after this day.
        to_date: Only those on or before this day.
        http_methods: Only requests with these methods.
        http_statuses: Only those with these results: a status, `succeeded` or `failed`.
        api_version: Only requests of this version.
        request_paths: Only requests with these paths.
        clients: Only requests from these clients.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class SecurityLogs(Resource):
    """The log of keys, endpoints, connections and billing entities."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def get(self, log_id: str) -> SecurityLog:
        """The event with this id, while it is kept. Raises `NotFound`.

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
        """Events up to `to_date`, newest first. Raises `Invalid` without it, and for malformed dates.

        from_date: Only those on or after this day.
        to_date: Only those on or before this day.
        user_ids: Only those of these users; there are no users.
        api_key_ids: Only those of these API keys, by id.
        log_types: Only these types of entry. One of api_key, billing_entity, integration, webhook_endpoint.
        log_events: Only these events.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """
