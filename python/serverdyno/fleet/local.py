"""Runs mixes on this machine: a specification down to the data plane, counters and histograms up."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from serverdyno import _native
from serverdyno.errors import ServerError, UserError
from serverdyno.plan.model import Bounds, GeneratorPlan, Mix, Suite
from serverdyno.protocols.files import FILES
from serverdyno.protocols.http import HTTP

TICK_S = 0.25
STOP_WAIT_S = 10.0  # a stopped mix ends within a moment
REMOVAL_S = 60.0  # for what clients have left on a server, all together
PREFLIGHT_S = 0.3


@dataclass(frozen=True, slots=True)
class Task:
    """What a mix needs beyond itself: the same for all mixes of a run."""

    suite: Suite
    target: _native.Target | _native.SmbTarget
    generator: GeneratorPlan
    cpus: tuple[int, ...]
    bounds: Bounds | None
    workspaces: _native.Workspaces = field(default_factory=_native.Workspaces)
    load_file: _native.LoadFile | None = None


def stream_seed(seed: int, repetition: int, mix: int) -> int:
    """The seed of one mix: the same for every configuration, so that all are asked for the same.

    Of file servers it is that of mix 0 for all mixes of a run: clients keep the order of their applications, so that a
    curve's mixes differ in the number of clients alone.
    """
    digest = hashlib.sha256(f"{seed}/{repetition}/{mix}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def run_mix(
    mix: Mix, task: Task, seed: int, on_tick: Callable[[_native.Snapshot], None]
) -> _native.MixResult:
    """Runs one mix to its end and returns what was counted.

    `on_tick` is called at its start, as soon as the window opens and closes, at its end, and a few times a second
    in between. Raises UserError for a mix that can't be run here. Whatever interrupts it, the load ends.
    """
    try:
        load = _native.start(_specification(mix, task, seed))
    except (ValueError, OSError) as error:
        raise _impossible(mix, error) from error
    try:
        on_tick(load.snapshot())
        while not load.wait(_until_next_look(load.snapshot()["elapsed_s"], mix)):
            on_tick(load.snapshot())
        on_tick(load.snapshot())
    except BaseException:
        load.stop()
        load.wait(STOP_WAIT_S)
        raise
    try:
        return load.result()
    except OSError as error:
        raise _impossible(mix, error) from error


def remove_workspaces(
    task: Task,
    mix: Mix,
    on_start: Callable[[], None],
    on_left: Callable[[Sequence[_native.LeftOver]], None],
) -> None:
    """Takes away what the clients of all mixes so far have made on the server, `REMOVAL_S` at most.

    `on_left` is told what stands in the end, also where something interrupts it; it is not called where nothing does.
    """
    if not task.workspaces.begun():
        return
    removal = _native.Removal.start(_specification(mix, task, seed=0), REMOVAL_S)
    try:
        on_start()
        while not removal.wait(TICK_S):
            pass
    except BaseException:
        removal.stop()
        removal.wait(STOP_WAIT_S)
        raise
    finally:
        if left := removal.left():
            on_left(left)


def _impossible(mix: Mix, error: Exception) -> UserError:
    """What the data plane refuses: a mix that makes no sense, or one for which this machine has no room."""
    return UserError(f"mix {mix.name} can't be run: {error}")


def preflight(task: Task, mix: Mix, length_s: float = PREFLIGHT_S) -> _native.MixResult:
    """A moment of one client, or one for each share, to see that the target serves what the workload asks for.

    Raises ServerError.
    """
    short = replace(
        mix,
        clients=_preflight_clients(task),
        threads=1,
        length_s=length_s,
        ramp_up_s=0.0,
        ramp_down_s=0.0,
        delay_s=0.0,
        think_time_s=0.0,
    )
    result = run_mix(short, task, seed=0, on_tick=lambda _: None)
    if result["errors"]:
        worst = max(result["errors"], key=lambda error: error["count"])
        if worst["advice"] is not None:
            raise ServerError(f"{task.target.url}: {worst['example']}", hint=worst["advice"])
        hint = task.suite.work.workloads[task.suite.workload]
        raise ServerError(
            f"{task.target.url} does not serve the workload: {worst['example']} "
            f"({worst['count']} of {result['operations_total'] + worst['count']} operations)",
            hint=hint,
        )
    return result


def need(task: Task, mixes: Sequence[Mix]) -> tuple[list[int], int]:
    """Clients of the largest mix on each share of a file server, and the bytes that each needs there at least."""
    assert isinstance(task.target, _native.SmbTarget)
    shares = len(task.target.shares)
    most = max([_preflight_clients(task), *(mix.clients for mix in mixes)])
    # Clients are dealt out to the shares in turn.
    clients = [len(range(share, most, shares)) for share in range(shares)]
    return clients, _native.files_footprint_bytes(_specification(mixes[0], task, seed=0))


def _preflight_clients(task: Task) -> int:
    if not isinstance(task.target, _native.SmbTarget):
        return 1
    most = task.bounds.max_clients if task.bounds else len(task.target.shares)
    return min(len(task.target.shares), most)


def _until_next_look(elapsed_s: float, mix: Mix) -> float:
    borders = (mix.ramp_up_s, mix.length_s - mix.ramp_down_s)
    waits = [border - elapsed_s for border in borders if border > elapsed_s]
    return max(0.001, min([TICK_S, *waits]))


def _specification(mix: Mix, task: Task, seed: int) -> _native.MixSpec:
    suite, generator = task.suite, task.generator
    shape = _native.Shape(
        clients=mix.clients,
        threads=mix.threads,
        length_s=mix.length_s,
        ramp_up_s=mix.ramp_up_s,
        ramp_down_s=mix.ramp_down_s,
        delay_s=mix.delay_s,
        think_time_s=mix.think_time_s,
        timeout_s=suite.timeout_s,
        seed=seed,
        leave_after_errors=suite.leave_after_errors,
        verify_share=generator.verify_share,
        max_rate_per_s=_max_rate_per_s(mix, task),
        engine_threads=generator.threads,
        cpus=list(task.cpus),
    )
    if isinstance(task.target, _native.SmbTarget):
        return _files(shape, mix, task)
    http = suite.settings(HTTP)
    return _native.web_mix(
        shape,
        target=task.target,
        workload=suite.workload,  # type: ignore[arg-type]  # checked there
        http_version=http.version,
        keep_alive=http.keep_alive,
        close=http.close,
        receive_buffer_bytes=http.receive_buffer_bytes,
    )


def _files(shape: _native.Shape, mix: Mix, task: Task) -> _native.MixSpec:
    assert isinstance(task.target, _native.SmbTarget)
    suite, files = task.suite, task.suite.settings(FILES)
    return _native.files_mix(
        shape,
        target=task.target,
        workload=suite.workload,  # type: ignore[arg-type]  # checked there
        workspaces=task.workspaces,
        cache=files.cache,
        redirector=files.redirector,
        dormant_files=files.dormant_files,
        dormant_s=files.dormant_s,
        workspace_bytes=files.workspace_bytes,
        legacy_seed_reads=files.legacy_seed_reads,
        true_offsets=files.true_offsets,
        load_file=task.load_file,
        keep_workspace=files.save_workspace and not mix.last,
    )


def _max_rate_per_s(mix: Mix, task: Task) -> float | None:
    """Operations a second of all clients: the bound of a target elsewhere, or the pace of a paced suite."""
    bounds = [task.bounds.max_rate_per_s] if task.bounds else []
    pace = task.suite.settings(FILES).operations_per_client_s
    if pace is not None:
        bounds.append(pace * mix.clients * mix.threads)
    return min(bounds, default=None)
