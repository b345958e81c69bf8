"""References to tables and figures in a view that has only some of them: to the others, with the name of the page.

The sentences of a report are the same in every view, so what they refer to may stand in another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from serverdyno.report.model import Report, Table
from serverdyno.store.experiment import PAGE


def completed(report: Report, shown: Sequence[Table]) -> Callable[[str], str]:
    """What makes of a sentence one for a view that shows `shown` alone: `Table 14 of report.html`."""
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
