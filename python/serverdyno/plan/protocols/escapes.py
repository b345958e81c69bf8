"""Percent-encode characters that a request line can't contain (RFC 3986, 2.1), for all paths and URLs."""

from __future__ import annotations

import re
from urllib.parse import quote

GRAPHIC = "".join(map(chr, range(0x21, 0x7F)))


def escaped(text: str) -> str:
    """Return `text` with non-ASCII letters as browsers send them: in UTF-8, each byte as %XX.

    Existing escapes stay unchanged, and so do spaces and control characters, which are usually mistakes.
    """
    return re.sub(
        r"[^\x00-\x7f]", lambda found: quote(found[0]) if found[0].isprintable() else found[0], text
    )


def fully_escaped(text: str) -> str:
    """Escape every character of `text` that a request line can't contain."""
    return quote(text, safe=GRAPHIC)
