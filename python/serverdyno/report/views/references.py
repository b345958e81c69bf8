"""References to tables and figures that a view does not contain, which must name the page.

A report's sentences are the same in every view, so they may refer to tables that only the page contains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from serverdyno.report.model import Report, Table
from serverdyno.store.experiment import PAGE


def completed(report: Report, shown: Sequence[Table]) -> Callable[[str], str]:
    """Return a function that completes references to tables not in `shown`: `Table 14 of report.html`."""
    here = {table.label for table in shown}
    everything = [*(table.label for table in report.tables), *(figure.label for figure in report.figures)]
    elsewhere = set(everything) - here

    def complete(sentence: str) -> str:
        return re.sub(
            r"\b(?:Table|Figure) \d+\b",
            lambda found: f"{found[0]} of {PAGE}" if found[0] in elsewhere else found[0],
            sentence,
        )

    return complete
