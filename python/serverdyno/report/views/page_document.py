"""What the JSON documents of all reports have in common: the fields of every page, and how they are written.

Not for what one kind of experiment has alone: `document.py` (load levels), `steps_document.py` (tasks).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

from serverdyno.report.model import Disclosure, Fact, Finding, Report, Section


@dataclass(init=False)
class PageDocument:
    """What a document says of any experiment, as its page does. A subclass adds the experiment, its answer and its
    figures.
    """

    schema_version: Literal[1]
    title: str
    particulars: tuple[Fact, ...]
    warnings: tuple[str, ...]
    summary: Section
    findings: tuple[Finding, ...]
    methodology: tuple[Fact, ...]
    sections: tuple[Section, ...]
    testbed: Section
    disclosure: tuple[Disclosure, ...]
    reproduce: Disclosure

    def __init__(self, page: Report) -> None:
        self.schema_version = 1
        self.title = page.title
        self.particulars = page.particulars
        self.warnings = page.warnings
        self.summary = page.summary
        self.findings = page.findings
        self.methodology = page.methodology
        self.sections = page.sections
        self.testbed = page.testbed
        self.disclosure = page.disclosure
        self.reproduce = page.reproduce

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """The JSON schema of such documents."""
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **TypeAdapter(cls).json_schema(mode="serialization"),
        }

    def as_json(self) -> bytes:
        """The document, as UTF-8."""
        kind: Any = type(self)  # mypy finds that classes of dataclasses are not hashable
        return _adapter(kind).dump_json(self, indent=1) + b"\n"


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return what writes a kind of document, which takes longer to make than to use."""
    return TypeAdapter(kind)
