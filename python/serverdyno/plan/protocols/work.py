"""The contract of a kind of work: what a suite's clients do, whatever the server speaks.

It names the workloads, the settings that they share, and the words and figures of a report. Instances are
`documents.py` and `files.py`. Not for: how an operation travels, which is a protocol's affair (`base.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from serverdyno.plan.protocols.model import HasSettings, SettingsT

if TYPE_CHECKING:
    from serverdyno import _native

Fact = tuple[str, str]
"""A line of a report's methodology: its label and its text."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What is taken away from the clients of each mix. `how`: server, processes or connections; `percent`: after which
    part of the window; `away_s`: for how long a server that was killed is away.
    """

    how: str
    percent: int
    away_s: float

    @property
    def by_clients(self) -> bool:
        """Whether the clients do it, and the server has no part in it."""
        return self.how == "connections"


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A level that ends when its work is done. `state`: cold, warm, or the phase of several clients; `figure`: of the
    published report that the suite re-creates.
    """

    step: str
    state: str = ""
    figure: int | None = None
    clients: int = 1


class ClientCounts(Protocol):
    """What a record says of one client."""

    @property
    def operations(self) -> int:
        """Successes in the window."""

    @property
    def bytes_read(self) -> int | None:
        """Application bytes, in the window; None: not recorded."""

    @property
    def bytes_written(self) -> int:
        """Application bytes, in the window."""

    @property
    def left_at_s(self) -> float | None:
        """Since the start of the mix; None: it stayed to the end."""


class MixCounts(Protocol):
    """What a record of a mix says, as far as throughput is computed from it."""

    @property
    def window_s(self) -> float:
        """The measured part of the mix."""

    @property
    def operations(self) -> int:
        """Successes in the window."""

    @property
    def bytes_in(self) -> int:
        """All bytes that came, in the window."""

    @property
    def window_closes_s(self) -> float:
        """When the measured part of the mix ends, since the start of the mix."""

    @property
    def by_client(self) -> Sequence[ClientCounts]:
        """A row a client."""


def stayed(client: ClientCounts, record: MixCounts) -> bool:
    """Return whether a client was in the mix until the window closed: who fails later has its share of the window."""
    return client.left_at_s is None or client.left_at_s >= record.window_closes_s


@dataclass(frozen=True, slots=True)
class Terms:
    """What a kind of work is called and counted in.

    `unit`: of throughput; `second_unit`: of the figure next to it. `column`, `second_column`: the same in names of
    columns. `written`, `second_written`: a figure as text. `throughput`, `second`: the figure of a record.
    `operation`: what is counted; `classes`: what a class of operations is named after.
    """

    unit: str
    column: str
    written: Callable[[float | None], str]
    throughput: Callable[[MixCounts], float]
    second_unit: str
    second_column: str
    second_title: str
    second_written: Callable[[float | None], str]
    second: Callable[[MixCounts], float]
    below_cache: bool
    """Whether clients are workstations: they log on, count only if they stay to the end, and have a cache, so that what
    passed below it is a figure of its own.
    """
    operation: str
    classes: str
    throughput_meaning: str
    """Which bytes are counted in Mbit/s: ends the sentence "Mbit/s are of 10^6 bits, ..."."""
    server_of_arrivals: str = "connection"
    """What carries out operations that come at a rate of their own."""
    in_phases: bool = False
    """Whether each class is a phase, which a client goes through before it begins the next."""

    def span(self, low: float, high: float) -> str:
        """`8,100 to 8,146`; one figure where both are written the same."""
        texts = self.written(low), self.written(high)
        return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"

    @property
    def operations(self) -> str:
        """More than one of what is counted."""
        return f"{self.operation}s"

    @property
    def rate_unit(self) -> str:
        """Of rates of operations: `requests/s`."""
        return f"{self.operations}/s"

    @property
    def throughput_counts_operations(self) -> bool:
        """Whether throughput is in operations, so that a bound of operations is a level of it."""
        return self.unit == self.rate_unit


class Work(HasSettings[SettingsT]):
    """A kind of work. One instance of each stands in `registry.py`."""

    name: ClassVar[str]
    workloads: ClassVar[Mapping[str, str]]
    """What to check where a server does not serve the workload, by the workload's name."""
    terms: ClassVar[Terms]
    """Of its workloads; `terms_of` has those that are counted otherwise."""
    drawn_anew: ClassVar[bool] = True
    """Whether each mix of a run draws a stream of its own. Else clients keep the order of their operations."""
    uses_documents: ClassVar[bool] = False
    """Whether a server needs the document tree on the disk."""
    has_durability: ClassVar[bool] = False
    """Whether a server promises that what was written is on the disk."""
    shows_clients: ClassVar[bool] = False
    """Whether a report shows how each client fared, and what it asked for below its cache."""

    def problems(
        self, settings: SettingsT, workload: str, *, one_thread: bool, at_once: bool
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """What does not fit together: the key's path in the suite, and why.

        `one_thread`: whether every client of the suite has one thread. `at_once`: whether a client that is answered
        asks again at once.
        """
        del settings, workload, one_thread, at_once
        return iter(())

    def terms_of(self, workload: str) -> Terms:
        """Return what a workload is called and counted in."""
        del workload
        return self.terms

    def cut(self, settings: SettingsT) -> Cut | None:
        """Return what is taken away from the clients in the middle of each mix; None: nothing."""
        del settings
        return None

    def planned_steps(self, settings: SettingsT, clients: int) -> Sequence[PlannedStep]:
        """Return the levels of a suite whose levels end when their work is done; none: they end at a time."""
        del settings, clients
        return ()

    def scaled(self, settings: SettingsT, scale: float) -> SettingsT:
        """Return the settings with this share of the work; the same where levels end at a time."""
        del scale
        return settings

    def undisturbed(self, settings: SettingsT) -> SettingsT:
        """Return the settings for a look at the server before its load, in which nothing is taken away."""
        return settings

    def start_spread_s(self, settings: SettingsT, think_time_s: float) -> float:
        """Return the time over which clients start apart if a suite states no delay."""
        del settings, think_time_s
        return 0.0

    def check_operations(self, workload: str, settings: SettingsT) -> int | None:
        """Return the operations of one attempt of the check before load; None: one attempt lasts for a moment."""
        del workload, settings
        return None

    def takes_open_load(self, workload: str) -> bool:
        """Return whether operations may come at a rate of their own, independent of each other and of answers."""
        del workload
        return False

    def server_problem(
        self, settings: SettingsT, workload: str, server_settings: Mapping[str, Any]
    ) -> str | None:
        """Say why a server that we start with these settings can't carry out the workload; None: it can."""
        del settings, workload, server_settings
        return None

    def content_of(self, workload: str, operation: str) -> str | None:
        """Return the kind of content that a workload's class of operation belongs to; None: it has no kind."""
        del workload, operation
        return None

    def workload_section(self, workload: str, settings: SettingsT) -> dict[str, Any]:
        """Return the section `workload` of a mix's document: what clients do."""
        del settings
        return {"name": workload}

    def client_section(self, settings: SettingsT, *, last_mix: bool) -> dict[str, Any]:
        """Return how a client does it, for the section `client` of a mix's document. `last_mix`: of a run."""
        del settings, last_mix
        return {}

    def operations_per_client_s(self, settings: SettingsT) -> float | None:
        """Return the pace of each client; None: as fast as the server answers."""
        del settings
        return None

    def load_file(self, settings: SettingsT) -> _native.LoadFile | None:
        """Return the load file to replay; None: there is none. Raises UserError."""
        del settings
        return None

    def packed_load_file(self, settings: SettingsT) -> str | None:
        """Return the same as text, for another process or machine (`load_file.packed`). Raises UserError."""
        del settings
        return None

    def workspace_bytes(self, settings: SettingsT) -> int:
        """Return what a client keeps on the server, at most."""
        del settings
        return 0

    def with_noted_inputs(self, settings: SettingsT) -> SettingsT:
        """Return the settings with a digest of every file that the load is made from. Raises UserError."""
        return settings

    def facts(self, settings: SettingsT, client_cache: str | None) -> tuple[Fact, ...]:
        """Lines of the methodology. `client_cache`: what the runs noted of it, in words; None: nothing."""
        del settings, client_cache
        return ()

    def verification(self, checked: str) -> str:
        """Say what is checked of an answer. `checked`: the share whose content is checked, as text."""
        raise NotImplementedError
