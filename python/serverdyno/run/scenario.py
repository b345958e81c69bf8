"""Carries a scenario out: each step in a session of its own, in a directory of its own, which is removed at the end.

Not for: what a step asks of files (the data plane).
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serverdyno.errors import ServerEndedError, ServerError, UserError
from serverdyno.plan.protocols import scenario as model
from serverdyno.plan.protocols.scenario import Scenario, Step
from serverdyno.probes.abandoned import private_directory

if TYPE_CHECKING:
    from serverdyno.counted import Counted
    from serverdyno.store.head import ExperimentHead

DIRECTORY = "serverdyno-scenario-"
"""How the directory on the server begins; letters that nobody else has follow."""
FILES, STREAM = "files", "stream"
"""What directories of a step of several clients, and files of one, begin with; a point and a number follow."""
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")
_POOL_BYTES = 1_048_573  # a prime, so that no two blocks of a file are alike

Task = Callable[[dict[str, Any]], "list[Counted]"]
"""Carries a task of the data plane out, and returns what was counted of its levels. Raises ServerError."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a scenario is carried out.

    `block_bytes`: what programs write at once (st_blksize). `drop_caches`: before each step what this machine's page
    cache holds is written and dropped.
    """

    block_bytes: int
    drop_caches: bool = False
    seed: int = 0


@dataclass(slots=True)
class _State:
    """What stands on the server, and what it should contain."""

    scenario: Scenario
    task: Task
    options: Options
    base: str
    local: Path
    trees: set[str] = field(default_factory=set)
    built: set[str] = field(default_factory=set)
    files: dict[str, str | None] = field(default_factory=dict)
    """By name the SHA-256 of what was copied there; None: it was not copied."""
    of_clients: list[dict[str, Any]] = field(default_factory=list)
    """Trees that a step of several clients leaves where it fails."""

    def carried_out(self, action: dict[str, Any], passes: int = 1) -> list[Counted]:
        """Raises ServerError."""
        spec = {
            "action": action,
            "base": self.base,
            "passes": passes,
            "block_bytes": self.options.block_bytes,
            "seed": self.options.seed,
        }
        return self.task({"step": spec})

    def tree(self, name: str) -> dict[str, Any]:
        tree = self.scenario.trees[name]
        return {"name": name, **tree.model_dump(), "built": name in self.built}


def carry_out(
    scenario: Scenario, task: Task, options: Options, done: Callable[[list[Counted]], None]
) -> None:
    """Carries each step out, and tells what was counted of its passes or phases to `done`. What was made is removed,
    also where a step fails.

    Raises UserError, and ServerError that names the step.
    """
    with _local_files(scenario, options) as local:
        base = DIRECTORY + secrets.token_hex(6)
        state = _State(scenario, task, options, base, local)
        _do(state, "making the directory", {"do": "make_base"})
        try:
            for step in scenario.steps:
                if options.drop_caches:
                    _drop_caches()
                done(_one_step(state, step))
        except ServerEndedError:
            raise  # what was made went with the server
        except ServerError as error:
            try:
                _remove(state)
            except ServerError as left:
                raise ServerError(f"{error}\n{left}", hint=error.hint) from error
            raise
        except BaseException:
            _remove(state)
            raise
        _remove(state)


def _one_step(state: _State, step: Step) -> list[Counted]:
    name = model.label(step)
    _note_begun(state, step)
    # Phases are of one pass.
    passes = 1 if isinstance(step, model.OfClients) else len(model.states(step))
    counted = _do(state, name, _action(state, step), passes)
    if isinstance(step, model.CopyFrom):
        _compare(state, name, step.file)
    _note_done(state, step)
    return counted


def _note_begun(state: _State, step: Step) -> None:
    """What a step that fails has made in part is removed, too."""
    match step:
        case model.MakeTree():
            state.trees.add(step.tree)
        case model.MakeFile():
            state.files[step.file] = None
        case model.CopyTo():
            state.files[step.file] = _sha256(state.local / step.local)
        case model.Metadata():
            state.of_clients = _trees_of_clients(step)
        case model.Streams():
            state.files |= dict.fromkeys(_streams(step))
        case model.Build():
            state.built.add(step.tree)
        case _:
            pass


def _note_done(state: _State, step: Step) -> None:
    match step:
        case model.RemoveTree():
            state.trees.discard(step.tree)
            state.built.discard(step.tree)
        case model.RemoveFile():
            del state.files[step.file]
        case model.Metadata():
            state.of_clients = []
        case model.Streams():
            for file in _streams(step):
                del state.files[file]
        case _:
            pass


def _action(state: _State, step: Step) -> dict[str, Any]:
    """A step as the data plane knows it."""
    action: dict[str, Any] = step.model_dump(exclude={"name", "warm", "figure"})
    action["do"] = step.do.replace("-", "_")
    if isinstance(step, model.OnTree):
        action["tree"] = state.tree(step.tree)
    match step:
        case model.RemoveTree() | model.RemoveFile():
            action["lenient"] = False
        case model.CopyTo():
            action["local"] = str(state.local / step.local)
        case model.CopyFrom():
            action["local"] = str(_copy_of(state, step.file))
        case model.Metadata():
            action["name"] = FILES
        case model.Streams():
            action |= {"name": STREAM, "bytes": step.bytes // step.block_bytes * step.block_bytes}
        case _:
            pass
    return action


def _trees_of_clients(step: model.Metadata) -> list[dict[str, Any]]:
    """What the clients make, by the data plane's names for it."""
    files = [{"name": f"{client}.", "count": step.files, "bytes": 0} for client in range(step.clients)]
    names = [(FILES, files)] if step.shared else [(f"{FILES}.{n}", [each]) for n, each in enumerate(files)]
    return [{"name": name, "directories": 0, "levels": 0, "files": each} for name, each in names]


def _streams(step: model.Streams) -> list[str]:
    return [f"{STREAM}.{number}" for number in range(step.writers + step.readers)]


def _do(state: _State, name: str, action: dict[str, Any], passes: int = 1) -> list[Counted]:
    try:
        return state.carried_out(action, passes)
    except ServerEndedError:
        raise
    except ServerError as error:
        raise ServerError(f"{name}: {error}", hint=error.hint) from error


def _remove(state: _State) -> None:
    """Removes what stands; a directory that stays is named. Raises ServerError."""
    actions: list[dict[str, Any]] = [
        {"do": "remove_file", "file": name, "lenient": True} for name in state.files
    ]
    trees = [*map(state.tree, state.trees), *state.of_clients]
    actions += [{"do": "remove_tree", "tree": tree, "lenient": True} for tree in trees]
    for action in [*actions, {"do": "remove_base"}]:
        _do(state, f"removing {state.base}, which may be there yet", action)


def _copy_of(state: _State, file: str) -> Path:
    return state.local / f"{file}.copy"


def _compare(state: _State, name: str, file: str) -> None:
    """Raises ServerError where a copy is not what was copied there."""
    copy = _copy_of(state, file)
    expected = state.files[file]
    if expected is not None and _sha256(copy) != expected:
        raise ServerError(f"{name}: another content came back than was copied there")
    copy.unlink()


@contextmanager
def _local_files(scenario: Scenario, options: Options) -> Iterator[Path]:
    """A directory with the scenario's local files, which goes with them. Raises UserError."""
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(private_directory("scenario"))
        except OSError as error:
            raise UserError(
                f"no temporary directory: {error.strerror}", hint="Name another directory in TMPDIR."
            ) from error
        needed = 2 * sum(file.bytes for file in scenario.local.values())
        if needed > shutil.disk_usage(directory).free:
            raise UserError(
                f"{directory.parent} has no room for {needed:,} bytes of files to copy",
                hint="Name another directory in TMPDIR, or give a smaller --scale.",
            )
        for number, (name, file) in enumerate(scenario.local.items()):
            _make(directory / name, file.bytes, options.seed + number)
        yield directory


def _make(path: Path, size_bytes: int, seed: int) -> None:
    """Writes what can't be compressed."""
    pool = random.Random(seed).randbytes(_POOL_BYTES)
    with path.open("wb") as file:
        for begin in range(0, size_bytes, _POOL_BYTES):
            file.write(pool[: size_bytes - begin])


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_may_drop_caches(head: ExperimentHead) -> None:
    """Raise UserError where a plan drops the page cache and this user may not."""
    if head.plan.drop_caches and os.geteuid() != 0:
        raise UserError("drop_caches: only root may drop the page cache", hint="Be root, or leave it out.")


def _drop_caches() -> None:
    """Raises UserError where this user may not."""
    os.sync()
    try:
        _DROP_CACHES.write_text("3")
    except OSError as error:
        raise UserError(
            f"the page cache can't be dropped: {error.strerror}", hint="Be root, or leave --drop-caches out."
        ) from error
