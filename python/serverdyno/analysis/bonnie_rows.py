"""The rows of Bonnie's report as text and HTML, byte for byte as the program of 1996 prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import NamedTuple, TypedDict

KIB = 1024
SEQUENTIAL = ("putc", "write", "rewrite", "getc", "read")
"""Phases in the order of the report, which differs from the order in which they run."""
HEAD = (
    "              -------Sequential Output-------- ---Sequential Input-- --Random--\n"
    "              -Per Char- --Block--- -Rewrite-- -Per Char- --Block--- --Seeks---\n"
    "Machine    MB K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU  /sec %CPU\n"
)


class Rate(NamedTuple):
    """A rate in K/sec or seeks/sec, and the CPU time in percent of the elapsed time."""

    per_s: float
    cpu_percent: float


def sequential(size_bytes: int, elapsed_s: float, cpu_s: float) -> Rate:
    """Return the rate of a sequential phase, in K/sec."""
    return Rate(size_bytes / KIB / elapsed_s, 100 * cpu_s / elapsed_s)


def random(seeks: int, elapsed_s: float, cpu_s: float) -> Rate:
    """Return the rate in seeks/sec. With several seekers the CPU time can exceed 100 %."""
    return Rate(seeks / elapsed_s, 100 * cpu_s / elapsed_s)


class Phase(TypedDict):
    """The fields of a phase's record from which its rate is computed.

    CPU times cover the threads that ran the phase.
    """

    phase: str
    elapsed_s: float
    user_s: float
    system_s: float


def rates(phases: Iterable[Phase], size_bytes: int, seeks: int) -> dict[str, Rate]:
    found = {}
    for phase in phases:
        took = (max(phase["elapsed_s"], 1e-9), phase["user_s"] + phase["system_s"])
        name = phase["phase"]
        found[name] = random(seeks, *took) if name == "seeks" else sequential(size_bytes, *took)
    return found


def text_row(machine: str, size_mib: int, rates: Mapping[str, Rate]) -> str:
    """Return the row of figures to print below `HEAD`. `rates` must have `SEQUENTIAL` and `seeks`."""
    columns = "".join(f"{int(rates[name].per_s):5d} {rates[name].cpu_percent:4.1f} " for name in SEQUENTIAL)
    seeks = rates["seeks"]
    return f"{machine:<8.8s} {size_mib:4d} {columns}{seeks.per_s:5.1f} {seeks.cpu_percent:4.1f}\n"


def html_row(machine: str, size_mib: int, rates: Mapping[str, Rate]) -> str:
    """Return the table row of `-html`, for a table that the user writes. `rates` are as in `text_row`."""
    cells = [f"<TD>{escape(machine)}</TD><TD>{size_mib}</TD>"]
    cells += [
        f"<TD>{int(rates[name].per_s)}</TD><TD>{rates[name].cpu_percent:4.1f}</TD>" for name in SEQUENTIAL
    ]
    seeks = rates["seeks"]
    return f"<TR>{''.join(cells)}<TD>{seeks.per_s:5.1f}</TD><TD>{seeks.cpu_percent:4.1f}</TD></TR>\n"
