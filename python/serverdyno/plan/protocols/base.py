"""The contract of a protocol: its settings, URL schemes and words.

A protocol carries one kind of work (`work.py`). A new one is one module next to this one and one line in
`registry.py`. Not for: how a server is started (`servers`), nor how load is made (the data plane).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from serverdyno.plan.protocols.access import Access
from serverdyno.plan.protocols.look import Look
from serverdyno.plan.protocols.model import HasSettings, SettingsT
from serverdyno.plan.protocols.work import Work


class Protocol(HasSettings[SettingsT]):
    """What a server speaks. One instance of each stands in `registry.py`."""

    name: ClassVar[str]
    title: ClassVar[str]
    """As it is written in a sentence: `HTTP`."""
    schemes: ClassVar[tuple[str, ...]]
    example_url: ClassVar[str]
    has_host: ClassVar[bool] = True
    """Whether its URLs name a host; those without name a directory of this machine."""
    work: ClassVar[Work[Any]]
    has_sessions: ClassVar[bool] = False
    """Whether each client has a session, about which it agrees with the server: see `Session` in a run's note."""
    clients_directory: ClassVar[str | None] = None
    """How directories begin in which clients keep their files on a server; None: they keep none."""

    def target_section(self, access: Access, settings: SettingsT) -> dict[str, Any]:
        """Return the section `target` of a mix's document: where to, without secrets."""
        del settings
        return {"url": access.url}

    def with_secrets(self, access: Access, settings: SettingsT) -> Access:
        """Return how to be let in, with secrets that the suite's settings name. Raises UserError."""
        del settings
        return access

    def client_section(self, settings: SettingsT) -> dict[str, Any]:
        """Return how a client uses the protocol, for the section `client` of a mix's document."""
        del settings
        return {}

    def server_problem(
        self, settings: SettingsT, work_settings: Any, url: str | None, server_settings: Mapping[str, Any]
    ) -> str | None:
        """Say why a server with this URL or these settings can't be asked as the suite wants it; None: it can.

        `work_settings`: of the kind of work that this protocol carries.
        """
        del settings, work_settings, url, server_settings
        return None

    def described(self, settings: SettingsT, timeout: str) -> str:
        """Say how a client speaks, for the methodology. `timeout`: of an operation, as text."""
        raise NotImplementedError

    def look(self, url: str) -> Look | None:
        """Return how a server of the user's is asked whether it is there; None: it can't be, so none may be named."""
        del url
        return None

    def session_note(self, dialect: str) -> str:
        """Return what holds for each session and nobody negotiates: ends the sentence on what was agreed."""
        del dialect
        return ""

    def base_directory(self, url: str) -> str:
        """Return the directory of each share in which a URL lets clients work; empty: the share's root.

        The path begins with a share, which stands for nothing where shares are named.
        """
        return unquote(urlsplit(url).path).strip("/").partition("/")[2]

    def remove_command(self, access: Access, share: str, directory: str) -> str:
        """Return a command by which a user removes a directory that clients left on a server."""
        raise NotImplementedError
