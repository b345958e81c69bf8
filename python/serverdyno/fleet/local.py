"""Run levels on this machine: pass a document to the data plane, and return its counters and histograms."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence

from serverdyno import _native
from serverdyno.counted import Counted
from serverdyno.errors import UserError
from serverdyno.fleet.document import level_document
from serverdyno.fleet.fleet import FleetLoad, FleetRemoval
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.plan.model import Level
from serverdyno.servers import waiting

TICK_S = 0.25
STOP_WAIT_S = 10.0  # a stopped level ends sooner
OnTick = Callable[[float, "_native.Snapshot"], None]


def stream_seed(seed: int, repetition: int, level: int) -> int:
    """Return the seed of one level. It is the same for every configuration, so that all get the same requests.

    For file servers, all levels of a run have the seed of level 0: clients keep the order of their operations, so
    that the levels of a curve differ only in the number of clients.
    """
    digest = hashlib.sha256(f"{seed}/{repetition}/{level}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def run_level(level: Level, setup: LoadSetup, seed: int, on_tick: OnTick) -> Counted:
    """Run one level to its end and return its counts.

    `on_tick` is called at the start and the end of the level and of its window, and a few times per second in between.
    It gets the seconds since the start and the state of the level; for a fleet, the state that the nodes last reported.
    Raises UserError if the level can't be run on this machine, and ServerEndedError once the server has ended. If the
    call is interrupted, the load ends.
    """
    try:
        load = _started(level, setup, seed)
    except (ValueError, OSError) as error:
        raise _impossible(level, error) from error
    try:
        on_tick(_elapsed_s(load), load.snapshot())
        while not load.wait(_until_next_look(_elapsed_s(load), level)):
            on_tick(_elapsed_s(load), load.snapshot())
            waiting.look()
        on_tick(_elapsed_s(load), load.snapshot())
        waiting.look()
    except BaseException:
        load.stop()
        load.wait(STOP_WAIT_S)
        raise
    try:
        return Counted.of(load.result())
    except OSError as error:
        raise _impossible(level, error) from error


def remove_workspaces(
    setup: LoadSetup,
    level: Level,
    on_start: Callable[[], None],
    on_left: Callable[[Sequence[_native.LeftOver]], None],
) -> None:
    """Remove the files that the clients of all levels so far have created on the server, within `setup.removal_s`.

    If files remain, `on_left` is called with them, even after an interruption.
    """
    if not setup.workspaces_begun():
        return
    removal = _removal(level, setup)
    if removal is None:
        return
    try:
        on_start()
        while not removal.wait(TICK_S):
            waiting.look()
    except BaseException:
        removal.stop()
        removal.wait(STOP_WAIT_S)
        raise
    finally:
        if left := removal.left():
            on_left(left)


def _impossible(level: Level, error: Exception) -> UserError:
    """Return the error for a level that the data plane refuses: it is invalid, or this machine lacks room for it."""
    return UserError(f"load level {level.name} can't be run: {error}")


def need(setup: LoadSetup, levels: Sequence[Level]) -> tuple[list[int], int]:
    """Return the clients of the largest level on each share of a file server, and the bytes that each needs."""
    shares = _shares(setup)
    if setup.suite.ends_when_done:  # all clients of the suite use the first share
        work = setup.suite.work
        return [setup.suite.clients[0], *[0] * (shares - 1)], work.workspace_bytes(setup.suite.settings(work))
    most = max([clients_of_check(setup), *(level.clients for level in levels)])
    # Clients are distributed to the shares in turn.
    clients = [len(range(share, most, shares)) for share in range(shares)]
    return clients, _prepared(levels[0], setup, seed=0).workspace_bytes() or 0


def preparation_s(setup: LoadSetup, levels: Sequence[Level]) -> float:
    """Return the approximate time to prepare the largest level under a rate limit, in s; 0 without a limit."""
    if setup.bounds is None or setup.suite.ends_when_done or setup.suite.work.uses_documents:
        return 0.0
    largest = max(levels, key=lambda level: level.clients)
    return _prepared(largest, setup, seed=0).preparation_s()


def _shares(setup: LoadSetup) -> int:
    """Return the number of shares among which clients are distributed; 1 if the target has none."""
    return len(setup.target.facts.get("shares", [None]))


def clients_of_check(setup: LoadSetup) -> int:
    """Return the number of clients of the check before load: one, or one per share."""
    shares = _shares(setup)
    return min(shares, setup.bounds.max_clients if setup.bounds else shares)


def _elapsed_s(load: _native.Load | FleetLoad) -> float:
    """Return the time since the start of the level. A fleet computes it, because a node's last report may be old."""
    return load.elapsed_s if isinstance(load, FleetLoad) else load.snapshot()["elapsed_s"]


def _until_next_look(elapsed_s: float, level: Level) -> float:
    borders = (level.ramp_up_s, level.length_s - level.ramp_down_s)
    waits = [border - elapsed_s for border in borders if border > elapsed_s]
    return max(0.001, min([TICK_S, *waits]))


def _started(level: Level, setup: LoadSetup, seed: int) -> _native.Load | FleetLoad:
    if setup.fleet:
        return setup.fleet.start(level_document(level, setup, seed))
    return _prepared(level, setup, seed).start()


def _removal(level: Level, setup: LoadSetup) -> _native.Removal | FleetRemoval | None:
    if not setup.fleet or (lost := setup.fleet.lost_clients()):
        if setup.fleet:
            # The files that a lost process created are not known, so all files that may exist are removed by name.
            setup.workspaces.assume_standing(lost)
        return _prepared(level, setup, seed=0).remove_workspaces(setup.removal_s)
    return setup.fleet.remove_workspaces(level_document(level, setup, seed=0), setup.removal_s)


def _prepared(level: Level, setup: LoadSetup, seed: int) -> _native.PreparedLevel:
    document = json.dumps(level_document(level, setup, seed))
    return _native.prepare(document, setup.target, setup.workspaces, setup.load_file)
