"""E-mails with a link to sign in to the console. The link is made when it is sent, so that no job holds one."""

from __future__ import annotations

from usagebill.core.emails import Email, EmailSubject, addresses, message_id, one_line, sign_in_texts
from usagebill.core.errors import Invalid, NotAllowed
from usagebill.core.tasks import SendEmail
from usagebill.core.users import LINK_LASTS, REQUESTED_LINK_LASTS, User, is_sent_link
from usagebill.operations import users
from usagebill.operations.backlog import Unrelated, without_backlog
from usagebill.operations.emails.orders import sender_of
from usagebill.operations.emails.overdue import Unsent
from usagebill.queries.billing_entities import default_entity
from usagebill.runtime.work import Reader, Work

# Each with how long its link can be opened, in words.
_LASTING = {
    EmailSubject.SIGN_IN: (REQUESTED_LINK_LASTS, "15 minutes"),
    EmailSubject.INVITATION: (LINK_LASTS, "24 hours"),
}


@without_backlog(Unrelated.CONNECTION)
def send_link(work: Work, user_id: str) -> User:
    """Send the user a link by e-mail that signs in, once, within 24 hours; earlier ones stay valid.

    Raises `NotFound`, `NotAllowed` if there is no mail server, and `Invalid` if there is no address to send it from.
    """
    user, sender = users.get(work, user_id), _sender(work)
    if not work.mailing:
        raise NotAllowed("email_delivery_not_configured")
    if sender is None:
        raise Invalid(billing_entity="must have email configured")
    _order(work, user, sender, EmailSubject.INVITATION)
    return user


def ask_for_link(work: Work, user_id: str) -> bool:
    """Send the user a link by e-mail, as whoever knows the address may ask. False if none is sent: there was one in the
    last minutes, or there is no mail server.
    """
    user, sender = users.get(work, user_id), _sender(work)
    if not work.mailing or sender is None or not is_sent_link(user, users.live_sessions(work, user), work.now):
        return False
    if work.tx.jobs.waiting(SendEmail.kind, user.id) is not None:
        return False
    _order(work, user, sender, EmailSubject.SIGN_IN)
    return True


def has_sender(reader: Reader) -> bool:
    """Whether there is an address to send links from."""
    return _sender(reader) is not None


def _order(work: Work, user: User, sender: str, subject: EmailSubject) -> None:
    order = SendEmail(subject=subject, subject_id=user.id, message_id=message_id(work.new_id(), sender), asked=True)
    work.schedule(order, work.now)


def _sender(reader: Reader) -> str | None:
    entity = default_entity(reader)
    return None if entity is None else sender_of(reader, entity)


def sign_in_email(work: Work, task: SendEmail) -> Email | Unsent:
    """The e-mail to the user's address, with a new link. `Unsent` if the user is gone."""
    user = work.tx.get(User, task.subject_id)
    if user is None or user.deleted_at is not None:
        return Unsent(reason="the user was removed")
    sender, entity = _sender(work), default_entity(work)
    if sender is None or entity is None:
        return Unsent(reason="the billing entity has no address any more")
    title = one_line(f"Sign in to the console of {work.organization.name}")
    lasts, in_words = _LASTING[task.subject]
    text, page = sign_in_texts(title, users.new_link(work, user, lasts).url, in_words)
    return Email(
        id=task.message_id,
        sent_at=work.now,
        sender_name=one_line(entity.name),
        sender=sender,
        reply_to=addresses(entity.email),
        to=(user.email,),
        subject=title,
        text=text,
        html=page,
        language="en",
    )
