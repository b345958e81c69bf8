"""Protocols and kinds of work: one module for each, and one table of them.

A suite's workload belongs to a kind of work (`work.py`), and a protocol carries one kind of work (`base.py`). All
differences between protocols or kinds of work are behind these two contracts. The data plane generates the load.
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
