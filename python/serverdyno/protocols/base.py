"""The contract of a protocol: its settings, URL schemes, reference server and words.

A protocol carries one kind of work (`work.py`). A new one is one module next to this one and one line in
`registry.py`. Not for: how a server is started (`servers`), nor how load is made (the data plane).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from serverdyno.protocols.model import Model
from serverdyno.protocols.work import Work

SettingsT = TypeVar("SettingsT", bound=Model)


class Protocol(Generic[SettingsT]):
    """What a server speaks. One instance of each stands in `registry.py`."""

    name: ClassVar[str]
    title: ClassVar[str]
    """As it is written in a sentence: `HTTP`."""
    schemes: ClassVar[tuple[str, ...]]
    example_url: ClassVar[str]
    work: ClassVar[Work[Any]]
    section: ClassVar[str]
    """The key of the settings in a suite. Two protocols may share one."""
    settings_type: type[SettingsT]
    reference_server: ClassVar[str | None] = None
    """The driver of the server that the generator is calibrated against; None: there is none."""
    clients_directory: ClassVar[str | None] = None
    """How directories begin in which clients keep their files on a server; None: they keep none."""

    def described(self, settings: SettingsT, timeout: str) -> str:
        """Say how a client speaks, for the methodology. `timeout`: of an operation, as text."""
        raise NotImplementedError

    def remove_command(self, url: str, user: str | None, share: str, directory: str) -> str:
        """Return a command by which a user removes a directory that clients left on a server."""
        raise NotImplementedError

    def reference_settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return those settings of a server that decide what its clients do, for the reference server to have too."""
        del settings
        return {}
