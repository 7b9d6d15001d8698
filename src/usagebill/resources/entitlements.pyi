"""Made by `python -m tests.library_stubs`."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from usagebill.bindings import Messages, Resource, Views
from usagebill.core.entitlements import Feature
from usagebill.fields import PrivilegeFields
from usagebill.records import Pages, PlanFeature, SubscriptionFeature

class Entitlements(Resource):
    """Entitlements of plans, overrides by subscriptions, and the result."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def list_of_plan(self, code: str) -> list[PlanFeature]:
        """The features of a plan with their values, oldest first. Raises `NotFound`.

        code: Its code.
        """

    def get_of_plan(self, code: str, feature_code: str) -> PlanFeature:
        """One feature of a plan. Raises `NotFound` for the plan, and for a feature that it lacks.

        code: Its code.
        feature_code: The feature, by code.
        """

    def replace_of_plan(self, code: str, *, entitlements: Mapping[str, object] | None = ...) -> list[PlanFeature]:
        """Replace the entitlements of a plan; a feature sent without values keeps those it has.

        Without `entitlements` nothing changes. Raises `NotFound` for the plan and for codes of features and privileges,
        `Invalid` for values.

        code: Its code.
        entitlements: Feature -> privilege -> value.
        """

    def merge_of_plan(self, code: str, *, entitlements: Mapping[str, object] | None = ...) -> list[PlanFeature]:
        """Add entitlements to a plan, and change values. Raises as `replace_of_plan` does.

        code: Its code.
        entitlements: Feature -> privilege -> value.
        """

    def remove_from_plan(self, code: str, feature_code: str) -> PlanFeature:
        """Remove a feature from a plan, and return it. Raises `NotFound` for the plan, and if it lacks the feature.

        code: Its code.
        feature_code: The feature, by code.
        """

    def remove_privilege_from_plan(self, code: str, feature_code: str, privilege_code: str) -> PlanFeature:
        """Remove the value of a privilege from a plan, and return the remaining feature.

        Raises `NotFound` for the plan, for a feature that it lacks, and for a privilege without a value there.

        code: Its code.
        feature_code: The feature, by code.
        privilege_code: The privilege, by code.
        """

    def list_of_subscription(
        self,
        external_id: str,
        *,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> list[SubscriptionFeature]:
        """The features of a subscription: its plan's, with its own changes. Raises `NotFound`.

        external_id: Your own id of it.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def change_of_subscription(
        self,
        external_id: str,
        *,
        entitlements: Mapping[str, object] | None = ...,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> list[SubscriptionFeature]:
        """Give a subscription its own values, or restore removed features; features that are not named stay.

        Sending exactly the plan's values for a feature drops the subscription's own. Raises `NotFound` and `Invalid`.

        external_id: Your own id of it.
        entitlements: Feature -> privilege -> value.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def remove_from_subscription(
        self,
        external_id: str,
        feature_code: str,
        *,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> list[SubscriptionFeature]:
        """Remove a feature, the plan's or its own, from a subscription, and return the rest. Raises `NotFound`.

        external_id: Your own id of it.
        feature_code: The feature, by code.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def remove_privilege_from_subscription(
        self,
        external_id: str,
        feature_code: str,
        privilege_code: str,
        *,
        subscription_status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
        status: Literal["pending", "incomplete", "active", "terminated", "canceled"] | None = ...,
    ) -> list[SubscriptionFeature]:
        """Remove one privilege of a feature from a subscription, and return the rest. Raises `NotFound`.

        external_id: Your own id of it.
        feature_code: The feature, by code.
        privilege_code: The privilege, by code.
        subscription_status: The status of the subscription, if several share the id. One of pending, incomplete, active, terminated, canceled.
        status: The same as `subscription_status`. One of pending, incomplete, active, terminated, canceled.
        """

    def of(self, external_subscription_id: str) -> Mapping[str, Mapping[str, int | bool | str]]:
        """The entitlements of the active subscription with this external id: feature -> privilege -> value.

        Values are `int`, `bool` or `str`, and cannot be changed. A program may call this on every request: it costs a
        microsecond while nothing changes, sees changes by this process at once, and those by other processes within two
        seconds. Raises `NotFound` without an active subscription.
        """

class Features(Resource):
    """Features that plans include, with typed privileges."""

    views: ClassVar[Views]
    messages: ClassVar[Messages]
    def create(
        self,
        *,
        code: str,
        name: str | None = ...,
        description: str | None = ...,
        privileges: Sequence[PrivilegeFields | Mapping[str, Any]] | None = ...,
    ) -> Feature:
        """A new feature with its privileges. Raises `Invalid`.

        code: The code that identifies it, unique among its kind. Required.
        name: A readable name.
        description: A text for people; it has no effect.
        privileges: The settings of the feature.
        """

    def update(
        self,
        current_code: str,
        /,
        *,
        code: str | None = ...,
        name: str | None = ...,
        description: str | None = ...,
        privileges: Sequence[PrivilegeFields | Mapping[str, Any]] | None = ...,
    ) -> Feature:
        """Change what is sent, and add new privileges; types stay, and options of a select are only added.

        Raises `NotFound` and `Invalid`.

        current_code: Its code.
        code: The code that identifies it, unique among its kind.
        name: A readable name.
        description: A text for people; it has no effect.
        privileges: The settings of the feature.
        """

    def get(self, code: str) -> Feature:
        """The feature with this code. Raises `NotFound`.

        code: Its code.
        """

    def delete(self, code: str) -> Feature:
        """Delete the feature and all entitlements to it; its code is free again.

        code: Its code.
        """

    def delete_privilege(self, code: str, privilege_code: str) -> Feature:
        """Delete a privilege of the feature with all its values. Raises `NotFound` for either.

        code: Its code.
        privilege_code: The privilege, by code.
        """

    def list(self, *, search_term: str | None = ..., page: int = ..., per_page: int = ...) -> Pages[Feature]:
        """Features, newest first.

        search_term: Only those that contain this text, in upper or lower case.
        page: Which page, from 1 on. Default: 1.
        per_page: How many records a page holds, at most 1000. Default: 100.
        """
