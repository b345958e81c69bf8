"""The contract of a fleet's nodes: the requests that a node answers, independent of the transport.

The requests are `open` (open a target; the node checks consent itself), `start` (prepare a level), `go` (start the
level at a time of the node's clock), `look` (return the state, and the counts once the level has ended), `stop`, and
the removal of the clients' files. `worker.py` implements them. The transports are pipes to processes of this machine
(`processes.py`) and Dask distributed (`cluster.py`). `fleet.py` combines several nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from serverdyno import _native
from serverdyno._native import SessionError
from serverdyno.errors import DynoError


class FleetError(DynoError):
    """An error that ends a run: required nodes of a fleet are missing."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """The times of one exchange with a node.

    `sent_ns` and `came_ns` are the times of the request and the answer by this process's monotonic clock. `heard_ns`
    and `said_ns` are the times of the same two messages by the node's clock.
    """

    sent_ns: int
    heard_ns: int
    said_ns: int
    came_ns: int

    def bounds_ns(self) -> tuple[int, int]:
        """Return the smallest and the largest possible offset of the node's clock."""
        return self.said_ns - self.came_ns, self.heard_ns - self.sent_ns


Look = dict[str, Any] | tuple[dict[str, Any], bytes]
"""The state of a level on a node: whether it has `ended`, its `snapshot`, and the name of a link that is down.

Once the level has ended, the state includes the tally, and other programs' use of the CPUs in the `window`.
"""


class Node(Protocol):
    """A process that generates load.

    A `lost` node has ended or does not answer, and gets no more requests. `look_s` is the longest time before the node
    reports the state of a level.
    """

    name: str
    lost: bool
    look_s: float

    @property
    def on_this_clock(self) -> bool:
        """Whether the node has the same monotonic clock as this process."""

    @property
    def exchange(self) -> Exchange:
        """The last completed exchange; for a node on this clock, an instantaneous one."""

    @property
    def on_this_machine(self) -> bool:
        """Whether the node uses the CPUs that this process sees."""

    def ask(self, do: str, **arguments: object) -> None:
        """Send a request. `answer` returns its result. An earlier answer that was not read is discarded.

        Raises DynoError if the node is lost.
        """

    def answered(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for the answer. Return true if it has arrived or the node is lost."""

    def answer(self) -> Any:
        """Wait for the answer. Raises the error that the node reports, or DynoError if the node is lost."""

    def cpu_s(self) -> float:
        """Return the CPU seconds that the node has used on this machine so far."""

    def end(self) -> None:
        """End the node's work and release the node."""


def openings(
    count: int, target: _native.Target, secret: dict[str, str | None], workspaces: int, load_file: str | None
) -> list[dict[str, Any]]:
    """Return the arguments of `open` for each of `count` nodes, which send their requests in turn.

    `workspaces` is a number unique to this fleet; `load_file` is packed.
    """
    wanted = {
        "protocol": target.protocol,
        "section": target.section,
        "workspaces": workspaces,
        "load_file": load_file,
    }
    # This process has sent its requests already, so its turn comes before theirs.
    bound = {"max_rate_per_s": target.max_rate_per_s, "processes": count}
    paces = (bound | {"turn": number + 1} for number in range(count))
    return [wanted | {"secrets": {**secret, **pace}} for pace in paces]


def ask_each(
    nodes: Sequence[Node], do: str, arguments: Sequence[dict[str, Any]] | None = None
) -> tuple[list[Any], list[tuple[Node, Exception]]]:
    """Send a request to all nodes at once. Return the answers in order, and the failed nodes with their errors."""
    errors: list[tuple[Node, Exception]] = []
    asked: list[Node] = []
    for node, given in zip(nodes, arguments or [{}] * len(nodes), strict=True):
        try:
            node.ask(do, **given)
            asked.append(node)
        except DynoError as error:
            errors.append((node, error))
    answers: list[Any] = []
    for node in asked:
        try:
            answers.append(node.answer())
        except (DynoError, SessionError, OSError, ValueError, RuntimeError) as error:
            errors.append((node, error))
    return answers, errors


def ask_all(nodes: Sequence[Node], do: str, arguments: Sequence[dict[str, Any]] | None = None) -> list[Any]:
    """Send a request to all nodes at once and return the answers. Raises an error after every answer is read."""
    answers, errors = ask_each(nodes, do, arguments)
    if errors:
        # The loss of a node explains more than the errors of the other nodes.
        raise next((error for _, error in errors if isinstance(error, DynoError)), errors[0][1])
    return answers
