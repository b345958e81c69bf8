"""A web server that the user runs. Nothing is started, stopped or configured; only its address is known.

Whether load may go there is not decided here: see the consent check of the data plane. Not for file servers: see
`external_smb.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from serverdyno import _native
from serverdyno.errors import UserError, gone, no_answer
from serverdyno.protocols.http import HTTP
from serverdyno.servers.base import Access, Description, Installed, Settings
from serverdyno.servers.web import WebSettings

LOOK_S = 10.0  # for the first answer: connection, head and what is read of the body
LOOK_BYTES = 65536


class ExternalSettings(WebSettings):
    """Nothing can be varied: the server is the user's."""

    is_external: ClassVar[bool] = True
    needs_documents: ClassVar[bool] = False


class External:
    """A URL. See `base.ServerDriver` for the contract."""

    name: ClassVar[str] = "external"
    summary: ClassVar[str] = "a web server that you run, by its URL"
    debian_package: ClassVar[str | None] = None
    settings_type: ClassVar[type[Settings]] = ExternalSettings

    def __init__(
        self,
        settings: Settings,
        directory: Path,
        documents: Path,
        cpus: Sequence[int] = (),
        url: str | None = None,
    ) -> None:
        """`directory`, `documents` and `cpus` mean nothing here. Raises UserError for a URL that can't be
        used.
        """
        del settings, directory, documents, cpus
        if url is None:
            raise UserError(
                "server 'external' needs a url", hint='For example: url = "http://127.0.0.1:8080/"'
            )
        self._url = url
        try:
            parts = urlsplit(url)
            usable = (
                parts.scheme in HTTP.schemes and parts.hostname and parts.port != 0 and not parts.fragment
            )
        except ValueError as error:
            raise UserError(f"{url}: {error}") from None
        if not usable:
            raise UserError(
                f"{url}: not a URL that can be loaded", hint="For example: http://127.0.0.1:8080/"
            )
        self._target: _native.Target | None = None
        self._answer: str | None = None
        self._server_header: str | None = None

    @staticmethod
    def installed() -> Installed | None:
        """Always there: it is the user's."""
        return Installed("not known before it answers", None)

    def prepare(self) -> None:
        """Nothing."""

    def start(self) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""

    def ready(self) -> None:
        """Nothing: it is asked when the target is open."""

    def ask(self, target: _native.Target) -> None:
        """One plain GET: something answers there. Raises ServerError."""
        try:
            answer = _native.http_get(target, target.path, timeout_s=LOOK_S, most_bytes=LOOK_BYTES)
        except _native.AnswerError as error:
            raise no_answer(self._url, "HTTP", error) from error
        self._target = target
        self._server_header = answer["server"]
        self._answer = f"GET {target.path} was answered with status {answer['status']} before the load."

    def check(self) -> None:
        """One more GET. Raises ServerError where nothing takes the connection any more; who is slow is still there."""
        if self._target is None:
            return
        try:
            _native.http_get(self._target, self._target.path, timeout_s=LOOK_S, most_bytes=LOOK_BYTES)
        except _native.AnswerError as error:
            if (ended := gone(self._url, "HTTP", error)) is not None:
                raise ended from error

    def describe(self) -> Description:
        """The `Server` header is all that is known of the version, and it is a claim."""
        return Description(
            server=self.name,
            version=self._server_header or "unknown",
            command=[],
            settings={"url": self._url},
            notes=[
                *([self._answer] if self._answer else []),
                "Run by the user: its configuration, CPU time and memory are not known to us.",
            ],
        )

    @property
    def url(self) -> str:
        """As given."""
        return self._url

    def access(self) -> Access:
        """Nobody has to be let in."""
        return Access(self._url)

    def cpu_s(self) -> float | None:
        """Not known."""
        return None

    def rss_bytes(self) -> int | None:
        """Not known."""
        return None

    def pids(self) -> list[int]:
        """Not known."""
        return []

    def data_directories(self) -> list[Path]:
        """Not known."""
        return []

    def crashes(self) -> list[str]:
        """Its log is not ours to look at."""
        return []

    def requests_served(self) -> int | None:
        """Not known."""
        return None
