"""The stored power cuts, `powercuts.json`: every cut of a configuration, with acknowledged and remaining files.

The file contains no figures of speed.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from serverdyno.store.note import Count, Figure


class Part(BaseModel):
    """Base class that accepts only JSON's types."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", defer_build=True)


class Cut(Part):
    """One power cut. Files count as flushed if a flush of them succeeded before the cut.

    `lost_files`: flushed files with a wrong flushed byte; `unreadable_files` among them can't be read.
    `kept_unflushed_files`: other files that are complete up to their last acknowledged byte.

    An object server's files are objects, flushed if their PUT was acknowledged. `torn_files` among the lost ones exist,
    but with other bytes or another length. `refused_puts` among the unflushed ones were answered with an error. None:
    not counted.
    """

    cut_after_s: Figure
    flushed_files: Count
    flushed_bytes: Count
    lost_files: Count
    lost_bytes: Count
    unreadable_files: Count
    torn_files: Count | None = None
    unflushed_files: Count
    kept_unflushed_files: Count
    refused_puts: Count | None = None
    first_refusal: str | None = None
    """Status and answer of the first refused PUT; None if there was none, or it was not kept."""


class PowerCuts(Part):
    """All power cuts of one configuration. `changed`: differences from the configuration used under load."""

    configuration: str
    version: str
    kernel: str
    changed: list[str]
    clients: Count
    seed: Count
    took_s: Figure
    cuts: list[Cut]
    unit: str = "flushed file"
    """Name of the items that had to survive: flushed files, or acknowledged PUTs."""

    @property
    def flushed_files(self) -> int:
        return sum(cut.flushed_files for cut in self.cuts)

    @property
    def lost_files(self) -> int:
        return sum(cut.lost_files for cut in self.cuts)

    @property
    def torn_files(self) -> int | None:
        """Return the number of torn files; None if a cut did not count them."""
        return _sum(cut.torn_files for cut in self.cuts)

    @property
    def refused_puts(self) -> int | None:
        """Return the number of refused PUTs; None if a cut did not count them."""
        return _sum(cut.refused_puts for cut in self.cuts)

    @property
    def cuts_with_loss(self) -> int:
        """Return the number of cuts that lost flushed data."""
        return sum(1 for cut in self.cuts if cut.lost_files)


def _sum(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total
