"""Published reports as data in the neighbouring folders, one per report, with tables, claims and source.

The data are copied from the laboratories' texts. Each `meta.toml` lists the doubts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import resources
from typing import TypeVar

from pydantic import BaseModel

from serverdyno.errors import PlanError, UserError
from serverdyno.plan.document import Problem, check_model, described, parse_toml, unknown_name
from serverdyno.published.model import Claim, Claims, Meta
from serverdyno.published.tables import Tables, of_csv

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class PublishedReport:
    """One report: its source, tables and claims."""

    meta: Meta
    tables: Tables
    claims: tuple[Claim, ...]

    @property
    def name(self) -> str:
        return self.meta.name

    def of_figure(self, figure: str) -> PublishedReport:
        """Return the same report with the tables of one figure only. Raises UserError if it has none."""
        tables = [table for table in self.tables if "figure" in table.columns]
        known = dict.fromkeys(str(value) for table in tables for value in table.values("figure"))
        if figure not in known:
            raise UserError(unknown_name(f"figure of {self.name}", figure, list(known)))
        kept = [table.only("figure", figure) for table in tables]
        return replace(self, tables=Tables([table for table in kept if table.rows]))


def names() -> list[str]:
    folders = resources.files(__name__).iterdir()
    return sorted(folder.name for folder in folders if (folder / "meta.toml").is_file())


def load(name: str) -> PublishedReport:
    """Return the report of that name. Raises UserError for an unknown name, PlanError with all problems of a file."""
    if name not in names():
        raise UserError(unknown_name("published report", name, names()), hint="`dyno published` lists them")
    folder = resources.files(__name__) / name
    files = sorted((folder / "tables").iterdir(), key=lambda file: file.name)
    tables = [of_csv(file.name.removesuffix(".csv"), file.read_text(encoding="utf-8")) for file in files]
    meta = parse(Meta, (folder / "meta.toml").read_text(encoding="utf-8"), f"{name}/meta.toml")
    claims = parse_claims((folder / "claims.toml").read_text(encoding="utf-8"), f"{name}/claims.toml")
    return PublishedReport(meta, Tables(tables), claims)


def named(words: str) -> PublishedReport:
    """Return the report `NAME`, or for `NAME:FIGURE` only that figure. Raises UserError."""
    name, _, figure = words.partition(":")
    return load(name).of_figure(figure) if figure else load(name)


def parse_claims(text: str, source: str) -> tuple[Claim, ...]:
    """Parse claims from TOML text (language: see `model`). Raises PlanError with all problems."""
    claims = parse(Claims, text, source).claims
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        if claim.id in seen:
            again = Problem(("claims", index, "id"), f'two claims have the ID "{claim.id}"')
            raise PlanError(source, described([again], text))
        seen.add(claim.id)
    return claims


def parse(model: type[M], text: str, source: str) -> M:
    """Parse a document as `model`. Raises PlanError with all its problems."""
    found, problems = check_model(model, parse_toml(text, source))
    if found is None:
        raise PlanError(source, described(problems, text))
    return found
