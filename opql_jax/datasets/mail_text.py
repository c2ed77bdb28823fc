"""The text of a mail: who wrote to whom, when and about what, and its body."""

import codecs
import email
import re
from email.header import decode_header, make_header
from email.message import Message

from opql_jax.core.errors import InputError
from opql_jax.datasets.html_text import read_html

# Of processor time: the parser takes more than linear time for parts within parts.
SECONDS = 10
_FIELDS = 'From', 'To', 'Cc', 'Date', 'Subject'
# Charsets of those who state none, or one that does not exist.
_CHARSETS = 'utf-8', 'cp1252'
# Lines that a saved mail begins with, and what answers put before its subject.
_HEAD = re.compile(
    r'(?:(?:From|To|Cc|Bcc|Date|Sent|Subject|Reply-To):[^\n]*\n(?:[ \t]+\S[^\n]*\n)*)+'
)
_SUBJECT = re.compile(r'^Subject:[ \t]*(?P<subject>\S[^\n]*)', re.M)
_ANSWERED = re.compile(r'^(?:(?:re|fwd?|aw)\s*(?:\[\d+\])?:\s*)+', re.I)


def read_mail(data: bytes) -> str:
    """A mail's head, the names of files that it brings, and its text; InputError without one.

    Mails within it are read, too. Of a text that is there in two forms the plain one is.
    """
    try:
        mail = email.message_from_bytes(data.removeprefix(codecs.BOM_UTF8))
        head = [f'{name}: {_line(value)}' for name in _FIELDS for value in mail.get_all(name, ())]
        files, texts = _parts(mail)
    # What the parser lets through, and reading then meets.
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise InputError(f'no mail that can be read: {error}') from error
    if not texts:
        raise InputError('the mail has no text')
    return '\n'.join([*head, *(f'Attachment: {name}' for name in files), '', *texts])


def _parts(mail: Message) -> tuple[list[str], list[str]]:
    """The names of attached files, and the texts that are not blank."""
    if mail.is_multipart():
        parts = [_parts(part) for part in mail.get_payload() if isinstance(part, Message)]
        if mail.get_content_type() == 'multipart/alternative':
            return next((part for part in parts if part[1]), ([], []))
        files = [name for names, _ in parts for name in names]
        return files, [text for _, texts in parts for text in texts]
    if name := mail.get_filename():
        return [_line(name)], []
    if mail.get_content_maintype() != 'text':
        return [], []
    text = _decoded(mail)
    text = read_html(text).text if mail.get_content_subtype() == 'html' else text
    return [], [text] if text.strip() else []


def _decoded(part: Message) -> str:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)  # of a part without parts
    stated = str(part.get_content_charset('us-ascii'))
    for charset in (*([] if stated == 'us-ascii' else [stated]), *_CHARSETS):
        try:
            return content.decode(charset)
        except (LookupError, UnicodeDecodeError):
            continue
    return content.decode(_CHARSETS[0], 'replace')


def _line(value: object) -> str:
    """The value of a header as one line; as it stands if it is damaged."""
    try:
        value = make_header(decode_header(str(value)))
    except (LookupError, ValueError):  # of an unknown charset, or no base64
        pass
    return ' '.join(str(value).split())


def subject_of(text: str) -> str:
    """The subject of a text that begins as a mail does, without 'Re:'; '' of another."""
    head = _HEAD.match(text)
    stated = _SUBJECT.search(head[0]) if head else None
    return _ANSWERED.sub('', stated['subject']).strip() if stated else ''
