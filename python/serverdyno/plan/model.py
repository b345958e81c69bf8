"""What an experiment is made of: suites, mixes, servers, configurations, plans. Data only.

Reading is in `load.py`, checking in `validate.py` and `check_suite.py`, expanding in `expand.py` and
`order.py`.
Every problem of a document is reported at once; a field that is not known is a problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")]
Certainty = Annotated[str, Field(pattern=r"^(seen|derived|memory|choice)(: .+)?$")]
Order = Literal["interleaved", "sequential", "random"]
Protocol = Literal["http", "smb"]
Workload = Literal["webbench-static", "url", "diskmix", "loadfile"]
Dialect = Literal["2.0.2", "2.1", "3.0", "3.0.2", "3.1.1"]
MAX_CLIENTS = 100_000
MAX_LENGTH_S = 24 * 3600


class Model(BaseModel):
    """Strict and frozen: what was checked is what is used."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class HttpSettings(Model):
    """How a client speaks HTTP."""

    version: Literal["1.0", "1.1"] = "1.1"
    keep_alive: bool = True
    close: Literal["ordinary", "reset"] = "ordinary"
    receive_buffer_bytes: int = Field(default=65536, ge=256, le=16 * 1024 * 1024)


class SmbSettings(Model):
    """How a client speaks SMB. "off": never, a server that requires it is refused; "auto": where it does."""

    min_dialect: Dialect = "2.0.2"
    max_dialect: Dialect = "3.1.1"
    signing: Literal["off", "auto", "required"] = "auto"
    encryption: Literal["off", "required"] = "off"

    @model_validator(mode="after")
    def makes_sense_together(self) -> Self:
        """All that contradicts itself, at once."""
        dialects = get_args(Dialect)
        wrong = {
            "min_dialect is above max_dialect": dialects.index(self.min_dialect)
            > dialects.index(self.max_dialect),
            "encryption needs a max_dialect of 3.0 or later": (
                self.encryption == "required" and dialects.index(self.max_dialect) < dialects.index("3.0")
            ),
        }
        if problems := [problem for problem, found in wrong.items() if found]:
            raise ValueError("; ".join(problems))
        return self


class FilesSettings(Model):
    """How a client uses files: its cache, its workspace, its pace.

    `cache` says what the client asks the server for to cache on; "none" writes and reads through. `redirector`
    "xp" asks for paths before deletes and renames as Windows XP did. `dormant_files` and `dormant_s`: how many
    closed files are kept open, and for how long (Windows' DormantFileLimit and ScavengerTimeLimit).
    `operations_per_client_s` bounds the pace of each client. `load_file` is replayed by the workload "loadfile";
    `load_file_sha256` is noted when an experiment begins, so that no other file is replayed, or compared, in its place.
    `save_workspace`: the files stay from mix to mix; after the last they are removed in any case.
    """

    cache: Literal["none", "oplocks", "leases"] = "leases"
    redirector: Literal["xp", "plain"] = "plain"
    dormant_files: int = Field(default=45, ge=0, le=100_000)
    dormant_s: float = Field(default=10, ge=0, le=3600)
    workspace_bytes: int = Field(default=20 * 2**20, ge=15 * 2**20, le=2**40)
    save_workspace: bool = True
    legacy_seed_reads: bool = False
    true_offsets: bool = False
    operations_per_client_s: float | None = Field(default=None, gt=0)
    load_file: str | None = None
    load_file_sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")


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
    threads_from: list[ThreadStep] = []
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
    certainty: dict[str, Certainty] = {}

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
    cpus: list[int] = []
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
    settings: dict[str, Any] = {}
    factors: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    cpus: list[int] = []
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
