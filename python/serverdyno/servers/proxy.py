"""Reverse proxies: web servers that forward requests to the servers behind them.

`team.py` uses them as fronts. Without servers behind them, they have nothing to serve. nginx is not one of them: it
serves documents itself and forwards only requests for the dynamic page.
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

from pydantic import Field

from serverdyno.errors import ServerError
from serverdyno.servers.consent import CONSENT_PATH
from serverdyno.servers.local import make_private
from serverdyno.servers.web import WebServer, WebSettings


class ProxySettings(WebSettings):
    needs_documents: ClassVar[bool] = False
    listens_elsewhere: ClassVar[bool] = False

    workers: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="Number of threads that handle requests. Default: one per CPU of the server.",
    )


ProxySettingsT = TypeVar("ProxySettingsT", bound=ProxySettings)


class Proxy(WebServer[ProxySettingsT]):
    """A server that requires servers behind it."""

    proof_file: ClassVar[str] = "public/proof"
    consent_file: ClassVar[str] = "public/consent-document"
    consent_path_file: ClassVar[str] = "public/consent-path"
    """Name of the file with the path of the consent, below the private directory."""

    @property
    def workers(self) -> int:
        return self.settings.workers or self.processors

    def listen_on(self, address: str) -> None:
        self.host = address

    def furnish(self) -> None:
        """Write the consent document to a file whose name does not reveal the token."""
        if self.shows_consent:
            make_private(self.public_directory)
            (self.directory / self.consent_file).write_text(self.consent_document())
            (self.directory / self.consent_path_file).write_text(f"{CONSENT_PATH}{self.consent_token}")
        super().furnish()

    def check_paths(self) -> None:
        """Check that there is a server behind the proxy. Raises ServerError."""
        super().check_paths()
        if not self.backs:
            raise ServerError(
                f"{self.name} is a proxy and requires a server behind it",
                hint=f'Use it as the front of a team: server = "team", settings = {{ front = "{self.name}" }}',
            )
