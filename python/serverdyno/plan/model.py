"""What an experiment is made of: suites, mixes, servers, configurations, plans. Data only.

Reading is in `load.py`, checking in `validate.py` and `check_suite.py`, expanding in `expand.py` and
`order.py`.
Every problem of a document is reported at once; a field that is not known is a problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from serverdyno.protocols.files import FilesSettings
from serverdyno.protocols.http import HttpSettings
from serverdyno.protocols.model import Model
from serverdyno.protocols.smb import SmbSettings

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")]
Certainty = Annotated[str, Field(pattern=r"^(seen|derived|memory|choice)(: .+)?$")]
Order = Literal["interleaved", "sequential", "random"]
Protocol = Literal["http", "smb"]
Workload = Literal["webbench-static", "url", "diskmix", "loadfile"]
MAX_CLIENTS = 100_000
MAX_LENGTH_S = 24 * 3600


class ThreadStep(Model):
    """From this number of clients on, this many threads a client (VeriTest 2003, figure 12)."""

    clients: int = Field(ge=1)
    threads: int = Field(ge=1, le=1000)


class Suite(Model):
    """An ordered list of mixes with a growing number of clients.

    `source` says where the parameters were published, `description` what the suite is and is not. `certainty`
    says of each parameter (`length_s`, `http.version`) how it is known: *seen* in the published report,
    *derived* from what is published, from *memory* of the literature, or our own *choice*; and why.
    """

    name: Name
    title: str
    source: str
    description: str = ""
    workload: Workload
    clients: list[Annotated[int, Field(ge=1, le=MAX_CLIENTS)]] = Field(min_length=1)
    threads: int = Field(default=1, ge=1, le=1000)
    threads_from: list[ThreadStep] = Field(default=[])
    length_s: float = Field(gt=0, le=MAX_LENGTH_S)
    ramp_up_s: float = Field(default=0, ge=0)
    ramp_down_s: float = Field(default=0, ge=0)
    delay_s: float = Field(default=0, ge=0)
    think_time_s: float = Field(default=0, ge=0)
    timeout_s: float = Field(default=30, gt=0, le=600)
    leave_after_errors: int | None = Field(default=1, ge=1)
    http: HttpSettings = HttpSettings()
    smb: SmbSettings = SmbSettings()
    files: FilesSettings = FilesSettings()
    certainty: dict[str, Certainty] = Field(default={})

    @property
    def protocol(self) -> Protocol:
        """What its workload is carried out over."""
        return "smb" if self.workload in ("diskmix", "loadfile") else "http"

    def parameters(self) -> dict[str, object]:
        """Key path (`length_s`, `http.version`) -> value, of everything that shapes the load."""
        sections = ("http",) if self.protocol == "http" else ("smb", "files")
        own = self.model_dump(
            exclude={"name", "title", "source", "description", "certainty", "http", "smb", "files"}
        )
        return own | {
            f"{section}.{key}": value
            for section in sections
            for key, value in getattr(self, section).model_dump().items()
            if key != "load_file_sha256" or value is not None  # noted only once an experiment has begun
        }


@dataclass(frozen=True, slots=True)
class Mix:
    """One fixed load for a fixed time, ready to run. `index` is its place in the suite, from 1; `last`: no
    other comes after it.
    """

    index: int
    name: str
    clients: int
    threads: int
    length_s: float
    ramp_up_s: float
    ramp_down_s: float
    delay_s: float
    think_time_s: float
    last: bool = False

    @property
    def window_s(self) -> float:
        """The measured part of the mix."""
        return self.length_s - self.ramp_up_s - self.ramp_down_s


class GeneratorPlan(Model):
    """Where and how the load is made. `cpus` empty: chosen by the tool, apart from the server's."""

    threads: int = Field(default=1, ge=1, le=256)
    cpus: list[int] = Field(default=[])
    verify_share: float = Field(default=1.0, ge=0, le=1)


class Bounds(Model):
    """What a plan must promise before load goes to a host that is not loopback.

    Clients and length are those of one mix; the rate is of all clients together, in requests a second.
    """

    max_clients: int = Field(ge=1)
    max_rate_per_s: float = Field(gt=0)
    max_length_s: float = Field(gt=0)


class ServerPlan(Model):
    """A server under test, its fixed settings, and the factors that vary it.

    Every combination of levels is a configuration. `cpus` empty: chosen by the tool.
    """

    server: str
    name: Name | None = None
    settings: dict[str, Any] = Field(default={})
    factors: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default={})
    cpus: list[int] = Field(default=[])
    url: str | None = None
    bounds: Bounds | None = None


class Plan(Model):
    """Suite x configurations x repetitions.

    `minimum_effect_percent`: the least difference that would matter, as the percentage by which the quicker is faster
    than the slower. Verdicts are about it; 0: any difference.
    """

    name: Name
    title: str
    suite: Name
    scale: float = Field(default=1.0, gt=0, le=1)
    repetitions: int = Field(default=2, ge=1, le=1000)
    order: Order = "interleaved"
    seed: int = Field(default=1, ge=0, lt=2**63)
    minimum_effect_percent: float = Field(default=0.0, ge=0, le=1000)
    generator: GeneratorPlan = GeneratorPlan()
    servers: list[ServerPlan] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One combination of levels of one server."""

    name: str
    server: str
    settings: dict[str, Any]
    cpus: tuple[int, ...]
    url: str | None
    bounds: Bounds | None


@dataclass(frozen=True, slots=True)
class RunKey:
    """One suite against one configuration, once. `number` is its place in the experiment, from 1."""

    number: int
    configuration: str
    repetition: int

    @property
    def folder(self) -> str:
        """`007-apache-r2`."""
        return f"{self.number:03}-{self.configuration}-r{self.repetition}"
