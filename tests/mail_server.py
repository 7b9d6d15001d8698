"""A real mail server."""

from __future__ import annotations

import asyncio
import ssl
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from ipaddress import IPv4Address
from pathlib import Path
from types import TracebackType
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Mail:
    """An e-mail that arrived: its recipients and its content."""

    sender: str
    recipients: list[str]
    raw: bytes
    user: str | None
    encrypted: bool

    @property
    def message(self) -> EmailMessage:
        parsed = message_from_bytes(self.raw, policy=default)
        assert isinstance(parsed, EmailMessage)
        return parsed


class MailServer:
    """Keeps the e-mails it accepts. `refusals` are answers by recipient, `sender_answers` and `data_answers` the next
    answers to any sender and any e-mail (afterwards always `250 OK`).

    `password` is that of the user `ada`; without it no login is required. It listens on `port`, or on a free one.
    """

    def __init__(
        self,
        *,
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
        tls_from_start: bool = False,
        utf8: bool = True,
        port: int = 0,
    ) -> None:
        self.received: list[Mail] = []
        self.refusals: dict[str, str] = {}
        self.sender_answers: list[str] = []
        self.data_answers: list[str] = []
        self.good_bye = "221 Bye"
        self.sign_ins: list[bytes] = []
        self._loop = asyncio.new_event_loop()

        def conversation() -> SMTP:
            made = _Conversation(
                self,
                loop=self._loop,
                enable_SMTPUTF8=utf8,
                tls_context=None if tls_from_start else tls,
                auth_required=password is not None,
                auth_require_tls=False,
                authenticator=self._authenticate,
                hostname="mail.example",
            )
            made.good_bye = self
            return made

        self._arrived = threading.Condition()
        self._password = password
        self._secure_from_start = tls_from_start
        self._server = self._loop.run_until_complete(
            self._loop.create_server(conversation, "127.0.0.1", port, ssl=tls if tls_from_start else None)
        )
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"

    def __enter__(self) -> MailServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wait_for(self, count: int) -> bool:
        """Whether this many e-mails arrive within a minute."""
        with self._arrived:
            return self._arrived.wait_for(lambda: len(self.received) >= count, timeout=60)

    async def _close(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _authenticate(self, _: Any, __: Any, ___: Any, mechanism: str, credentials: object) -> AuthResult:
        assert isinstance(credentials, LoginPassword)
        self.sign_ins.append(credentials.password)
        good = credentials.login == b"ada" and credentials.password == (self._password or "").encode()
        return AuthResult(success=good, handled=False, auth_data=credentials)

    # Called by the library

    async def handle_MAIL(self, _: Any, __: Any, envelope: Envelope, address: str, options: list[str]) -> str:  # noqa: N802
        answer = self.sender_answers.pop(0) if self.sender_answers else "250 OK"
        if answer.startswith("250"):
            envelope.mail_from = address
            envelope.mail_options.extend(options)
        return answer

    async def handle_RCPT(self, _: Any, __: Any, envelope: Envelope, address: str, options: list[str]) -> str:  # noqa: N802
        answer = self.refusals.get(address, "250 OK")
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, _: Any, session: Session, envelope: Envelope) -> str:  # noqa: N802
        answer = self.data_answers.pop(0) if self.data_answers else "250 OK"
        if answer.startswith("250"):
            content = envelope.original_content
            assert isinstance(content, bytes)
            auth = session.auth_data
            user = auth.login.decode() if isinstance(auth, LoginPassword) else None
            encrypted = self._secure_from_start or session.ssl is not None
            with self._arrived:
                self.received.append(Mail(envelope.mail_from or "", list(envelope.rcpt_tos), content, user, encrypted))
                self._arrived.notify_all()
        return answer


class _Conversation(SMTP):
    good_bye: MailServer

    async def smtp_QUIT(self, arg: str) -> None:  # noqa: N802
        await self.push(self.good_bye.good_bye)
        assert self.transport is not None
        self.transport.close()


def contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The TLS contexts of a server at 127.0.0.1 and of a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown = certificate.public_bytes(serialization.Encoding.PEM)
    file.write_bytes(secret + shown)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cadata=shown.decode())
