"""The terms of a suite's kind of work, under the names that the rest of the report uses. See `protocols/work.py`."""

from __future__ import annotations

from serverdyno.protocols.documents import DOCUMENTS
from serverdyno.protocols.files import FILES as FILES_WORK
from serverdyno.protocols.registry import of
from serverdyno.protocols.work import Terms

__all__ = ["FILES", "WEB", "Terms", "terms_of"]

WEB = DOCUMENTS.terms
FILES = FILES_WORK.terms


def terms_of(protocol: str) -> Terms:
    """Return the terms of a suite that is carried out over `protocol`."""
    return of(protocol).work.terms
