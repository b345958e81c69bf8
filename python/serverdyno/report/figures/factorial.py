"""A plan that crosses factors of one server: its factors, and their main effects on the overall average."""

from __future__ import annotations

from dataclasses import dataclass

from serverdyno.analysis.factorial import Effect, complete, effects
from serverdyno.plan.model import Configuration
from serverdyno.report.figures.results import Results
from serverdyno.report.figures.sides import sides
from serverdyno.report.source import Source

FEWEST_FACTORS = 2


@dataclass(frozen=True, slots=True)
class Crossed:
    """The factors of a complete design, and the effects of their levels; no effects where they can't be judged."""

    factors: tuple[str, ...]
    effects: tuple[Effect, ...]

    @property
    def main(self) -> tuple[Effect, ...]:
        return tuple(effect for effect in self.effects if not effect.other)

    @property
    def interactions(self) -> tuple[Effect, ...]:
        """The interactions of two factors."""
        return tuple(effect for effect in self.effects if effect.other)


def crossed(source: Source, results: Results) -> Crossed | None:
    """None where the configurations are not every combination of two factors or more of one server."""
    configurations = source.head.configurations
    first = configurations[0]
    if any(
        (each.server, each.url, each.cpus) != (first.server, first.url, first.cpus) for each in configurations
    ):
        return None
    cells = [_settings(configuration) for configuration in configurations]
    factors = [
        name for name in dict.fromkeys(name for cell in cells for name in cell) if _varies(name, cells)
    ]
    keys = [tuple(cell.get(name, "default") for name in factors) for cell in cells]
    levels = [list(dict.fromkeys(key[place] for key in keys)) for place in range(len(factors))]
    if len(factors) < FEWEST_FACTORS or not complete(levels, keys):
        return None
    found = effects(
        factors,
        dict(zip(keys, sides(results), strict=True)),
        paired=source.paired,
        minimum_percent=source.head.plan.minimum_effect_percent,
    )
    return Crossed(tuple(factors), found)


def _settings(configuration: Configuration) -> dict[str, str]:
    words = {True: "on", False: "off"}
    return {
        name: words[value] if isinstance(value, bool) else f"{value}"
        for name, value in configuration.settings.items()
    }


def _varies(name: str, cells: list[dict[str, str]]) -> bool:
    return len({cell.get(name) for cell in cells}) > 1
