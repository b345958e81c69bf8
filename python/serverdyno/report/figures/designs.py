"""What a plan varies on purpose, found once: CPUs of one server, tunings one by one, and crossed factors."""

from __future__ import annotations

from dataclasses import dataclass

from serverdyno.analysis.ablation import Effect
from serverdyno.report.figures import scaling, tuning
from serverdyno.report.figures.factorial import Crossed, crossed
from serverdyno.report.figures.results import Results
from serverdyno.report.source import Source


@dataclass(frozen=True, slots=True)
class Tuned:
    """The design, and the effects on overall average and peak."""

    design: tuning.Design
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Designs:
    """`scaling`: of each server on several numbers of CPUs. `tuned`, `crossed` None: the configurations are no such
    design.
    """

    scaling: tuple[scaling.Group, ...]
    tuned: Tuned | None
    crossed: Crossed | None


def designs(source: Source, results: Results) -> Designs:
    design = tuning.design(source)
    return Designs(
        scaling=tuple(scaling.groups(source, results)),
        tuned=None if design is None else Tuned(design, tuning.effects(source, results, design)),
        crossed=crossed(source, results),
    )
