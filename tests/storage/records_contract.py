"""The contract of every storage engine for records. Engines' tests subclass it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.examples import examples
from tests.storage.contract import ENGINES, NOW, NUMBERS, Contract, Tenant, new_tenant, second

from usagebill.core.api_keys import ApiKey
from usagebill.core.billing_entities import BillingEntity
from usagebill.core.customers import Address, Customer, MetadataItem
from usagebill.core.plans import Charge, ChargeFilter, MinimumCommitment, Plan
from usagebill.core.subscriptions import Subscription
from usagebill.core.taxes import Tax
from usagebill.storage import conditions as c
from usagebill.storage.conditions import Condition, Order, asc, desc, eq
from usagebill.storage.ports import Duplicate, Store, Transaction
from usagebill.storage.sums import GroupKey


class RecordsContract(Contract):
    def test_sums_by_group_are_exact_and_of_live_records_alone(self, tenant: Tenant) -> None:
        january, february = datetime(2024, 1, 31, 23, tzinfo=UTC), datetime(2024, 2, 1, tzinfo=UTC)
        rows = [("EUR", january, 2**53 + 1), ("EUR", january, 2), ("EUR", february, 5), ("USD", february, 7)]
        plans = [tenant.plan(amount_currency=unit, created_at=at, amount_cents=cents) for unit, at, cents in rows]
        gone = tenant.plan(amount_currency="USD", created_at=february, amount_cents=1000, deleted_at=NOW)
        tenant.insert(*plans, gone)
        keys = [GroupKey("amount_currency"), GroupKey("created_at", month=True)]
        wanted = c.within("id", [plan.id for plan in (*plans, gone)])
        sums = tenant.read(lambda tx: tx.grouped(Plan, keys, ["amount_cents"], wanted))
        assert {(group.key[0], str(group.key[1])[:7]): (group.count, *group.sums) for group in sums} == {
            ("EUR", "2024-01"): (2, 2**53 + 3),
            ("EUR", "2024-02"): (1, 5),
            ("USD", "2024-02"): (1, 7),
        }
        assert tenant.read(lambda tx: tx.grouped(Plan, keys, ["amount_cents"], eq("id", "none"))) == []

    def test_sums_go_by_records_that_are_referred_to(self, tenant: Tenant) -> None:
        monthly, yearly = tenant.plan(), tenant.plan(interval="yearly")
        tenant.insert(monthly, yearly)
        amounts = ((monthly.id, 1), (yearly.id, 20), (yearly.id, 300), ("nowhere", 4000))
        charges = [
            Charge(
                id=f"charge-{next(NUMBERS)}",
                organization_id=tenant.id,
                plan_id=plan_id,
                billable_metric_id="metric",
                code="calls",
                charge_model="standard",
                properties={},
                created_at=NOW,
                updated_at=NOW,
                min_amount_cents=cents,
            )
            for plan_id, cents in amounts
        ]
        tenant.insert(*charges)
        wanted = c.within("id", [charge.id for charge in charges])
        keys = [GroupKey("interval", ((Plan, "plan_id"),))]
        sums = tenant.read(lambda tx: tx.grouped(Charge, keys, ["min_amount_cents"], wanted))
        assert {group.key[0]: (group.count, *group.sums) for group in sums} == {
            "monthly": (1, 1),
            "yearly": (2, 320),
            None: (1, 4000),
        }

    def test_a_record_comes_back_equal(self, tenant: Tenant) -> None:
        charge = Charge(
            id=f"charge-{next(NUMBERS)}",
            organization_id=tenant.id,
            plan_id="plan",
            billable_metric_id="metric",
            code="calls",
            charge_model="graduated",
            properties={"ranges": [{"to_value": None, "amount": "0.10"}], "exact": Decimal("0.10"), "é": True},
            created_at=NOW,
            updated_at=NOW.astimezone(UTC),
            filters=(
                ChargeFilter(
                    id="f", values={"region": ("eu", "us")}, properties={"amount": "1"}, created_at=NOW, updated_at=NOW
                ),
            ),
            min_amount_cents=2**62,
            tax_ids=("a", "b"),
        )
        plan = tenant.plan(
            trial_period=Decimal("0.5"),
            minimum_commitment=MinimumCommitment(id="m", amount_cents=1, created_at=NOW, updated_at=NOW),
            metadata={"a": None, "b": "", "c": "x\ny"},
        )
        customer = tenant.customer(
            tenant.entity(),
            name='O\'Neil "x" 😀',
            shipping_address=Address(city="Zürich"),
            metadata=(MetadataItem(id="i", key="k", value="v", created_at=NOW),),
        )
        tenant.insert(charge, plan, customer)
        assert tenant.read(lambda tx: tx.get(Charge, charge.id)) == charge
        assert tenant.read(lambda tx: tx.get(Plan, plan.id)) == plan
        assert tenant.read(lambda tx: tx.get(Customer, customer.id)) == customer
        assert tenant.read(lambda tx: tx.find(Charge)) == [charge]

    def test_what_is_written_is_read_in_the_same_transaction(self, tenant: Tenant) -> None:
        tax = tenant.tax()

        def change(tx: Transaction) -> None:
            tx.insert(tax)
            assert tx.get(Tax, tax.id) == tax
            renamed = replace(tax, name="other")
            tx.replace(renamed)
            assert tx.get(Tax, tax.id) == renamed
            assert tx.find(Tax, eq("name", "other")) == [renamed]
            tx.delete(renamed)
            assert tx.get(Tax, tax.id) is None
            assert tx.count(Tax) == 0

        tenant.write(change)

    def test_replacing_what_is_not_there_fails(self, tenant: Tenant) -> None:
        with pytest.raises(LookupError):
            tenant.write(lambda tx: tx.replace(tenant.tax()))

    def test_deleted_records_are_left_out_unless_asked_for(self, tenant: Tenant) -> None:
        live, gone = tenant.tax("a"), tenant.tax("b", deleted_at=NOW)
        tenant.insert(live, gone)
        assert tenant.read(lambda tx: tx.find(Tax)) == [live]
        assert tenant.read(lambda tx: tx.count(Tax)) == 1
        assert tenant.read(lambda tx: tx.get(Tax, gone.id)) is None
        assert tenant.read(lambda tx: tx.first(Tax, eq("code", "b"))) is None
        assert tenant.read(lambda tx: tx.get(Tax, gone.id, deleted=True)) == gone
        assert tenant.read(lambda tx: tx.count(Tax, deleted=True)) == 2
        assert tenant.read(lambda tx: tx.first(Tax, eq("code", "b"), deleted=True)) == gone

    # Uniqueness

    def test_a_code_is_taken_once_among_live_records(self, tenant: Tenant) -> None:
        first = tenant.tax("vat")
        tenant.insert(first)
        with pytest.raises(Duplicate) as refused:
            tenant.insert(tenant.tax("vat"))
        assert refused.value.columns == ("code",)
        tenant.insert(tenant.tax("VAT"))
        tenant.write(lambda tx: tx.replace(replace(first, deleted_at=NOW)))
        tenant.insert(tenant.tax("vat"))
        with pytest.raises(Duplicate):
            tenant.write(lambda tx: tx.replace(first))

    def test_some_values_stay_taken(self, tenant: Tenant, other: Tenant) -> None:
        def key(tenant: Tenant) -> ApiKey:
            return ApiKey(
                id=f"key-{next(NUMBERS)}",
                organization_id=tenant.id,
                name=None,
                value_hash="hash",
                value_ending="abc",
                permissions={},
                created_at=NOW,
                updated_at=NOW,
            )

        tenant.insert(key(tenant))
        with pytest.raises(Duplicate) as refused:
            tenant.insert(key(tenant))
        assert refused.value.columns == ("value_hash",)
        other.insert(key(other))

    def test_organizations_do_not_take_codes_from_each_other(self, tenant: Tenant, other: Tenant) -> None:
        tenant.insert(tenant.tax("vat"))
        other.insert(other.tax("vat"))

    def test_a_duplicate_leaves_the_rest_of_the_transaction_to_its_caller(self, tenant: Tenant) -> None:
        tenant.insert(tenant.tax("vat"))

        def change(tx: Transaction) -> None:
            with pytest.raises(Duplicate):
                tx.savepoint(lambda: tx.insert(tenant.tax("other"), tenant.tax("vat")))
            tx.insert(tenant.tax("third"))

        tenant.write(change)
        assert {tax.code for tax in tenant.read(lambda tx: tx.find(Tax))} == {"vat", "third"}

    # Organizations

    def test_the_records_of_another_organization_do_not_exist(self, tenant: Tenant, other: Tenant) -> None:
        theirs = other.tax("vat", deleted_at=None)
        other.insert(theirs)

        def look(tx: Transaction) -> None:
            assert tx.get(Tax, theirs.id) is None
            assert tx.get(Tax, theirs.id, deleted=True) is None
            assert tx.find(Tax, deleted=True) == []
            assert tx.first(Tax, c.any_of(eq("id", theirs.id), eq("organization_id", other.id))) is None
            assert tx.count(Tax, eq("code", "vat")) == 0
            assert tx.total(Tax, "auto_generated") == 0

        tenant.read(look)
        tenant.write(look)

    def test_nothing_is_written_for_another_organization(self, tenant: Tenant, other: Tenant) -> None:
        theirs = other.tax("vat")
        other.insert(theirs)
        forged = replace(theirs, organization_id=tenant.id, name="forged")
        changes: list[Callable[[Transaction], None]] = [
            lambda tx: tx.insert(other.tax("more")),
            lambda tx: tx.replace(replace(theirs, name="changed")),
            lambda tx: tx.replace(forged),
            lambda tx: tx.delete(theirs),
        ]
        for change in changes:
            with pytest.raises((PermissionError, LookupError)):
                tenant.write(change)
        tenant.write(lambda tx: tx.delete(forged))
        assert other.read(lambda tx: tx.find(Tax)) == [theirs]

    def test_a_record_that_another_organization_has_read_stays_hidden(self, tenant: Tenant, other: Tenant) -> None:
        theirs = other.tax()
        other.insert(theirs)

        def look(tx: Transaction) -> None:
            assert tx.scoped(other.id).get(Tax, theirs.id) == theirs
            assert tx.scoped(tenant.id).get(Tax, theirs.id) is None

        tenant.store.read(None, look)

    def test_relations_do_not_reach_into_other_organizations(self, tenant: Tenant, other: Tenant) -> None:
        entity = other.entity(name="theirs")
        customer = tenant.customer(entity)
        other.insert(entity)
        tenant.insert(customer)
        theirs = eq("name", "theirs")
        assert tenant.read(lambda tx: tx.find(Customer, c.related(BillingEntity, "billing_entity_id", theirs))) == []
        assert other.read(lambda tx: tx.find(BillingEntity, c.has(Customer, "billing_entity_id"))) == []

    # Order, pages, numbers

    def test_order_puts_absent_values_last_and_breaks_ties_by_id(self, tenant: Tenant) -> None:
        entity = tenant.entity()
        people = [tenant.customer(entity, name=name) for name in ("b", None, "a", "b", None)]
        tenant.insert(*reversed(people))

        def names(*order: Order) -> list[int]:
            return [people.index(customer) for customer in tenant.read(lambda tx: tx.find(Customer, order=order))]

        assert names(asc("name")) == [2, 0, 3, 1, 4]
        assert names(desc("name")) == [0, 3, 2, 1, 4]
        assert names(desc("name"), desc("id")) == [3, 0, 2, 4, 1]
        assert names() == [0, 1, 2, 3, 4]

    def test_pages(self, tenant: Tenant) -> None:
        taxes = [tenant.tax(f"t{number}") for number in range(5)]
        tenant.insert(*taxes)
        assert tenant.read(lambda tx: tx.find(Tax, order=[asc("code")], limit=2, offset=1)) == taxes[1:3]
        assert tenant.read(lambda tx: tx.find(Tax, order=[asc("code")], limit=2, offset=4)) == taxes[4:]
        assert tenant.read(lambda tx: tx.first(Tax, order=[desc("code")])) == taxes[-1]

    def test_a_page_comes_with_its_total(self, tenant: Tenant, other: Tenant) -> None:
        tenant.insert(
            *(tenant.tax(f"t{number}", name=f"n{number % 2}", created_at=second(number)) for number in range(7))
        )
        tenant.insert(tenant.tax("gone", created_at=second(9), deleted_at=second(10)))
        other.insert(other.tax("t0"))

        def page(*conditions: Condition, offset: int = 0, deleted: bool = False) -> tuple[list[str], int]:
            taxes, total = tenant.read(
                lambda tx: tx.page(
                    Tax, *conditions, order=[desc("created_at")], limit=3, offset=offset, deleted=deleted
                )
            )
            assert total.is_exact
            return [tax.code for tax in taxes], total.count

        assert page() == (["t6", "t5", "t4"], 7)
        assert page(offset=6) == (["t0"], 7)
        assert page(offset=7) == ([], 7)
        assert page(deleted=True) == (["gone", "t6", "t5"], 8)
        assert page(eq("name", "n1"), offset=2) == (["t1"], 3)
        assert page(eq("name", "n2")) == ([], 0)

        def written_and_counted(tx: Transaction) -> int:
            tx.insert(tenant.tax("new"))
            return tx.page(Tax, limit=1)[1].count

        assert tenant.write(written_and_counted) == 8

    def test_totals(self, tenant: Tenant) -> None:
        assert tenant.read(lambda tx: tx.total(Plan, "amount_cents")) == 0
        tenant.insert(
            *(tenant.plan(amount_cents=cents) for cents in (2**40, -5, 7)), tenant.plan(amount_cents=1, deleted_at=NOW)
        )
        assert tenant.read(lambda tx: tx.total(Plan, "amount_cents")) == 2**40 + 2
        assert tenant.read(lambda tx: tx.total(Plan, "amount_cents", c.less("amount_cents", 10))) == 2

    def test_amounts_have_no_largest(self, tenant: Tenant) -> None:
        amounts = [2**63 - 1, 2**63, 10**30, 3 * 10**29, 2**63 - 1, -(2**70), 5]
        plans = [tenant.plan(amount_cents=cents) for cents in amounts]
        tenant.insert(*plans)
        assert tenant.read(lambda tx: [tx.get(Plan, plan.id) for plan in plans]) == plans
        assert tenant.read(lambda tx: tx.total(Plan, "amount_cents")) == sum(amounts)
        above = tenant.read(lambda tx: tx.find(Plan, c.at_least("amount_cents", 10**29), order=[asc("amount_cents")]))
        assert [plan.amount_cents for plan in above if plan.amount_cents > 0] == [3 * 10**29, 10**30]

    def test_counts_of_a_window_begin_anew_with_the_next_and_are_undone_with_their_transaction(
        self, tenant: Tenant, other: Tenant
    ) -> None:
        def counted(owner: Tenant, name: str, seconds: int, by: int = 1) -> int:
            window = NOW + timedelta(seconds=seconds)
            return owner.write(lambda tx: tx.count_up(owner.id, name, window, by))

        def failing(tx: Transaction) -> None:
            assert tx.count_up(tenant.id, "requests", NOW, 10) == 13
            raise ArithmeticError

        assert [counted(tenant, "requests", 0), counted(tenant, "requests", 0, by=2)] == [1, 3]
        assert (counted(tenant, "events", 0), counted(other, "requests", 0)) == (1, 1)
        with pytest.raises(ArithmeticError):
            tenant.write(failing)
        assert counted(tenant, "requests", 0) == 4
        assert [counted(tenant, "requests", 1), counted(tenant, "requests", 1)] == [1, 2]

    def test_sequences_are_gapless_and_each_organization_s_own(self, tenant: Tenant, other: Tenant) -> None:
        assert [tenant.write(lambda tx: tx.next_number("invoices")) for _ in range(3)] == [1, 2, 3]
        assert other.write(lambda tx: tx.next_number("invoices")) == 1
        assert tenant.write(lambda tx: tx.next_number("other", start=40)) == 40

        def fail(tx: Transaction) -> None:
            assert tx.next_number("invoices") == 4
            raise ArithmeticError

        with pytest.raises(ArithmeticError):
            tenant.write(fail)
        assert tenant.read(lambda tx: tx.last_numbers("invoices")[0]) == 3
        assert tenant.write(lambda tx: tx.next_number("invoices")) == 4
        assert tenant.read(lambda tx: tx.last_numbers("invoices", "unheard", "invoices")) == [4, 0, 4]

    def test_records_one_by_one(self, tenant: Tenant, other: Tenant) -> None:
        taxes = [tenant.tax(code) for code in "cab"]
        tenant.insert(*taxes, tenant.tax("gone", deleted_at=NOW))
        other.insert(other.tax("theirs"))
        assert tenant.read(lambda tx: list(tx.each(Tax, order=[desc("code")]))) == [taxes[0], taxes[2], taxes[1]]
        assert tenant.read(lambda tx: list(tx.each(Tax, eq("code", "a")))) == [taxes[1]]
        assert tenant.read(lambda tx: sum(1 for _ in tx.each(Tax, deleted=True))) == 4

    # Conditions

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("ADA", [0, 1]), ("é", [2]), ("É", [2]), ("%", [3]), ("_", [3]), ("straße", [4]), ("STRASSE", [4]), ("x", [])],
    )
    def test_search_ignores_case_and_knows_no_wildcards(self, tenant: Tenant, text: str, expected: list[int]) -> None:
        entity = tenant.entity()
        names = ["Ada", None, "Édith", "100% _", "Straße 1"]
        people = [tenant.customer(entity, name=name, external_id=f"e{number}") for number, name in enumerate(names)]
        people[1] = replace(people[1], external_id="e-ADA")
        tenant.insert(*people)
        customers = tenant.read(lambda tx: tx.find(Customer, c.contains(("name", "external_id"), text)))
        assert [people.index(customer) for customer in customers] == expected

    def test_related_counts_deleted_records_and_has_does_not(self, tenant: Tenant) -> None:
        entity = tenant.entity()
        customer = tenant.customer(entity, deleted_at=NOW)
        plan = tenant.plan()
        subscription = tenant.subscription(customer, plan)
        tenant.insert(entity, customer, plan, subscription)
        of_entity = c.related(BillingEntity, "billing_entity_id", eq("code", entity.code))
        of_customer = c.related(Customer, "customer_id", of_entity)
        assert tenant.read(lambda tx: tx.find(Subscription, of_customer)) == [subscription]
        assert tenant.read(lambda tx: tx.find(BillingEntity, c.has(Customer, "billing_entity_id"))) == []
        assert tenant.read(lambda tx: tx.find(Plan, c.has(Subscription, "plan_id", eq("status", "active")))) == [plan]
        assert tenant.read(lambda tx: tx.find(Plan, c.has(Subscription, "plan_id", eq("status", "pending")))) == []

    def test_a_reference_must_exist(self, tenant: Tenant) -> None:
        entity = tenant.entity()
        with pytest.raises(Exception, match=r"(?i)FOREIGN KEY"):
            tenant.insert(tenant.subscription(tenant.customer(entity), tenant.plan()))

    @pytest.mark.slow
    @examples(100, deadline=None, suppress_health_check=ENGINES)
    @given(data=st.data())
    def test_conditions_mean_what_they_say(self, store: Store, data: st.DataObject) -> None:
        tenant = new_tenant(store)
        entity = tenant.entity()
        people = [_person(tenant, entity, data) for _ in range(data.draw(st.integers(0, 5)))]
        tenant.insert(entity, *people)
        wanted = data.draw(_conditions)
        expected = [person for person in people if holds(wanted, person)]
        assert tenant.read(lambda tx: tx.find(Customer, wanted)) == expected
        assert tenant.read(lambda tx: tx.count(Customer, wanted)) == len(expected)
        assert tenant.read(lambda tx: tx.find(Customer, wanted, c.present("name"))) == [
            person for person in expected if person.name is not None
        ]


_TEXTS = st.sampled_from(["", "a", "A", "b", "ab", "é", "%", "a'b"])
_INTEGERS = st.sampled_from([-1, 0, 1, 7])
_INSTANTS = st.sampled_from([second(-1), NOW, NOW.replace(microsecond=0), second(1)])
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "name": _TEXTS,
    "net_payment_term": _INTEGERS,
    "created_at": _INSTANTS,
    "skip_invoice_custom_sections": st.booleans(),
}
_columns = st.sampled_from(list(_VALUES))
_operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
_leaves: st.SearchStrategy[Condition] = st.one_of(
    _columns.flatmap(lambda column: st.builds(c.Compare, st.just(column), _operators, _VALUES[column])),
    _columns.flatmap(
        lambda column: st.builds(c.Within, st.just(column), st.lists(_VALUES[column], max_size=3).map(tuple))
    ),
    _columns.flatmap(lambda column: _VALUES[column].map(lambda value: eq(column, value))),
    st.sampled_from([eq("name", None), c.missing("net_payment_term"), c.present("name")]),
    st.builds(c.Columns, st.just("net_payment_term"), _operators, st.just(("invoice_grace_period",))),
    _TEXTS.map(lambda text: c.contains(("name", "external_id"), text)),
    _TEXTS.map(lambda text: c.same_text("name", text)),
    st.tuples(_TEXTS, _TEXTS).map(lambda texts: c.like("name", "*".join(texts))),
    _TEXTS.map(lambda text: c.like("name", text[1:] + "*")),
    _TEXTS.map(lambda text: c.has_item("invoice_custom_section_ids", text)),
    st.builds(lambda key, value: c.has_item("metadata", key=key, value=value), _TEXTS, _TEXTS),
    _TEXTS.map(lambda text: c.has_item("metadata", key=text)),
    st.sampled_from([c.not_empty("metadata"), c.not_empty("invoice_custom_section_ids")]),
)
_conditions: st.SearchStrategy[Condition] = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda several: c.any_of(*several)),
        st.lists(inner, max_size=3).map(lambda several: c.all_of(*several)),
        inner.map(c.negate),
    ),
    max_leaves=5,
)


def _person(tenant: Tenant, entity: BillingEntity, data: st.DataObject) -> Customer:
    draw = data.draw
    return tenant.customer(
        entity,
        name=draw(st.none() | _TEXTS),
        net_payment_term=draw(st.none() | _INTEGERS),
        invoice_grace_period=draw(st.none() | _INTEGERS),
        created_at=draw(_INSTANTS),
        skip_invoice_custom_sections=draw(st.booleans()),
        invoice_custom_section_ids=tuple(draw(st.lists(_TEXTS, max_size=2))),
        metadata=tuple(
            MetadataItem(id=str(number), key=key, value=value, created_at=NOW)
            for number, (key, value) in enumerate(draw(st.lists(st.tuples(_TEXTS, _TEXTS), max_size=2)))
        ),
    )


def _compared(left: Any, operator: str, right: Any) -> bool:
    if left is None or right is None:
        return False
    by_operator: dict[str, bool] = {
        "=": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }
    return by_operator[operator]


def holds(condition: Condition, record: Customer) -> bool:
    """The meaning of a condition on one table."""

    def value(column: str) -> Any:
        return getattr(record, column)

    def texts(columns: Iterable[str]) -> list[str]:
        return [value(column).casefold() for column in columns if value(column) is not None]

    match condition:
        case c.Compare(column, operator, right):
            return _compared(value(column), operator, right)
        case c.Columns(left, operator, right):
            summed = [value(column) for column in right]
            return _compared(value(left), operator, None if None in summed else sum(summed[1:], summed[0]))
        case c.Within(column, options):
            return value(column) is not None and value(column) in options
        case c.Null(column, present):
            return (value(column) is not None) == present
        case c.Search(columns, text):
            return any(text.casefold() in text_of_column for text_of_column in texts(columns))
        case c.Like(column, pattern):
            parts = ".*".join(map(re.escape, pattern.split("*")))
            return value(column) is not None and re.fullmatch(parts, value(column), re.DOTALL) is not None
        case c.SameText(column, text):
            return text.casefold() in texts([column])
        case c.Item(column, members):
            if isinstance(members, str):
                return members in value(column)
            return any(all(getattr(item, key) == wanted for key, wanted in members) for item in value(column))
        case c.NotEmpty(column):
            return len(value(column)) > 0
        case c.AnyOf(several):
            return any(holds(condition, record) for condition in several)
        case c.AllOf(several):
            return all(holds(condition, record) for condition in several)
        case c.Negate(inner):
            return not holds(inner, record)
        case _:
            raise TypeError(condition)
