"""Events as they arrive, as the console shows them."""

from __future__ import annotations

from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario, charge_on


def test_each_event_says_where_it_is_counted_and_what_that_comes_to() -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        box.plan(charge_on(box.metric("calls", name="API calls"), amount="0.5"))
        box.customer()
        box.subscribe(external_id="s1")
        visitor = Visitor(box.billing, invited(box.billing, "read_only"))
        assert "Nothing has arrived yet" in visitor.page("/live")
        box.event("calls", "s1", value="3")
        box.event("calls", "s1", value="4")
        box.event("calls", "nobody", value="4")
        box.event("typo", "s1", value="4")
        page = visitor.page("/live")
        rows = [row.partition("</tr>")[0] for row in page.partition("<tbody>")[2].split("<tr>")[1:]]
        assert [row.partition("/console/events/")[2].partition('"')[0] for row in rows] == ["t4", "t3", "t2", "t1"]
        assert "Billable metric not found" in rows[0]
        assert "Subscription not found" in rows[1]
        # 3 and 4 units at 0.50.
        assert "API calls</span>: €3.50" in rows[2]
        assert "API calls</span>: €3.50" in rows[3]


def test_only_the_newest_are_shown_and_the_page_asks_for_them_again() -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        for _ in range(30):
            box.event("calls", "s1")
        page = Visitor(box.billing, invited(box.billing, "admin")).page("/live")
        assert page.count("/console/events/t") == 25
        assert "/console/events/t30" in page
        assert '/console/events/t5"' not in page
        assert 'hx-trigger="every 2s"' in page
