"""The text of a mail: who wrote to whom, when and about what, and its body."""

import email
import email.policy
import re
from email.message import EmailMessage

from opql_jax.core.errors import InputError
from opql_jax.datasets.html_text import read_html

_FIELDS = 'From', 'To', 'Cc', 'Date', 'Subject'
# Lines that a saved mail begins with, and what answers put before its subject.
_HEAD = re.compile(
    r'(?:(?:From|To|Cc|Bcc|Date|Sent|Subject|Reply-To):[^\n]*\n(?:[ \t]+\S[^\n]*\n)*)+'
)
_SUBJECT = re.compile(r'^Subject:[ \t]*(?P<subject>\S[^\n]*)', re.M)
_ANSWERED = re.compile(r'^(?:(?:re|fwd?|aw)\s*(?:\[\d+\])?:\s*)+', re.I)


def read_mail(data: bytes) -> tuple[str, str]:
    """A mail's subject and text, '' without one; InputError: it has no text, or is damaged."""
    try:
        mail = email.message_from_bytes(data, EmailMessage, policy=email.policy.default)
        body = mail.get_body(('plain', 'html'))
        text = body.get_content() if body is not None else ''
        is_html = body is not None and body.get_content_subtype() == 'html'
        head = [f'{name}: {value}' for name in _FIELDS for value in mail.get_all(name, ())]
        files = [f'Attachment: {part.get_filename()}' for part in mail.iter_attachments()]
    # What the parser lets through, and reading then meets: an unknown charset, a broken header.
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f'no mail that can be read: {error}') from error
    text = read_html(text)[1] if is_html else text
    if not text.strip():
        raise InputError('the mail has no text')
    return subject_of('\n'.join([*head, ''])), '\n'.join([*head, *files, '', text])


def subject_of(text: str) -> str:
    """The subject of a text that begins as a mail does, without 'Re:'; '' of another."""
    head = _HEAD.match(text)
    stated = _SUBJECT.search(head[0]) if head else None
    return _ANSWERED.sub('', stated['subject']).strip() if stated else ''
