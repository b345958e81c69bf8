"""What web servers share that hand requests on to others: the ports of those behind them.

Alone they have nothing to say: `team.py` puts them in front. Not for nginx, which serves documents itself and hands on
only the dynamic page.
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

from pydantic import Field

from serverdyno.errors import ServerError
from serverdyno.servers.web import WebServer, WebSettings


class ProxySettings(WebSettings):
    """The settings of a server that has no documents of its own."""

    needs_documents: ClassVar[bool] = False
    listens_elsewhere: ClassVar[bool] = False

    workers: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="Threads that serve; left out: one for each CPU of the server.",
    )


ProxySettingsT = TypeVar("ProxySettingsT", bound=ProxySettings)


class Proxy(WebServer[ProxySettingsT]):
    """A server that is nothing without others behind it."""

    @property
    def workers(self) -> int:
        """Threads that serve."""
        return self.settings.workers or self.processors

    def check_paths(self) -> None:
        """Also that there is somebody behind it. Raises ServerError."""
        super().check_paths()
        if not self.backs:
            raise ServerError(
                f"{self.name} is a proxy and needs a server behind it",
                hint=f'Use it as the front of a team: server = "team", settings = {{ front = "{self.name}" }}',
            )
