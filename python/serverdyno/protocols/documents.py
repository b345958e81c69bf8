"""Documents: each operation gets one from a web server. Counted in requests/s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from serverdyno import units, wording
from serverdyno.protocols.model import NoSettings
from serverdyno.protocols.work import MixCounts, Terms, Work


def requests_per_s(record: MixCounts) -> float:
    """Return successful requests per second of the window."""
    return record.operations / record.window_s


def mbit_received_per_s(record: MixCounts) -> float:
    """Return all bytes that the clients received, heads included."""
    return units.mbit_per_s(record.bytes_in, record.window_s)


class Documents(Work[NoSettings]):
    """Static documents, or one URL."""

    name = "documents"
    workloads: ClassVar[Mapping[str, str]] = {
        "webbench-static": "The document root must hold the WebBench tree: `dyno tree DIRECTORY` writes it.",
        "url": "Only complete answers with a status of 200 to 299 count.",
    }
    settings_type = NoSettings
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

    def verification(self, checked: str) -> str:
        """Say that lengths and digests of bodies are checked."""
        return f"The length of every body, and the content of {checked} of the bodies by digest."


DOCUMENTS = Documents()
