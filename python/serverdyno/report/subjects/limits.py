"""Name the resource that limits the speed at each load level, as far as known.

The rules are in `analysis.trust`.
"""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno.analysis.trust import Limit
from serverdyno.plan.axis import Axis
from serverdyno.report.figures.results import ConfigurationResult, LevelFigures, Results
from serverdyno.report.parts import few

LIMITED_BY = {
    Limit.RATE: "the plan's rate",
    Limit.LINK: "the plan's links",
    Limit.FAILURES: "errors",
    Limit.GENERATOR: "the load generator",
    Limit.CPU_WAIT: "this machine, which left the load generator waiting for a CPU",
    Limit.SERVER: "the server's CPU",
    Limit.DISK: "the disk",
    Limit.OFFERED: "the offered rate",
    Limit.CONNECTIONS: "the number of connections",
    Limit.THINKING: "the clients' think time or pace",
    Limit.ROUND_TRIP: "latency",
    Limit.UNSEEN: "latency or locks",
}


def limit(results: Results) -> str:
    """Return the limits of each configuration, and their load levels."""
    found = [(each.name, _limits_of(each, results.axis)) for each in results.configurations if each.finished]
    return named(found, results)


def named(limits: Sequence[tuple[str, str]], results: Results) -> str:
    """Return limits, each with the names of its configurations; a single configuration needs no name."""
    by_words: dict[str, list[str]] = {}
    for name, words in limits:
        by_words.setdefault(words, []).append(name)
    alone = len(results.configurations) == 1
    parts = [words if alone else f"{few(names)}: {words}" for words, names in by_words.items()]
    return "; ".join(parts) + "." if parts else ""


def _limits_of(result: ConfigurationResult, axis: Axis) -> str:
    by_word: dict[str, list[int]] = {}
    for level in result.finished:
        if word := _limit_of(result, level):
            by_word.setdefault(word, []).append(level.load)
    if not by_word:
        return no_limit_words(result.finished)
    unknown = [level.load for level in result.finished if not _limit_of(result, level)]
    if unknown:
        by_word["unknown"] = unknown
    # Levels that were not finished separate spans.
    loads = [0 if level is None else level.load for level in result.levels]
    return ", ".join(
        word if len(levels) == len(result.finished) else f"{word} with {axis.words_of(levels, loads)}"
        for word, levels in by_word.items()
    )


def no_limit_words(levels: Sequence[LevelFigures]) -> str:
    """Return why no limit is named: CPU use was not measured, or no CPU was busy."""
    if any(level.server_share is None for level in levels):
        return "not known, because the server's CPU time was not measured"
    return "not found, because neither the server's nor the generator's CPU was busy"


def _limit_of(result: ConfigurationResult, level: LevelFigures) -> str:
    found = result.limits_of(level)
    return LIMITED_BY[found[0]] if found else ""
