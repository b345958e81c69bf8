"""The input of a report: one experiment as read from the store, and facts that follow from its head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from serverdyno.analysis.improvement import Margins
from serverdyno.plan.model import Configuration, Suite
from serverdyno.plan.protocols.work import Cut
from serverdyno.report.noise_floor import NoiseFloor
from serverdyno.store.head import ExperimentHead
from serverdyno.store.note import RunNote
from serverdyno.store.powercut import PowerCuts
from serverdyno.store.records import LevelRecord


@dataclass(frozen=True, slots=True)
class Source:
    """The data of one experiment, which may be unfinished.

    `damaged`: a sentence for each file that could not be read. `set_aside`: damaged files that have been renamed.
    `plan_text`: the plan as its user wrote it, if readable. `trials`: a search's records one by one; `records` are then
    grouped by rate.
    """

    head: ExperimentHead
    records: Sequence[LevelRecord]
    disclosure: Mapping[str, Any] = field(default_factory=dict)
    run_notes: Mapping[int, RunNote] = field(default_factory=dict)
    power_cuts: Sequence[PowerCuts] = ()
    damaged: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()
    plan_text: str = ""
    trials: Sequence[LevelRecord] = ()

    @property
    def configuration_names(self) -> list[str]:
        """Return the names in plan order; the first is the base of every comparison."""
        return [configuration.name for configuration in self.head.configurations]

    def records_of(self, configuration: str) -> list[LevelRecord]:
        """Return the records of one configuration, including records that the figures leave out."""
        return [record for record in self.records if record.configuration == configuration]

    def cpus_shared_with_generator(self, configuration: Configuration) -> tuple[int, ...]:
        """Return the CPUs that both the server and the generator are pinned to."""
        return tuple(sorted(set(configuration.cpus) & set(self.head.plan.generator.cpus)))

    def repetitions_of(self, configuration: str) -> list[int]:
        return sorted(key.repetition for key in self.head.order if key.configuration == configuration)

    @property
    def max_rate_per_s(self) -> dict[str, float]:
        """Return the highest rate that the plan allows for each configuration that has bounds."""
        return {
            configuration.name: configuration.bounds.max_rate_per_s
            for configuration in self.head.configurations
            if configuration.bounds is not None
        }

    @property
    def closed(self) -> bool:
        """Return whether clients send the next request as soon as they have an answer, without pacing or think time."""
        suite = self.head.suite
        pace = suite.work.operations_per_client_s(suite.settings(suite.work))
        return pace is None and suite.think_time_s == 0 and not self.open

    @property
    def open(self) -> bool:
        """Return whether operations are due at a given rate, regardless of earlier ones."""
        return self.head.suite.open is not None

    @property
    def closed_load(self) -> bool:
        """Return whether throughput is compared: clients wait for answers and there is no outage."""
        return bool(self.head.levels) and not self.open and self.cut is None

    def of_suite(self, suite: Suite) -> Source:
        """Return the part of the experiment that belongs to one timed suite."""
        head = self.head.of_suite(suite)
        own = {level.index for level in head.levels}
        return replace(self, head=head, records=[each for each in self.records if each.level in own])

    @property
    def in_time(self) -> list[Source]:
        """Return a part for each timed suite. If there is none, return one part without levels."""
        timed = [suite for suite in self.head.suites if not suite.ends_when_done]
        if timed:
            return [self.of_suite(suite) for suite in timed]
        return [replace(self, head=self.head.model_copy(update={"levels": []}), records=[])]

    @property
    def cut(self) -> Cut | None:
        """Return the kind of outage in the middle of each level; None if there is none."""
        suite = self.head.suite
        return suite.work.cut(suite.settings(suite.work))

    @property
    def planned_levels(self) -> int:
        """Return the number of levels of the whole experiment; for a search, the number that it took."""
        if self.head.suite.objective is not None:
            return len(self.records)
        return len(self.head.order) * len(self.head.levels)

    @property
    def shortened(self) -> bool:
        return self.head.scale < 1

    @property
    def noise_floor(self) -> NoiseFloor:
        """Return the noise floor that self-tests had measured when the experiment began; the usual one without any."""
        return NoiseFloor.of(self.disclosure.get("host", {}).get("noise_floor"))

    def records_by_name(self, written: str = "{}") -> dict[str, list[LevelRecord]]:
        """Return the records of each configuration. `written`: format of its name in the result."""
        found: dict[str, list[LevelRecord]] = {}
        for record in self.records:
            found.setdefault(written.format(record.configuration), []).append(record)
        return found

    @property
    def margins(self) -> Margins:
        plan = self.head.plan
        return Margins(plan.minimum_effect_percent, plan.equivalence_percent)

    @property
    def margins_of_steps(self) -> Margins:
        """Return the margins for steps, for which equivalence is never claimed."""
        return Margins(self.head.plan.minimum_effect_percent)

    @property
    def memory_bytes(self) -> int | None:
        return memory_bytes(self.disclosure)

    @property
    def paired(self) -> bool:
        """Return whether equal repetitions of two configurations ran close in time, as in interleaved orders."""
        return self.head.plan.order != "sequential"


def memory_bytes(disclosure: Mapping[str, Any]) -> int | None:
    """Return the memory of the disclosed machine; None if not disclosed."""
    memory = disclosure.get("host", {}).get("memory", {})
    found = memory.get("total_bytes") if isinstance(memory, dict) else None
    return found if isinstance(found, int) else None
