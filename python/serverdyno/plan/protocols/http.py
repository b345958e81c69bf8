"""HTTP with and without TLS: the settings of clients, and their sections in a level's document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from serverdyno import _native, wording
from serverdyno.plan.protocols.access import Access
from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.protocols.documents import DOCUMENTS, DocumentsSettings
from serverdyno.plan.protocols.http_request import RequestSettings
from serverdyno.plan.protocols.look import Look
from serverdyno.plan.protocols.model import SectionModel
from serverdyno.plan.protocols.options import Option
from serverdyno.plan.protocols.tls import TlsSettings, over_tls

STREAMS = 10
"""Default number of concurrent HTTP/2 streams per connection, as in h2load and most published figures."""


HEAD_BYTES, HEAD_FIELDS = 256 * 1024, 1000
"""Upper bounds on the headers of a response; curl allows 300 KB and 5,000 fields."""


BODILESS = "The status of its answers, 204, 205 or 304, says that they have no body."
"""Note on a server whose empty answers need no warning."""
EMPTY_HINT = (
    "If the server does not know the host (Caddy answers so), give the site's name with -H 'Host: NAME'. Over TLS, use "
    "the name in the URL, and --resolve NAME:PORT:ADDRESS. If empty answers are right, give --expect-bytes 0, or "
    "--expect-status 204."
)


class HttpSettings(SectionModel):
    """How a client uses HTTP. If `request` is None, it sends plain GETs.

    With `tls`, clients use TLS with these settings, and every server must speak it. Without `tls`, they use TLS with
    its defaults if a server speaks it. If only a part of the requests uses TLS, `tls` applies to that part.
    """

    version: Annotated[Literal["1.0", "1.1", "2"], Option(("--http",))] = Field(
        default="1.1",
        description="Version of HTTP, which every server must speak. 2: by ALPN over TLS, otherwise with "
        "prior knowledge.",
    )
    streams: Annotated[int | None, Option()] = Field(
        default=None,
        ge=1,
        le=10_000,
        description=(
            "For HTTP/2: number of a client's threads that share a connection, with one stream each. Default: "
            f"{STREAMS}."
        ),
    )
    pipeline: Annotated[int | None, Option()] = Field(
        default=None,
        ge=1,
        le=10_000,
        description="For HTTP/1.1: number of a client's threads that share a connection and pipeline their "
        "requests on it. Default: each thread has its own connection.",
    )
    keep_alive: Annotated[bool, Option()] = Field(
        default=True, description="Keep connections open, or open one for each request."
    )
    close: Literal["ordinary", "reset"] = Field(
        default="ordinary", description="How a client closes a connection: ordinary, or with a reset."
    )
    receive_buffer_bytes: int = Field(
        default=65536, ge=256, le=16 * 1024 * 1024, description="Maximum number of bytes per receive call."
    )
    max_head_bytes: Annotated[int | None, Option()] = Field(
        default=None,
        ge=1024,
        le=16 << 20,
        description="Maximum size of a response's status and headers, in bytes. The limit is set by dyno, not "
        f"by HTTP. Default: {HEAD_BYTES:,}.",
    )
    max_head_fields: Annotated[int | None, Option()] = Field(
        default=None,
        ge=100,
        le=100_000,
        description="Maximum number of headers in a response over HTTP/1. The limit is set by dyno, not by "
        f"HTTP. Default: {HEAD_FIELDS:,}.",
    )
    proxy_protocol: Annotated[Literal["v1", "v2"] | None, Option()] = Field(
        default=None,
        description="Send the header of HAProxy's PROXY protocol at the start of each connection, in this version.",
    )
    tls: TlsSettings | None = Field(
        default=None,
        description="TLS settings of the clients. With them, every server must speak TLS. In suites with a "
        "secure_share, they apply to that share.",
    )
    request: RequestSettings | None = Field(
        default=None, description="Settings of requests other than plain GETs, and of their expected answers."
    )

    @model_validator(mode="after")
    def _fits_its_version(self) -> Self:
        if self.pipeline is not None and (
            self.version != "1.1" or not self.keep_alive or self.close != "ordinary"
        ):
            raise ValueError('pipeline requires version = "1.1", keep_alive and close = "ordinary"')
        if self.version != "2":
            if self.streams is not None:
                raise ValueError('streams need version = "2"')
        elif not self.keep_alive or self.close != "ordinary":
            raise ValueError('version = "2" requires keep_alive and close = "ordinary"')
        return self

    def parameters(self) -> dict[str, Any]:
        """Return the settings that shape the load, without TLS and request settings that the suite does not set."""
        return {key: value for key, value in self.model_dump().items() if value is not None}


class WebLook:
    """A check that only connects. The check before load sends requests exactly as the load does."""

    has_shares = False
    port: int | None = 80
    directory: Path | None = None

    def ask(self, target: _native.Target) -> None:
        """Connect. Raises AnswerError."""
        _native.http_connect(target, timeout_s=target.timeout_s)

    def version(self) -> str | None:
        """Return None, because the version is not known before the check."""
        return None

    def notes(self) -> list[str]:
        return []


class Http(Protocol[HttpSettings]):
    name = "http"
    title = "HTTP"
    schemes = ("http", "https")
    secure_scheme = "https"
    example_url = "http://127.0.0.1:8080/"
    work = DOCUMENTS
    section = "http"
    settings_type = HttpSettings

    def target_section(self, access: Access, settings: HttpSettings) -> dict[str, Any]:
        """Return the URLs, the trusted certificates, and the address to connect to."""
        return {
            "url": access.url,
            "secure_url": access.secure_url,
            "trust": access.trust,
            "connect_to": None if access.secure_url else access.connect_to,
            "proxy_protocol": settings.proxy_protocol,
            "version": settings.version,
        }

    def with_secrets(self, access: Access, settings: HttpSettings) -> Access:
        """Add the suite's certificate and key if the server has none of its own. Raises UserError."""
        if settings.tls is None or access.identity is not None:
            return access
        return replace(access, identity=settings.tls.identity())

    def client_section(self, settings: HttpSettings) -> dict[str, Any]:
        """Return all settings, with the contents of the files and variables that requests need. Raises UserError."""
        return {
            **settings.model_dump(exclude={"proxy_protocol"}),
            "streams": settings.streams or STREAMS,
            "max_head_bytes": settings.max_head_bytes or HEAD_BYTES,
            "max_head_fields": settings.max_head_fields or HEAD_FIELDS,
            "tls": (settings.tls or TlsSettings()).model_dump(exclude={"certificate", "key"}),
            "request": None if settings.request is None else settings.request.section(),
        }

    def server_problem(
        self,
        settings: HttpSettings,
        work_settings: DocumentsSettings,
        url: str | None,
        server_settings: Mapping[str, Any],
    ) -> str | None:
        """Return a contradiction between settings, or that the server lacks TLS or HTTP/2, which the suite uses."""
        wrong = contradiction(settings, work_settings)
        return wrong or self._server_lacks(settings, work_settings, url, server_settings)

    def _server_lacks(
        self,
        settings: HttpSettings,
        work_settings: DocumentsSettings,
        url: str | None,
        server_settings: Mapping[str, Any],
    ) -> str | None:
        if settings.version == "2" and url is None and not server_settings.get("http2"):
            return "the suite speaks HTTP/2: give the server settings = { http2 = true }"
        if work_settings.secure_share:
            # For a server that dyno starts, `Documents.server_problem` reports the missing settings.
            if url is None or (server_settings.get("secure_url") and not over_tls(url, server_settings)):
                return None
            return (
                "some requests of this suite use TLS: the URL must begin with http://, and settings need "
                'secure_url = "https://..."'
            )
        if settings.tls is None or over_tls(url, server_settings):
            return None
        if url is not None:
            return "the suite uses TLS: the URL must begin with https://"
        return 'the suite uses TLS: give the server settings = { tls = "ecdsa-p256" }'

    def described(self, settings: HttpSettings, timeout: str) -> str:
        """Describe the version, the connections and the receive buffer."""
        if settings.version == "2":
            streams = wording.plural(settings.streams or STREAMS, "thread")
            connection = f"connections that {streams} of a client share"
        elif settings.pipeline is not None:
            threads = wording.plural(settings.pipeline, "thread")
            connection = f"connections that {threads} of a client share, with pipelined requests"
        else:
            connection = "kept-alive connections" if settings.keep_alive else "a new connection per request"
        close = "" if settings.close == "ordinary" else " closed by a reset"
        tls = "" if settings.tls is None else f" {settings.tls.described()}."
        return (
            f"HTTP/{settings.version}, {connection}{close}, receive buffer {settings.receive_buffer_bytes:,} bytes, "
            f"timeout {timeout}.{tls}"
            f"{'' if settings.request is None else f' {settings.request.described()}'}"
        )

    def look(self, url: str) -> Look:
        del url
        return WebLook()


def contradiction(settings: HttpSettings, work_settings: DocumentsSettings) -> str | None:
    """Return why clients with these settings can't do the work; None if they can."""
    if settings.pipeline is not None and (work_settings.steps or work_settings.secure_share):
        return "pipeline: not possible with sessions, or with a suite that partly uses TLS"
    if work_settings.steps and settings.request is not None and not settings.request.has_fields_alone:
        return "request: a session allows only headers and authorization, because its steps define the rest"
    return None


HTTP = Http()
