"""The claims language, and the parts of a published report: citation, method, hardware, doubts, claims.

This module has only data. `tables.py` has the tables, `printed.py` the values that a printed value admits,
`evaluate.py` the computation, and `audit.py` the verdicts. The language has no formulas, and nothing in it is
executed as code: a rule names only the cells of tables that a statement is about, and how they are combined.

A **claim** is one statement of a text about figures:

[[claims]]
    id = "key-1"                        # unique in its report
    place = "Key findings, 1"           # section, figure or sentence
    says = "Peak of A over B"           # our own paraphrase, never the sentence itself
    claimed = "approximately 46"        # the value exactly as printed, so that its rounding is known
    unit = "percent"                    # of the value; left out for an order
    [claims.rule]                       # how it should follow from the tables
    kind = "percent_improvement"
    of = { table = "peaks", column = "mbits_per_s", where = { server = "A" } }
    over = { table = "peaks", column = "mbits_per_s", where = { server = "B" } }

Quantities (a number each; they nest):

* cells of a table: `table`, `column` and `where` (column = value; a list means any of them). `kind` is `value`, the
  default: exactly one cell; or `highest`, `lowest`, `sum`, `mean`, `count` over those that are not empty. `count`
  with `above` counts those above a number. `averaged_by = ["clients"]`: rows that agree in these columns (such as
  repetitions of one level) are first averaged to one.
* `position_of_highest`, `position_of_lowest`: the value of column `at` in the row where `column` is highest or lowest
  (the peak's number of clients). Several such rows are an error of the claim.
* `stated`: a number of the running text, with its `place`.
* `percent_improvement` (`of`, `over`): 100 (of / over - 1). `percent_decline` (`from`, `to`): 100 (1 - to / from),
  relative to the start. `difference` (`of`, `minus`). `ratio` (`of`, `to`).
* `product`, `sum_of`, `mean_of`, `lowest_of`, `highest_of`: over the list `of`.
* `greatest_percent_improvement`: the highest of the improvements of the rows `of` over the rows `over` that agree in
  the columns `pairs_by` ("as much as 36 percent"). `least_percent_improvement` likewise.

Statements (true or not; `claimed` is a word of order, see `printed.py`):

* `greater`, `lower`: quantity `of` against every quantity of the list `than`.
* `greater_in_each`: rows `greater` against the rows `lower` that agree in `pairs_by`, both within `where`.
* `rising`, `falling`: `column` from row to row in the order of the numeric column `along`.
* `same` (`of`, `as`): two quantities that are said to be equal or nearly so.

And `each_of` (`of`): the printed number or range holds for every quantity of the list; `cannot_be_checked` (`why`):
the tables lack the required values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

Scalar = str | int | float
Where = dict[str, Scalar | tuple[Scalar, ...]]
CELL_KINDS = ("value", "highest", "lowest", "sum", "mean", "count")


class Model(BaseModel):
    """Base class of the models, which are frozen and refuse unknown keys."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True, defer_build=True
    )


class Cells(Model):
    """Cells of one column of a table, which `kind` combines into one number."""

    kind: Literal["value", "highest", "lowest", "sum", "mean", "count"] = "value"
    table: str
    column: str
    where: Where = {}
    averaged_by: tuple[str, ...] = ()
    above: float | None = None


class Position(Model):
    """The position of the extreme of `column` along column `at`."""

    kind: Literal["position_of_highest", "position_of_lowest"]
    table: str
    column: str
    at: str
    where: Where = {}
    averaged_by: tuple[str, ...] = ()


class Stated(Model):
    """A number of the running text."""

    kind: Literal["stated"]
    value: float
    place: str


class Improvement(Model):
    """The improvement of `of` over `over` in percent."""

    kind: Literal["percent_improvement"]
    of: Quantity
    over: Quantity


class Decline(Model):
    """The decline from `start` to `end` in percent of `start`."""

    kind: Literal["percent_decline"]
    start: Quantity = Field(alias="from")
    end: Quantity = Field(alias="to")


class Difference(Model):
    """The difference `of` - `minus`."""

    kind: Literal["difference"]
    of: Quantity
    minus: Quantity


class Ratio(Model):
    """The ratio `of` / `to`."""

    kind: Literal["ratio"]
    of: Quantity
    to: Quantity


class Combined(Model):
    """One number computed from several quantities."""

    kind: Literal["product", "sum_of", "mean_of", "lowest_of", "highest_of"]
    of: tuple[Quantity, ...] = Field(min_length=1)


class PairedImprovement(Model):
    """The extreme of the improvements of the rows `of` over the rows `over` with equal `pairs_by`."""

    kind: Literal["greatest_percent_improvement", "least_percent_improvement"]
    table: str
    column: str
    of: Where
    over: Where
    pairs_by: tuple[str, ...] = Field(min_length=1)
    where: Where = {}


class Order(Model):
    """Statement that `of` is above or below every quantity of `than`."""

    kind: Literal["greater", "lower"]
    of: Quantity
    than: tuple[Quantity, ...] = Field(min_length=1)


class PairedOrder(Model):
    """Statement that the rows `greater` are above the rows `lower` with equal `pairs_by`."""

    kind: Literal["greater_in_each"]
    table: str
    column: str
    greater: Where
    lower: Where
    pairs_by: tuple[str, ...] = Field(min_length=1)
    where: Where = {}


class Course(Model):
    """Statement that `column` rises or falls from row to row in the order of `along`."""

    kind: Literal["rising", "falling"]
    table: str
    column: str
    along: str
    where: Where = {}
    averaged_by: tuple[str, ...] = ()


class Same(Model):
    """Two quantities said to be equal, or nearly so."""

    kind: Literal["same"]
    of: Quantity
    other: Quantity = Field(alias="as")


class EachOf(Model):
    """Statement that the printed value holds for every quantity."""

    kind: Literal["each_of"]
    of: tuple[Quantity, ...] = Field(min_length=1)


class NotChecked(Model):
    """A claim that the tables can't prove or refute."""

    kind: Literal["cannot_be_checked"]
    why: str


def _kind(node: Any) -> Any:
    """Return the tag of a rule's class, from its `kind`. A rule without `kind` is about cells."""
    kind = node.get("kind", "value") if isinstance(node, Mapping) else getattr(node, "kind", None)
    return "cells" if kind in CELL_KINDS else GROUPS.get(str(kind), kind)


GROUPS = {
    "position_of_highest": "position",
    "position_of_lowest": "position",
    "product": "combined",
    "sum_of": "combined",
    "mean_of": "combined",
    "lowest_of": "combined",
    "highest_of": "combined",
    "greatest_percent_improvement": "paired_improvement",
    "least_percent_improvement": "paired_improvement",
    "greater": "order",
    "lower": "order",
    "rising": "course",
    "falling": "course",
}

Quantity = Annotated[
    Annotated[Cells, Tag("cells")]
    | Annotated[Position, Tag("position")]
    | Annotated[Stated, Tag("stated")]
    | Annotated[Improvement, Tag("percent_improvement")]
    | Annotated[Decline, Tag("percent_decline")]
    | Annotated[Difference, Tag("difference")]
    | Annotated[Ratio, Tag("ratio")]
    | Annotated[Combined, Tag("combined")]
    | Annotated[PairedImprovement, Tag("paired_improvement")],
    Discriminator(_kind),
]
Statement = Order | PairedOrder | Course | Same
Rule = Annotated[
    Annotated[Cells, Tag("cells")]
    | Annotated[Position, Tag("position")]
    | Annotated[Stated, Tag("stated")]
    | Annotated[Improvement, Tag("percent_improvement")]
    | Annotated[Decline, Tag("percent_decline")]
    | Annotated[Difference, Tag("difference")]
    | Annotated[Ratio, Tag("ratio")]
    | Annotated[Combined, Tag("combined")]
    | Annotated[PairedImprovement, Tag("paired_improvement")]
    | Annotated[Order, Tag("order")]
    | Annotated[PairedOrder, Tag("greater_in_each")]
    | Annotated[Course, Tag("course")]
    | Annotated[Same, Tag("same")]
    | Annotated[EachOf, Tag("each_of")]
    | Annotated[NotChecked, Tag("cannot_be_checked")],
    Discriminator(_kind),
]


class Claim(Model):
    """One statement of a text about figures."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    place: str = Field(min_length=1)
    says: str = Field(min_length=1)
    claimed: str = Field(min_length=1)
    unit: str = ""
    rule: Rule

    @property
    def printed(self) -> str:
        """Return the printed value with its unit, once: `12 percent`, `2.17 times`."""
        has_unit = not self.unit or self.unit in self.claimed or re.search(r"\d [a-z]+$", self.claimed)
        return self.claimed if has_unit else f"{self.claimed} {self.unit}"


class Claims(Model):
    """The document `claims.toml`."""

    claims: tuple[Claim, ...] = Field(min_length=1)


class Citation(Model):
    """Source of a report. `year_known_from` is the evidence for the year."""

    title: str
    laboratory: str
    commissioned_by: str
    year: int
    year_known_from: str


class Method(BaseModel):
    """The measurement method as stated. A report may have fields besides the common ones."""

    model_config = ConfigDict(extra="allow", frozen=True)

    subject: str
    tool: str
    tool_version: str
    suite: str
    repetitions: int | str
    combined: str
    network: str
    stated: str

    @property
    def tool_words(self) -> str:
        known = self.tool_version[:1].isdigit()
        return f"{self.tool} {self.tool_version}" if known else f"{self.tool}, version {self.tool_version}"


class Hardware(Model):
    """The clients in one line, and the known facts of each server."""

    client: str
    servers: dict[str, dict[str, str]]


class Doubt(Model):
    """Something in the text that is doubtful, or that readers of a figure must know."""

    place: str
    doubt: str


class Meta(Model):
    """The document `meta.toml`."""

    name: str
    citation: Citation
    method: Method
    hardware: Hardware
    tunings: dict[str, tuple[str, ...]] = {}
    doubts: tuple[Doubt, ...] = ()
