"""What the drivers of web servers that we start add to `local.py`: documents, a URL, a secret over HTTP, a log.

Not for web servers that the user runs: see `external.py`.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar, TypeVar

from serverdyno import _native
from serverdyno.errors import ServerError
from serverdyno.protocols.access import SYSTEM
from serverdyno.protocols.http import HTTP
from serverdyno.servers.base import Access
from serverdyno.servers.local import (
    WORKER_USER,
    LocalServer,
    check_path,
    make_private,
    worker_user,
)
from serverdyno.servers.proof import LOOPBACK, get
from serverdyno.servers.tls import KEY, Identity, TlsServerSettings

LISTEN_BACKLOG = 4096  # asked for; the kernel grants at most net.core.somaxconn
IDLE_CONNECTION_TIMEOUT_S = 15  # the same for all, so that no difference comes from differing defaults
PROOF_PATH = "/.serverdyno/proof"
ACCESS_LOG = "access.log"


class WebSettings(TlsServerSettings):
    """The settings of a server that speaks HTTP, with or without TLS."""

    protocol: ClassVar[str | None] = HTTP.name
    needs_documents: ClassVar[bool] = True


def on_off(value: bool) -> str:
    """As Apache and nginx spell it."""
    return "on" if value else "off"


WebSettingsT = TypeVar("WebSettingsT", bound=WebSettings)


class WebServer(LocalServer[WebSettingsT]):
    """A server of one document tree. See `base.ServerDriver` for the contract."""

    identity: Identity | None = None
    log_delay_s: ClassVar[float] = 0.2  # an access log that hasn't grown for so long holds every request

    def keeps_access_log(self) -> bool:
        """Whether `access.log` gets a line a request."""
        return False

    @property
    def public_directory(self) -> Path:
        """The part of the private directory that is served, as `/.serverdyno/`."""
        return self.directory / "public"

    def check_paths(self) -> None:
        """That the configuration language takes the paths, and that the workers can read the documents."""
        super().check_paths()
        if not self.settings.needs_documents:
            return
        check_path(self.documents)
        if worker_user() is None:
            return
        for path in (self.documents, *self.documents.parents, *self.directory.parents):
            if not path.stat().st_mode & 0o001:
                raise ServerError(
                    f"{path} can't be entered by {WORKER_USER}, as whom the workers of {self.name} run",
                    hint=f"chmod o+x {path}, or set TMPDIR to a directory that everybody can enter.",
                )

    def furnish(self) -> None:
        """The secret, where the server hands it out; everything readable by the workers."""
        make_private(self.public_directory)
        (self.public_directory / Path(PROOF_PATH).name).write_text(self.secret)
        for path in self.directory.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        if self.settings.over_tls:
            self.identity = Identity.make(self.settings.tls)
            self.identity.write(self.directory)
            (self.directory / KEY).chmod(0o600)

    def answers_as_ours(self) -> bool:
        """Whether it hands out the secret of its private directory. Raises AnswerError."""
        answer = self.asked(PROOF_PATH)
        return answer["status"] == HTTPStatus.OK and answer["body"] == self.secret.encode()

    def asked(self, path: str) -> _native.Answer:
        """One plain GET. Raises AnswerError."""
        return get(self.port, path, self.identity.trust if self.identity else None)

    @property
    def url(self) -> str:
        """After `prepare`; it may change in `ready`."""
        return f"{'https' if self.settings.over_tls else 'http'}://{LOOPBACK}:{self.port}/"

    def access(self) -> Access:
        """Everybody is let in; over TLS, who signed the server's certificate is trusted."""
        return Access(self.url, trust=self.identity.trust if self.identity else SYSTEM)

    def common_notes(self) -> list[str]:
        """As whom its workers run, and what its count of requests is."""
        notes = [f"Workers run as {worker_user() or 'the user of the tool'}.", *super().common_notes()]
        if self.keeps_access_log():
            notes.append("Requests served: lines of the access log, those of the readiness check included.")
        return notes

    def requests_served(self) -> int | None:
        """Lines of the access log, the readiness check's included, or None where there is no access log.

        Waits until the log has not grown for `log_delay_s`.
        """
        if not self.keeps_access_log() or self.process is None:
            return None
        log = self.directory / ACCESS_LOG
        size = -1
        while size != (size := log.stat().st_size):
            time.sleep(self.log_delay_s)
        with log.open("rb") as file:
            return sum(1 for _ in file)
