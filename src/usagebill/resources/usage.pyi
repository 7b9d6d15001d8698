"""Made by `python -m tests.library_stubs`."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, ClassVar

from usagebill.bindings import Messages, Resource, Views
from usagebill.core.event_sources import EventSource, IngestedEvents, RefusedEvent
from usagebill.core.events import Event
from usagebill.core.unbilled import UnbilledTally
from usagebill.fields import CloudEventFields, EventFields, Number
from usagebill.records import CurrentUsage, Fee, InstantFee, Pages, PastUsage, UnbilledEvent

class EventSources(Resource):
    """Files and brokers that events come from, and their messages that are not events."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def refused(self, *, source: str | None = ..., page: int = ..., per_page: int = ...) -> Pages[RefusedEvent]:
        """Refused entries of sources, latest first.

        source: Only those from this source.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def get_refused(self, refused_event_id: str) -> RefusedEvent:
        """A refused event. Raises `NotFound`.

        refused_event_id: The refused event, by id.
        """

    def retry(self, refused_event_id: str) -> IngestedEvents:
        """Ingest a refused event and take it off the list, for example once its metric's expression has been fixed.

        Raises `Invalid` with the remaining errors, and `NotAllowed` if it could not be read as an event.

        refused_event_id: The refused event, by id.
        """

    def retry_all(self) -> IngestedEvents:
        """Retry the 10,000 oldest refused events; those that still fail stay in the list."""

    def delete_refused(self, refused_event_id: str) -> RefusedEvent:
        """Delete a refused event from the list. Raises `NotFound`.

        refused_event_id: The refused event, by id.
        """

    def ingest_cloud_events(
        self, *, events: Sequence[CloudEventFields | Mapping[str, Any]] | None = ...
    ) -> IngestedEvents:
        """Ingest CloudEvents, all or none; duplicates are skipped, because senders retry.

        Raises `Invalid`, its details by the position (as text) of each event refused.

        events: The CloudEvents.
        """

    def list(self, *, page: int = ..., per_page: int = ...) -> Pages[EventSource]:
        """Sources that events were read from, by part, latest first.

        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

class Events(Resource):
    """Usage events of customers."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def get(self, transaction_id: str) -> Event:
        """The event with this transaction id, the first received if several subscriptions have one. Raises `NotFound`.

        transaction_id: The transaction, by id.
        """

    def list_or_unbilled(
        self,
        *,
        code: str | None = ...,
        external_subscription_id: str | None = ...,
        timestamp_from: date | str | None = ...,
        timestamp_to: date | str | None = ...,
        timestamp_from_started_at: bool | None = ...,
        unbilled: bool | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[Event] | Pages[UnbilledEvent]:
        """Events, or only those that are not billed: by timestamp, latest first, then by transaction id.

        code: The code that identifies it, unique among its kind.
        external_subscription_id: The subscription, by your own id.
        timestamp_from: Only events at or after this instant.
        timestamp_to: Only events at or before this instant.
        timestamp_from_started_at: Whether to start at the start of the subscription. Default: false.
        unbilled: Only events that no charge bills at present, each with the reason. Default: false.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def unbilled(
        self,
        *,
        code: str | None = ...,
        external_subscription_id: str | None = ...,
        timestamp_from: date | str | None = ...,
        timestamp_to: date | str | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[UnbilledEvent]:
        """The events that no charge currently counts, with their reasons, latest first, then by transaction id.

        code: The code that identifies it, unique among its kind.
        external_subscription_id: The subscription, by your own id.
        timestamp_from: Only events at or after this instant.
        timestamp_to: Only events at or before this instant.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def unbilled_tallies(
        self,
        *,
        code: str | None = ...,
        external_subscription_id: str | None = ...,
        timestamp_from: date | str | None = ...,
        timestamp_to: date | str | None = ...,
    ) -> list[UnbilledTally]:
        """Counts of unbilled events by reason, external subscription id and code, the most first.

        code: The code that identifies it, unique among its kind.
        external_subscription_id: The subscription, by your own id.
        timestamp_from: Only events at or after this instant.
        timestamp_to: Only events at or before this instant.
        """

    def list(
        self,
        *,
        code: str | None = ...,
        external_subscription_id: str | None = ...,
        timestamp_from: date | str | None = ...,
        timestamp_to: date | str | None = ...,
        timestamp_from_started_at: bool | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[Event]:
        """Events by timestamp, latest first, then by transaction id.

        code: The code that identifies it, unique among its kind.
        external_subscription_id: The subscription, by your own id.
        timestamp_from: Only events at or after this instant.
        timestamp_to: Only events at or before this instant.
        timestamp_from_started_at: Whether to start at the start of the subscription. Default: false.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def create(
        self,
        *,
        transaction_id: str,
        code: str,
        external_subscription_id: str | None = ...,
        timestamp: date | Number | float | None = ...,
        precise_total_amount_cents: Number | None = ...,
        properties: Mapping[str, object] | None = ...,
    ) -> Event:
        """Ingest one event; its `timestamp` is a `datetime`, Unix seconds, or now."""

    def ingest(self, request: Iterable[EventFields | Mapping[str, object]]) -> Sequence[Event]:
        """Ingest any number of events in one durable commit, all or none.

        Raises `Invalid`, its details by the position (as text) of each event refused.
        """

    def estimate_fees(
        self,
        *,
        transaction_id: str = ...,
        code: str,
        external_subscription_id: str,
        timestamp: date | Number | float | None = ...,
        precise_total_amount_cents: Number | None = ...,
        properties: Mapping[str, object] | None = ...,
    ) -> Sequence[Fee]:
        """The fees, with taxes, that an event would cause now; nothing is stored."""

    def estimate_instant_fees(
        self,
        *,
        transaction_id: str = ...,
        code: str,
        external_subscription_id: str,
        timestamp: date | Number | float | None = ...,
        precise_total_amount_cents: Number | None = ...,
        properties: Mapping[str, object] | None = ...,
    ) -> Sequence[InstantFee]:
        """The price of an event on its own, regardless of earlier usage."""

class Usage(Resource):
    """Customers' usage and its amounts."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def current(
        self,
        external_customer_id: str,
        *,
        external_subscription_id: str | None = ...,
        apply_taxes: bool | None = ...,
        charge_id: str | None = ...,
        filter_by_charge_id: str | None = ...,
        charge_code: str | None = ...,
        filter_by_charge_code: str | None = ...,
        billable_metric_code: str | None = ...,
        filter_by_metric_code: str | None = ...,
        group: Mapping[str, str] | None = ...,
        filter_by_group: Mapping[str, str] | None = ...,
        filter_by_presentation: Sequence[str] | None = ...,
        skip_grouping: bool | None = ...,
        full_usage: bool | None = ...,
    ) -> CurrentUsage:
        """The usage of the customer's active subscription in the charges period that contains now.

        Raises `NotFound` for the customer or the requested charges, `NotAllowed` (`no_active_subscription`,
        `full_usage_not_allowed`).

        external_customer_id: The customer, by your own id.
        external_subscription_id: The subscription, by your own id.
        apply_taxes: Whether to compute taxes. Default: true.
        charge_id: The charge, by id.
        filter_by_charge_id: The same as `charge_id`.
        charge_code: The charge, by code.
        filter_by_charge_code: The same as `charge_code`.
        billable_metric_code: The billable metric, by code.
        filter_by_metric_code: The same as `billable_metric_code`.
        group: The same as `filter_by_group`.
        filter_by_group: Only the group with these values of the pricing group keys.
        filter_by_presentation: The presentation keys to break units down by.
        skip_grouping: Whether groups are added up. Default: false.
        full_usage: Whether to include usage of the period that is already invoiced. Default: false.
        """

    def projected(
        self, external_customer_id: str, *, external_subscription_id: str | None = ..., apply_taxes: bool | None = ...
    ) -> CurrentUsage:
        """Current usage, projected to the end of the period at the same pace.

        external_customer_id: The customer, by your own id.
        external_subscription_id: The subscription, by your own id.
        apply_taxes: Whether to compute taxes. Default: true.
        """

    def past(
        self,
        external_customer_id: str,
        *,
        external_subscription_id: str | None = ...,
        billable_metric_code: str | None = ...,
        periods_count: int | None = ...,
        page: int = ...,
        per_page: int = ...,
    ) -> Pages[PastUsage]:
        """The billed usage periods of a subscription, newest first; none for an unknown customer.

        `periods_count` replaces the page size.

        external_customer_id: The customer, by your own id.
        external_subscription_id: The subscription, by your own id.
        billable_metric_code: The billable metric, by code.
        periods_count: The number of past periods. In periods.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """

    def rebuild(self) -> int:
        """Drop the running states of usage and rebuild them from the events; returns the number of series.

        Nothing waits for it and no answer differs meanwhile: the events are counted until the states exist.
        """
