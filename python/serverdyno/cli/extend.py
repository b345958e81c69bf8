"""`dyno suite extend SUITE|EXPERIMENT --into FILE`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serverdyno.errors import UserError

if TYPE_CHECKING:
    from serverdyno.plan.model import Suite
    from serverdyno.report.figures.results import ConfigurationResult

EXAMPLE = "Example: dyno suite extend experiments/quick-static-20261120-101500 --into larger.toml"


def extend(
    origin: Annotated[
        str,
        typer.Argument(
            metavar="SUITE|EXPERIMENT", help="A suite's name, a suite's file, or the folder of an experiment."
        ),
    ],
    into: Annotated[Path, typer.Option(help="The file for the new suite. It must not exist.")],
    by: Annotated[str, typer.Option(help="What to double: clients or threads.")] = "clients",
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Extend even if the experiment shows that its load was enough.")
    ] = False,
) -> None:
    """Write a suite with up to twice the load, for servers whose throughput still rose at the last mix."""
    from serverdyno.cli.output import say, standard_output  # noqa: PLC0415
    from serverdyno.plan.expand import mixes  # noqa: PLC0415
    from serverdyno.plan.extend import Growth, as_toml, extended  # noqa: PLC0415
    from serverdyno.units import format_duration_s  # noqa: PLC0415

    if by not in list(Growth):
        raise UserError(f'--by: unknown value "{by}"; expected clients or threads')
    suite, reason = _origin(origin, anyway)
    grown = extended(suite, Growth(by), reason)
    text = as_toml(grown, f"Made by: dyno suite extend, from {suite.name}.")
    try:
        with into.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UserError(f"can't write {into}: {error.strerror}", hint="Name another file.") from error
    planned = mixes(grown)
    length_s = sum(mix.length_s for mix in planned)
    console = standard_output()
    say(
        console,
        f"{into}: {grown.name}, {len(planned)} mixes up to {planned[-1].clients} clients x {planned[-1].threads}; "
        f"one run takes {format_duration_s(length_s)}",
    )
    say(console, f"extended because {reason}")
    say(console, f"to run it: dyno run PLAN --suite {into}")


def _origin(origin: str, anyway: bool) -> tuple[Suite, str]:
    """The suite to be extended, and why."""
    from serverdyno import suites  # noqa: PLC0415
    from serverdyno.plan.document import read_text  # noqa: PLC0415

    path = Path(origin)
    if path.is_dir():
        return _of_experiment(path, anyway)
    asked = "you asked for it; there is no experiment to judge by"
    if path.suffix == ".toml":
        return suites.parse(read_text(path), origin), asked
    return suites.load(origin), asked


def _of_experiment(folder: Path, anyway: bool) -> tuple[Suite, str]:
    """Raises UserError where more load would show nothing new."""
    from serverdyno import report  # noqa: PLC0415
    from serverdyno.store.experiment import Experiment  # noqa: PLC0415

    built = report.build(Experiment.open(folder))
    suite = built.source.head.suite
    results = built.results.configurations
    at = f"at {suite.clients[-1]} clients"
    # A curve that ends before the suite does says nothing about the suite's end.
    whole = [result for result in results if result.mixes[-1] is not None]
    rising = [result for result in whole if result.throughput is not None and result.throughput.still_rising]
    unlimited = [result for result in rising if not _limited(result)]
    if unlimited:
        return suite, f"throughput of {_names(unlimited)} still rose {at}"
    if anyway:
        return suite, f"you asked for it; no throughput is known to rise {at}"
    if rising:
        raise UserError(
            f"throughput of {_names(rising)} still rose {at}, but the generator or the plan's bound limited it there",
            hint="Give the generator more threads or raise the bound. `--anyway` extends the suite nevertheless.",
        )
    if len(whole) < len(results):
        missing = [result for result in results if result not in whole]
        raise UserError(
            f"nothing was measured {at} for {_names(missing)}, and no other throughput still rose there",
            hint="`dyno resume` continues the experiment. `--anyway` extends the suite nevertheless.",
        )
    raise UserError(
        f"the load was enough: throughput of {_names(results)} no longer rose {at}",
        hint="`--anyway` extends the suite nevertheless.",
    )


def _limited(result: ConfigurationResult) -> bool:
    from serverdyno.analysis.trust import limits  # noqa: PLC0415

    last = result.mixes[-1]
    return last is not None and bool(limits(last.marks))


def _names(results: Iterable[ConfigurationResult]) -> str:
    return ", ".join(result.name for result in results)
