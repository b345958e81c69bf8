"""The report as data: its whole content in reading order. Views only lay it out.

`build` fills it from the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import computed_field

from serverdyno.analysis.pairs import Comparison
from serverdyno.report.figures.raw import RawTable
from serverdyno.report.figures.results import Results
from serverdyno.report.source import Source
from serverdyno.units import Written

Labels = Mapping[str, str]
"""Maps a table's key to its name in sentences: `Table 3`."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table.

    `detail`: second line in a smaller font, such as the spread. `marks`: letters explained in notes. `value`: the
    unrounded number, in the unit of its column or text (43.2 for `43 %`); None if the cell has no number.
    """

    text: str
    detail: str = ""
    strong: bool = False
    marks: str = ""

    @computed_field  # type: ignore[prop-decorator]  # mypy supports no decorated properties
    @property
    def value(self) -> float | None:
        return self.text.value if isinstance(self.text, Written) else None


@dataclass(frozen=True, slots=True)
class Column:
    label: str
    unit: str = ""
    numeric: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A numbered table. `basis` states window, repetitions, spread and clients; `notes` explain marks.

    `key_columns`: the number of columns that identify a row; they are repeated if the table is split.
    """

    key: str
    number: int
    title: str
    basis: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    key_columns: int = 1

    @property
    def label(self) -> str:
        return f"Table {self.number}"

    @property
    def grouped(self) -> bool:
        """Return whether several rows belong to one configuration."""
        return len({row[0].text for row in self.rows}) < len(self.rows)


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a line: mean with range; None if there is nothing to draw.

    `limited_by`: limits other than the server.

    `label`: the position in words, if `x` does not suffice.
    """

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    limited_by: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a plot. `style` selects colour, dash and point shape, which are the same in every figure."""

    name: str
    style: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot. `levels`: named horizontal lines. `shaded`: ranges of x that are not counted.

    `plain`: draw lines only, because there are too many points.
    """

    title: str
    y_title: str
    series: tuple[Series, ...]
    logarithmic: bool = False
    levels: tuple[tuple[float, str], ...] = ()
    shaded: tuple[tuple[float, float], ...] = ()
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """The network path from the generator to a server. `outside`: the server is on another machine."""

    network: str
    server: Box
    outside: bool


@dataclass(frozen=True, slots=True)
class Testbed:
    """The machines and networks that the load passes.

    `machine`: the known facts about the generator's machine. `generators` contains one box, or one for each subnet of a
    testbed in network namespaces.
    """

    machine: tuple[str, ...]
    generators: tuple[Box, ...]
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A numbered figure: bars, effects around zero (one panel), lines, or the diagram of a testbed.

    Each panel of bars has its own scale. `free_x`: x is a measured quantity or a time, not a load level.
    """

    key: str
    number: int
    title: str
    basis: str
    kind: Literal["bars", "effects", "lines", "diagram"]
    x_title: str
    panels: tuple[Panel, ...]
    testbed: Testbed | None = None
    free_x: bool = False

    @property
    def label(self) -> str:
        return f"Figure {self.number}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim, and the figures that support it."""

    topic: str
    claim: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Fact:
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class DisclosedText:
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Disclosure:
    """One subject of the disclosure: facts first, then whole documents."""

    title: str
    facts: tuple[Fact, ...]
    documents: tuple[DisclosedText, ...] = ()


@dataclass(frozen=True, slots=True)
class Caveat:
    """A warning that a reader must know before any figure: a short sentence, and its details."""

    claim: str
    more: str = ""

    @property
    def text(self) -> str:
        return f"{self.claim} {self.more}".rstrip()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer at the top of a report, to be read in twenty seconds.

    `verdict`: who won, in one sentence. `margin`: by how much, with intervals. `times`: peaks and their response times.
    `gaps`: proven differences at equal load. `sure`: how certain the verdict is. `limit`: the resource that limited the
    figures. `figures`: the configurations, best first. `caveats`: caveats on the verdict; the report explains each
    below. `told`: a label and its text for each outage or step with something to report.
    """

    verdict: str
    sure: str
    limit: str
    gaps: str
    figures: tuple[Figure, ...]
    caveats: tuple[Caveat, ...]
    told: tuple[tuple[str, str], ...] = ()
    margin: str = ""
    times: str = ""

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """Return the lines below the verdict, as labels and texts."""
        labelled = (
            *self.told,
            ("By how much", self.margin),
            ("At the peak", self.times),
            ("At the same load", self.gaps),
            ("How sure", self.sure),
            ("What limits the speed", self.limit),
        )
        return tuple((label, text) for label, text in labelled if text)


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of the results, with an introduction, figures and tables.

    In the page, a `folded` section is collapsed in place, and an `appendix` is collapsed after all others.
    """

    key: str
    title: str
    text: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    appendix: bool = False
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a report about one subject: sections, and findings, which refer to tables by number.

    Only the main subject of an experiment has `answer` and `summary`. Figures and tables have no numbers yet.
    """

    sections: tuple[Section, ...] = ()
    findings: Callable[[Labels], Sequence[Finding]] = lambda _: ()
    answer: Answer | None = None
    summary: Section | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The whole report of an experiment, and the results that it was computed from.

    `results`: of the first timed suite, and all steps. `comparisons`: of all timed suites.
    """

    title: str
    particulars: tuple[Fact, ...]
    answer: Answer
    summary: Section
    findings: tuple[Finding, ...]
    methodology: tuple[Fact, ...]
    sections: tuple[Section, ...]
    testbed: Section
    disclosure: tuple[Disclosure, ...]
    reproduce: Disclosure
    raw: tuple[RawTable, ...] = field(repr=False)
    source: Source
    results: Results
    comparisons: tuple[Comparison, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(caveat.text for caveat in self.answer.caveats)

    @property
    def figures(self) -> list[Figure]:
        sections = (self.summary, *self.sections, self.testbed)
        return [*self.answer.figures, *(figure for section in sections for figure in section.figures)]

    @property
    def tables(self) -> list[Table]:
        return [table for section in (self.summary, *self.sections) for table in section.tables]
