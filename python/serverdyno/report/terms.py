"""What throughput is called and counted in, by the protocol of the suite: requests/s of a web server, Mbit/s of a
file server. Everything that is said takes its unit from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from serverdyno.plan.model import Protocol
from serverdyno.report import wording


@dataclass(frozen=True, slots=True)
class Terms:
    """`unit`: of throughput; `second_unit`: of the figure that stands beside it. `column`, `second_column`: the same
    in names of columns. `operation`: what is counted. `written`, `second_written`: a figure as text.
    """

    unit: str
    column: str
    written: Callable[[float | None], str]
    second_unit: str
    second_column: str
    second_title: str
    second_written: Callable[[float | None], str]
    operation: str
    classes: str

    def span(self, low: float, high: float) -> str:
        """`8,100 to 8,146`; one figure where both are written the same."""
        texts = self.written(low), self.written(high)
        return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"

    @property
    def operations(self) -> str:
        """More than one of what is counted."""
        return f"{self.operation}s"


WEB = Terms(
    unit="requests/s",
    column="requests_s",
    written=wording.rate,
    second_unit="Mbit/s",
    second_column="mbit_s",
    second_title="Throughput in Mbit/s received (heads and bodies)",
    second_written=wording.significant,
    operation="request",
    classes="file",
)
FILES = Terms(
    unit="Mbit/s",
    column="mbit_s",
    written=wording.significant,
    second_unit="operations/s",
    second_column="operations_s",
    second_title="Throughput in operations/s of the application",
    second_written=wording.rate,
    operation="operation",
    classes="operation",
)


def terms_of(protocol: Protocol) -> Terms:
    """The terms of a suite that is carried out over `protocol`."""
    return WEB if protocol == "http" else FILES
