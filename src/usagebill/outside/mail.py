"""Mail: the SMTP client, and the job that sends an e-mail."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from email.header import Header
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import quote
from time import monotonic
from typing import Any

from usagebill.core.emails import Email, one_line
from usagebill.core.jobs import Job
from usagebill.core.organizations import Organization
from usagebill.core.tasks import SendEmail
from usagebill.operations import activity_logs
from usagebill.operations.emails import contents
from usagebill.operations.payment_pages import pay_url_of
from usagebill.outside.job_host import (
    JobHost,
    Mailer as Mailer,
)
from usagebill.process.logs import Log
from usagebill.process.settings import MailServer
from usagebill.runtime.work import Work

# Seconds for a whole SMTP session: several sessions fit into the lease of a job.
_LONGEST = 90.0
# How long an unreachable server is not tried again: otherwise the e-mails of a run would wait for it one after another,
# and delay the jobs behind them (webhooks, requests to tax providers).
_AWAY = timedelta(seconds=30)
_log = Log("usagebill.mail")


class Undelivered(Exception):
    """An e-mail did not reach all its recipients. `final`: a retry would not help.

    Others are retried for as long as mail servers usually retry: `ATTEMPTS`, about three days.
    """

    ATTEMPTS = 78

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


# Over SMTP


_ADDRESSES = ("Reply-To", "To", "Cc")


class _Headers(EmailPolicy):
    """Writes names and addresses unchanged. The headers of newer policies lose spaces at line breaks, fail on addresses
    such as `a.@example.com`, and decode text that looks like an encoded word, including line breaks in it.
    """

    def header_store_parse(self, name: str, value: object) -> tuple[str, Any]:
        if name in (*_ADDRESSES, "From", "Subject"):
            return name, one_line(str(value))
        return super().header_store_parse(name, value)

    def fold(self, name: str, value: str) -> str:
        if name in _ADDRESSES:
            shown = value.replace(", ", f",{self.linesep} ")
        elif name == "From":
            called, _, shown = value.rpartition(" ")
            if called:
                called = f'"{quote(called)}"' if _is_plain(called) else called
                shown = f"{self._broken(name, called)}{self.linesep} {shown}"
        elif name == "Subject":
            shown = self._broken(name, value)
        else:
            return str(super().fold(name, value))
        return f"{name}: {shown}{self.linesep}"

    def fold_binary(self, name: str, value: str) -> bytes:
        return self.fold(name, value).encode("utf-8" if self.utf8 else "ascii")

    def _broken(self, header: str, text: str) -> str:
        """The text in lines of legal length, encoded if necessary."""
        charset = "us-ascii" if _is_plain(text) else "utf-8"
        return Header(text, charset, header_name=header).encode(linesep=self.linesep)


def _is_plain(text: str) -> bool:
    """Whether a header can hold the text unencoded: ASCII that fits in lines and does not look like an encoded word."""
    return text.isascii() and "=?" not in text and max(map(len, text.split(" "))) < 60


def _mailbox(address: str) -> str:
    """The address for a header; the part before the `@` is quoted if its dots are in unusual places."""
    user, _, domain = address.rpartition("@")
    odd = user.startswith(".") or user.endswith(".") or ".." in user
    return f'"{user}"@{domain}' if odd else address


def _mailboxes(addresses: Iterable[str]) -> str:
    return ", ".join(_mailbox(address) for address in addresses)


def _is_international(email: Email) -> bool:
    """Whether an address has letters beyond ASCII, which only some servers accept."""
    named = (email.sender, *email.reply_to, *email.to, *email.cc, *email.recipients)
    return not all(address.isascii() for address in named)


def as_message(email: Email) -> EmailMessage:
    """The e-mail with headers, text and HTML alternatives, and attachments. No value can break out of a header."""
    message = EmailMessage(_Headers(linesep="\r\n", cte_type="7bit", utf8=_is_international(email)))
    message["From"] = f"{one_line(email.sender_name)} <{_mailbox(email.sender)}>".strip()
    message["Reply-To"] = _mailboxes(email.reply_to)
    message["To"] = _mailboxes(email.to)
    if email.cc:
        message["Cc"] = _mailboxes(email.cc)
    message["Subject"] = one_line(email.subject)
    message["Date"] = email.sent_at
    message["Message-ID"] = email.id
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(email.text, cte="quoted-printable")
    message.add_alternative(email.html, subtype="html", cte="quoted-printable")
    for file in email.attachments:
        kind, _, subtype = file.content_type.partition("/")
        message.add_attachment(
            file.content, maintype=kind, subtype=subtype, filename=one_line(file.name).replace("=?", "=-")
        )
    # Set earlier, it would apply to the text part alone.
    message["Content-Language"] = email.language
    return message


class SmtpMailer:
    """A mail server over SMTP: one connection per e-mail. Certificates are verified, with the context `tls` if there is
    one.

    `timeout` is in seconds, for each step. A server that does not answer is not tried again for 30 seconds.
    """

    def __init__(self, server: MailServer, timeout: float, tls: ssl.SSLContext | None = None) -> None:
        self._server = server
        self._timeout = min(timeout, _LONGEST)
        self._tls = tls
        self._away: tuple[datetime, str] | None = None

    def send(self, email: Email) -> Mapping[str, str]:
        """See `Mailer`. A 5xx answer about the e-mail itself is final, all other errors are temporary."""
        message = as_message(email)
        if self._away is not None and abs(email.sent_at - self._away[0]) < _AWAY:
            raise Undelivered(self._away[1])
        try:
            connection = self._connected()
        except Undelivered as problem:
            # A server that answers is reachable: it may just have too many connections.
            if not isinstance(problem.__cause__, smtplib.SMTPResponseException):
                self._away = email.sent_at, str(problem)
            raise
        self._away = None
        try:
            options = []
            if _is_international(email):
                if not connection.has_extn("smtputf8"):
                    raise Undelivered("the mail server takes no addresses beyond ASCII (SMTPUTF8)", final=True)
                options.append("SMTPUTF8")
            refused = connection.sendmail(email.sender, email.recipients, message.as_bytes(), options)
        except smtplib.SMTPRecipientsRefused as problem:
            final = set(problem.recipients) == set(email.recipients)
            final = final and all(code >= 500 for code, _ in problem.recipients.values())
            raise Undelivered(_listed(_answers(problem.recipients)), final=final) from problem
        except smtplib.SMTPResponseException as problem:
            said = _answer(problem.smtp_code, problem.smtp_error)
            raise Undelivered(said, final=problem.smtp_code >= 500) from problem
        except (smtplib.SMTPException, OSError) as problem:
            reason = f"{type(problem).__name__}: {problem}"
            self._away = email.sent_at, reason
            raise Undelivered(reason) from problem
        finally:
            # Whether it has the e-mail is decided: errors on closing do not matter.
            with suppress(smtplib.SMTPException, OSError):
                connection.quit()
            connection.close()
        return _answers(refused)

    def _connected(self) -> smtplib.SMTP:
        """A connection ready to send an e-mail. Errors here are for the operator to fix."""
        server = self._server
        if self._tls is None and server.tls != "never":
            # Cached: loading all certificate authorities takes longer than sending.
            self._tls = ssl.create_default_context()
        connection: smtplib.SMTP | None = None
        try:
            if server.tls == "start":
                connection = _SecureConnection(server.host, server.port, timeout=self._timeout, context=self._tls)
            else:
                connection = _Connection(server.host, server.port, timeout=self._timeout)
            connection.ehlo_or_helo_if_needed()
            if server.tls == "always" or (server.tls == "offered" and connection.has_extn("starttls")):
                connection.starttls(context=self._tls)
                connection.ehlo_or_helo_if_needed()
            if server.user is not None:
                connection.login(server.user, server.password or "")
        except (smtplib.SMTPException, OSError, UnicodeError) as problem:
            if connection is not None:
                connection.close()
            if isinstance(problem, smtplib.SMTPResponseException):
                reason = _answer(problem.smtp_code, problem.smtp_error)
            else:
                reason = f"{type(problem).__name__}: {problem}"
            raise Undelivered(f"{server.host}:{server.port}: {reason}") from problem
        return connection


class _Connection(smtplib.SMTP):
    """A session with a limit on its total time, however long each step takes."""

    _ends: float | None = None

    def putcmd(self, cmd: str, args: str = "") -> None:
        self._ends = self._ends or monotonic() + _LONGEST
        left = self._ends - monotonic()
        if left <= 0:
            raise TimeoutError("the mail server took too long")
        if self.sock is not None:
            self.sock.settimeout(min(self.timeout, left))
        super().putcmd(cmd, args)


class _SecureConnection(_Connection, smtplib.SMTP_SSL):
    """The same, in TLS from the start."""


def _answer(code: int, text: object) -> str:
    said = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return f"{code} {one_line(said)}"


def _answers(refused: Mapping[str, tuple[int, bytes]]) -> dict[str, str]:
    return {address: _answer(code, text) for address, (code, text) in refused.items()}


def _listed(refused: Mapping[str, str]) -> str:
    return "; ".join(f"{address}: {said}" for address, said in refused.items())


# The job


def send_email(host: JobHost, organization: Organization, job: Job, task: SendEmail) -> None:
    """Send the e-mail to the recipients who have not received it. Raises `Undelivered` while some have not."""
    mailer = host.mailer
    if mailer is None:
        raise Undelivered("there is no mail server: --smtp-url is not set")
    email = host.writing(lambda work: contents.prepare(work, job, task, pay_url_of), organization)
    if isinstance(email, contents.Unsent):
        _log.warning("email_not_sent", subject=task.subject_id, reason=email.reason)
        return
    refused = mailer.send(email)
    if not refused:
        host.writing(lambda work: _note_sent(host, work, job, task), organization)
        return
    reached = [recipient for recipient in email.recipients if recipient not in refused]
    host.writing(lambda work: _note_sent(host, work, job, task, reached), organization)
    raise Undelivered(_listed(refused), final=all(said.startswith("5") for said in refused.values()))


def _note_sent(host: JobHost, work: Work, job: Job, task: SendEmail, reached: Sequence[str] | None = None) -> None:
    """Record that the e-mail has reached all recipients, or only these; the first delivery is logged."""
    if not task.reached and reached != []:
        activity_logs.email_sent(work, task, host.clock.now())
    if reached is None:
        work.tx.jobs.complete(job)
    else:
        contents.note_reached(work, job, task, reached)
