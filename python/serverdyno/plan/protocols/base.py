"""The contract of a protocol: its settings, URL schemes and wording.

A protocol carries one kind of work (`work.py`). To add one, write one module next to this one and one line in
`registry.py`. `servers/` starts servers, and the data plane generates the load.
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
    """A protocol between clients and a server. `registry.py` contains one instance of each."""

    name: ClassVar[str]
    title: ClassVar[str]
    """Name in a sentence: `HTTP`."""
    schemes: ClassVar[tuple[str, ...]]
    example_url: ClassVar[str]
    has_host: ClassVar[bool] = True
    """Whether the protocol's URLs name a host; otherwise they name a directory of this machine."""
    no_parameters: ClassVar[str | None] = None
    """Where to put settings if a URL can't have parameters (after `?`); None if it can."""
    work: ClassVar[Work[Any]]
    has_sessions: ClassVar[bool] = False
    """Whether each client negotiates a session with the server; `Session` in a run's note records it."""
    clients_directory: ClassVar[str | None] = None
    """Prefix of the directories in which clients keep their files on a server; None if they keep none."""
    has_access_keys: ClassVar[bool] = False
    """Whether requests are signed with an access key, for a region."""
    secure_scheme: ClassVar[str | None] = None
    """URL scheme over TLS; None if there is none."""
    volume: ClassVar[str] = "share"
    """What the protocol calls the part of a server in which clients keep their files."""

    def target_section(self, access: Access, settings: SettingsT) -> dict[str, Any]:
        """Return the section `target` of a level's document: the server's address, without secrets."""
        del settings
        return {"url": access.url}

    def with_secrets(self, access: Access, settings: SettingsT) -> Access:
        """Return the access with the secrets that the suite's settings name. Raises UserError."""
        del settings
        return access

    def client_section(self, settings: SettingsT) -> dict[str, Any]:
        """Return how clients use the protocol, for the section `client` of a level's document."""
        del settings
        return {}

    def server_problem(
        self, settings: SettingsT, work_settings: Any, url: str | None, server_settings: Mapping[str, Any]
    ) -> str | None:
        """Return why the suite can't run on a server with this URL or these settings, or None if it can.

        `work_settings`: the settings of the suite's workload.
        """
        del settings, work_settings, url, server_settings
        return None

    def described(self, settings: SettingsT, timeout: str) -> str:
        """Describe how clients use the protocol, for the methodology. `timeout`: timeout of an operation, as text."""
        raise NotImplementedError

    def look(self, url: str) -> Look | None:
        """Return how to check that a user's server answers; None if it can't be checked, so that plans can't use it."""
        del url
        return None

    def session_note(self, dialect: str) -> str:
        """Return the properties of a session that are not negotiated, as the end of the sentence on the session."""
        del dialect
        return ""

    def base_directory(self, url: str) -> str:
        """Return the directory in each share in which clients of a URL work; empty for the share's root.

        The URL's path begins with a share, which is ignored if the settings name shares.
        """
        return unquote(urlsplit(url).path).strip("/").partition("/")[2]

    def remove_command(self, access: Access, share: str, directory: str) -> str:
        """Return a command that removes a directory that clients left on a server."""
        raise NotImplementedError
