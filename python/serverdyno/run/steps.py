"""Runs levels that end when their work is done, as one group: the phases of Bonnie or the steps of a scenario.

The data plane defines the phases and steps; `fleet/group.py` synchronises the nodes.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from serverdyno.counted import Counted
from serverdyno.errors import DynoError, ServerEndedError, ServerError
from serverdyno.fleet import group
from serverdyno.fleet.document import NONCE_BITS
from serverdyno.fleet.fleet import NodeFigures
from serverdyno.fleet.group import Group, GroupLoad
from serverdyno.plan.model import Level
from serverdyno.plan.protocols.files import FILES, block_bytes
from serverdyno.run import scenario
from serverdyno.units import NS_PER_S

if TYPE_CHECKING:
    from serverdyno.fleet.load_setup import LoadSetup
    from serverdyno.plan.protocols.bonnie import BonnieSettings
    from serverdyno.plan.protocols.scenario import Scenario

SEEDS = 1 << 32
REMOVAL_S, REMOVAL_PAUSE_S = 3.0, 0.1
"""Longest time to retry the removal while a server restarts, and the pause between two attempts."""
HURRY_S = 2.0
"""Longest time that the removal waits for an answer after an interrupt, because the server may not respond."""
Found = tuple[list[float], "list[group.GroupLevel | None]"]
"""The start of each phase by this machine's clock, and the counts of each level."""


@dataclass(frozen=True, slots=True)
class ServerUse:
    """The server's CPU seconds and sync calls by name so far, and its current memory; None if unknown."""

    cpu_s: float | None
    syncs: Mapping[str, int] | None
    rss_bytes: int | None

    def since(self, before: ServerUse) -> ServerUse:
        known = self.cpu_s is not None and before.cpu_s is not None
        counted = self.syncs is not None and before.syncs is not None
        return ServerUse(
            (self.cpu_s or 0.0) - (before.cpu_s or 0.0) if known else None,
            {name: count - (before.syncs or {}).get(name, 0) for name, count in (self.syncs or {}).items()}
            if counted
            else None,
            self.rss_bytes,
        )


NOT_KNOWN = ServerUse(None, None, None)


@dataclass(frozen=True, slots=True)
class LevelDone:
    """The counts of a level, in total and by node, and the server's use.

    If levels end together, the last one contains the server's use during all of them.
    """

    result: Counted
    nodes: Sequence[NodeFigures]
    use: ServerUse


@dataclass(frozen=True, slots=True)
class Listener:
    """Callbacks of a run.

    `at_gate`: called at each gate with its kind (such as `group.BEGIN`) and the current or next level (the first of
    several that begin together); returns the server's use so far. `on_left`: called with the paths that may remain,
    relative to the server's URL.
    """

    at_gate: Callable[[str, Level], ServerUse]
    on_left: Callable[[Sequence[str]], None]


@dataclass(slots=True)
class _GroupRun:
    """A running group.

    `gates`: number of passed gates. `firsts`: the first level of each phase. `uses`: the server's use in each finished
    phase.
    """

    setup: LoadSetup
    seed: int
    listener: Listener
    firsts: Sequence[Level]
    gates: int = 0
    before: ServerUse = NOT_KNOWN
    uses: list[ServerUse] = field(default_factory=list)

    def watch(self, kind: str) -> None:
        """Sample the server's use at the gate where a phase begins or ends."""
        self.gates += 1
        now = self.listener.at_gate(kind, self.firsts[min(len(self.uses), len(self.firsts) - 1)])
        if kind == group.BEGIN:
            self.before = now
        elif kind == group.END:
            self.uses.append(now.since(self.before))

    def carry_out_steps(self, asked: Scenario, *, drop_caches: bool) -> Found:
        """Run all steps in a new directory, which is removed at the end."""
        base = scenario.DIRECTORY + secrets.token_hex(6)
        local = {name: file.bytes for name, file in asked.local.items()}
        steps = steps_of(self.setup, scenario.actions(asked), base, seed=self.seed, drop_caches=drop_caches)
        load = self._load(replace(steps, clients=scenario.clients(asked), local=local))
        # The first gate comes before the directory is created.
        found = self._carried_out(load, 1, scenario.removal(asked, base), base, [base])
        self._remove(scenario.removal(asked, base), base, [base])
        return found

    def carry_out_bonnie(self, asked: BonnieSettings) -> Found:
        """Run all phases. Each node removes its clients' files."""
        clients, url = self.setup.suite.clients[0], self.setup.target.url
        file = f"Bonnie.{os.getpid()}"  # the name that the original uses
        spec = {
            **asked.model_dump(include={"chunk_bytes", "seeks", "seekers", "check"}),
            "clients": clients,
            "file": file,
            "bytes": asked.size_bytes,
            "stdio_bytes": block_bytes(url),
            "seed": self.seed,
        }
        name = f"Bonnie could not run on {url}"
        load = self._load(Group(_job(self.setup, {"bonnie": spec}), clients, [name], {}))
        files = [file, *(f"{file}.{number}" for number in range(2, clients + 1))]
        # Files are created before the first gate. A client whose session or node is lost does not remove its file.
        return self._carried_out(load, 0, scenario.removal_of_files(files, file), "", files)

    def _carried_out(
        self, load: GroupLoad, gates_without: int, removal: scenario.Actions, base: str, left: Sequence[str]
    ) -> Found:
        """Run a group. If it fails after the first gates, remove the files that it created on the server."""
        try:
            return load.begun_unix_s, load.carry_out(self.watch)
        except ServerEndedError:
            raise  # the files are gone with the server
        except BaseException as error:
            if self.gates > gates_without:
                try:
                    self._remove(removal, base, left, hurry=not isinstance(error, DynoError))
                except ServerError as why:
                    if isinstance(error, DynoError):
                        raise type(error)(f"{self._placed(error)}\n{why}", hint=error.hint) from error
            if isinstance(error, DynoError) and self.uses:
                raise type(error)(self._placed(error), hint=error.hint) from error
            raise

    def _placed(self, error: DynoError) -> str:
        """Return the message of an error with the phase in which it occurred, if the server answered before."""
        if not 0 < len(self.uses) < len(self.firsts):
            return str(error)
        phase = self.firsts[len(self.uses)].name
        if self.setup.target.url.startswith("file:"):
            return f"{error} (at {phase})"
        return f"{error} (at {phase}; until then, the server answered, so it may have ended: look at its log)"

    def _remove(
        self, actions: scenario.Actions, base: str, left: Sequence[str], *, hurry: bool = False
    ) -> None:
        """Remove the remaining files of a group, from this process with new sessions. Raises ServerError.

        `hurry`: the user is waiting, so give up soon on a server that does not respond.
        """
        here, steps = (
            group.in_this_process(self.setup.target, ()),
            steps_of(self.setup, actions, base, seed=self.seed),
        )
        if hurry:
            bound = min(HURRY_S, self.setup.suite.timeout_s)
            steps = replace(steps, job={**steps.job, "timeout_ns": int(bound * NS_PER_S)})
        until_s = time.monotonic() + REMOVAL_S
        while True:
            try:
                GroupLoad(here, steps).carry_out(lambda _: None)
                return
            except ServerEndedError:
                raise
            except BaseException as error:
                if not isinstance(error, DynoError) or time.monotonic() > until_s:
                    self.listener.on_left(left)
                    raise
            time.sleep(REMOVAL_PAUSE_S)

    def _load(self, asked: Group) -> GroupLoad:
        fleet = self.setup.fleet or group.in_this_process(self.setup.target, self.setup.cpus)
        return GroupLoad(fleet, asked)


def steps_of(
    setup: LoadSetup, actions: scenario.Actions, base: str, *, seed: int = 0, drop_caches: bool = False
) -> Group:
    """Return a group of steps for one client. `base`: their directory."""
    planned = list(actions)
    common = {"base": base, "block_bytes": block_bytes(setup.target.url), "seed": seed}
    steps = [{"action": action, "passes": passes, **common} for _, action, passes in planned]
    task = {"steps": {"steps": steps, "local": "", "drop_caches": drop_caches}}
    return Group(_job(setup, task), 1, [name for name, _, _ in planned], {})


def _job(setup: LoadSetup, task: dict[str, Any]) -> dict[str, Any]:
    bounds, most_s = setup.bounds, setup.suite.length_s
    return {
        "task": task,
        "most_ns": int(min(most_s, bounds.max_length_s if bounds else most_s) * NS_PER_S),
        "timeout_ns": int(setup.suite.timeout_s * NS_PER_S),
        "max_rate_per_s": bounds.max_rate_per_s if bounds else None,
        "nonce": secrets.randbits(NONCE_BITS),
        "is_led": True,
    }


def carry_out(
    levels: Sequence[Level], setup: LoadSetup, seed: int, listener: Listener, *, drop_caches: bool = False
) -> list[LevelDone]:
    """Run all levels of a suite and return the counts of each. Created files are removed, or reported if they remain.

    `drop_caches`: nodes write back and drop their page caches before each step. Raises UserError, ServerError.
    """
    settings = setup.suite.settings(FILES)
    asked = settings.scenario
    at_once = [1] * len(levels) if asked is None else scenario.levels_at_once(asked)
    firsts = [levels[sum(at_once[:phase])] for phase in range(len(at_once))]
    run = _GroupRun(setup, seed % SEEDS, listener, firsts)
    if asked is None:
        assert settings.bonnie is not None, "the suite's check ensures this"
        begun_unix_s, found = run.carry_out_bonnie(settings.bonnie)
    else:
        begun_unix_s, found = run.carry_out_steps(asked, drop_caches=drop_caches)
    done: list[LevelDone] = []
    rest = iter(found)
    for count, use, begun_s in zip(at_once, run.uses, begun_unix_s, strict=True):
        for place in range(1, count + 1):
            level = next(rest)
            assert level is not None, "a level has no client"
            result = replace(level.result, started_unix_s=begun_s)
            done.append(LevelDone(result, level.nodes, use if place == count else NOT_KNOWN))
    return done
