"""The common part of the drivers of web servers: documents, a URL, a secret over HTTP, an access log.

It extends `local.py`. Web servers that the user runs are in `external.py`.
"""

from __future__ import annotations

import pwd
import time
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from pydantic import Field

from serverdyno import _native
from serverdyno.errors import ServerError
from serverdyno.plan.protocols.access import SYSTEM
from serverdyno.plan.protocols.http import HTTP
from serverdyno.plan.protocols.model import SettingsModel
from serverdyno.servers import dynamic
from serverdyno.servers.base import Access
from serverdyno.servers.consent import UNLISTED
from serverdyno.servers.local import (
    ERROR_LOG,
    WORKER_USER,
    LocalServer,
    check_path,
    make_private,
    worker_user,
)
from serverdyno.servers.process import ServerProcess
from serverdyno.servers.proof import free_port, get
from serverdyno.servers.spoken import Http2Spoken
from serverdyno.servers.tls import KEY, Identity, TlsServerSettings

GZIP_MIN_BYTES = 20  # minimum size for compression: nginx's default, for all servers with this setting
LISTEN_BACKLOG = 4096  # requested length; the kernel grants at most net.core.somaxconn
IDLE_CONNECTION_TIMEOUT_S = 15  # the same for all servers, so that differing defaults cause no difference
PROOF_PATH = "/.serverdyno/proof"
ACCESS_LOG = "access.log"
LOG_DELAY_S = 0.2  # an access log that hasn't grown for this time contains every request
HTTP2_PREFACE = b'"PRI * HTTP/2.0"'  # lighttpd logs this line at the end of each HTTP/2 connection


Dynamic = Literal["off", "cgi", "fastcgi", "in-process"]
DYNAMIC_MEANING = (
    "How the server generates the dynamic page: `cgi` starts a program per request, `fastcgi` uses a "
    "program that keeps running, `in-process` runs a script inside the server."
)


class WebSettings(TlsServerSettings):
    protocol: ClassVar[str | None] = HTTP.name
    needs_documents: ClassVar[bool] = True
    listens_elsewhere: ClassVar[bool] = True


class Http2Settings(Http2Spoken, WebSettings):
    pass


class Compressing(SettingsModel):
    gzip_level: int = Field(
        default=0,
        ge=0,
        le=9,
        description="gzip level for HTML, from 1 (fast) to 9 (small), for clients that send "
        "Accept-Encoding: gzip. 0: no compression.",
    )


def on_off(value: bool) -> str:
    """Return a Boolean in the syntax of Apache and nginx."""
    return "on" if value else "off"


@dataclass(frozen=True, slots=True)
class Behind:
    """The address of a server behind a front."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


WebSettingsT = TypeVar("WebSettingsT", bound=WebSettings)


class WebServer(LocalServer[WebSettingsT]):
    """A server that serves one document tree. See `base.ServerDriver` for the contract."""

    identity: Identity | None = None
    secure_port: int = 0
    """The TLS port, if the server also has a port without TLS."""
    backs: tuple[Behind, ...] = ()
    """For the front of a team: the servers to which it forwards requests."""
    page_program: ClassVar[Path] = dynamic.PROGRAM
    pages: list[str] = []  # noqa: RUF012 (replaced, never changed)

    @property
    def dynamic(self) -> str:
        """Return how the server generates the dynamic page."""
        return getattr(self.settings, "dynamic", "off")

    def choose_port(self) -> int:
        """Return a free port, and choose `secure_port` if the server also needs a port with TLS."""
        port = super().choose_port()
        self.secure_port = 0
        while self.settings.also_clear and self.secure_port in (0, port):
            self.secure_port = free_port(self.host)
        return port

    def ports(self) -> list[int]:
        """Return one port, or a port without TLS and a port with TLS."""
        return [self.port, *([self.secure_port] if self.secure_port else [])]

    def endpoints(self) -> list[tuple[int, bool]]:
        """Return every port on which the server listens, and whether it uses TLS there."""
        if not self.secure_port:
            return [(self.port, self.settings.over_tls)]
        return [(self.port, False), (self.secure_port, True)]

    def keeps_access_log(self) -> bool:
        """Return whether `access.log` gets a line per request."""
        return False

    @property
    def public_directory(self) -> Path:
        """Return the part of the private directory that is served as `/.serverdyno/`."""
        return self.directory / "public"

    @property
    def consent_directory(self) -> Path:
        """Return the directory that is served below `CONSENT_PATH`, if the server shows a consent."""
        return self.public_directory / "consent"

    def check_paths(self) -> None:
        """Check that the paths fit the configuration language, and that workers can read the documents."""
        super().check_paths()
        if not self.settings.needs_documents:
            return
        check_path(self.documents)
        if worker_user() is None:
            return
        for path in (self.documents, *self.documents.parents, *self.directory.parents):
            if not path.stat().st_mode & 0o001:
                raise ServerError(
                    f"{self.name}'s workers run as {WORKER_USER}, which has no access to {path}",
                    hint=f"chmod o+x {path}, or set TMPDIR to a directory that all users can enter.",
                )

    def furnish(self) -> None:
        """Write the secret if the server serves it, readable by the workers."""
        make_private(self.public_directory)
        (self.public_directory / Path(PROOF_PATH).name).write_text(self.secret)
        if self.shows_consent:
            make_private(self.consent_directory)
            (self.consent_directory / self.consent_token).write_text(self.consent_document())
        for path in self.directory.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        if self.shows_consent:
            # The token is the name of its file. Without permission to list the directory, other users can't find it.
            self.consent_directory.chmod(UNLISTED)
        if self.settings.over_tls:
            self.identity = Identity.make(self.settings.tls, self.host)
            self.identity.write(self.directory)
            (self.directory / KEY).chmod(0o600)
        if self.dynamic in ("cgi", "fastcgi"):
            dynamic.copy_program(self.directory, self.page_program)

    def answers_as_ours(self) -> bool:
        """Return whether every port serves the secret of the private directory. Raises AnswerError."""
        answers = [self.asked(PROOF_PATH, endpoint) for endpoint in self.endpoints()]
        return all(
            answer["status"] == HTTPStatus.OK and answer["body"] == self.secret.encode() for answer in answers
        )

    def asked(self, path: str, endpoint: tuple[int, bool] | None = None) -> _native.Answer:
        """Send one plain GET, by default to the first port. Raises AnswerError."""
        port, secure = endpoint or self.endpoints()[0]
        trust = self.identity.trust if secure and self.identity else None
        return get(port, path, trust, self.host, self.consent_token if self.is_elsewhere else None)

    def ready(self) -> None:
        """Wait as specified in `base.ServerDriver`, and prove the dynamic page, if there is one."""
        super().ready()
        self.pages = []
        if self.dynamic != "off":
            self.pages = [self._proven_page(endpoint) for endpoint in self.endpoints()]

    def _proven_page(self, endpoint: tuple[int, bool]) -> str:
        """Return a sentence on which server generated the page at a port. Raises ServerError."""
        query, over = dynamic.fresh_query(), "over TLS" if endpoint[1] else "in the clear"
        try:
            made = dynamic.judged(self.name, query, self.asked(f"{dynamic.PATH}?{query}", endpoint))
            if made.carrier not in (self.dynamic, "native"):
                raise ServerError(
                    f"{self.name}'s dynamic page is generated by {made.carrier}, not by {self.dynamic}"
                )
        except _native.AnswerError as error:
            raise ServerError(
                f"{self.name} did not send its dynamic page {over}: {error}\n{self._own_words()}",
                hint="The page's program may hang, or the server may be unable to reach it.",
            ) from error
        except ServerError as error:
            raise ServerError(f"{error}\n{self._own_words()}", hint=error.hint) from error
        return f"Before load, {made} generated the dynamic page {over}."

    def _own_words(self) -> str:
        return self._require_process().failure(self.directory / ERROR_LOG)

    def beside_the_page(self, command: list[str]) -> list[str]:
        """Return the server's command. With FastCGI, it also starts the page's program."""
        if self.dynamic != "fastcgi":
            return command
        user = worker_user()
        ids = [] if user is None else [str(number) for number in pwd.getpwnam(user)[2:4]]
        program = str(self.directory / dynamic.COPY)
        return [program, "beside", str(self.directory / dynamic.SOCKET), *ids, "--", *command]

    @property
    def url(self) -> str:
        """Return the URL. It is valid after `prepare` and may change in `ready`."""
        return self._url(*self.endpoints()[0])

    def _url(self, port: int, secure: bool) -> str:
        return f"{'https' if secure else 'http'}://{self.host}:{port}/"

    def access(self) -> Access:
        """Return access without log-on. Over TLS, the authority of the server's certificate is trusted."""
        return Access(
            self.url,
            trust=self.identity.trust if self.identity else SYSTEM,
            secure_url=self._url(self.secure_port, True) if self.secure_port else None,
            consent_token=self.consent_token if self.shows_consent else None,
        )

    def runs_as(self) -> str | None:
        """Return the user of the server's workers; None for the user of this process."""
        return worker_user()

    def common_notes(self) -> list[str]:
        """Return notes on the user of the workers, the dynamic page, and the count of requests."""
        notes = [f"Workers run as {self.runs_as() or 'the user of the tool'}.", *super().common_notes()]
        notes += self.pages
        if self.keeps_access_log():
            notes.append("Requests served: lines in the access log, including those of the readiness check.")
        return notes

    def requests_served(self) -> int | None:
        """Return the number of lines in the access log, including the readiness check's; None without an access log.

        Waits until the log has not grown for `LOG_DELAY_S`.
        """
        if not self.keeps_access_log() or self.process is None:
            return None
        size = -1
        while size != (size := self.access_log_bytes(self.process)):
            time.sleep(LOG_DELAY_S)
        with (self.directory / ACCESS_LOG).open("rb") as file:
            return sum(HTTP2_PREFACE not in line for line in file)

    def access_log_bytes(self, process: ServerProcess) -> int:
        """Return the size of the access log of the running server."""
        return (self.directory / ACCESS_LOG).stat().st_size
