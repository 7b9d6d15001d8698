"""Entitlements of subscriptions in memory, for programs that check them on every request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from types import MappingProxyType

from usagebill.core.entitlements import SubscriptionFeature, Value, typed
from usagebill.operations.subscriptions import get_of_status
from usagebill.queries.entitlements import entitled_features
from usagebill.resources.bindings import Runner
from usagebill.runtime.work import Reader
from usagebill.storage.versions import entitlements_version

# Feature code -> privilege code -> value.
Entitled = Mapping[str, Mapping[str, Value]]

# The seconds that a change by another process may go unnoticed: less than the two that are promised.
_CHECKED_EVERY = 1.0
# The number of cached subscriptions: some 200 MB at worst, if each has a few dozen values of its own.
_AT_MOST = 100_000


@dataclass(slots=True)
class _Known:
    """A cached value, valid for these `commits` of this process and this `version` of the file, to be checked at
    `check_at`.
    """

    commits: int
    version: int
    check_at: float
    by_external_id: dict[str, Entitled] = field(default_factory=dict)


class EntitlementCache:
    """The entitlements of each subscription, until something changes that they depend on.

    A change by this process takes effect on its commit; one by another process on the next check of the file's version,
    once a second. `seconds` is a monotonic clock.
    """

    def __init__(self, runner: Runner, seconds: Callable[[], float] = monotonic) -> None:
        self._runner = runner
        self._seconds = seconds
        self._known = _Known(commits=-1, version=-1, check_at=0.0)

    def of(self, external_subscription_id: str) -> Entitled:
        """The entitlements of the active subscription with this external id. Raises `NotFound`."""
        known = self._known
        if known.commits != self._runner.entitling_commits or known.check_at <= self._seconds():
            known = self._checked(known)
        entitled = known.by_external_id.get(external_subscription_id)
        return self._read(known, external_subscription_id) if entitled is None else entitled

    def _checked(self, known: _Known) -> _Known:
        # In this order: a commit after the first line causes another check.
        commits = self._runner.entitling_commits
        check_at = self._seconds() + _CHECKED_EVERY
        version = self._runner.reading(lambda reader: entitlements_version(reader.tx))
        if (commits, version) == (known.commits, known.version):
            known.check_at = check_at
        else:
            known = self._known = _Known(commits=commits, version=version, check_at=check_at)
        return known

    def _read(self, known: _Known, external_id: str) -> Entitled:
        def look(reader: Reader) -> Entitled:
            features = entitled_features(reader, get_of_status(reader, external_id))
            return MappingProxyType({item.feature.code: _values(item) for item in features})

        entitled = self._runner.reading(look)
        if len(known.by_external_id) >= _AT_MOST:
            known.by_external_id.clear()
        known.by_external_id[external_id] = entitled
        return entitled


def _values(item: SubscriptionFeature) -> Mapping[str, Value]:
    texts = item.values
    return MappingProxyType(
        {
            privilege.code: typed(privilege, texts[privilege.code])
            for privilege in item.feature.privileges
            if privilege.code in texts
        }
    )
