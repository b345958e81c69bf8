"""Figures that are measured once, in a unit of their own: neither a comparison nor a command that is waited for."""

from __future__ import annotations

from dataclasses import dataclass

from benches.ratios import Bound


@dataclass(frozen=True, slots=True)
class Amount:
    """One figure: of what, which, and its unit in the name. `limit`: None where there is no target."""

    name: str
    figure: str
    value: float
    limit: Bound | None = None
