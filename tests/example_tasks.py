"""Tasks of kinds that exist only in tests."""

from __future__ import annotations

from dataclasses import dataclass

from usagebill.core.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Act(Task):
    kind = "act"
    subject_field = "name"

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow(Task):
    kind = "follow"
    subject_field = "name"

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk(Task):
    """A task that calls an outside service."""

    kind = "talk"
    subject_field = "name"
    leased = True

    name: str
