"""What tests read from a page of the explorer."""

import html
import re


def words(page: str) -> str:
    """What a page says, without its markup."""
    plain = re.sub(r'<[^>]*>', '', re.sub(r'<svg.*?</svg>', '', page, flags=re.S))
    return html.unescape(' '.join(plain.split()))
