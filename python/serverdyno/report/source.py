"""What a report is made from: one experiment as read from the store, and facts that follow from its head alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from serverdyno.store.records import MixRecord

if TYPE_CHECKING:
    from serverdyno.plan.model import Configuration, Mix, Plan, RunKey, Suite


class Head(Protocol):
    """The frozen head of an experiment."""

    @property
    def tool_version(self) -> str: ...  # noqa: D102
    @property
    def created(self) -> Any: ...  # noqa: D102
    @property
    def seed(self) -> int: ...  # noqa: D102
    @property
    def suite(self) -> Suite: ...  # noqa: D102
    @property
    def scale(self) -> float: ...  # noqa: D102
    @property
    def order(self) -> Sequence[RunKey]: ...  # noqa: D102
    @property
    def configurations(self) -> Sequence[Configuration]: ...  # noqa: D102
    @property
    def mixes(self) -> Sequence[Mix]: ...  # noqa: D102
    @property
    def plan(self) -> Plan: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Source:
    """One experiment, finished or not."""

    head: Head
    records: Sequence[MixRecord]
    disclosure: Mapping[str, Any] = field(default_factory=dict)

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
        """Whether equal repetitions of two configurations ran close in time."""
        return self.head.plan.order == "interleaved"
