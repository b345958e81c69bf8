"""The noise floor of this machine: the results of `dyno selftest`, stored for later experiments.

One small file below the user's state directory has the latest self-tests of each machine that shares the directory. An
unreadable file counts as no self-test, because the results only refine conclusions and plans. A self-test that found
the machine unfit is not stored.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from serverdyno.errors import UserError
from serverdyno.probes.host import machine_facts

MOST_KEPT = 30
LATEST = 3
"""Number of latest self-tests of which the largest floor is used, because one self-test may run in a quiet minute.
"""
FEWEST_TIMES = 3
"""Minimum number of self-tests, at least an hour apart, from which the variation between times is computed."""
BETWEEN_TIMES = timedelta(hours=1)


class Selftest(BaseModel):
    """One self-test. `percent` is the upper bound on the measured difference of a server from itself.

    `scatter_percent` is the standard deviation of equal runs, and `operations_s` the mean of all runs. `load` describes
    the load; only self-tests with equal loads are compared.
    """

    model_config = ConfigDict(defer_build=True)

    made: AwareDatetime
    load: str
    percent: float = Field(ge=0, allow_inf_nan=False)
    scatter_percent: float = Field(ge=0, allow_inf_nan=False)
    operations_s: float = Field(gt=0, allow_inf_nan=False)


class _Kept(BaseModel):
    model_config = ConfigDict(defer_build=True)

    machines: dict[str, list[Selftest]] = {}


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The results of the latest self-tests.

    `between_times_percent` is the relative standard deviation of the means of `times` self-tests; None: too few.
    """

    percent: float
    scatter_percent: float
    between_times_percent: float | None
    times: int
    selftests: int
    made: datetime

    def disclosed(self) -> dict[str, object]:
        return {
            "percent": self.percent,
            "between_times_percent": self.between_times_percent,
            "times": self.times,
            "scatter_percent": self.scatter_percent,
            "selftests": self.selftests,
            "made": self.made.isoformat(),
        }


def load() -> NoiseFloor | None:
    """Return the noise floor of this machine; None if there was no self-test."""
    found = _read().machines.get(machine(), [])
    if not found:
        return None
    latest, times = found[-LATEST:], _times(found)
    return NoiseFloor(
        percent=max(each.percent for each in latest),
        scatter_percent=max(each.scatter_percent for each in latest),
        between_times_percent=_deviation_percent(times),
        times=len(times),
        selftests=len(found),
        made=found[-1].made,
    )


def prepare() -> Path:
    """Create the directory for self-tests, and return the file in it. Raises UserError if it can't be written."""
    try:
        path = _path()
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except (OSError, RuntimeError) as error:
        raise UserError(
            f"can't store the result of a self-test: {error}",
            hint="Set XDG_STATE_HOME to a writable directory.",
        ) from error
    return path


def keep(selftest: Selftest) -> Path:
    """Store a self-test that found this machine fit. Raises UserError or OSError if it can't be stored."""
    kept = _read()
    of_this = [*kept.machines.get(machine(), []), selftest][-MOST_KEPT:]
    path = prepare()
    new = path.with_suffix(f".{os.getpid()}")
    new.write_text(_Kept(machines={**kept.machines, machine(): of_this}).model_dump_json(indent=1) + "\n")
    new.replace(path)
    return path


def machine() -> str:
    """Return a short digest of the machine's processors, memory and kernel."""
    facts = machine_facts()
    cpu, memory, system = (_group(facts, name) for name in ("cpu", "memory", "system"))
    lasting = [cpu.get("model"), cpu.get("logical"), cpu.get("usable_by_us")]
    lasting += [memory.get("total_bytes"), system.get("kernel")]
    return hashlib.sha256(json.dumps(lasting).encode()).hexdigest()[:16]


def _group(facts: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = facts.get(name)
    return found if isinstance(found, Mapping) else {}


def _times(found: list[Selftest]) -> list[Selftest]:
    """Return the self-tests that have the load of the latest one and are at least an hour apart."""
    times: list[Selftest] = []
    for each in found:
        if each.load == found[-1].load and (not times or each.made - times[-1].made >= BETWEEN_TIMES):
            times.append(each)
    return times


def _deviation_percent(times: list[Selftest]) -> float | None:
    if len(times) < FEWEST_TIMES:
        return None
    return math.expm1(statistics.stdev(math.log(each.operations_s) for each in times)) * 100


def _path() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "serverdyno" / "selftests.json"


def _read() -> _Kept:
    try:
        return _Kept.model_validate_json(_path().read_bytes())
    except (OSError, RuntimeError, ValidationError):
        return _Kept()


def now() -> datetime:
    return datetime.now(UTC)
