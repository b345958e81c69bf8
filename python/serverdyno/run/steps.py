"""Levels that end when their work is done: Bonnie's phases and a scenario's steps, a suite of them as one group.

Not for: what the data plane does in a phase or step, nor how a scenario's steps follow one another (`scenario.py`).
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from serverdyno import _native
from serverdyno.counted import Counted
from serverdyno.errors import ServerEndedError, ServerError
from serverdyno.fleet.document import NONCE_BITS
from serverdyno.plan.model import Bounds, Mix
from serverdyno.plan.protocols.files import FILES, block_bytes
from serverdyno.run import scenario

if TYPE_CHECKING:
    from serverdyno.fleet.load_setup import LoadSetup

SEEDS = 1 << 32


def file_name() -> str:
    """Return the name that the file of this process has, as the original's."""
    return f"Bonnie.{os.getpid()}"


def carry_out(
    levels: Sequence[Mix],
    setup: LoadSetup,
    seed: int,
    done: Callable[[Mix, Counted], None],
    *,
    drop_caches: bool = False,
) -> None:
    """Carry all levels of a suite out, and tell what was counted of each to `done`, in order. What was made is removed.

    `drop_caches`: as of `scenario.Options`. Raises UserError, ServerError.
    """
    places = iter(levels)

    def tell(found: Sequence[Counted]) -> None:
        for each in found:
            done(next(places), each)

    def task(wanted: dict[str, Any]) -> list[Counted]:
        return counted(setup.target, wanted, levels[0].length_s, setup.bounds)

    settings = setup.suite.settings(FILES)
    block = block_bytes(setup.target.url)
    with _on(setup.cpus):
        if settings.scenario is not None:
            options = scenario.Options(block, drop_caches, seed % SEEDS)
            scenario.carry_out(settings.scenario, task, options, tell)
        elif (bonnie := settings.bonnie) is not None:
            spec = {
                **bonnie.model_dump(include={"chunk_bytes", "seeks", "seekers", "check"}),
                "clients": setup.suite.clients[0],
                "file": file_name(),
                "bytes": bonnie.size_bytes,
                "stdio_bytes": block,
                "seed": seed % SEEDS,
            }
            try:
                tell(task({"bonnie": spec}))
            except ServerEndedError:
                raise
            except ServerError as error:
                why = f"Bonnie could not be carried out at {setup.target.url}: {error}"
                raise ServerError(why, hint=error.hint) from error


def counted(
    target: _native.Target, task: dict[str, Any], most_s: float, bounds: Bounds | None = None
) -> list[Counted]:
    """Return what was counted of the levels of one task of the data plane. Raises ServerError."""
    job = {
        "task": task,
        "most_ns": int(min(most_s, bounds.max_length_s if bounds else most_s) * 1e9),
        "max_rate_per_s": bounds.max_rate_per_s if bounds else None,
    }
    try:
        told = _native.carry_out(target, json.dumps(job), secrets.randbits(NONCE_BITS))
    except _native.AnswerError as error:
        raise ServerError(
            error.args[2],
            hint=error.args[3] or "Check that the directory can be written, and has room for the files.",
        ) from error
    return [Counted.of(each) for each in told]


@contextmanager
def _on(cpus: Collection[int]) -> Iterator[None]:
    """The client's threads on these CPUs: a thread inherits those of the one that starts it."""
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
