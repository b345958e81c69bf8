"""A protocol, a kind of work and a server that do nothing: one file shows everything that adding them takes.

The data plane's part is `crates/engine/src/kinds/null.rs`. `added` puts each in its table, for one test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import Field

from serverdyno import wording
from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.protocols.model import NoSettings, SectionModel
from serverdyno.plan.protocols.registry import PROTOCOLS, WORKS
from serverdyno.plan.protocols.work import LevelCounts, Terms, Work
from serverdyno.servers.base import Access, Description, Installed, Settings
from serverdyno.servers.registry import DRIVERS


class NothingSettings(SectionModel):
    delay_s: float = Field(default=0.001, ge=0, le=60)
    stall_at_s: float = Field(default=0, ge=0)
    stall_s: float = Field(default=0, ge=0)


def operations_per_s(record: LevelCounts) -> float:
    return record.operations / record.window_s


def mbit_per_s(record: LevelCounts) -> float:
    """Return the received Mbit/s, which are 0."""
    return record.bytes_in * 8e-6 / record.window_s


class Nothing(Work[NothingSettings]):
    name = "nothing"
    workloads: ClassVar[Mapping[str, str]] = {"null": "Nothing can go wrong with nothing."}
    section = "nothing"
    settings_type = NothingSettings
    terms = Terms(
        unit="operations/s",
        column="operations_s",
        written=wording.rate,
        throughput=operations_per_s,
        second_unit="Mbit/s",
        second_column="mbit_s",
        second_title="Throughput in Mbit/s received",
        second_written=wording.significant,
        second=mbit_per_s,
        below_cache=False,
        operation="operation",
        classes="operation",
        throughput_meaning="of nothing.",
    )

    def workload_section(self, workload: str, settings: NothingSettings) -> dict[str, Any]:
        """Return the workload with its parameters."""
        return {"name": workload, **settings.model_dump()}

    def verification(self, checked: str) -> str:
        """Return a sentence that there is nothing to check."""
        return f"Nothing is read, so that nothing is checked (of {checked})."


class Null(Protocol[NoSettings]):
    name = "null"
    title = "null"
    schemes = ("null",)
    example_url = "null://127.0.0.1/"
    work = Nothing()
    settings_type = NoSettings

    def described(self, settings: NoSettings, timeout: str) -> str:
        """Return a sentence that nothing is sent."""
        del settings
        return f"No protocol: nothing leaves the generator; timeout {timeout}."


class NullSettings(Settings):
    """A setting, so that configurations can differ."""

    protocol = Null.name

    colour: str = Field(default="grey", description="Of no consequence.")


class NullServer:
    """A server that does not exist; `servers/base.py` has the contract."""

    name: ClassVar[str] = "null"
    summary: ClassVar[str] = "no server at all"
    debian_package: ClassVar[str | None] = None
    settings_type: ClassVar[type[Settings]] = NullSettings
    url = Null.example_url
    is_here = True

    def __init__(
        self,
        settings: NullSettings,
        directory: Path,
        documents: Path,
        cpus: Sequence[int] = (),
        url: str | None = None,
    ) -> None:
        del directory, documents, cpus, url
        self.settings = settings

    @staticmethod
    def installed() -> Installed | None:
        return Installed("1", None)

    def prepare(self) -> None:
        pass

    def start(self) -> None:
        pass

    def ready(self) -> None:
        pass

    def ask(self, target: Any) -> None:
        pass

    def check(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def crashes(self) -> list[str]:
        return []

    def describe(self) -> Description:
        return Description(self.name, "1", [], self.settings.model_dump())

    def access(self) -> Access:
        return Access(self.url)

    def cpu_s(self) -> float | None:
        return None

    def cpu_by_member_s(self) -> dict[str, float | None]:
        return {}

    def rss_bytes(self) -> int | None:
        return None

    def pids(self) -> list[int]:
        return []

    def data_directories(self) -> list[Path]:
        return []

    def requests_served(self) -> int | None:
        return None


def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add one line to each table."""
    monkeypatch.setitem(WORKS, Nothing.name, Null.work)
    monkeypatch.setitem(PROTOCOLS, Null.name, Null())
    monkeypatch.setitem(DRIVERS, NullServer.name, NullServer)
