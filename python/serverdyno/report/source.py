"""What a report is made from: one experiment as read from the store, and facts that follow from its head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from serverdyno.store.head import ExperimentHead
from serverdyno.store.records import CeilingRecord, MixRecord


@dataclass(frozen=True, slots=True)
class Source:
    """One experiment, finished or not."""

    head: ExperimentHead
    records: Sequence[MixRecord]
    ceilings: Sequence[CeilingRecord] = ()
    disclosure: Mapping[str, Any] = field(default_factory=dict)
    run_notes: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def configuration_names(self) -> list[str]:
        """In the order of the plan; the first is the base of every comparison."""
        return [configuration.name for configuration in self.head.configurations]

    def repetitions_of(self, configuration: str) -> list[int]:
        """The planned repetitions of one configuration."""
        return sorted(key.repetition for key in self.head.order if key.configuration == configuration)

    @property
    def planned_mixes(self) -> int:
        """How many mixes the experiment has when it is whole."""
        return len(self.head.order) * len(self.head.mixes)

    @property
    def shortened(self) -> bool:
        """Whether the suite was run at less than its published length."""
        return self.head.scale < 1

    @property
    def paired(self) -> bool:
        """Whether equal repetitions of two configurations ran close in time: true of orders in rounds."""
        return self.head.plan.order != "sequential"
