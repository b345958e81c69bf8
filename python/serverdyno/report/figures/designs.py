"""What a plan varies on purpose, found once: CPUs of one server, tunings one by one, and crossed factors."""

from __future__ import annotations

from dataclasses import dataclass

from serverdyno.analysis.ablation import Effect
from serverdyno.report.figures import tuning
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
    """`tuned`, `crossed` None: the configurations are no such
    design.
    """

    tuned: Tuned | None
    crossed: Crossed | None


def designs(source: Source, results: Results) -> Designs:
    design = tuning.design(source)
    return Designs(
        tuned=None if design is None else Tuned(design, tuning.effects(source, results, design)),
        crossed=crossed(source, results),
    )
