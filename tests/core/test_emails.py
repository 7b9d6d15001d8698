"""E-mails: who gets them, and what they say in which language."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st
from tests.core.builders import invoice, note

from usagebill.core.contacts import LOCALES
from usagebill.core.documents.content import Content, Party
from usagebill.core.documents.words import words_of
from usagebill.core.emails import (
    Email,
    addresses,
    email_texts,
    file_name,
    gives_nothing,
    is_sent_on_issue,
    list_problems,
    message_id,
    one_line,
    read_list,
)

SENT = datetime(2024, 3, 5, 12, tzinfo=UTC)


def email(**fields: tuple[str, ...] | None) -> Email:
    sender, to = "s@seller.example", fields.pop("to", None) or ("a@acme.example",)
    return Email(
        id="<1@seller.example>",
        sent_at=SENT,
        sender_name="Seller",
        sender=sender,
        reply_to=(sender,),
        to=to,
        subject="S",
        text="T",
        html="<p>T</p>",
        language="en",
        **fields,  # type: ignore[arg-type]
    )


def test_a_field_holds_several_addresses() -> None:
    assert addresses(" a@x.example , b@x.example,a@x.example") == ("a@x.example", "b@x.example")
    assert addresses(None) == addresses("") == addresses(" , ") == ()


def test_everybody_gets_it_once() -> None:
    both = ("a@x.example", "b@x.example")
    assert email(to=both, cc=both, bcc=("b@x.example", "c@x.example")).recipients == (*both, "c@x.example")
    assert email(to=both, bcc=("c@x.example",), reached=both).recipients == ("c@x.example",)


@pytest.mark.parametrize("sent", ["a@x.example", 1, True, {"a": "b"}])
def test_what_is_no_list(sent: object) -> None:
    assert read_list(sent) is None


def test_a_list_as_it_was_sent() -> None:
    assert read_list(None) == read_list([]) == read_list([None]) == ()
    assert read_list([" a@x.example\u200b", None, 1, "a@x.example", "a\u2010b@x.example"]) == (
        "a@x.example",
        "1",
        "a-b@x.example",
    )


def test_all_bad_addresses_are_named_in_one_text() -> None:
    assert list_problems(("a@x.example", "jörg@x.example")) == []
    assert list_problems(("nobody", "a@x.example", "b@")) == ["invalid email format: nobody, b@"]
    assert list_problems(("a@x.example,b@x.example",)) == ["invalid email format: a@x.example,b@x.example"]
    assert list_problems(("a@x.example\nBcc: b@x.example",)) != []
    assert list_problems(("",)) == ["invalid email format: "]


@given(st.text())
def test_a_line_is_one(text: str) -> None:
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert not any(character < " " or character == "\x7f" for character in line)
    assert one_line(line) == line
    # Nothing else is lost.
    assert set(line) - {" "} <= set(text)
    assert [character for character in text if character.isalnum()] == [
        character for character in line if character.isalnum()
    ]


def test_files_have_names_that_every_system_takes() -> None:
    assert file_name("invoice", "ACM-0001-001-001") == "invoice-ACM-0001-001-001.pdf"
    assert file_name("credit_note", "ÄB/\\:*C\r\n-1") == "credit_note-ÄB----C -1.pdf"


def test_a_message_id_ends_as_the_address_of_the_sender() -> None:
    assert message_id("018c", "billing@seller.example") == "<018c@seller.example>"


def content(locale: str = "en", **fields: str) -> Content:
    party = Party(heading="From", name="Lumen")
    return Content(
        locale=locale,
        title="Invoice",
        number="N-1",
        facts=(("Invoice number", fields.get("number", "N-1")), ("Issue date", "Jan 5, 2024")),
        metadata=(),
        issuer=party,
        recipient=party,
        amount="€1.00",
        about=("Due Jan 5, 2024",),
        pages=(),
    )


def test_text_and_html_say_the_same() -> None:
    text, page = email_texts(content(), "Your Invoice", words_of("en"), "https://billing.example/documents/1?a=b&c=d")
    assert text == (
        "Your Invoice\n\nTotal: €1.00\nInvoice number: N-1\nIssue date: Jan 5, 2024\nDue Jan 5, 2024\n\n"
        "Download the document: https://billing.example/documents/1?a=b&c=d\n\n"
        "The document is attached as a PDF file.\n"
    )
    for words in ("Your Invoice", "€1.00", "N-1", "Jan 5, 2024", "Due Jan 5, 2024", "attached as a PDF"):
        assert words in page
    assert '<a href="https://billing.example/documents/1?a=b&amp;c=d">Download the document</a>' in page


def test_what_people_write_is_no_html() -> None:
    evil = "<script>\"&'</script>"
    _, page = email_texts(content(number=evil), f"Your {evil}", words_of("en"), f'https://x.example/"{evil}')
    assert "<script" not in page
    assert '/"' not in page


@pytest.mark.parametrize("locale", LOCALES)
def test_every_language_says_all_of_it(locale: str) -> None:
    words = words_of(locale)
    subject = words.invoice_email.format(entity="Lumen", number="N-1")
    text, page = email_texts(content(locale), subject, words, "https://x.example/d")
    assert f'lang="{locale}"' in page
    for passage in (subject, words.total, words.download, words.attached, "€1.00", "https://x.example/d"):
        assert passage in text
        assert passage in page
    assert "Lumen" in subject
    assert "#N-1" in subject


@pytest.mark.parametrize(
    ("invoice_type", "cents", "is_sent"),
    [("subscription", 100, True), ("one_off", 1, True), ("subscription", 0, False), ("advance_charges", 100, False)],
)
def test_invoices_that_ask_for_nothing_are_not_sent(invoice_type: str, cents: int, is_sent: bool) -> None:
    assert is_sent_on_issue(invoice(invoice_type=invoice_type, fees_amount_cents=cents)) is is_sent


@pytest.mark.parametrize(
    ("credit_status", "refund_cents", "offset_cents", "nothing"),
    [
        ("available", 0, 0, False),
        ("voided", 0, 0, True),
        ("voided", 1, 0, False),
        ("voided", 0, 1, False),
    ],
)
def test_a_voided_note_that_gave_credit_only_gives_nothing(
    credit_status: str, refund_cents: int, offset_cents: int, nothing: bool
) -> None:
    voided = note(
        "note", 0, credit_status=credit_status, refund_amount_cents=refund_cents, offset_amount_cents=offset_cents
    )
    assert gives_nothing(voided) is nothing
