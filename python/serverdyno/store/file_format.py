"""The version of the experiment folder's format, and the upgrade of older versions on reading.

A change of `experiment.json` or of a level's columns raises `CURRENT.version` and adds an `Upgrade`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serverdyno.errors import UserError
from serverdyno.store import upgrade
from serverdyno.store.head import FORMAT_VERSION

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The upgrade from one version to the next: of the head as JSON, and of a level's table."""

    head: Callable[[dict[str, Any]], dict[str, Any]]
    mix: Callable[[pa.Table], pa.Table]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format version, and the upgrades to it by the version from which each starts."""

    version: int
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict)

    def check_readable(self, found: int, folder: Path) -> None:
        """Raise UserError for a format that is newer than this one."""
        if found > self.version:
            raise UserError(
                f"{folder} has format {found}; this version of Serverdyno reads up to format {self.version}",
                hint="Use the newer version of Serverdyno that wrote it: pip install --upgrade serverdyno",
            )

    def check_writable(self, found: int, folder: Path) -> None:
        """Raise UserError for an older format, because no experiment mixes two formats."""
        if found < self.version:
            raise UserError(
                f"{folder} has the older format {found}, which this version of Serverdyno can only read",
                hint="Finish the experiment with the version that began it (`tool_version` in "
                "experiment.json).",
            )

    def upgrade_head(self, head: dict[str, Any], found: int) -> dict[str, Any]:
        for version in range(found, self.version):
            head = {**self.upgrades[version].head(head), "format_version": version + 1}
        return head

    def upgrade_mix(self, mix: pa.Table, found: int) -> pa.Table:
        for version in range(found, self.version):
            mix = self.upgrades[version].mix(mix)
        return mix


CURRENT = FileFormat(
    FORMAT_VERSION,
    {
        1: Upgrade(upgrade.head_of_format_1, upgrade.mix_of_format_1),
        2: Upgrade(upgrade.head_of_format_2, upgrade.mix_of_format_2),
        3: Upgrade(upgrade.head_of_format_3, upgrade.mix_of_format_3),
        4: Upgrade(upgrade.head_of_format_4, upgrade.mix_of_format_4),
        5: Upgrade(upgrade.head_of_format_5, upgrade.mix_of_format_5),
        6: Upgrade(upgrade.head_of_format_6, upgrade.mix_of_format_6),
        7: Upgrade(upgrade.head_of_format_7, upgrade.mix_of_format_7),
        8: Upgrade(upgrade.head_of_format_8, upgrade.mix_of_format_8),
    },
)
