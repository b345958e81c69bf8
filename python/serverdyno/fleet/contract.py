"""The contract of a fleet's nodes: what a node can be asked, whichever way the question travels.

A node is asked to `open` a target (deploy: it proves consent itself), to `start` a mix (prepare), to `go` at a moment
of its own clock (start at), to `look` (sample, and collect once the mix has ended), to `stop` (abort), and to take away
what its clients have left; `worker.py` has them. Backends: processes of this machine (`processes.py`) and Dask
distributed (`cluster.py`). Not for: what several nodes come to together (`fleet.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from serverdyno import _native
from serverdyno._native import SessionError
from serverdyno.errors import DynoError


class FleetError(DynoError):
    """Nodes that a fleet must have are not there: no run can go on."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """When a request was sent and its answer came, by this process's monotonic clock, and when it was heard and the
    answer said, by that of the node.
    """

    sent_ns: int
    heard_ns: int
    said_ns: int
    came_ns: int

    def bounds_ns(self) -> tuple[int, int]:
        """The least and the most that the node's clock is ahead of this one."""
        return self.said_ns - self.came_ns, self.heard_ns - self.sent_ns


Look = dict[str, Any] | tuple[dict[str, Any], bytes]
"""How a mix stands on a node: whether it has `ended`, its `snapshot`, the name of a `link_down`. Once it has ended,
what others used in the `window`, too, and the tally.
"""


class Node(Protocol):
    """One place where load is made. `lost`: it has ended or is silent, and is asked no more. `look_s`: the longest that
    it waits before it says how a mix stands.
    """

    name: str
    lost: bool
    look_s: float

    @property
    def on_this_clock(self) -> bool:
        """Whether its monotonic clock is that of this process."""

    @property
    def exchange(self) -> Exchange:
        """The last one that has ended; of a node that is on this clock at once."""

    @property
    def on_this_machine(self) -> bool:
        """Whether it uses the CPUs that this process sees."""

    def ask(self, do: str, **arguments: object) -> None:
        """Send a request; `answer` gives what it came to. An earlier answer that nobody has read is dropped.

        Raises DynoError where the node is gone.
        """

    def answered(self, timeout_s: float) -> bool:
        """Wait so long for the answer; true once there is one, or the node is gone."""

    def answer(self) -> Any:
        """Wait for the answer. Raises what the node refused with, or DynoError where it is gone."""

    def cpu_s(self) -> float:
        """CPU seconds so far that it has used of this machine's CPUs."""

    def end(self) -> None:
        """End what it has under way, and let go of it."""


def opening(
    target: _native.Target, secret: dict[str, str | None], workspaces: int, load_file: str | None
) -> dict[str, Any]:
    """Return what `open` is asked with. `workspaces`: a number of this fleet's alone; `load_file`: packed."""
    return {
        "protocol": target.protocol,
        "section": target.section,
        "secrets": secret,
        "workspaces": workspaces,
        "load_file": load_file,
    }


def ask_each(
    nodes: Sequence[Node], do: str, arguments: Sequence[dict[str, Any]] | None = None
) -> tuple[list[Any], list[tuple[Node, Exception]]]:
    """Ask all at the same time; the answers in order, and the nodes that gave none with what they were refused with."""
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
    """The same, where every answer is needed. Raises an error once every answer is read."""
    answers, errors = ask_each(nodes, do, arguments)
    if errors:
        # That a node is gone explains more than what the others say of it.
        raise next((error for _, error in errors if isinstance(error, DynoError)), errors[0][1])
    return answers
