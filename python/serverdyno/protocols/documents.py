"""Documents: each operation gets one from a web server. Counted in requests/s."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field, field_validator

from serverdyno import units, wording
from serverdyno.protocols.model import SectionModel
from serverdyno.protocols.work import MixCounts, Terms, Work


def requests_per_s(record: MixCounts) -> float:
    """Return successful requests per second of the window."""
    return record.operations / record.window_s


def mbit_received_per_s(record: MixCounts) -> float:
    """Return all bytes that the clients received, heads included."""
    return units.mbit_per_s(record.bytes_in, record.window_s)


PATH_AND_WEIGHT = re.compile(r"(/[!\"$-~]*)(?:\s+(\d{1,6}))?")
MOST_PATHS = 250


class DocumentsSettings(SectionModel):
    """What the workload `url` asks for: `/path`, or `/path weight`; none: the URL's own path."""

    paths: list[str] = Field(
        default=[],
        max_length=MOST_PATHS,
        description="Of the workload url: what is asked for, `/path` or `/path weight`; none: the URL's own path.",
    )

    @field_validator("paths")
    @classmethod
    def are_paths(cls, paths: list[str]) -> list[str]:
        """Each is a path, with a weight or without."""
        if wrong := [path for path in paths if not PATH_AND_WEIGHT.fullmatch(path)]:
            raise ValueError(f"not /path or /path weight: {', '.join(map(repr, wrong))}")
        if paths and not any(weight for _, weight in weighted(paths)):
            raise ValueError("every weight is zero")
        return paths

    def parameters(self) -> dict[str, Any]:
        """Return what shapes the load; nothing where the suite names no paths."""
        return {"paths": self.paths} if self.paths else {}


def weighted(paths: list[str]) -> list[tuple[str, int]]:
    """Return each path with its weight, 1 where it has none."""
    found = [match for path in paths if (match := PATH_AND_WEIGHT.fullmatch(path))]
    return [(match[1], int(match[2] or 1)) for match in found]


class Documents(Work[DocumentsSettings]):
    """Static documents, or URLs of a server."""

    name = "documents"
    workloads: ClassVar[Mapping[str, str]] = {
        "webbench-static": "The document root must hold the WebBench tree: `dyno tree DIRECTORY` writes it.",
        "url": "Only complete answers with a status of 200 to 299 count.",
    }
    section = "documents"
    settings_type = DocumentsSettings
    uses_documents = True
    terms = Terms(
        unit="requests/s",
        column="requests_s",
        written=wording.rate,
        throughput=requests_per_s,
        second_unit="Mbit/s",
        second_column="mbit_s",
        second_title="Throughput in Mbit/s received (heads and bodies)",
        second_written=wording.significant,
        second=mbit_received_per_s,
        second_heading="Peak",
        below_cache=False,
        operation="request",
        classes="file",
        throughput_meaning="heads and bodies, as received by the clients.",
        reconnects_note="Reconnects: made again, because the server had closed a kept-alive connection meanwhile.",
        requests_note="Answered and failed: as the generator counted, ramps included. The server's count: from its "
        f"access log or status page; {wording.NOTHING} where it keeps none.",
        clients_left_note="",
    )

    def problems(
        self, settings: DocumentsSettings, workload: str, *, one_thread: bool
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Paths are what the workload `url` asks for."""
        del one_thread
        if settings.paths and workload != "url":
            yield ("documents", "paths"), "is what the workload url asks for, and no other"

    def workload_section(self, workload: str, settings: DocumentsSettings) -> dict[str, Any]:
        """Return the workload, with the paths where there are any."""
        return {"name": workload, **({"paths": weighted(settings.paths)} if settings.paths else {})}

    def verification(self, checked: str) -> str:
        """Say that lengths and digests of bodies are checked."""
        return f"The length of every body, and the content of {checked} of the bodies by digest."


DOCUMENTS = Documents()
