"""Entitlements: what fits a privilege, and what a subscription has of its plan's features and of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from usagebill.core.entitlements import (
    Change,
    Feature,
    PlanFeature,
    Privilege,
    Values,
    ValueType,
    changed,
    effective,
    options_of,
    plan_values,
    privilege_errors,
    typed,
    value_errors,
    value_text,
    without_feature,
    without_privilege,
)

NOW = datetime(2025, 1, 1, tzinfo=UTC)
INTEGER = Privilege(code="max", value_type=ValueType.INTEGER)
BOOLEAN = Privilege(code="root", value_type=ValueType.BOOLEAN)
STRING = Privilege(code="note", value_type=ValueType.STRING)
SELECT = Privilege(code="level", value_type=ValueType.SELECT, select_options=("basic", "gold"))


@pytest.mark.parametrize(
    ("privilege", "sent", "value"),
    [
        (INTEGER, 30, 30),
        (INTEGER, "30", 30),
        (INTEGER, "-7", -7),
        (INTEGER, 0, 0),
        (INTEGER, 2**63 - 1, 2**63 - 1),
        (BOOLEAN, True, True),
        (BOOLEAN, "false", False),
        (STRING, "30", "30"),
        (STRING, "true", "true"),
        (SELECT, "gold", "gold"),
    ],
)
def test_a_value_that_fits_comes_back_with_its_type(privilege: Privilege, sent: object, value: object) -> None:
    assert value_errors(privilege, sent) == {}
    text = value_text(privilege, sent)
    assert text is not None
    read = typed(privilege, text)
    assert (read, type(read)) == (value, type(value))


UNFIT: dict[Privilege, list[object]] = {
    INTEGER: ["05", "1.0", "-0", "+1", "1_0", "٣", " 1", "9" * 5000, 2**63, True, 1.5, [1]],
    BOOLEAN: [1, 0, "True", "yes", [], {}],
    STRING: [5, True, ["a"], {"a": "b"}],
    SELECT: [5, "silver"],
}


@pytest.mark.parametrize(("privilege", "sent"), [(privilege, sent) for privilege in UNFIT for sent in UNFIT[privilege]])
def test_a_value_that_does_not_fit_is_named_by_its_privilege(privilege: Privilege, sent: object) -> None:
    code = "value_not_in_select_options" if privilege is SELECT else "value_is_invalid"
    assert value_errors(privilege, sent) == {f"{privilege.code}_privilege_value": [code]}
    assert value_text(privilege, sent) is None


@pytest.mark.parametrize("privilege", [INTEGER, BOOLEAN, STRING, SELECT])
@pytest.mark.parametrize("sent", [None, ""])
def test_no_value_is_none(privilege: Privilege, sent: object) -> None:
    assert value_errors(privilege, sent) == {"privilege.value": ["value_is_mandatory"]}


@pytest.mark.parametrize(
    "config", [{"options": ["a"]}, {"select_options": "a"}, {"select_options": ["a", 1]}, ["a"], "a", {"a": 1}]
)
def test_a_config_of_another_form_is_refused(config: object) -> None:
    assert privilege_errors("level", None, "select", options_of(config)) == {"privilege.config": "invalid_format"}


def test_only_a_select_has_options() -> None:
    options = options_of({"select_options": ["a", "b", "a"]})
    assert options == ("a", "b")
    assert privilege_errors("level", None, "select", options) == {}
    assert privilege_errors("level", None, "select", options_of({})) == {"privilege.config": "invalid_format"}
    assert privilege_errors("level", None, "integer", options) == {"privilege.config": "invalid_format"}
    assert privilege_errors("level", None, "integer", options_of(None)) == {}


def test_all_that_is_wrong_with_a_privilege_is_said_at_once() -> None:
    assert privilege_errors("", "n" * 256, "number", ()) == {
        "privilege.code": "value_is_mandatory",
        "privilege.name": "value_is_too_long",
        "privilege.value_type": "value_is_invalid",
    }


# A life of a plan and a subscription on it, held against a model that keeps what was said, in other words: for the plan
# and for the subscription, which privileges of which feature have which value, and what was taken away.

CODES = ("a", "b", "c")
values = st.dictionaries(st.sampled_from(CODES), st.sampled_from(("1", "2")), max_size=3)
features = st.sampled_from(("seats", "sso"))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("plan replaced"), st.dictionaries(features, values, max_size=2)),
        st.tuples(st.just("plan merged"), st.dictionaries(features, values, max_size=2)),
        st.tuples(st.just("plan lacks"), features),
        st.tuples(st.just("changed"), st.tuples(features, values)),
        st.tuples(st.just("removed"), features),
        st.tuples(st.just("privilege removed"), st.tuples(features, st.sampled_from(CODES))),
    ),
    max_size=12,
)


@dataclass
class Model:
    """What was said, by feature: the plan's values, the subscription's own, and what is hidden from it."""

    plan: dict[str, dict[str, str]] = field(default_factory=dict)
    of_subscription: dict[str, dict[str, str]] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    hidden_privileges: set[tuple[str, str]] = field(default_factory=set)

    def change(self, feature: str, sent: Values) -> None:
        self.hidden.discard(feature)
        plan = self.plan.get(feature)
        if plan == sent:
            self.of_subscription.pop(feature, None)
            self.hidden_privileges = {pair for pair in self.hidden_privileges if pair[0] != feature}
            return
        values = self.of_subscription.setdefault(feature, {})
        for code, value in sent.items():
            self.hidden_privileges.discard((feature, code))
            values[code] = value
            if plan is not None and plan.get(code) == value:
                del values[code]
        if plan is not None and not values:
            del self.of_subscription[feature]

    def remove(self, feature: str) -> None:
        self.of_subscription.pop(feature, None)
        self.hidden_privileges = {pair for pair in self.hidden_privileges if pair[0] != feature}
        self.hidden.discard(feature)
        if feature in self.plan:
            self.hidden.add(feature)

    def remove_privilege(self, feature: str, code: str) -> None:
        if feature in self.of_subscription:
            self.of_subscription[feature].pop(code, None)
            if not self.of_subscription[feature] and feature in self.plan:
                del self.of_subscription[feature]
        if feature in self.plan:
            self.hidden_privileges.add((feature, code))

    def entitled(self) -> dict[str, dict[str, str]]:
        shown = {}
        for feature in {*self.plan, *self.of_subscription}:
            if feature in self.plan and feature in self.hidden:
                continue
            left = {
                code: value
                for code, value in self.plan.get(feature, {}).items()
                if (feature, code) not in self.hidden_privileges
            }
            shown[feature] = {**left, **self.of_subscription.get(feature, {})}
        return shown


@given(steps)
def test_a_subscription_has_what_its_plan_gives_less_what_was_taken_and_more_what_is_its_own(
    life: list[tuple[str, object]],
) -> None:
    model = Model()
    plan: dict[str, tuple[datetime, Values]] = {}
    changes: dict[str, Change] = {}
    now = NOW
    for action, about in life:
        now += timedelta(days=1)
        if action in ("plan replaced", "plan merged"):
            assert isinstance(about, dict)
            whole = action == "plan replaced"
            before = plan
            plan = {} if whole else dict(plan)
            for code, sent in about.items():
                since, known = before.get(code, (now, None))
                plan[code] = since, plan_values(known, sent, whole=whole)
            if whole:
                model.plan = {code: dict(sent) or model.plan.get(code, {}) for code, sent in about.items()}
            else:
                for code, sent in about.items():
                    model.plan[code] = {**model.plan.get(code, {}), **sent}
        elif action == "plan lacks":
            plan.pop(str(about), None)
            model.plan.pop(str(about), None)
        else:
            feature, sent = about if isinstance(about, tuple) else (about, None)
            of_plan = plan[feature][1] if feature in plan else None
            if action == "changed":
                changes[feature] = changed(changes.get(feature, Change()), of_plan, sent, now)
                model.change(feature, sent)
            elif action == "removed":
                changes[feature] = without_feature(of_plan)
                model.remove(feature)
            else:
                changes[feature] = without_privilege(changes.get(feature, Change()), of_plan, sent)
                model.remove_privilege(feature, sent)
        shown = effective(
            [PlanFeature(feature=_feature(code), values=sent, since=since) for code, (since, sent) in plan.items()],
            [(_feature(code), change) for code, change in changes.items()],
        )
        assert {item.feature.code: dict(item.values) for item in shown} == model.entitled()
        # A change that changes nothing is none, so that nothing is stored of it.
        assert all(
            change == Change() or change.values or change.granted_at or change.is_removed or change.removed_privileges
            for change in changes.values()
        )


def _feature(code: str) -> Feature:
    privileges = tuple(Privilege(code=name, value_type=ValueType.INTEGER) for name in CODES)
    return Feature(id=code, organization_id="o", code=code, privileges=privileges, created_at=NOW, updated_at=NOW)


def test_features_stand_in_the_order_in_which_they_were_given() -> None:
    def of_plan(code: str, day: int) -> PlanFeature:
        return PlanFeature(feature=_feature(code), values={}, since=NOW + timedelta(days=day))

    granted = Change(granted_at=NOW + timedelta(days=2))
    changes = [(_feature("own"), granted), (_feature("late"), Change(values={"a": "1"}, granted_at=NOW))]
    shown = effective([of_plan("late", 3), of_plan("early", 1)], changes)
    assert [item.feature.code for item in shown] == ["early", "own", "late"]
