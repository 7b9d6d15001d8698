"""Running states for tests: everything has them, however few its events, and they are rolled up a few at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from usagebill.storage.postgresql.events import state_answers as postgres_state_answers, states as postgres_states
from usagebill.storage.sqlite.events import state_answers, states


@contextmanager
def eager_states() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (states, postgres_states):
            patch.setattr(module, "_is_dense", lambda connection, pair, shape: True)
            patch.setattr(module, "AT_ONCE", 300)
            patch.setattr(module, "MIN_WAITING", 1)
            patch.setattr(module, "EVENTS_PER_STATE", 0)
            patch.setattr(module, "MAX_SERIES", 1000)
        patch.setattr(state_answers, "WORTH_A_SERIES", 0)
        patch.setattr(postgres_state_answers, "WORTH_A_SERIES", 0)
        patch.setattr(state_answers, "_is_large", lambda connection, organization_id, subscription: True)
        yield
