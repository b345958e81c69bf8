"""What the tables, charts and sentences of several subjects are put together from."""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno import wording

MOST_LISTED = 4
"""Names in one sentence."""


def few(names: Sequence[str]) -> str:
    """Return all of a few names; of more, the first two and how many others there are."""
    if len(names) <= MOST_LISTED:
        return wording.listing(names)
    return f"{', '.join(names[:2])} and {len(names) - 2} more"
