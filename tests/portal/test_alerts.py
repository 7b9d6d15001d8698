"""Customers set amounts of usage at which they are told by e-mail."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.cases import each
from tests.portal.test_pages import NARROW, visit
from tests.scenarios import Scenario, charge_on

from usagebill.core.documents.words import WORDS

PAGE = "/usage/acme%2F1"


@pytest.fixture
def box() -> Any:
    with Scenario(now="2024-03-01T09:00:00Z") as box:
        box.tax(19)
        box.plan(charge_on(box.metric("tokens"), amount="1"), name="Pro")
        box.put("/billing_entities/default", billing_entity={"email": "billing@lumen.example", "name": "Lumen"})
        for name in ("acme", "other"):
            box.customer(name, email=f"pay@{name}.example")
            box.subscribe(external_id=f"{name}/1", customer=name)
        yield box


def send(box: Scenario, customer: str = "acme", **form: str) -> httpx.Response:
    return visit(box, PAGE, "POST", customer=customer, data=form)


def use(box: Scenario, value: str) -> None:
    box.event("tokens", "acme/1", value=value)
    box.travel_to(box.now.replace(day=box.now.day + 1))


def levels(box: Scenario) -> list[str]:
    alerts = box.get("/subscriptions/acme%2F1/alerts")["alerts"]
    return [level["value"] for alert in alerts if alert["code"] == "customer_portal" for level in alert["thresholds"]]


def test_an_amount_is_told_once_a_period_when_usage_reaches_it(box: Scenario) -> None:
    assert send(box, amount="10.00").status_code == 303
    assert send(box, amount="25.5").status_code == 303
    assert levels(box) == ["1000.0", "2550.0"]
    use(box, "9")
    assert box.emails == []
    use(box, "1")
    (email,) = box.emails
    assert (email.to, email.sender, email.sender_name) == (("pay@acme.example",), "billing@lumen.example", "Lumen")
    assert email.subject.replace(NARROW, " ") == "Usage of Pro has reached €10.00"
    assert "before taxes: €10.00" in email.text
    use(box, "1")
    assert len(box.emails) == 1
    # Both that are left are passed at once: the higher one is told.
    use(box, "100")
    assert [email.subject for email in box.emails[1:]] == ["Usage of Pro has reached €25.50"]
    box.travel_to("2024-04-02T09:00:00Z")
    use(box, "10")
    assert [email.subject for email in box.emails[2:]] == ["Usage of Pro has reached €10.00"]


def test_an_amount_that_usage_has_passed_is_told_at_once(box: Scenario) -> None:
    use(box, "20")
    send(box, amount="15")
    box.run_due()
    assert [email.subject for email in box.emails] == ["Usage of Pro has reached €15.00"]


def test_an_amount_can_be_removed_and_the_last_one_takes_the_alert_with_it(box: Scenario) -> None:
    send(box, amount="10")
    send(box, amount="20")
    page = visit(box, PAGE).text.replace(NARROW, " ")
    assert page.index("€10.00") < page.index("€20.00")
    assert send(box, remove="1000").status_code == 303
    assert levels(box) == ["2000.0"]
    assert send(box, remove="1000").status_code == 404
    assert send(box, remove="2000").status_code == 303
    assert box.get("/subscriptions/acme%2F1/alerts")["alerts"] == []
    use(box, "50")
    assert box.emails == []


def test_it_stands_beside_an_alert_of_the_sellers_that_watches_the_same(box: Scenario) -> None:
    mine = {"alert_type": "current_usage_amount", "code": "mine", "thresholds": [{"value": "500"}]}
    box.post("/subscriptions/acme%2F1/alerts", alert=mine)
    assert send(box, amount="10").status_code == 303
    assert "€5.00" not in visit(box, PAGE).text
    box.delete("/subscriptions/acme%2F1/alerts/customer_portal")
    send(box, amount="10")
    box.delete("/subscriptions/acme%2F1/alerts/mine")
    box.post("/subscriptions/acme%2F1/alerts", alert=mine)
    again = box.post("/subscriptions/acme%2F1/alerts", alert=mine | {"code": "again"}, status=422)
    assert again["error_details"] == {"base": ["alert_already_exists"]}
    use(box, "7")
    assert box.emails == []


@each("amount", ["", "0", "-1", "many", "0.001", "1e500", "10.00", "<svg onload=top.owned=1>"], ids=str)
def test_what_is_no_new_amount_is_refused(box: Scenario, amount: str) -> None:
    if not levels(box):
        send(box, amount="10")
    refused = send(box, amount=amount)
    assert refused.status_code == 422
    assert "cannot be added" in refused.text
    assert levels(box) == ["1000.0"]


def test_there_are_at_most_twenty(box: Scenario) -> None:
    for number in range(20):
        assert send(box, amount=str(number + 1)).status_code == 303
    assert send(box, amount="21").status_code == 422
    assert len(levels(box)) == 20


def test_nobody_sets_or_sees_another_customers(box: Scenario) -> None:
    send(box, amount="10")
    assert send(box, customer="other", amount="5").status_code == 404
    assert send(box, customer="other", remove="1000").status_code == 404
    assert levels(box) == ["1000.0"]


def test_an_alert_of_units_tells_no_customer_of_money(box: Scenario) -> None:
    units = {"alert_type": "billable_metric_current_usage_units", "billable_metric_code": "tokens"}
    box.post(
        "/subscriptions/acme%2F1/alerts",
        alert=units | {"code": "customer_portal", "thresholds": [{"value": "5"}]},
    )
    assert "€0.05" not in visit(box, PAGE).text
    assert send(box, amount="10").status_code == 422
    use(box, "7")
    assert box.emails == []


@each("lacking", ["customer", "entity", "server"], ids=str)
def test_nothing_is_promised_that_cannot_be_sent(box: Scenario, lacking: str) -> None:
    assert 'id="alerts"' in visit(box, PAGE).text
    mailer = box.billing._system.mailer
    if lacking == "customer":
        box.customer("acme", email=None)
    elif lacking == "entity":
        box.put("/billing_entities/default", billing_entity={"email": None})
    else:
        box.billing._system.mailer = None
    assert 'id="alerts"' not in visit(box, PAGE).text
    box.billing._system.mailer = mailer
    box.customer("acme", email="pay@acme.example")
    box.put("/billing_entities/default", billing_entity={"email": "billing@lumen.example"})


@pytest.mark.parametrize("locale", WORDS)
def test_alerts_speak_the_languages_of_documents(box: Scenario, locale: str) -> None:
    box.customer("acme", billing_configuration={"document_locale": locale})
    send(box, amount="10")
    page = visit(box, PAGE).text
    assert 'id="alerts"' in page
    assert "{" not in page
    use(box, "10")
    (email,) = box.emails
    assert (email.language, "{" in email.text + email.subject) == (locale, False)
    assert f'<html lang="{locale}">' in email.html
