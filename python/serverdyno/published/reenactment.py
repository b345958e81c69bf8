"""The document `reenactment.toml` of a published report: today's counterparts of its figures and servers.

It has only data, checked with all problems at once. `report/reenact.py` applies it to an experiment.

[[today]] gives the counterpart of one value in a column of the published tables. Several entries combine: a cell with
`web_server = "TUX"` and `processors = 2` is a configuration that fits both entries.

[[figures]] lists the figures of the report in its order, each with the figure that shows it today, or the reason why
none does. A list in `of` or `series` stands for each of its values.

[[claims]] gives the two sides of claims that the published tables can't check, but an experiment can.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from itertools import product
from typing import Literal

from pydantic import Field, model_validator

from serverdyno import published
from serverdyno.errors import PlanError, UserError
from serverdyno.plan.document import Problem, check_model, described, parse_toml, unknown_name
from serverdyno.published import PublishedReport
from serverdyno.published.model import Model, Scalar, Where
from serverdyno.published.pictures import Picture, from_numbers, pictures

FILE = "reenactment.toml"
Shows = Literal["peaks", "averages", "curves", "steps", "bonnie"]
Place = dict[str, Scalar]
"""One value for each of some columns of published tables."""


class Today(Model):
    """Today's counterpart of `value` in a column. A configuration fits if it has everything that is named.

    `servers`: drivers, any of them. `names`: names of servers in the plan, any of them. `suites`: any of them.
    `absent`: why there is no counterpart. `note`: how close the counterpart is.
    """

    column: str
    value: Scalar
    servers: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    settings: dict[str, Scalar | bool] = Field(default_factory=dict)
    suites: tuple[str, ...] = ()
    absent: str = ""
    note: str = ""

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Today:
        if bool(self.absent) == bool(self.servers or self.names or self.settings or self.suites):
            raise ValueError("needs either absent or a counterpart: servers, names, settings or suites")
        return self


class Numbers(Model):
    """The numbers of a published chart, which other figures print: rows of a table.

    `series`: the places of its lines or bars; empty: those of the figure. Columns that the table lacks are ignored.
    """

    table: str
    series: tuple[Where, ...] = ()


class Shown(Model):
    """One figure of the report, or several without a counterpart.

    `along`: the axis of curves, clients or the threads of all clients. `numbers`: those to draw where the report
    prints the figure without. `phases`: those of Bonnie to show.
    """

    figures: tuple[str, ...] = Field(min_length=1)
    title: str
    shows: Shows | None = None
    of: Where = Field(default_factory=dict)
    series: tuple[Where, ...] = ()
    along: Literal["clients", "threads"] = "clients"
    numbers: Numbers | None = None
    phases: tuple[str, ...] = ()
    same_as: str = ""
    why: str = ""

    @model_validator(mode="after")
    def _says_one_thing(self) -> Shown:
        if (self.shows is not None) + bool(self.same_as) + bool(self.why) != 1:
            raise ValueError("needs one of shows, same_as and why")
        if bool(self.series) != (self.shows in ("peaks", "averages", "curves")):
            raise ValueError("needs series for peaks, averages and curves, and for nothing else")
        if bool(self.phases) != (self.shows == "bonnie"):
            raise ValueError("needs phases for bonnie, and for nothing else")
        if self.shows is not None and len(self.figures) > 1:
            raise ValueError("shows one figure; write an entry for each")
        return self

    def places(self) -> Iterator[Place]:
        """Yield the values of each series in order."""
        for series in self.series:
            yield from expanded(self.of | series)


class Sides(Model):
    """The sides of claims: `of` against `over`, in the overall average if not in the peak."""

    ids: tuple[str, ...] = Field(min_length=1)
    of: Where
    over: Where
    figure: Literal["peak", "overall average"] = "peak"
    expects: Literal["higher", "same"] = "higher"


class Reenactment(Model):
    """The document. `figures_of`: the figure of an experiment that a published table shows.

    `curve`: one row for each number of clients, so that the mean is the average and the highest the peak.
    """

    figures_of: dict[str, Literal["peak", "overall average", "curve"]] = Field(default_factory=dict)
    today: tuple[Today, ...] = ()
    figures: tuple[Shown, ...] = Field(min_length=1)
    claims: tuple[Sides, ...] = ()


def load(report: PublishedReport) -> Reenactment:
    """Return the mapping of a published report. Raises UserError if it has none, PlanError with all problems."""
    folder = resources.files(published.__name__)
    file = folder / report.name / FILE
    if not file.is_file():
        known = [name for name in published.names() if (folder / name / FILE).is_file()]
        raise UserError(f"{report.name} can't be re-enacted", hint=f"These can: {', '.join(known)}")
    return parse(file.read_text(encoding="utf-8"), report)


def parse(text: str, report: PublishedReport) -> Reenactment:
    """Parse a mapping and check it against the report. Raises PlanError with all problems."""
    source = f"{report.name}/{FILE}"
    found, problems = check_model(Reenactment, parse_toml(text, source))
    if found is not None:
        problems = [*_of_today(found, report), *_of_figures(found, report), *_of_claims(found, report)]
    if found is None or problems:
        raise PlanError(source, described(problems, text))
    return found


def expanded(where: Where) -> Iterator[Place]:
    """Yield one place for each combination of the values."""
    lists = [value if isinstance(value, tuple) else (value,) for value in where.values()]
    for values in product(*lists):
        yield dict(zip(where, values, strict=True))


def drawn(report: PublishedReport, mapping: Reenactment) -> list[Picture]:
    """Return the pictures of a report, with those that only other figures' numbers make possible."""
    others = [
        picture
        for shown in mapping.figures
        if (numbers := shown.numbers) is not None
        for picture in from_numbers(
            report.tables[numbers.table],
            shown.figures[0],
            numbers.series or (dict(place) for place in shown.places()),
        )
    ]
    return [*pictures(report), *others]


def printed_figures(report: PublishedReport) -> list[str]:
    """Return the figures of the report's tables, each once; the running text is not a figure."""
    named = dict.fromkeys(str(value) for table in report.tables for value in table.values("figure"))
    return [figure for figure in named if figure != "text"]


def _of_today(found: Reenactment, report: PublishedReport) -> Iterator[Problem]:
    values: dict[str, set[str]] = {}
    for table in report.tables:
        for column in table.columns:
            values.setdefault(column, set()).update(str(value) for value in table.values(column))
    for place, each in enumerate(found.today):
        if each.column not in values:
            message = unknown_name("column of its tables", each.column, values)
            yield Problem(("today", place, "column"), message)
        elif str(each.value) not in values[each.column]:
            message = unknown_name(f"value of {each.column}", str(each.value), values[each.column])
            yield Problem(("today", place, "value"), message)
    names = {table.name for table in report.tables}
    for name in found.figures_of.keys() - names:
        yield Problem(("figures_of", name), unknown_name("table", name, names))


def _of_figures(found: Reenactment, report: PublishedReport) -> Iterator[Problem]:
    seen: dict[str, Shown] = {}
    for place, shown in enumerate(found.figures):
        for figure in shown.figures:
            if figure in seen:
                yield Problem(("figures", place, "figures"), f'figure "{figure}" is listed twice')
        if shown.same_as and shown.same_as not in seen:
            yield Problem(("figures", place, "same_as"), f'no figure "{shown.same_as}" is listed before')
        seen.update(dict.fromkeys(shown.figures, shown))
        tables = [table.name for table in report.tables]
        if shown.numbers is not None and shown.numbers.table not in tables:
            yield Problem(("figures", place, "numbers"), unknown_name("table", shown.numbers.table, tables))
        yield from _unknown(found, shown.of, ("figures", place, "of"))
        for at, series in enumerate(shown.series):
            yield from _unknown(found, series, ("figures", place, "series", at))
    for figure in printed_figures(report):
        if figure not in seen:
            yield Problem(("figures",), f'figure "{figure}" of the tables is missing')


def _of_claims(found: Reenactment, report: PublishedReport) -> Iterator[Problem]:
    known = [claim.id for claim in report.claims]
    for place, sides in enumerate(found.claims):
        for identity in sides.ids:
            if identity not in known:
                yield Problem(("claims", place, "ids"), f'no claim "{identity}"')
        yield from _unknown(found, sides.of, ("claims", place, "of"))
        yield from _unknown(found, sides.over, ("claims", place, "over"))


def _unknown(found: Reenactment, where: Where, path: tuple[str | int, ...]) -> Iterator[Problem]:
    known = {(each.column, str(each.value)) for each in found.today}
    for one in expanded(where):
        for column, value in one.items():
            if (column, str(value)) not in known:
                yield Problem((*path, column), f'[[today]] has no counterpart of "{value}"')
