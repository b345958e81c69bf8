"""The data of an experiment: suites, levels, servers, configurations and plans.

`load.py` reads them, `validate.py` and `check_suite.py` check them, `expand.py` and `order.py` expand them. Every
problem of a document is reported at once, and an unknown field is a problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    ModelWrapValidatorHandler,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticKnownError

from serverdyno.plan import protocols
from serverdyno.plan.axis import AxisName
from serverdyno.plan.objective import Objective, parse_objective
from serverdyno.plan.open_load import Law, OpenLoad
from serverdyno.plan.protocols.model import HasSettings, Model, SectionModel, SettingsT, Spelled
from serverdyno.plan.protocols.options import Option
from serverdyno.plan.protocols.work import Terms, Work
from serverdyno.plan.sections import as_initial, completed, gathered
from serverdyno.plan.testbed import Testbed

Name = Annotated[
    str,
    Spelled(
        r"[a-z0-9][a-z0-9.-]{0,62}",
        "1 to 63 lower-case letters, digits, dots and hyphens, beginning with a letter or a digit",
    ),
]
Certainty = Annotated[
    str,
    Spelled(
        r"(seen|derived|memory|choice)(: .+)?",
        'seen, derived, memory or choice, or one of these words with a reason, such as "choice: ours"',
    ),
]
Order = Literal["interleaved", "sequential", "random"]
MAX_CLIENTS = 100_000
MOST_SUITES = 20
FEWEST_UNTIL = 6
"""Repetitions before the precision is computed for the first time; see `analysis.precision`."""
EQUIVALENCE_PERCENT = 5.0
MAX_LENGTH_S = 24 * 3600
OF_LEVELS_IN_TIME = ("threads", "threads_from", "ramp_up_s", "ramp_down_s", "delay_s", "think_time_s")
"""Parameters that have no effect in suites whose levels end when their work is done."""
MAX_RUNS = 10_000
MAX_LEVELS = 10_000
"""Maximum number of load levels of all runs together. A report on this many takes a minute and 1 GB of memory."""
MAX_URL = 1 << 16  # characters
NOT_OF_THE_LOAD = {"name", "title", "source", "description", "axis", "certainty"}


def titled(data: dict[str, Any]) -> dict[str, Any]:
    """Return the document with its name as its title if it has no title."""
    return (
        data if "title" in data or not isinstance(data.get("name"), str) else {**data, "title": data["name"]}
    )


class ThreadStep(Model):
    """The number of threads per client from a given number of clients upward (VeriTest 2003, figure 12)."""

    clients: int = Field(ge=1, description="The number of clients from which the step applies.")
    threads: int = Field(ge=1, le=1000, description="Number of threads per client from this step on.")


class Suite(Model):
    """An ordered list of levels with a growing number of clients.

    `source` is the publication of the parameters. `description` says what the suite measures, and what it does not
    measure. `certainty` states how each parameter (`length_s`, `http.version`) is known, and why: *seen* in the
    published report, *derived* from what is published, from *memory* of the literature, or our own *choice*. `axis` is
    the quantity that grows from level to level. `sections` contains the settings of protocols and of the kind of work,
    each a table in a file.
    """

    name: Name = Field(description="The suite's name. Every report shows it.")
    title: str = Field(default="", description="A one-line title. Default: the name.")
    source: str = Field(description="The publication of the parameters, or the person who chose them.")
    description: str = Field(default="", description="A description of the suite, including its limits.")
    workload: str = Field(description="Name of the workload: what clients do.")
    axis: AxisName = Field(
        default="clients",
        description="The quantity that grows from level to level. With `[open]`, this is the rate.",
    )
    clients: Annotated[
        list[Annotated[int, Field(ge=1, le=MAX_CLIENTS)]],
        Option(("--clients", "-c"), listed=True, ranges="doubling"),
    ] = Field(
        min_length=1,
        description="Growing numbers of clients, one load level per number. With a rate: a single number of "
        "connections.",
    )
    threads: int = Field(default=1, ge=1, le=1000, description="Number of concurrent requests per client.")
    threads_from: list[ThreadStep] = Field(
        default=[], description="Steps: from a given number of clients upward, each client has more threads."
    )
    length_s: Annotated[float, Option(("--length", "-d"), is_time=True)] = Field(
        gt=0, le=MAX_LENGTH_S, description="Length of a load level, including its ramps."
    )
    ramp_up_s: float = Field(default=0, ge=0, description="Unmeasured time at the beginning of a level.")
    ramp_down_s: float = Field(default=0, ge=0, description="Unmeasured time at the end of a level.")
    operations: Annotated[int | None, Option(("--requests", "-n"))] = Field(
        default=None,
        ge=1,
        le=10**12,
        description="Number of operations after which a load level ends, if it has not ended after its "
        "length. Default: the length alone decides.",
    )
    delay_s: float = Field(
        default=0,
        ge=0,
        description="Each client starts at a random time within this delay. Default: web clients start "
        "within their think time, and file clients start together.",
    )
    think_time_s: Annotated[float, Option(("--think",), is_time=True)] = Field(
        default=0, ge=0, description="Time that a client waits between two operations."
    )
    timeout_s: Annotated[float, Option(("--timeout",), is_time=True)] = Field(
        default=30, gt=0, le=600, description="Time after which an operation without an answer fails."
    )
    leave_after_errors: int | None = Field(
        default=1,
        ge=1,
        description="Number of errors after which a client stops.",
    )
    open: OpenLoad | None = Field(
        default=None,
        description="Open load: operations are due at a given rate, even if earlier ones have no answer yet.",
    )
    sections: dict[str, SectionModel] = Field(default={}, exclude=True)
    certainty: dict[str, Certainty] = Field(
        default={},
        description="The source of each parameter: seen, derived, memory or choice, with a reason.",
    )

    @field_validator("workload")
    @classmethod
    def _is_known(cls, workload: str) -> str:
        if workload not in (known := protocols.workloads()):
            expected = " or ".join((", ".join(f"'{name}'" for name in known[:-1]), f"'{known[-1]}'"))
            raise PydanticKnownError("literal_error", {"expected": expected})
        return workload

    @field_validator("sections")
    @classmethod
    def _are_complete(
        cls, sections: dict[str, SectionModel], info: ValidationInfo
    ) -> dict[str, SectionModel]:
        workload = info.data.get("workload")  # absent if the workload is invalid
        return sections if workload is None else completed(sections, workload)

    @model_validator(mode="wrap")
    @classmethod
    def _tables_are_sections(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Collect a file's tables into `sections`, and report the problems of suite and tables together."""
        if not isinstance(data, dict):
            return handler(data)
        document, problems = gathered(titled(data))
        if document.get("open") is not None:
            document.setdefault("axis", "rate")
        try:
            suite = handler(document)
        except ValidationError as error:
            problems += [as_initial(found) for found in error.errors(include_url=False)]
        if problems:
            raise ValidationError.from_exception_data(cls.__name__, problems)
        return suite

    @model_serializer(mode="wrap")
    def _sections_are_tables(
        self, handler: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        tables = {
            name: section.model_dump(mode=info.mode, exclude_defaults=info.exclude_defaults)
            for name, section in self.sections.items()
        }
        own = handler(self)
        for key in ("open", "operations"):
            if getattr(self, key) is None:
                own.pop(key, None)
        # An empty table means the defaults, as a missing table does.
        return {**own, **{name: table for name, table in tables.items() if table}}

    @classmethod
    def tables(cls) -> dict[str, type[BaseModel]]:
        """Return the models of the tables that are not fields, by their names in a file."""
        return {name: having.settings_type for name, having in protocols.sections().items()}

    @property
    def objective(self) -> Objective | None:
        """The objective of a search for the highest rate; None if the load levels are given."""
        text = None if self.open is None else self.open.objective
        return None if text is None else parse_objective(text)

    @property
    def law(self) -> Law:
        """The spacing of arrivals under open load."""
        return "poisson" if self.open is None else self.open.law

    @property
    def work(self) -> Work[Any]:
        return protocols.work_of(self.workload)

    @property
    def ends_when_done(self) -> bool:
        """Whether the suite's levels end when their work is done instead of at a given time."""
        return bool(self.work.planned_steps(self.settings(self.work), 1))

    @property
    def terms(self) -> Terms:
        return self.work.terms_of(self.workload)

    def settings(self, of: HasSettings[SettingsT]) -> SettingsT:
        """Return the section of a protocol or a kind of work; the defaults if the suite has none."""
        section = self.sections.get(of.section or "")
        return section if isinstance(section, of.settings_type) else of.settings_type()

    def with_noted_inputs(self) -> Suite:
        """Return the suite with a digest of every file from which its load is generated. Raises UserError."""
        return self.with_settings(self.work, self.work.with_noted_inputs(self.settings(self.work)))

    def with_settings(self, of: HasSettings[SettingsT], settings: SettingsT) -> Self:
        if of.section is None:
            return self
        return self.model_copy(update={"sections": {**self.sections, of.section: settings}})

    def parameters(self) -> dict[str, object]:
        """Return each parameter that shapes the load, by key path (`length_s`, `http.version`)."""
        own = {
            key: value
            for key, value in self.model_dump(exclude={"open"}).items()
            if key in type(self).model_fields and key not in NOT_OF_THE_LOAD
            if not (self.ends_when_done and key in OF_LEVELS_IN_TIME)
        }
        if self.open is not None:
            left_out = set() if self.open.objective else {"objective", "precision_percent", "most_trials"}
            left_out.add("percent_of_peak" if self.open.rate_per_s else "rate_per_s")
            own |= {f"open.{key}": value for key, value in self.open.model_dump(exclude=left_out).items()}
        return own | {
            f"{having.section}.{key}": value
            for having in protocols.sections_for(self.work)
            for key, value in self.settings(having).parameters().items()
        }


@dataclass(frozen=True, slots=True)
class Level:
    """One level, ready to run.

    `index` is its position in the experiment, from 1; `last` marks the last level of its suite.

    `rate_per_s` is the rate of open load; None for closed load, where each client waits for its answer. `operations` is
    the number of operations after which the level ends; None if it ends only after its length. `suite` is None in
    experiments before format 9, which have one suite.

    `step` is the name of a level that ends when its work is done, and `state` is cold, warm or a phase; None if the
    level ends at a given time. All levels of a suite that end when done share files or sessions, so they are repeated
    as one group. `figure` is the figure of the published report that the step re-creates.
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
    rate_per_s: int | None = None
    operations: int | None = None
    suite: str | None = None
    step: str | None = None
    state: str = ""
    figure: int | None = None

    @property
    def planned_s(self) -> float:
        """The planned duration of the level; 0 if it ends when its work is done."""
        return self.length_s if self.step is None else 0.0

    @property
    def window_s(self) -> float:
        """The length of the level's measured part."""
        return self.length_s - self.ramp_up_s - self.ramp_down_s


class GeneratorPlan(Model):
    """Where and how the load is generated. If `cpus` is empty, dyno chooses CPUs that the server does not use.

    `threads` is per process, or per node of the `fleet`. The clients are distributed among all threads.
    """

    fleet: str | None = Field(
        default=None,
        min_length=1,
        description="Folder of the fleet whose nodes generate the load, relative to the plan's folder (see dyno "
        "fleet).",
    )
    processes: int = Field(default=1, ge=1, le=64, description="Number of processes that generate the load.")
    threads: Annotated[int, Option(("--threads", "-t"))] = Field(
        default=1, ge=1, le=256, description="Number of generator threads per process, with one CPU each."
    )
    weights: dict[str, Annotated[int, Field(ge=1, le=1000)]] = Field(
        default={},
        description="Weights by node name; clients are divided in proportion to them. Default: the number of "
        "CPUs. Give all weights or none.",
    )
    cpus: Annotated[list[int], Option(("--cpus",), listed=True, ranges="each")] = Field(
        default=[],
        description="CPUs of the generator's threads. Default: the first CPUs that no server uses.",
    )
    verify_share: float = Field(
        default=1.0, ge=0, le=1, description="Share of answers whose whole content is checked."
    )

    @model_validator(mode="after")
    def _is_in_one_place(self) -> Self:
        if self.fleet is not None and (self.processes > 1 or self.cpus):
            raise ValueError(
                "processes and cpus apply to this machine, but the fleet's nodes generate the load"
            )
        return self


class Bounds(Model):
    """The limits that a plan must set before load goes to a host that is not loopback.

    Clients and length apply to one level; the rate is the total of all clients, in requests/s.
    """

    max_clients: int = Field(ge=1, description="Maximum number of clients at a load level.")
    max_rate_per_s: Annotated[float, Option(("--max-rate",))] = Field(
        gt=0,
        description="Maximum number of requests per second, over all clients. Load outside loopback "
        "requires this bound.",
    )
    max_length_s: float = Field(gt=0, description="Maximum length of a load level.")


class ServerPlan(Model):
    """A server under test, its fixed settings, and the factors that vary other settings.

    Every combination of factor levels is a configuration. If `cpus` is empty, dyno chooses the CPUs.
    """

    server: str = Field(description="A name that `dyno servers` lists.")
    name: Name | None = Field(
        default=None,
        description="Name of this server's configurations. Default: the server's name.",
    )
    settings: dict[str, Any] = Field(default={}, description="Settings that all configurations share.")
    factors: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        default={},
        description="Settings that vary, each with a list of values. Every combination is a configuration.",
    )
    cpus: list[int] = Field(
        default=[], description="CPUs for the server. Empty: all CPUs that the generator does not use."
    )
    node: Name | None = Field(
        default=None,
        description="Node of the fleet that runs the server; this node generates no load. Default: this machine.",
    )
    address: str | None = Field(
        default=None,
        description="Address on which the server listens on its node. Default: the node's address in the "
        "fleet.",
    )
    back_nodes: list[Name] = Field(
        default=[],
        description="Nodes that run the servers behind a team's front, used in turn. Default: the front's "
        "node.",
    )
    url: Annotated[str, AfterValidator(protocols.normal_url)] | None = Field(
        default=None,
        description="URL of a server that you run; required for such a server, and only for it. The scheme "
        "is the protocol. In http[s]:// URLs, letters outside ASCII are sent percent-encoded, in UTF-8.",
    )
    bounds: Bounds | None = Field(
        default=None,
        description="Bounds of the load on a server that you run on another machine: max_clients, "
        "max_rate_per_s and max_length_s.",
    )


class Plan(Model):
    """A plan: suites x configurations x repetitions. The title defaults to the name.

    A run starts its server anew and runs the suites on it one after another, in the order of the plan.

    `minimum_effect_percent` is the smallest difference that matters, as the percentage by which the faster
    configuration exceeds the slower one; with 0, any difference matters. With `until_percent`, pairs of repetitions are
    added after the first six, until the widest interval of an average is at most +- this percentage, or until
    `most_repetitions` is reached.
    """

    name: Name = Field(description="Name of the plan and of the experiment's folder.")
    title: str = Field(default="", description="Title of the report. Default: the name.")
    suite: Name | None = Field(
        default=None,
        description="The name of a suite (see `dyno suites`), or the path of a suite file, relative to the "
        "plan's folder and ending with `.toml`.",
    )
    suites: list[Name] = Field(
        default=[],
        max_length=MOST_SUITES,
        description="Several suites, instead of `suite`. Each run measures them in this order, with one "
        "start of the server.",
    )
    scale: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description=(
            "Share of the full length for each load level. If levels end when their work is done, this "
            "scales the size of Bonnie's file, and the number and size of files in scenarios. Every figure "
            "shows the scale."
        ),
    )
    repetitions: Annotated[int, Option()] = Field(
        default=3, ge=1, le=1000, description="Number of runs per configuration."
    )
    order: Order = Field(
        default="interleaved",
        description="Order of the runs. interleaved: A B, B A, ...; sequential: A A, B B; random: each "
        "round is shuffled.",
    )
    until_percent: float | None = Field(
        default=None,
        gt=0,
        le=100,
        description="After six repetitions, add pairs until the widest interval of an average is at most "
        "+- this percentage.",
    )
    most_repetitions: int = Field(
        default=30,
        ge=FEWEST_UNTIL,
        le=1000,
        description="Maximum number of repetitions with `until_percent`.",
    )
    seed: int = Field(default=1, ge=0, lt=2**63, description="Seed for all random choices.")
    minimum_effect_percent: float = Field(
        default=0.0,
        ge=0,
        le=1000,
        description="The smallest difference that matters. A server counts as faster only if it is proven "
        "to be faster by more than this.",
    )
    equivalence_margin_percent: float | None = Field(
        default=None,
        gt=0,
        le=1000,
        description="Two configurations are equivalent if their difference is proven to be smaller than "
        "this. Default: the minimum effect, or 5 % without one.",
    )
    generator: GeneratorPlan = Field(
        default_factory=GeneratorPlan, description="Settings of the load generator."
    )
    testbed: Testbed | None = Field(
        default=None,
        description="Network namespaces on this machine that generate the load, over links with limited rates; "
        "requires root.",
    )
    drop_caches: bool = Field(
        default=False,
        description="Drop this machine's page cache before each step of a scenario (requires root). If the "
        "server runs here, this also drops the server's files.",
    )
    published: Name | None = Field(
        default=None,
        description="A published report whose tables appear next to the steps of these suites.",
    )
    servers: list[ServerPlan] = Field(min_length=1, description="The servers to measure.")

    @model_validator(mode="before")
    @classmethod
    def _has_a_title(cls, data: Any) -> Any:
        return titled(data) if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _has_suites(self) -> Self:
        if (self.suite is None) == (not self.suites):
            raise ValueError("a plan needs either suite or suites")
        if len(set(self.suites)) < len(self.suites):
            raise ValueError("suites: a suite is listed twice")
        return self

    @property
    def suite_names(self) -> list[str]:
        return self.suites or [self.suite or ""]

    @field_validator("until_percent")
    @classmethod
    def _can_be_continued(cls, percent: float | None, info: ValidationInfo) -> float | None:
        """Refuse the order "sequential", to which repetitions can't be added."""
        if percent is not None and info.data.get("order") == "sequential":
            raise ValueError('needs the order "interleaved" or "random"')
        return percent

    @property
    def equivalence_percent(self) -> float:
        """The margin within which two configurations count as equal."""
        return self.equivalence_margin_percent or self.minimum_effect_percent or EQUIVALENCE_PERCENT

    @property
    def begins_with(self) -> int:
        """The initial number of repetitions."""
        return self.repetitions if self.until_percent is None else FEWEST_UNTIL

    @property
    def ends_with(self) -> int:
        """The maximum number of repetitions."""
        return self.repetitions if self.until_percent is None else self.most_repetitions


@dataclass(frozen=True, slots=True)
class Configuration:
    """One combination of factor levels of one server. `protocol` is None if not recorded (before format 3).

    `node` is the fleet's node that runs the server; None for this machine. `address` is its address on that node.
    `back_nodes` are the nodes that run the servers behind a team's front, used in turn; if empty, the front's node
    does.
    """

    name: str
    server: str
    settings: dict[str, Any]
    cpus: tuple[int, ...]
    url: str | None
    bounds: Bounds | None
    protocol: str | None = None
    node: str | None = None
    address: str | None = None
    back_nodes: tuple[str, ...] = ()

    @property
    def nodes(self) -> list[str]:
        """The nodes that run the server, each once; empty if the server is on this machine.

        The node in the clients' URL is first.
        """
        return [] if self.node is None else list(dict.fromkeys([self.node, *self.back_nodes]))


@dataclass(frozen=True, slots=True)
class RunKey:
    """One run: one configuration in one repetition. `number` is its position in the experiment, from 1."""

    number: int
    configuration: str
    repetition: int

    @property
    def folder(self) -> str:
        """The name of the run's folder, such as `007-apache-r2`."""
        return f"{self.number:03}-{self.configuration}-r{self.repetition}"
