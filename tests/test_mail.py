"""E-mails sent to a real mail server: their form on arrival, refusals, and retries."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.policy import default
from email.utils import getaddresses
from pathlib import Path
from traceback import format_exception
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.mail_server import MailServer, contexts
from usagebill import Billing
from usagebill.core.emails import Attachment, Email
from usagebill.core.errors import NotAllowed
from usagebill.core.invoices.records import Invoice
from usagebill.core.jobs import Job
from usagebill.outside.job_batches import JobFailed
from usagebill.outside.mail import SmtpMailer, Undelivered, as_message
from usagebill.process.settings import MailServer as At, Settings
from usagebill.runtime.clock import ManualClock
from usagebill.worker import Worker

# The greeting of the mail server that accepts passwords in the clear.
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")

NOW = datetime(2024, 3, 5, 12, tzinfo=UTC)
EMAIL = Email(
    id="<1@seller.example>",
    sent_at=NOW,
    sender_name="Lumen, Ltd",
    sender="billing@seller.example",
    reply_to=("billing@seller.example", "books@seller.example"),
    to=("anna@acme.example", "bob@acme.example"),
    cc=("carl@acme.example",),
    bcc=("dora@acme.example", "anna@acme.example"),
    subject="Your Invoice from Lumen, Ltd #1",
    text="Total: €1.00\n.\n" + "x" * 2000,
    html="<p>Total: €1.00</p>",
    language="en",
    attachments=(Attachment(name="invoice-Ü-1.pdf", content_type="application/pdf", content=b"%PDF-\r\n.\r\n\0\xff"),),
)
EVERYBODY = ["anna@acme.example", "bob@acme.example", "carl@acme.example", "dora@acme.example"]


def send(server: MailServer, email: Email = EMAIL, url: str = "", **rest: Any) -> Mapping[str, str]:
    return SmtpMailer(At.at(url or server.url), 10, **rest).send(email)


def failure(server: MailServer, email: Email = EMAIL, url: str = "", **rest: Any) -> Undelivered:
    with pytest.raises(Undelivered) as failure:
        send(server, email, url, **rest)
    return failure.value


# How it arrives


def test_an_email_arrives_once_for_all_whom_it_is_for() -> None:
    with MailServer() as server:
        assert send(server) == {}
        (mail,) = server.received
    assert (mail.sender, mail.recipients) == ("billing@seller.example", EVERYBODY)
    message = mail.message
    assert [(address.display_name, address.addr_spec) for address in message["From"].addresses] == [
        ("Lumen, Ltd", "billing@seller.example")
    ]
    assert message["Reply-To"] == "billing@seller.example, books@seller.example"
    assert (message["To"], message["Cc"]) == ("anna@acme.example, bob@acme.example", "carl@acme.example")
    assert b"dora" not in mail.raw
    assert message["Message-ID"] == "<1@seller.example>"
    assert message["Date"].datetime == NOW
    assert message["Subject"] == "Your Invoice from Lumen, Ltd #1"
    assert (message["Auto-Submitted"], message["Content-Language"]) == ("auto-generated", "en")
    text, page = message.get_body(("plain",)), message.get_body(("html",))
    assert isinstance(text, EmailMessage)
    assert isinstance(page, EmailMessage)
    assert text.get_content().replace("\r\n", "\n").rstrip("\n") == EMAIL.text
    assert page.get_content().strip() == EMAIL.html
    (file,) = message.iter_attachments()
    assert (file.get_filename(), file.get_content_type()) == ("invoice-Ü-1.pdf", "application/pdf")
    assert file.get_content() == EMAIL.attachments[0].content
    assert max(len(line) for line in mail.raw.split(b"\r\n")) <= 998
    assert mail.raw.isascii()


def test_only_those_who_lack_it_get_it_but_all_are_named() -> None:
    with MailServer() as server:
        send(server, replace(EMAIL, reached=("anna@acme.example", "bob@acme.example", "dora@acme.example")))
        (mail,) = server.received
    assert mail.recipients == ["carl@acme.example"]
    assert mail.message["To"] == "anna@acme.example, bob@acme.example"


def test_user_and_password_are_sent_where_they_are_given() -> None:
    with MailServer(password="se/cret%") as server:
        send(server, url=f"smtp://ada:se%2Fcret%25@127.0.0.1:{server.port}?starttls=never")
        assert [mail.user for mail in server.received] == ["ada"]


def test_a_password_is_not_sent_in_the_clear() -> None:
    with MailServer(password="secret") as server:
        problem = failure(server, url=f"smtp://ada:secret@127.0.0.1:{server.port}")
        assert (problem.final, server.sign_ins, server.received) == (False, [], [])
        assert "STARTTLS" in str(problem)


def test_a_wrong_password_is_for_the_installation_to_put_right() -> None:
    with MailServer(password="secret") as server:
        problem = failure(server, url=f"smtp://ada:wrong@127.0.0.1:{server.port}?starttls=never")
        assert (problem.final, server.received) == (False, [])
        assert "535" in str(problem)
        assert "wrong" not in str(problem)


def test_a_server_that_answers_is_asked_for_each_email() -> None:
    with MailServer(password="secret") as server:
        mailer = SmtpMailer(At.at(f"smtp://ada:wrong@127.0.0.1:{server.port}?starttls=never"), 10)
        for _ in range(2):
            with pytest.raises(Undelivered):
                mailer.send(EMAIL)
        once = len(server.sign_ins) // 2
        assert server.sign_ins == [b"wrong"] * 2 * once != []


@pytest.mark.parametrize("from_start", [False, True])
def test_tls_from_the_start_or_as_soon_as_it_is_offered(tmp_path: Path, from_start: bool) -> None:
    server_side, client_side = contexts(tmp_path)
    with MailServer(tls=server_side, tls_from_start=from_start, password="secret") as server:
        scheme = "smtps" if from_start else "smtp"
        send(server, url=f"{scheme}://ada:secret@127.0.0.1:{server.port}", tls=client_side)
        assert [(mail.user, mail.encrypted) for mail in server.received] == [("ada", True)]


def test_tls_that_is_offered_is_used_without_a_password_too_unless_told_otherwise(tmp_path: Path) -> None:
    server_side, client_side = contexts(tmp_path)
    with MailServer(tls=server_side) as server:
        send(server, tls=client_side)
        send(server, url=f"{server.url}?starttls=never")
        assert [mail.encrypted for mail in server.received] == [True, False]


def test_a_certificate_of_unknown_origin_is_not_believed(tmp_path: Path) -> None:
    server_side, _ = contexts(tmp_path)
    with MailServer(tls=server_side) as server:
        problem = failure(server)
        assert (problem.final, server.received) == (False, [])
        assert "CERTIFICATE_VERIFY_FAILED" in str(problem)


def test_addresses_beyond_ascii_go_to_servers_that_take_them() -> None:
    email = replace(EMAIL, to=("jörg@acme.example",), cc=(), bcc=())
    with MailServer() as server:
        send(server, email)
        (mail,) = server.received
        assert mail.recipients == ["jörg@acme.example"]
        assert "\r\nTo: jörg@acme.example\r\n".encode() in mail.raw
    with MailServer(utf8=False) as server:
        problem = failure(server, email)
        assert (problem.final, server.received) == (True, [])
        assert "SMTPUTF8" in str(problem)


# Refusals


def test_recipients_that_are_refused_do_not_keep_it_from_the_others() -> None:
    with MailServer() as server:
        server.refusals = {"bob@acme.example": "550 no such user", "carl@acme.example": "451 come again"}
        assert send(server) == {"bob@acme.example": "550 no such user", "carl@acme.example": "451 come again"}
        assert [mail.recipients for mail in server.received] == [["anna@acme.example", "dora@acme.example"]]


@pytest.mark.parametrize(("answer", "final"), [("550 no such user", True), ("450 greylisted", False)])
def test_nobody_takes_it(answer: str, final: bool) -> None:
    with MailServer() as server:
        server.refusals = dict.fromkeys(EVERYBODY, answer)
        problem = failure(server)
        assert problem.final is final
        assert f"bob@acme.example: {answer}" in str(problem)


@pytest.mark.parametrize("stage", ["sender_answers", "data_answers"])
@pytest.mark.parametrize(("answer", "final"), [("554 5.7.1 go away", True), ("452 4.3.1 disk full", False)])
def test_sender_or_content_is_refused(stage: str, answer: str, final: bool) -> None:
    with MailServer() as server:
        setattr(server, stage, [answer])
        problem = failure(server)
        assert (problem.final, str(problem), server.received) == (final, answer, [])


def test_how_the_server_says_good_bye_does_not_matter() -> None:
    with MailServer() as server:
        server.good_bye = "451 not yet"
        assert send(server) == {}
        assert len(server.received) == 1


def test_nobody_is_there() -> None:
    with MailServer() as server:
        pass
    problem = failure(server)
    assert problem.final is False
    assert f"127.0.0.1:{server.port}" in str(problem)


def test_a_server_that_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mailer = SmtpMailer(At.at(f"smtp://127.0.0.1:{silent.getsockname()[1]}"), 0.05)
        with pytest.raises(Undelivered, match="timed out") as failure:
            mailer.send(EMAIL)
    assert failure.value.final is False


# Nothing that people write breaks a header

TEXTS = st.text(max_size=120) | st.text(alphabet="a ,;:<>@\"()\\[].'\r\n\0éß漢😀\u2028\x85", max_size=120)


@given(name=TEXTS, subject=TEXTS, file=TEXTS)
def test_names_and_numbers_stay_within_their_headers(name: str, subject: str, file: str) -> None:
    attachment = replace(EMAIL.attachments[0], name=f"invoice-{file}.pdf")
    email = replace(EMAIL, sender_name=name, subject=f"{subject}\r\nBcc: eve@evil.example", attachments=(attachment,))
    read = message_from_bytes(as_message(email).as_bytes(), policy=default)
    assert [key for key in read if key not in ("MIME-Version", "Content-Type")] == [
        *("From", "Reply-To", "To", "Cc", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Language")
    ]
    assert [address.addr_spec for address in read["From"].addresses] == ["billing@seller.example"]
    assert [address.addr_spec for address in read["To"].addresses] == ["anna@acme.example", "bob@acme.example"]
    assert read.defects == []


@pytest.mark.parametrize(
    "evil",
    ["=?utf-8?q?a=0D=0ABcc:_eve@evil.example?=", "a =?utf-8?b?DQpCY2M6IGV2ZUBldmlsLmV4YW1wbGU=?=", "=?x?q?=0A=0Ab?= é"],
)
def test_what_looks_like_an_encoded_word_is_shown_as_it_is(evil: str) -> None:
    attachment = replace(EMAIL.attachments[0], name=f"{evil}.pdf")
    plain = as_message(EMAIL).as_bytes()
    raw = as_message(replace(EMAIL, sender_name=evil, subject=evil, attachments=(attachment,))).as_bytes()
    read = message_from_bytes(raw)
    assert read.keys() == message_from_bytes(plain).keys()
    assert [len(part.keys()) for part in read.walk()] == [len(part.keys()) for part in message_from_bytes(plain).walk()]
    ((shown, address),) = getaddresses([read["From"]])
    assert (decoded(shown), address, decoded(read["Subject"])) == (evil, "billing@seller.example", evil)
    assert not {"Bcc", "bcc"} & {key for part in read.walk() for key in part}


def test_addresses_with_dots_at_odd_places_arrive() -> None:
    odd = ("a..b@acme.example", ".c@acme.example", "d.@acme.example")
    with MailServer() as server:
        send(server, replace(EMAIL, to=odd, cc=(), bcc=(), reply_to=odd[2:]))
        (mail,) = server.received
    assert mail.recipients == list(odd)
    read = message_from_bytes(mail.raw)
    assert [address for _, address in getaddresses([read["To"]])] == [
        '"a..b"@acme.example',
        '".c"@acme.example',
        '"d."@acme.example',
    ]
    assert read["Reply-To"] == '"d."@acme.example'


def test_a_thousand_recipients_are_all_named() -> None:
    many = tuple(f"somebody-{number}@customer-{number}.example" for number in range(1000))
    read = message_from_bytes(as_message(replace(EMAIL, to=many)).as_bytes())
    assert [address for _, address in getaddresses([read["To"]])] == list(many)


def decoded(header: str) -> str:
    return str(make_header(decode_header(header)))


WORDS = st.text(alphabet="aeé ßłą漢😀,.;'\"&", max_size=150).map(lambda text: " ".join(text.split()))


@given(
    name=WORDS
    | st.sampled_from(
        [
            "Łódź Zażółć gęślą jaźń spółka",
            "燈 " * 59 + "燈",
            "x" * 255,
            "=?utf-8?q?x?=",
            'The "Best" <shop>',
            "a@b.example",
        ]
    )
)
def test_names_arrive_as_they_are(name: str) -> None:
    """Read as the oldest readers do, which keep to the letter of the standard."""
    email = replace(EMAIL, sender_name=name, subject=f"Din kreditnota från {name}")
    read = message_from_bytes(as_message(email).as_bytes())
    ((shown, address),) = getaddresses([read["From"]])
    assert (decoded(shown), address) == (name, "billing@seller.example")
    assert decoded(read["Subject"]) == f"Din kreditnota från {name}".strip()


def test_a_long_message_id_stays_whole() -> None:
    id = f"<018cd6eb-6400-7009-9a61-f2eb0ef4aee4@{'very-' * 12}long.{'very-' * 12}long.example>"
    read = message_from_bytes(as_message(replace(EMAIL, id=id)).as_bytes(), policy=default)
    assert read["Message-ID"].strip() == id


# Addresses of mail servers


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://localhost", At(host="localhost", port=25, tls="offered")),
        ("smtps://mail.example", At(host="mail.example", port=465, tls="start")),
        ("smtp://a:b%40c@mail.example:587", At(host="mail.example", port=587, tls="always", user="a", password="b@c")),
        ("smtp://mail.example:587/?starttls=always", At(host="mail.example", port=587, tls="always")),
        ("smtp://a@mail.example?starttls=offered", At(host="mail.example", port=25, tls="offered", user="a")),
        ("smtp://mail.example?starttls=never", At(host="mail.example", port=25, tls="never")),
        ("smtp://[::1]:2525", At(host="::1", port=2525, tls="offered")),
    ],
)
def test_addresses_of_servers(url: str, server: At) -> None:
    assert At.at(url) == server


@pytest.mark.parametrize(
    "url",
    [
        "mail.example",
        "http://mail.example",
        "smtp://",
        "smtp://mail.example:port",
        "smtp://mail.example:99999",
        "smtp://mail.example/inbox",
        "smtp://mail.example?starttls=maybe",
        "smtp://mail.example?timeout=1",
        "smtps://mail.example?starttls=always",
        "smtp://a:%C3%BC@mail.example",
    ],
)
def test_what_is_no_address_of_a_server(url: str) -> None:
    with pytest.raises(ValueError, match="mail server"):
        Settings(smtp_url=url)


def test_settings_do_not_show_the_password() -> None:
    assert "secret" not in repr(Settings(smtp_url="smtp://a:secret@mail.example"))


@pytest.mark.parametrize(
    "url",
    [
        "smtp://a:secret@mail.example:port",
        "smtp://a:secret/@mail.example",
        "smtp://a:secret[@mail.example",
        "smtp://a:secret\u2100@mail.example",
        "smtp://a:secret%C3%BC@mail.example",
        "smtp://a:secret@mail.example/inbox",
    ],
)
def test_a_bad_address_of_a_server_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="mail server") as refusal:
        Settings(smtp_url=url)
    assert "secret" not in "".join(format_exception(refusal.value, limit=0))


@pytest.mark.parametrize("address", ["nobody", "a@b.example, c@d.example", "Lumen <a@b.example>"])
def test_emails_come_from_one_address(address: str) -> None:
    with pytest.raises(ValueError, match="one address"):
        Settings(email_from=address)


# Within a billing system


class Post:
    """A billing system whose customer is sent invoices."""

    def __init__(self, path: object = ":memory:", **rest: Any) -> None:
        self.clock = ManualClock(NOW)
        self.billing = Billing(path, clock=self.clock, **rest)  # type: ignore[arg-type]

    def begin(self) -> Post:
        self.billing.billing_entities.update(
            "default", name="Lumen", email="billing@seller.example", email_settings=["invoice.finalized"]
        )
        self.billing.customers.upsert(external_id="acme", currency="EUR", email="anna@acme.example, bob@acme.example")
        self.billing.add_ons.create(name="Setup", code="setup", amount_cents=100, amount_currency="EUR")
        return self

    def invoice(self) -> Invoice:
        return self.billing.invoices.create_one_off(external_customer_id="acme", fees=[{"add_on_code": "setup"}])

    def pass_time(self, **by: float) -> None:
        self.clock.set(self.clock.now() + timedelta(**by))
        self.billing.run_due()

    def pass_hours(self, count: int) -> None:
        for _ in range(count):
            self.pass_time(hours=1)

    def failures(self) -> list[Job]:
        return self.billing.store.read(None, lambda tx: tx.jobs.failures())

    def __enter__(self) -> Post:
        return self

    def __exit__(self, *_: object) -> None:
        self.billing.close()


@pytest.fixture
def server() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


def test_an_invoice_is_sent_outside_any_transaction_and_once(server: MailServer) -> None:
    with Post(settings=Settings(smtp_url=server.url)).begin() as post:
        invoice = post.invoice()
        assert server.received == []
        post.billing.run_due()
        (mail,) = server.received
        assert mail.recipients == ["anna@acme.example", "bob@acme.example"]
        assert mail.message["Subject"] == f"Your Invoice from Lumen #{invoice.number}"
        (file,) = mail.message.iter_attachments()
        assert file.get_filename() == f"invoice-{invoice.number}.pdf"
        assert file.get_content() == post.billing.invoices.pdf(invoice.id)
        post.pass_time(days=1)
        assert (len(server.received), post.failures(), post.billing.next_due(leased=True)) == (1, [], None)


def test_a_system_address_sends_in_the_name_of_the_billing_entity(server: MailServer) -> None:
    system = Settings(smtp_url=server.url, email_from="noreply@platform.example")
    with Post(settings=system).begin() as post:
        post.invoice()
        post.billing.run_due()
        (mail,) = server.received
        assert mail.sender == "noreply@platform.example"
        assert mail.message["From"] == "Lumen <noreply@platform.example>"
        assert mail.message["Reply-To"] == "billing@seller.example"


def test_a_server_that_was_down_gets_it_once_it_is_up() -> None:
    with MailServer() as gone:
        port = gone.port
    with Post(settings=Settings(smtp_url=f"smtp://127.0.0.1:{port}")).begin() as post:
        invoice = post.invoice()
        post.billing.run_due()
        (job,) = post.failures()
        assert (job.kind, job.subject_id, job.attempts, job.failed) == ("send_email", invoice.id, 1, False)
        assert "ConnectionRefusedError" in (job.error or "")
        with MailServer(port=port) as server:
            post.pass_time(seconds=59)
            assert server.received == []
            post.pass_time(seconds=1)
            assert (len(server.received), post.failures()) == (1, [])


def test_those_who_were_refused_are_tried_again_alone(server: MailServer) -> None:
    with Post(settings=Settings(smtp_url=server.url)).begin() as post:
        server.refusals = {"bob@acme.example": "450 greylisted"}
        post.invoice()
        post.billing.run_due()
        (job,) = post.failures()
        assert job.error == "Undelivered: bob@acme.example: 450 greylisted"
        server.refusals = {}
        post.pass_time(minutes=1)
        assert [mail.recipients for mail in server.received] == [["anna@acme.example"], ["bob@acme.example"]]
        assert len({mail.message["Message-ID"] for mail in server.received}) == 1
        assert {mail.message["To"] for mail in server.received} == {"anna@acme.example, bob@acme.example"}
        assert post.failures() == []


def test_an_address_that_is_put_right_gets_it_and_those_who_have_it_do_not(server: MailServer) -> None:
    with Post(settings=Settings(smtp_url=server.url)).begin() as post:
        server.refusals = {"bob@acme.example": "550 unknown"}
        post.invoice()
        post.billing.run_due()
        (job,) = post.failures()
        assert (job.failed, job.error) == (True, "Undelivered: bob@acme.example: 550 unknown")
        post.billing.customers.upsert(external_id="acme", email="anna@acme.example, robert@acme.example")
        post.billing.store.write(None, lambda tx: tx.jobs.retry(job.id, post.clock.now()))
        post.billing.run_due()
        assert [mail.recipients for mail in server.received] == [["anna@acme.example"], ["robert@acme.example"]]
        assert post.failures() == []


def test_an_address_that_is_taken_away_is_no_longer_waited_for(server: MailServer) -> None:
    with Post(settings=Settings(smtp_url=server.url)).begin() as post:
        server.refusals = {"bob@acme.example": "450 later"}
        post.invoice()
        post.billing.run_due()
        post.billing.customers.upsert(external_id="acme", email="anna@acme.example")
        post.pass_time(minutes=1)
        assert len(server.received) == 1
        assert (post.failures(), post.billing.next_due(leased=True)) == ([], None)


def test_what_is_refused_for_good_is_shown_and_waits_for_a_person(server: MailServer) -> None:
    with Post(settings=Settings(smtp_url=server.url)).begin() as post:
        server.data_answers = ["554 rejected"]
        post.invoice()
        post.billing.run_due()
        post.pass_time(days=1)
        (job,) = post.failures()
        assert (job.failed, job.attempts, job.error) == (True, 1, "Undelivered: 554 rejected")
        assert server.received == []
        # The address is put right, and the job tried again.
        post.billing.customers.upsert(external_id="acme", email="right@acme.example")
        post.billing.store.write(None, lambda tx: tx.jobs.retry(job.id, post.clock.now()))
        post.billing.run_due()
        assert [mail.recipients for mail in server.received] == [["right@acme.example"]]
        assert post.failures() == []


@pytest.mark.slow
def test_a_server_that_stays_down_is_given_up(server: MailServer) -> None:
    with Post(settings=Settings(smtp_url=server.url)).begin() as post:
        server.sender_answers = ["421 closing"] * 100
        post.invoice()
        post.billing.run_due()
        post.pass_hours(71)
        assert not post.failures()[0].failed
        post.pass_hours(29)
        (job,) = post.failures()
        tries = Undelivered.ATTEMPTS
        assert (job.failed, job.attempts, len(server.sender_answers)) == (True, tries, 100 - tries)


def test_a_server_that_is_away_for_a_day_gets_all_of_it(server: MailServer) -> None:
    with MailServer() as gone:
        port = gone.port
    with Post(settings=Settings(smtp_url=f"smtp://127.0.0.1:{port}")).begin() as post:
        post.invoice()
        post.invoice()
        post.billing.run_due()
        post.pass_hours(24)
        with MailServer(port=port) as server:
            post.pass_hours(1)
            assert (len(server.received), post.failures()) == (2, [])


@contextmanager
def stalling(answers: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """The address of a server that gives these answers and then none, and a list with an item for each connection."""
    made: list[str] = []

    class Conversation(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            made.append("connection")
            for answer in answers:
                self.wfile.write(f"{answer}\r\n".encode())
                self.rfile.readline()
            self.rfile.read()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Conversation) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"smtp://127.0.0.1:{server.server_address[1]}", made
        server.shutdown()


@pytest.mark.parametrize("answers", [(), ("220 mail.example", "250 mail.example"), ("220 mail.example",)])
def test_a_server_that_falls_silent_is_not_waited_for_by_each_email(answers: tuple[str, ...]) -> None:
    with (
        stalling(answers) as (url, made),
        Post(settings=Settings(smtp_url=url, smtp_timeout=0.1)).begin() as post,
    ):
        for _ in range(5):
            post.invoice()
        post.billing.run_due()
        assert len(made) == 1
        assert [job.attempts for job in post.failures()] == [1] * 5
        post.pass_time(minutes=1)
        assert len(made) == 2
        assert [job.attempts for job in post.failures()] == [2] * 5


def test_who_is_strict_is_told_at_once(server: MailServer) -> None:
    with Post(settings=Settings(smtp_url=server.url)).begin() as post:
        server.data_answers = ["451 later"]
        post.invoice()
        with pytest.raises(JobFailed, match="send_email"):
            post.billing.run_due(strict=True)
        (job,) = post.failures()
        assert (job.attempts, job.error) == (1, "Undelivered: 451 later")


class Killed(BaseException):
    """The process ends here."""


class Dying:
    """Hands the e-mail on, and dies before anybody can note that."""

    def __init__(self, server: MailServer) -> None:
        self._mailer = SmtpMailer(At.at(server.url), 10)

    def send(self, email: Email) -> Mapping[str, str]:
        self._mailer.send(email)
        raise Killed


def test_a_send_that_was_cut_short_is_made_again_under_the_same_message_id(tmp_path: Path, server: MailServer) -> None:
    path = tmp_path / "billing.db"
    with Post(path, mailer=Dying(server)).begin() as post:
        post.invoice()
        with pytest.raises(Killed):
            post.billing.run_due()
    with Post(path, settings=Settings(smtp_url=server.url)) as post:
        post.billing.run_due()
        assert len(server.received) == 1  # another worker may still be at it
        post.pass_time(minutes=5)
        first, second = server.received
        assert first.message["Message-ID"] == second.message["Message-ID"]
        post.pass_time(days=1)
        assert len(server.received) == 2


def test_what_was_asked_for_survives_the_end_of_the_process(tmp_path: Path, server: MailServer) -> None:
    path = tmp_path / "billing.db"
    system = Settings(smtp_url=server.url)
    with Post(path, settings=system).begin() as post:
        invoice = post.invoice()
        post.billing.invoices.resend_email(invoice.id, to=["dora@acme.example"], bcc=["books@seller.example"])
    with Post(path, settings=system) as post:
        post.billing.run_due()
        assert [mail.recipients for mail in server.received] == [
            ["anna@acme.example", "bob@acme.example"],
            ["dora@acme.example", "books@seller.example"],
        ]
        assert len({mail.message["Message-ID"] for mail in server.received}) == 2


@pytest.mark.slow
def test_workers_beside_each_other_send_each_email_once(tmp_path: Path, server: MailServer) -> None:
    path = tmp_path / "billing.db"
    system = Settings(smtp_url=server.url)
    with Billing(path, settings=system) as first, Billing(path, settings=system) as second:
        first.billing_entities.update("default", email="billing@seller.example", email_settings=["invoice.finalized"])
        first.customers.upsert(external_id="acme", currency="EUR", email="anna@acme.example")
        first.add_ons.create(name="Setup", code="setup", amount_cents=100, amount_currency="EUR")
        with Worker(first, poll_seconds=0.01), Worker(second, poll_seconds=0.01):
            invoice = first.invoices.create_one_off(external_customer_id="acme", fees=[{"add_on_code": "setup"}])
            for number in range(5):
                first.invoices.resend_email(invoice.id, to=[f"n{number}@acme.example"])
            assert server.wait_for(6)
        sent = sorted(mail.recipients[0] for mail in server.received)
        assert sent == sorted(["anna@acme.example", *(f"n{number}@acme.example" for number in range(5))])


def test_without_a_mail_server_nothing_waits_and_nothing_can_be_asked_for() -> None:
    with Post().begin() as post:
        invoice = post.invoice()
        post.billing.run_due()
        assert post.billing.next_due(leased=True) is None
        with pytest.raises(NotAllowed, match="email_delivery_not_configured"):
            post.billing.invoices.resend_email(invoice.id)
    with Post(settings=Settings(smtp_url="smtp://127.0.0.1:9"), deliver=False).begin() as post:
        post.invoice()
        assert post.billing.next_due(leased=True) is None


def test_a_worker_without_the_mail_server_of_the_others_leaves_what_waits(tmp_path: Path, server: MailServer) -> None:
    path = tmp_path / "billing.db"
    with Post(path, settings=Settings(smtp_url=server.url)).begin() as post:
        post.invoice()
        with Post(path) as other:
            other.billing.run_due()
        (job,) = post.failures()
        assert job.error == "Undelivered: there is no mail server: --smtp-url is not set"
        post.pass_time(minutes=1)
        assert len(server.received) == 1
