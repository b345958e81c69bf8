"""What is kept of power cuts, `powercuts.json`: by configuration, every cut with what was acknowledged before and what
was left after. No figure of speed is among it.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from serverdyno.store.note import Count, Figure


class Part(BaseModel):
    """Types as JSON has them."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", defer_build=True)


class Cut(Part):
    """One cut. Files count as flushed where a flush of them was answered with success before it.

    `lost_files`: of the flushed, those of which a flushed byte is not as it was written; `unreadable_files` among them:
    the server can't read them. `kept_unflushed_files`: of the others, those that are there to their last acknowledged
    byte.
    """

    cut_after_s: Figure
    flushed_files: Count
    flushed_bytes: Count
    lost_files: Count
    lost_bytes: Count
    unreadable_files: Count
    unflushed_files: Count
    kept_unflushed_files: Count


class PowerCuts(Part):
    """All cuts of one configuration. `changed`: in what its configuration differed from that under load."""

    configuration: str
    version: str
    kernel: str
    changed: list[str]
    clients: Count
    seed: Count
    took_s: Figure
    cuts: list[Cut]

    @property
    def flushed_files(self) -> int:
        return sum(cut.flushed_files for cut in self.cuts)

    @property
    def lost_files(self) -> int:
        return sum(cut.lost_files for cut in self.cuts)

    @property
    def cuts_with_loss(self) -> int:
        """Cuts that lost anything that was flushed."""
        return sum(1 for cut in self.cuts if cut.lost_files)
