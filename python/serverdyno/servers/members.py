"""Several servers that together are one server under test: sums, figures by member, and one disclosure.

`team.py` chooses the members, and `fleet/node_team.py` the machines on which they run.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from serverdyno.servers.base import Description, RunningServer


class Members(ABC):
    """The figures of a `base.RunningServer` that has members."""

    @property
    @abstractmethod
    def members(self) -> Mapping[str, RunningServer]:
        """Return the members by their names in records: `front nginx`, `back apache 1`."""

    def ask(self, target: object) -> None:  # noqa: B027 (nothing is to be done)
        """Do nothing, because each member was checked when it was started."""

    def check(self) -> None:
        """Raise ServerError if a member has ended."""
        for member in self.members.values():
            member.check()

    def crashes(self) -> list[str]:
        return [f"{name}: {line}" for name, member in self.members.items() for line in member.crashes()]

    def cpu_s(self) -> float | None:
        """Return the CPU seconds of all members; None if those of any member are unknown."""
        return self._sum(lambda member: member.cpu_s())

    def cpu_by_member_s(self) -> dict[str, float | None]:
        return {name: member.cpu_s() for name, member in self.members.items()}

    def rss_bytes(self) -> int | None:
        found = self._sum(lambda member: member.rss_bytes())
        return None if found is None else int(found)

    def pids(self) -> list[int]:
        return [pid for member in self.members.values() for pid in member.pids()]

    def data_directories(self) -> list[Path]:
        return []

    def syncs_served(self) -> int | None:
        return None

    def _sum(self, figure: Callable[[RunningServer], float | None]) -> float | None:
        values = [figure(member) for member in self.members.values()]
        return None if None in values else sum(value for value in values if value is not None)


def of_member(name: str, described: Description) -> Description:
    return dataclasses.replace(
        described,
        version=f"{name}: {described.version}",
        files={f"{name}/{file}": text for file, text in described.files.items()},
        notes=[f"{name}: {note}" for note in described.notes],
        package=described.package and f"{name}: {described.package}",
    )


def together(parts: Iterable[Description], server: str, settings: dict[str, object]) -> Description:
    given = list(parts)
    commands = [word for part in given for word in (*part.command, ";")]
    return Description(
        server=server,
        version="; ".join(part.version for part in given),
        command=commands[:-1],
        settings=settings,
        files={file: text for part in given for file, text in part.files.items()},
        notes=[note for part in given for note in part.notes],
        package="; ".join(part.package for part in given if part.package) or None,
    )
