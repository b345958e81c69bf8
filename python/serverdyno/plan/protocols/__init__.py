"""What servers speak and what clients do with it: one module a protocol, one a kind of work, one table.

A suite's workload belongs to a kind of work (`work.py`); a protocol carries one kind of work (`base.py`). Whatever
differs between two protocols, or between two kinds of work, is asked here. Not for: making load, which is the data
plane's, and laying out reports.
"""

from serverdyno.plan.protocols.registry import (
    carrying,
    has_host,
    known,
    normal_url,
    of,
    of_scheme,
    sections,
    sections_for,
    work_of,
    workloads,
)

__all__ = [
    "carrying",
    "has_host",
    "known",
    "normal_url",
    "of",
    "of_scheme",
    "sections",
    "sections_for",
    "work_of",
    "workloads",
]
