"""The pages of the console: each shows what it is about, links on, and lets no text run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import unquote

import pytest
from tests.cases import each
from tests.console.books import NAMES, SCRIPT, books
from tests.console.visitor import Visitor, invited
from tests.scenarios import Scenario

from usagebill.console.lists import LISTS
from usagebill.core.invoices.records import Invoice
from usagebill.core.jobs import Job
from usagebill.core.monitoring_tasks import CompareWithProviders
from usagebill.core.users import Role
from usagebill.operations import provider_audits
from usagebill.runtime.work import Work
from usagebill.storage.ports import Transaction

_LINK = re.compile(r'href="/console(/[^"#]*)"')


@pytest.fixture(scope="module")
def box() -> Iterator[Scenario]:
    with books() as box:
        yield box


@pytest.fixture(scope="module")
def admin(box: Scenario) -> Visitor:
    return Visitor(box.billing, invited(box.billing, "admin"))


def links(page: str) -> list[str]:
    return [link.replace("&amp;", "&").replace("&#34;", '"') for link in _LINK.findall(page)]


@pytest.mark.slow
def test_every_link_of_every_page_leads_to_a_page_that_lets_no_text_run(admin: Visitor) -> None:
    waiting, seen = ["/"], set[str]()
    shapes = dict[str, int]()
    while waiting:
        path = waiting.pop()
        # A few pages of each kind are enough.
        shape = re.sub(r"[^/?=&]*\d[^/?=&]*|(?<==)[^&]*", "*", unquote(path))
        if path in seen or "/static/" in path or shapes.get(shape, 0) >= 4:
            continue
        seen.add(path)
        shapes[shape] = shapes.get(shape, 0) + 1
        answer = admin.ask("GET", path)
        # An event may name a metric that does not exist.
        expected = 404 if unquote(path) == f"/metrics/{SCRIPT}" else 200
        assert answer.status_code == expected, (path, answer.text[-500:])
        if path.endswith("/pdf"):
            assert answer.content.startswith(b"%PDF")
            continue
        assert SCRIPT not in answer.text, path
        assert "Undefined" not in answer.text, path
        waiting += links(answer.text)
    assert {f"/{listed.path}" for listed in LISTS} <= seen
    assert len(seen) > 100


@each("listed", LISTS, ids=lambda listed: listed.path)
def test_a_list_without_records_says_what_belongs_there(listed: object) -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as empty:
        page = Visitor(empty.billing, invited(empty.billing, "admin")).page(f"/{listed.path}?found=yes")  # type: ignore[attr-defined]
        is_empty = listed.path not in ("users", "keys", "entities", "security")  # type: ignore[attr-defined]
        assert ("Nothing here yet" in page) == is_empty


def test_home_names_what_needs_somebody(admin: Visitor) -> None:
    assert 'hx-get="/console/needs"' in admin.page("/")
    home = admin.page("/needs")
    assert "Overdue invoices: 29" in home
    assert "Events of the last day not billed: 1" in home
    assert 'href="/console/invoices?payment_overdue=true"' in home
    assert "29 in all" in admin.page("/invoices?payment_overdue=true")


def test_home_of_a_system_that_is_behind_says_so() -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as late:
        late.plan(amount_cents=1000)
        late.customer()
        late.subscribe()
        visitor = Visitor(late.billing, invited(late.billing, "admin"))
        assert "Nothing needs you now" in visitor.page("/needs")
        late.jump_to("2024-04-02T00:00:00Z")
        visitor = Visitor(late.billing, invited(late.billing, "admin", "other@example.com"))
        assert "Billing is behind" in visitor.page("/needs")


def test_home_names_payments_that_differ_from_their_providers_books_and_invoices_paid_too_much() -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        last = CompareWithProviders(
            organization_id=box.billing.organization.id,
            compared_at=box.now,
            differences={"cards": 2, "debits": 0},
            failures={"old": "The key is not valid"},
        )
        box.billing.writing(lambda work: provider_audits.schedule(work, last))
        home = Visitor(box.billing, invited(box.billing, "finance")).page("/needs")
        assert "Differences from the provider cards: 2" in home
        assert "debits" not in home
        assert "Not compared with the provider old" in home
        assert "The key is not valid." in home
        assert "Overpaid" not in home
        box.customer()
        box.plan(amount_cents=1000, pay_in_advance=True)
        box.subscribe()

        def pay_twice(work: Work) -> None:
            (invoice,) = work.tx.find(Invoice)
            work.tx.replace(replace(invoice, total_paid_amount_cents=2 * invoice.total_amount_cents))

        box.billing.writing(pay_twice)
        visitor = Visitor(box.billing, invited(box.billing, "admin"))
        assert "Overpaid invoices: 1" in visitor.page("/needs")
        assert "1 in all" in visitor.page("/invoices?overpaid=true")


def test_an_invoice_opens_its_lines(box: Scenario, admin: Visitor) -> None:
    invoice = box.invoices("acme")[1]
    page = admin.page(f"/invoices/{invoice['svc_id']}")
    explained = box.get(f"/invoices/{invoice['svc_id']}/explain")["invoice_explanation"]
    for fee in explained["fees"]:
        for line in fee["arithmetic"]:
            assert line.split("\n")[0].replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#39;") in page
    tax = next(step for step in explained["steps"] if step["step"] == "tax")
    assert f"Tax<small>{tax['text']}</small></dt><dd>€{tax['amount_cents'] / 100:,.2f}</dd>" in page
    assert "%PDF" not in page
    pdf = admin.ask("GET", f"/invoices/{invoice['svc_id']}/pdf")
    assert pdf.headers["content-type"] == "application/pdf"
    assert pdf.content.startswith(b"%PDF")
    assert "frame-ancestors 'self'" in pdf.headers["content-security-policy"]


def test_days_are_the_customers() -> None:
    with Scenario(now="2024-03-01T08:00:00Z") as box:
        box.plan(amount_cents=3100)
        box.customer("acme", timezone="America/New_York")
        box.subscribe(external_id="s")
        visitor = Visitor(box.billing, invited(box.billing, "admin"))
        # April begins in New York at 04:00 UTC.
        assert "usage from Mar 1, 2024 to Mar 31, 2024" in visitor.page("/subscriptions/s")
        box.travel_to("2024-04-01T12:00:00Z")
        (invoice,) = box.invoices("acme")
        visitor = Visitor(box.billing, invited(box.billing, "admin", "other@example.com"))
        assert "Mar 1, 2024 – Mar 31, 2024" in visitor.page(f"/invoices/{invoice['svc_id']}")


def test_whoever_has_had_a_subscription_is_not_told_how_to_begin() -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        box.metric("calls")
        box.plan(amount_cents=1000)
        box.customer()
        box.subscribe(external_id="s")
        box.delete("/subscriptions/s")
        assert "four steps" not in Visitor(box.billing, invited(box.billing, "admin")).page("/")


def test_a_customer_is_found_by_any_name(admin: Visitor) -> None:
    for name in ("müller", "さくら", "النخيل", "c3@customers"):
        page = admin.page(f"/customers?search_term={name}")
        assert "1 in all" in page, name
    assert "Nothing matches" in admin.page("/customers?search_term=nobody-at-all")
    for external_id, name in NAMES.items():
        assert name[:8].replace("<", "&lt;") in admin.page("/customers"), external_id


def test_the_pages_of_a_list_follow_each_other(admin: Visitor) -> None:
    first = admin.page("/events")
    (following,) = [link for link in links(first) if "page=2" in link]
    second = admin.page(following)
    assert set(links(second)) != set(links(first))
    assert any("page=1" in link for link in links(second))


def test_a_filter_that_cannot_be_read_is_refused_in_words(admin: Visitor) -> None:
    for path, field in (("activity", "from_date"), ("invoices", "issuing_date_from"), ("invoices", "issuing_date_to")):
        answer = admin.ask("GET", f"/{path}?{field}=tomorrow")
        assert answer.status_code == 422
        assert field in answer.text.partition('role="alert"')[2]
    for page in ("0", "-1", "x", "9" * 30):
        admin.page(f"/customers?page={page}")


@pytest.mark.slow
@each("role", list(Role), ids=str)
def test_every_role_reads_what_its_permissions_say(box: Scenario, role: Role) -> None:
    visitor = Visitor(box.billing, invited(box.billing, role, f"{role}2@example.com"))
    home = visitor.page("/")
    for listed in LISTS:
        is_seen = f'href="/console/{listed.path}"' in home
        visitor.page(f"/{listed.path}", status=200 if is_seen else 403)
    invoice = box.invoices("acme")[0]["svc_id"]
    for path in (
        "/customers/acme",
        "/subscriptions/sub-0",
        "/plans/basic",
        f"/invoices/{invoice}",
        f"/invoices/{invoice}/pdf",
    ):
        visitor.ask("GET", path)
        assert visitor.ask("GET", path).status_code == 200


def test_webhooks_are_sent_again_and_failed_jobs_tried_again_from_their_lists() -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as box:
        box.post("/webhook_endpoints", webhook_endpoint={"webhook_url": "https://listener.example/hooks"})
        box.customer()
        admin = Visitor(box.billing, invited(box.billing, "admin"))
        reader = Visitor(box.billing, invited(box.billing, "read_only"))
        message = box.billing.webhooks.list().items[0]
        assert "Resend" in admin.page("/webhooks")
        assert "Resend" not in reader.page("/webhooks")
        assert reader.send_form("/webhooks", id=message.id).status_code == 403
        assert box.billing.webhooks.get(message.id).retries == 0
        assert admin.send_form("/webhooks", id=message.id).headers["location"] == "/console/webhooks"
        job = failed_job(box)
        assert "Try again" in admin.page("/jobs")
        assert "the disk is full" in reader.page("/jobs")
        assert "Failed jobs: 1" in admin.page("/needs")
        assert reader.send_form("/jobs", id=job.id).status_code == 403
        assert admin.send_form("/jobs", id="none").status_code == 404
        assert box.billing.store.read(None, lambda tx: tx.jobs.failures())[0].failed
        assert admin.send_form("/jobs", id=job.id).headers["location"] == "/console/jobs"
        assert not box.billing.store.read(None, lambda tx: tx.jobs.failures())[0].failed


def test_many_failed_jobs_are_counted_at_home_and_listed_by_the_page() -> None:
    with Scenario(now="2024-03-05T10:00:00Z") as crowded:
        for place in range(60):
            failed_job(crowded, place)
        admin = Visitor(crowded.billing, invited(crowded.billing, "admin"))
        page = admin.page("/jobs")
        assert "60 in all, page 1 of 3" in page
        assert page.count("the disk is full") == 25
        assert admin.page("/jobs?page=3").count("the disk is full") == 10
        assert "Failed jobs: 60" in admin.page("/needs")


def failed_job(box: Scenario, place: int = 1) -> Job:
    """A job of the organization that is not tried again by itself."""

    def make(tx: Transaction) -> Job:
        job = Job(
            id=f"01900000-0000-7000-8000-{place:012}",
            organization_id=box.billing.organization.id,
            kind="bill_customer",
            subject_id="acme",
            key=f"broken {place}",
            due_at=box.now,
            run_at=box.now,
            created_at=box.now,
        )
        tx.jobs.add(job)
        tx.jobs.postpone(job, box.now, "the disk is full", failed=True)
        return job

    return box.billing.store.write(None, make)
