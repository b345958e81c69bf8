"""The contract of a kind of work: what a suite's clients do, independent of the protocol.

The contract covers the workloads, their common settings, and the terms and figures of a report. `documents.py`,
`files.py` and `objects.py` contain the instances. A protocol (`base.py`) says how an operation reaches the server.
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
    """The outage in each level. `how` is server, processes or connections.

    `percent` is the share of the window after which the outage begins, and `away_s` the time until a killed server is
    started again.
    """

    how: str
    percent: int
    away_s: float

    @property
    def by_clients(self) -> bool:
        """Whether clients cut their connections themselves, without the server."""
        return self.how == "connections"


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A level that ends when its work is done. `state` is cold, warm, or the phase of several clients.

    `figure` is the figure of the published report that the suite re-creates.
    """

    step: str
    state: str = ""
    figure: int | None = None
    clients: int = 1


class ClientCounts(Protocol):
    """The counts of one client in a record."""

    @property
    def operations(self) -> int:
        """Successful operations in the window."""

    @property
    def bytes_read(self) -> int | None:
        """Application bytes read in the window; None if not recorded."""

    @property
    def bytes_written(self) -> int:
        """Application bytes written in the window."""

    @property
    def left_at_s(self) -> float | None:
        """When the client left, in seconds since the start of the level; None if it stayed to the end."""


class LevelCounts(Protocol):
    """The counts in a level's record from which throughput is computed."""

    @property
    def window_s(self) -> float:
        """The length of the measured part of the level."""

    @property
    def operations(self) -> int:
        """Successful operations in the window."""

    @property
    def bytes_in(self) -> int:
        """All bytes received in the window."""

    @property
    def window_closes_s(self) -> float:
        """The end of the measured part, in seconds since the start of the level."""

    @property
    def by_client(self) -> Sequence[ClientCounts]:
        """One row per client."""


def stayed(client: ClientCounts, record: LevelCounts) -> bool:
    """Return whether a client stayed until the window closed.

    A client that leaves after the window counts as one that stayed.
    """
    return client.left_at_s is None or client.left_at_s >= record.window_closes_s


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms and units of a kind of work.

    `unit` is the unit of throughput, `second_unit` the unit of the figure next to it. `column` and `second_column` are
    the column names of the two, `written` and `second_written` format a figure as text, and `throughput` and `second`
    compute it from a record. `operation` is the name of a counted operation. `classes` says what a class of operations
    is named after.
    """

    unit: str
    column: str
    written: Callable[[float | None], str]
    throughput: Callable[[LevelCounts], float]
    second_unit: str
    second_column: str
    second_title: str
    second_written: Callable[[float | None], str]
    second: Callable[[LevelCounts], float]
    below_cache: bool
    """Whether clients are workstations, which log on, have a cache, and count only if they stay to the end.

    The traffic below the cache is then a separate figure.
    """
    operation: str
    classes: str
    throughput_meaning: str
    """The bytes that throughput counts, as the end of the sentence "Mbit/s are of 10^6 bits, ..."."""
    server_of_arrivals: str = "connection"
    """Name of the connections that carry the operations of open load."""
    in_phases: bool = False
    """Whether each class of operations is a phase that a client finishes before the next begins."""

    def span(self, low: float, high: float) -> str:
        """Return a range as text, such as `8,100 to 8,146`, or one figure if both are written the same."""
        texts = self.written(low), self.written(high)
        return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"

    @property
    def operations(self) -> str:
        """The plural of `operation`."""
        return f"{self.operation}s"

    @property
    def rate_unit(self) -> str:
        """The unit of rates of operations, such as `requests/s`."""
        return f"{self.operations}/s"

    @property
    def throughput_counts_operations(self) -> bool:
        """Whether throughput is in operations per second, so that a limit on that rate is a limit on throughput."""
        return self.unit == self.rate_unit


class Work(HasSettings[SettingsT]):
    """A kind of work. `registry.py` contains one instance of each."""

    name: ClassVar[str]
    workloads: ClassVar[Mapping[str, str]]
    """What a user should check if a server fails the workload, by the workload's name."""
    terms: ClassVar[Terms]
    """Terms of its workloads, except those that `terms_of` changes."""
    drawn_anew: ClassVar[bool] = True
    """Whether each level of a run draws a new random stream. Otherwise clients keep the order of their operations."""
    uses_documents: ClassVar[bool] = False
    """Whether a server needs the document tree on disk."""
    has_durability: ClassVar[bool] = False
    """Whether a server promises that written data is on disk."""
    durable_operations: ClassVar[tuple[str, ...]] = ("flush",)
    """Classes of operations whose answers are this promise."""
    durable_word: ClassVar[tuple[str, str]] = ("flush", "flushes")
    """Name of such an operation in a sentence, and its plural."""
    usage: ClassVar[str] = "use a plan"
    """How to measure the server of a `{url}`."""
    shows_clients: ClassVar[bool] = False
    """Whether a report shows figures per client, and the requests below the clients' caches."""

    def problems(
        self, settings: SettingsT, workload: str, *, one_thread: bool, at_once: bool
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield each contradiction: the key's path in the suite, and the reason.

        `one_thread`: each client of the suite has one thread. `at_once`: a client sends its next request as soon as
        it has the answer to the last one.
        """
        del settings, workload, one_thread, at_once
        return iter(())

    def terms_of(self, workload: str) -> Terms:
        """Return the terms and units of a workload."""
        del workload
        return self.terms

    def cut(self, settings: SettingsT) -> Cut | None:
        """Return the outage in the middle of each level; None if there is none."""
        del settings
        return None

    def planned_steps(self, settings: SettingsT, clients: int) -> Sequence[PlannedStep]:
        """Return the levels of a suite whose levels end when their work is done; empty if they end at a given time."""
        del settings, clients
        return ()

    def scaled(self, settings: SettingsT, scale: float) -> SettingsT:
        """Return the settings with the work multiplied by `scale`; unchanged if levels end at a given time."""
        del scale
        return settings

    def undisturbed(self, settings: SettingsT) -> SettingsT:
        """Return the settings without an outage, for the check of the server before its load."""
        return settings

    def start_spread_s(self, settings: SettingsT, think_time_s: float) -> float:
        """Return the time over which the start of clients is spread if a suite states no delay."""
        del settings, think_time_s
        return 0.0

    def check_operations(self, workload: str, settings: SettingsT) -> int | None:
        """Return the operations per attempt of the check before load; None if an attempt ends after a short time."""
        del workload, settings
        return None

    def paths_of_check(self, settings: SettingsT) -> Mapping[str, SettingsT]:
        """Return the settings for each path that the check before load requests separately; empty if none."""
        del settings
        return {}

    def takes_open_load(self, workload: str) -> bool:
        """Return whether operations may arrive at a given rate, independent of each other and of answers."""
        del workload
        return False

    def replaced(self, settings: SettingsT, done: Mapping[str, int]) -> str:
        """Return which operations a workload replaced by others, and what to change; empty if hardly any.

        `done`: operations that succeeded, by class.
        """
        del settings, done
        return ""

    def requests_per_operation(self, settings: SettingsT) -> float:
        """Return the minimum mean number of requests per operation."""
        del settings
        return 1.0

    def server_problem(
        self, settings: SettingsT, workload: str, server_settings: Mapping[str, Any]
    ) -> str | None:
        """Return why a server that dyno starts with these settings can't run the workload; None if it can."""
        del settings, workload, server_settings
        return None

    def advice(self, settings: SettingsT, fault: str, example: str, general: str | None) -> str | None:
        """Return a remedy in the settings for an error of the check before load; None if they are not the cause.

        `general`: the remedy for any client.
        """
        del settings, fault, example, general
        return None

    def content_of(self, workload: str, operation: str) -> str | None:
        """Return the kind of content of a class of operations; None if it has no kind."""
        del workload, operation
        return None

    def workload_section(self, workload: str, settings: SettingsT) -> dict[str, Any]:
        """Return the section `workload` of a level's document: the actions of clients."""
        del settings
        return {"name": workload}

    def client_section(self, settings: SettingsT, *, last_level: bool) -> dict[str, Any]:
        """Return the settings of each client, for the section `client` of a level's document.

        `last_level`: last level of the run.
        """
        del settings, last_level
        return {}

    def operations_per_client_s(self, settings: SettingsT) -> float | None:
        """Return the maximum operations/s of each client; None for as fast as the server answers."""
        del settings
        return None

    def load_file(self, settings: SettingsT) -> _native.LoadFile | None:
        """Return the load file to replay; None if there is none. Raises UserError."""
        del settings
        return None

    def packed_load_file(self, settings: SettingsT) -> str | None:
        """Return the load file as text for another process or machine (`load_file.packed`). Raises UserError."""
        del settings
        return None

    def workspace_bytes(self, settings: SettingsT) -> int:
        """Return the maximum number of bytes that a client keeps on the server."""
        del settings
        return 0

    def workspace_objects(self, settings: SettingsT) -> int:
        """Return the number of objects that a client puts before its first level; 0 if its workspace has none."""
        del settings
        return 0

    def preparation_requests(self, settings: SettingsT, threads: Sequence[int]) -> int:
        """Return the minimum number of requests to put the objects of all levels; 0 if workspaces have no objects.

        `threads`: the number of client threads of each level.
        """
        del settings, threads
        return 0

    def with_noted_inputs(self, settings: SettingsT) -> SettingsT:
        """Return the settings with a digest of every file from which the load is generated. Raises UserError."""
        return settings

    def facts(self, settings: SettingsT, client_cache: str | None) -> tuple[Fact, ...]:
        """Return the lines of the methodology about this kind of work.

        `client_cache` describes the client cache as the runs recorded it; None if they recorded none.
        """
        del settings, client_cache
        return ()

    def verification(self, checked: str) -> str:
        """Return the checks of an answer, as a sentence. `checked` is the share of contents checked, as text."""
        raise NotImplementedError
