"""What a report is made from: one experiment as read from the store, and facts that follow from its head."""

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
from serverdyno.store.records import MixRecord


@dataclass(frozen=True, slots=True)
class Source:
    """One experiment, finished or not. `damaged`: what of it could not be read, a sentence each. `set_aside`: files
    that were damaged and have been renamed since. `plan_text`: the plan as its user wrote it, where it can be read.
    `trials`: of a search, its records one by one; `records` are then by rate.
    """

    head: ExperimentHead
    records: Sequence[MixRecord]
    disclosure: Mapping[str, Any] = field(default_factory=dict)
    run_notes: Mapping[int, RunNote] = field(default_factory=dict)
    power_cuts: Sequence[PowerCuts] = ()
    damaged: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()
    plan_text: str = ""
    trials: Sequence[MixRecord] = ()

    @property
    def configuration_names(self) -> list[str]:
        """In the order of the plan; the first is the base of every comparison."""
        return [configuration.name for configuration in self.head.configurations]

    def records_of(self, configuration: str) -> list[MixRecord]:
        """Return the records of one configuration, with those that the figures leave out."""
        return [record for record in self.records if record.configuration == configuration]

    def cpus_shared_with_generator(self, configuration: Configuration) -> tuple[int, ...]:
        """Return the CPUs on which both the server and the load run, as far as they were decided here."""
        return tuple(sorted(set(configuration.cpus) & set(self.head.plan.generator.cpus)))

    def repetitions_of(self, configuration: str) -> list[int]:
        """Return the planned repetitions of one configuration."""
        return sorted(key.repetition for key in self.head.order if key.configuration == configuration)

    @property
    def max_rate_per_s(self) -> dict[str, float]:
        """The rate that the plan allows, by the name of each configuration that has bounds."""
        return {
            configuration.name: configuration.bounds.max_rate_per_s
            for configuration in self.head.configurations
            if configuration.bounds is not None
        }

    @property
    def closed(self) -> bool:
        """Whether clients ask again as soon as they have an answer: they keep no pace and think nothing."""
        suite = self.head.suite
        pace = suite.work.operations_per_client_s(suite.settings(suite.work))
        return pace is None and suite.think_time_s == 0 and not self.open

    @property
    def open(self) -> bool:
        """Whether operations come at a rate of their own, whatever becomes of those before them."""
        return self.head.suite.open is not None

    @property
    def closed_load(self) -> bool:
        """Whether clients wait for answers and the server is not taken away, so that throughput is compared."""
        return bool(self.head.mixes) and not self.open and self.cut is None

    def of_suite(self, suite: Suite) -> Source:
        """Return what of the experiment belongs to one suite whose levels end at a time."""
        head = self.head.of_suite(suite)
        own = {mix.index for mix in head.mixes}
        return replace(self, head=head, records=[each for each in self.records if each.mix in own])

    @property
    def in_time(self) -> list[Source]:
        """Return a part for each suite whose levels end at a time. Of an experiment without such suites the one part
        has no level.
        """
        timed = [suite for suite in self.head.suites if not suite.ends_when_done]
        if timed:
            return [self.of_suite(suite) for suite in timed]
        return [replace(self, head=self.head.model_copy(update={"mixes": []}), records=[])]

    @property
    def cut(self) -> Cut | None:
        """What is taken away from the clients in the middle of each mix; None: nothing."""
        suite = self.head.suite
        return suite.work.cut(suite.settings(suite.work))

    @property
    def planned_mixes(self) -> int:
        """How many mixes the experiment has when it is whole; of a search as many as it took."""
        if self.head.suite.objective is not None:
            return len(self.records)
        return len(self.head.order) * len(self.head.mixes)

    @property
    def shortened(self) -> bool:
        """Whether the suite was run at less than its full length."""
        return self.head.scale < 1

    @property
    def noise_floor(self) -> NoiseFloor:
        """What self-tests said of the machine when the experiment began; the usual where none was run."""
        return NoiseFloor.of(self.disclosure.get("host", {}).get("noise_floor"))

    def records_by_name(self, written: str = "{}") -> dict[str, list[MixRecord]]:
        """Return the records of each configuration. `written`: how its name is written."""
        found: dict[str, list[MixRecord]] = {}
        for record in self.records:
            found.setdefault(written.format(record.configuration), []).append(record)
        return found

    @property
    def margins(self) -> Margins:
        """What the verdicts of a comparison are about."""
        plan = self.head.plan
        return Margins(plan.minimum_effect_percent, plan.equivalence_percent)

    @property
    def margins_of_steps(self) -> Margins:
        """What the verdicts of steps are about: no equivalence is claimed of them."""
        return Margins(self.head.plan.minimum_effect_percent)

    @property
    def memory_bytes(self) -> int | None:
        """The memory of this machine."""
        return memory_bytes(self.disclosure)

    @property
    def paired(self) -> bool:
        """Whether equal repetitions of two configurations ran close in time: true of orders in rounds."""
        return self.head.plan.order != "sequential"


def memory_bytes(disclosure: Mapping[str, Any]) -> int | None:
    """Return the memory of the machine that a disclosure is of; None where it has none."""
    memory = disclosure.get("host", {}).get("memory", {})
    found = memory.get("total_bytes") if isinstance(memory, dict) else None
    return found if isinstance(found, int) else None
