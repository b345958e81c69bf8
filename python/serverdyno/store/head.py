"""The head of an experiment, `experiment.json`: plan, suites, levels, order of the runs, and version.

It is written before the first run, and is the only input of `resume`; `plan.toml` is the user's text.
"""

from __future__ import annotations

import re
from typing import Self
from urllib.parse import urlsplit

from pydantic import AwareDatetime, Field, model_validator

from serverdyno.plan import protocols
from serverdyno.plan.model import (
    MAX_CLIENTS,
    MAX_LENGTH_S,
    MAX_LEVELS,
    MAX_RUNS,
    MAX_URL,
    MOST_SUITES,
    Configuration,
    Level,
    Plan,
    RunKey,
    Suite,
)
from serverdyno.plan.open_load import MAX_RATE_PER_S
from serverdyno.plan.protocols.model import Model

FORMAT_VERSION = 10

_FOLDER_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")


MOST_NAME = 100
MAX_THREADS = 1000
MOST_CPUS = 1 << 14


class PeakNote(Model):
    """The throughput of one configuration in a closed load, in requests/s of its window.

    `ready_work_s`, `run_delay_share`: as in a record, the time that clients waited for the generator; None if unknown.
    """

    configuration: str
    requests_s: float = Field(gt=0)
    connections: int = Field(ge=1)
    window_s: float = Field(gt=0)
    ready_work_s: float | None = Field(default=None, ge=0)
    run_delay_share: float | None = Field(default=None, ge=0)


class PeakRates(Model):
    """The source of open rates: percentages of the lowest of these peaks."""

    percents: list[int] = Field(min_length=1)
    peaks: list[PeakNote] = Field(min_length=1)


class ExperimentHead(Model):
    """Everything that was decided about an experiment.

    `scale`, `seed` and `suites` are the values in use, even if the plan has others. The work of a suite with steps is
    already scaled. `peaks`: measured before the first run to derive open rates; None if the suite gives its rates.
    Every field is untrusted input.
    """

    format_version: int = FORMAT_VERSION
    tool_version: str
    created: AwareDatetime
    seed: int = Field(ge=0, lt=2**63)
    scale: float = Field(gt=0, le=1)
    plan: Plan
    suites: list[Suite] = Field(min_length=1, max_length=MOST_SUITES)
    configurations: list[Configuration] = Field(min_length=1, max_length=MAX_RUNS)
    levels: list[Level] = Field(min_length=1, max_length=MAX_LEVELS)
    order: list[RunKey] = Field(min_length=1, max_length=MAX_RUNS)
    peaks: PeakRates | None = None

    @property
    def suite(self) -> Suite:
        """Return the first suite; most experiments have only one."""
        return self.suites[0]

    def suite_of(self, level: Level) -> Suite:
        return next((suite for suite in self.suites if suite.name == level.suite), self.suite)

    def of_suite(self, suite: Suite) -> Self:
        """Return the head with only one of its suites."""
        own = [level for level in self.levels if self.suite_of(level) is suite]
        return self.model_copy(update={"suites": [suite], "levels": own})

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Check that names are unique, refer to each other, and are safe as folder names."""
        names = [configuration.name for configuration in self.configurations]
        if bad := [name for name in names if not _FOLDER_NAME.fullmatch(name) or len(name) > MOST_NAME]:
            raise ValueError(f"{bad[0][:MOST_NAME]!r} is not a valid name of a configuration")
        if strange := {key.configuration for key in self.order} - set(names):
            unknown = ", ".join(sorted(strange))[:MOST_NAME]
            raise ValueError(f"the order has runs of an unknown configuration: {unknown}")
        if len(set(names)) < len(names):
            raise ValueError("two configurations have the same name")
        if len({key.number for key in self.order}) < len(self.order):
            raise ValueError("two runs have the same number")
        if len({(key.configuration, key.repetition) for key in self.order}) < len(self.order):
            raise ValueError("two runs are the same repetition of one configuration")
        if len({level.index for level in self.levels}) < len(self.levels):
            raise ValueError("two load levels have the same number")
        if len({suite.name for suite in self.suites}) < len(self.suites):
            raise ValueError("two suites have the same name")
        known = [suite.name for suite in self.suites]
        for level in self.levels:
            if (
                level.suite not in (None, *known)
                or (level.step is not None) != self.suite_of(level).ends_when_done
            ):
                raise ValueError(
                    f"level {level.index} belongs to no suite, or does not end as the levels of its suite do"
                )
        if len(self.order) * len(self.levels) > MAX_LEVELS:
            raise ValueError(f"all runs together have more than {MAX_LEVELS:,} load levels")
        return self

    @model_validator(mode="after")
    def _can_be_run(self) -> Self:
        """Refuse numbers that no plan can have."""
        for key in self.order:
            if not (1 <= key.number <= MAX_RUNS and 1 <= key.repetition <= MAX_RUNS):
                raise ValueError(
                    f"run {key.number}, repetition {key.repetition}: both numbers must be 1 to {MAX_RUNS:,}"
                )
        for level in self.levels:
            _check_level(level)
        for configuration in self.configurations:
            if any(not 0 <= cpu < MOST_CPUS for cpu in configuration.cpus):
                raise ValueError(f"{configuration.name}: each CPU number must be 0 to {MOST_CPUS - 1:,}")
            if configuration.url is not None:
                _check_url(configuration.url)
        return self


def _check_level(level: Level) -> None:
    """Raise ValueError for a load level that no suite can have."""
    times = (level.ramp_up_s, level.ramp_down_s, level.delay_s, level.think_time_s)
    if not 1 <= level.index <= MAX_LEVELS:
        raise ValueError(f"level {level.index}: its number must be 1 to {MAX_LEVELS:,}")
    if not (1 <= level.clients <= MAX_CLIENTS and 1 <= level.threads <= MAX_THREADS):
        raise ValueError(
            f"level {level.index}: {level.clients} clients x {level.threads} threads, but clients must be 1 to "
            f"{MAX_CLIENTS:,} and threads 1 to {MAX_THREADS:,}"
        )
    if not (0 < level.length_s <= MAX_LENGTH_S and all(0 <= time <= MAX_LENGTH_S for time in times)):
        raise ValueError(
            f"level {level.index}: its length is {level.length_s} s, its ramps, delay and think time are {times} s; "
            f"each must be 0 to {MAX_LENGTH_S} s, and the length above 0"
        )
    if level.rate_per_s is not None and not 1 <= level.rate_per_s <= MAX_RATE_PER_S:
        raise ValueError(
            f"level {level.index}: its rate is {level.rate_per_s} operations/s, but must be 1 to {MAX_RATE_PER_S:,}"
        )
    if not level.window_s > 0:
        raise ValueError(f"level {level.index}: the ramps take its whole length")


def _check_url(url: str) -> None:
    """Raise ValueError for an invalid URL."""
    parts = urlsplit(url)
    place = parts.hostname if protocols.has_host(parts.scheme) else parts.path
    if len(url) > MAX_URL or not place or parts.port == 0:
        raise ValueError(f"{url[:MOST_NAME]!r} is not the URL of a server")
