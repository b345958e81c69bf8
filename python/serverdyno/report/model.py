"""The report as data: everything that is said, in the order in which it is said. Views only lay it out.

What is said is built in `build`; nothing here reads a record.
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
"""How sentences refer to each table, by its key: `Table 3`."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell as text. `detail`: its spread or the like, set smaller. `marks`: explained in notes. `value`: the number
    of the text, unrounded and in the unit of its column or as the text has it (43.2 for `43 %`); None: no number.
    """

    text: str
    detail: str = ""
    strong: bool = False
    marks: str = ""

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated properties
    @property
    def value(self) -> float | None:
        return self.text.value if isinstance(self.text, Written) else None


@dataclass(frozen=True, slots=True)
class Column:
    """A column head with its unit."""

    label: str
    unit: str = ""
    numeric: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A numbered table. `basis` names window, repetitions, spread and clients; `notes` explain marks.

    `key_columns`: how many columns say what a row is; they are repeated where the others don't fit next to them.
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
        """How text refers to it."""
        return f"Table {self.number}"

    @property
    def grouped(self) -> bool:
        """Whether several rows belong to one configuration."""
        return len({row[0].text for row in self.rows}) < len(self.rows)


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a line: mean with range, None: nothing to draw. `limited_by`: what but the server may have set it.

    `label`: where it is, in words, where x alone doesn't say that.
    """

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    limited_by: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """A line; `style` is the index of its colour, dash and point shape, the same in every figure."""

    name: str
    style: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot. `levels`: lines to draw across, each with its name. `shaded`: ranges of x that don't count.

    `plain`: the points are too many to be drawn one by one, so there are lines only.
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
    """One part of a testbed."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """The way from the generator to a server. `outside`: the server is on another machine."""

    network: str
    server: Box
    outside: bool


@dataclass(frozen=True, slots=True)
class Testbed:
    """What the load went through. `machine`: what is known of the machine that makes it. `generators`: one, or one for
    each subnet of a testbed in network namespaces.
    """

    machine: tuple[str, ...]
    generators: tuple[Box, ...]
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A numbered figure: bars, effects of one panel about zero, lines, or a testbed. Bars of several panels have a
    scale for each.

    `free_x`: x is a measured quantity or a time, and no load level.
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
        """How text refers to it."""
        return f"Figure {self.number}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim, and the figures it rests on."""

    topic: str
    claim: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the methodology or the disclosure."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class DisclosedText:
    """A text that is disclosed in full, such as a configuration file."""

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
    """What a reader must know before a figure: one short sentence, and the rest of what there is to say."""

    claim: str
    more: str = ""

    @property
    def text(self) -> str:
        return f"{self.claim} {self.more}".rstrip()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reader knows after twenty seconds.

    `verdict`: who won, in one sentence. `margin`: by how much, with intervals. `times`: peaks and response times there.
    `gaps`: what is proven at equal load. `sure`: what the verdict rests on. `limit`: what set the figures. `figures`:
    the configurations, best first. `caveats`: what the reader of the verdict needs to know; each is explained in full
    below. `told`: a label and its text for each outage or step that there is something to say of.
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
        """What stands below the verdict: a label and its text, for each that there is something to say of."""
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

    In the page, a `folded` one is collapsed in its place, and an `appendix` is collapsed behind all others.
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
    """What a report says of one subject: its sections, and its sentences once tables have their numbers.

    `answer` and `summary`: of the subject that the experiment was made for. Figures and tables are not numbered yet.
    """

    sections: tuple[Section, ...] = ()
    findings: Callable[[Labels], Sequence[Finding]] = lambda _: ()
    answer: Answer | None = None
    summary: Section | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is said of an experiment, and what it was computed from. `answer` stands above everything else.

    `results`: of the first suite whose levels end at a time, and all steps. `comparisons`: of all such suites.
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
        """The caveats in full."""
        return tuple(caveat.text for caveat in self.answer.caveats)

    @property
    def figures(self) -> list[Figure]:
        """Every figure, in order."""
        sections = (self.summary, *self.sections, self.testbed)
        return [*self.answer.figures, *(figure for section in sections for figure in section.figures)]

    @property
    def tables(self) -> list[Table]:
        """Every table, in order."""
        return [table for section in (self.summary, *self.sections) for table in section.tables]
