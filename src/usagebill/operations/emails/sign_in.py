"""The e-mail with a link to sign in to the console. The link is made when it is sent, so that no job holds one."""

from __future__ import annotations

from usagebill.core.emails import Email, EmailSubject, addresses, one_line, sign_in_texts
from usagebill.core.tasks import SendEmail
from usagebill.core.users import LINK_LASTS, REQUESTED_LINK_LASTS, User
from usagebill.operations.emails.overdue import Unsent
from usagebill.operations.users import emailed_link, link_sender
from usagebill.queries.billing_entities import default_entity
from usagebill.runtime.work import Work

# Each with how long its link can be opened, in words.
_LASTING = {
    EmailSubject.SIGN_IN: (REQUESTED_LINK_LASTS, "15 minutes"),
    EmailSubject.INVITATION: (LINK_LASTS, "24 hours"),
}


def sign_in_email(work: Work, task: SendEmail) -> Email | Unsent:
    """The e-mail to the user's address, with a new link. `Unsent` if the user is gone."""
    user = work.tx.get(User, task.subject_id)
    if user is None or user.deleted_at is not None:
        return Unsent(reason="the user was removed")
    sender, entity = link_sender(work), default_entity(work)
    if sender is None or entity is None:
        return Unsent(reason="the billing entity has no address any more")
    title = one_line(f"Sign in to the console of {work.organization.name}")
    lasts, in_words = _LASTING[task.subject]
    text, page = sign_in_texts(title, emailed_link(work, user, lasts).url, in_words)
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
