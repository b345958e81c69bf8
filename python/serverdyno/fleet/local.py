"""Runs mixes on this machine: a specification down to the data plane, counters and histograms up."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from serverdyno import _native
from serverdyno.errors import ServerError, UserError
from serverdyno.plan.model import Bounds, GeneratorPlan, Mix, Suite

TICK_S = 0.25
STOP_WAIT_S = 10.0  # a stopped mix ends within a moment
PREFLIGHT_S = 0.3


@dataclass(frozen=True, slots=True)
class Task:
    """What a mix needs beyond itself: the same for all mixes of a run."""

    suite: Suite
    target: _native.Target
    generator: GeneratorPlan
    cpus: tuple[int, ...]
    bounds: Bounds | None


def stream_seed(seed: int, repetition: int, mix: int) -> int:
    """The seed of one mix: the same for every configuration, so that all are asked for the same."""
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


def _impossible(mix: Mix, error: Exception) -> UserError:
    """What the data plane refuses: a mix that makes no sense, or one for which this machine has no room."""
    return UserError(f"mix {mix.name} can't be run: {error}")


def preflight(task: Task, mix: Mix, length_s: float = PREFLIGHT_S) -> _native.MixResult:
    """A moment of one client, to see that the target serves what the workload asks for. Raises ServerError."""
    short = replace(
        mix,
        clients=1,
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
        hint = (
            "The document root must hold the WebBench tree: `dyno tree DIRECTORY` writes it."
            if task.suite.workload == "webbench-static"
            else "Only complete answers with a status of 200 to 299 count."
        )
        raise ServerError(
            f"{task.target.url} does not serve the workload: {worst['example']} "
            f"({worst['count']} of {result['operations_total'] + worst['count']} requests)",
            hint=hint,
        )
    return result


def _until_next_look(elapsed_s: float, mix: Mix) -> float:
    borders = (mix.ramp_up_s, mix.length_s - mix.ramp_down_s)
    waits = [border - elapsed_s for border in borders if border > elapsed_s]
    return max(0.001, min([TICK_S, *waits]))


def _specification(mix: Mix, task: Task, seed: int) -> _native.MixSpec:
    suite, http, generator = task.suite, task.suite.http, task.generator
    return _native.MixSpec(
        target=task.target,
        workload=suite.workload,
        clients=mix.clients,
        threads=mix.threads,
        length_s=mix.length_s,
        ramp_up_s=mix.ramp_up_s,
        ramp_down_s=mix.ramp_down_s,
        delay_s=mix.delay_s,
        think_time_s=mix.think_time_s,
        seed=seed,
        http_version=http.version,
        keep_alive=http.keep_alive,
        close=http.close,
        receive_buffer_bytes=http.receive_buffer_bytes,
        timeout_s=suite.timeout_s,
        leave_after_errors=suite.leave_after_errors,
        verify_share=generator.verify_share,
        max_rate_per_s=task.bounds.max_rate_per_s if task.bounds else None,
        engine_threads=generator.threads,
        cpus=list(task.cpus),
    )
