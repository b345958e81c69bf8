"""A server that the user runs.

The scheme of its URL determines the protocol. Nothing is started, stopped or configured.

The data plane checks whether the server consents to load. `plan/protocols/look.py` checks the server before and after
the load.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from serverdyno import _native
from serverdyno.errors import UserError, refuse_pipe
from serverdyno.plan import protocols
from serverdyno.plan.protocols.access import ANYBODY, SYSTEM, US_EAST_1, AccessKey, Addressing, authorities
from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.protocols.look import Look, again, first
from serverdyno.plan.protocols.model import Spelled
from serverdyno.plan.protocols.smb import share_of
from serverdyno.plan.protocols.tls import ClientCertificate
from serverdyno.servers.access_key import access_key, region
from serverdyno.servers.base import Access, Description, Installed, Settings
from serverdyno.servers.log_on import Authentication, password_of, ticket_for
from serverdyno.servers.users_process import UsersProcess
from serverdyno.wording import plural

EXAMPLE = (
    "For example: http://127.0.0.1:8080/, smb://files.example/, nfs://files.example/export, "
    "s3://127.0.0.1:8333/bucket or file:///mnt/disk"
)

MARKED_BYTES = 4096
OTHER_FORMS = (
    (b"PRIVATE KEY-----", "a private key", None),
    (b"BEGIN TRUSTED CERTIFICATE", "a certificate in OpenSSL's own format", "x509"),
    (b"BEGIN PKCS7", "certificates as PKCS #7", "pkcs7 -print_certs"),
    (
        b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02",
        "certificates as PKCS #7 (DER)",
        "pkcs7 -inform der -print_certs",
    ),
    (b"\x30\x82", "a certificate as DER", "x509 -inform der"),
)
"""Contents other than PEM certificates: bytes that identify them, a name, and the openssl command to convert them."""


class ExternalSettings(Settings, ClientCertificate):
    """Settings for logging on. They do not contain the password, because reports disclose settings."""

    is_external: ClassVar[bool] = True

    shares: list[str] = Field(
        default=[],
        max_length=16,
        description="Names of the shares of an SMB server, to which clients are assigned in turn. Default: the "
        "share in the URL.",
    )

    @field_validator("shares")
    @classmethod
    def are_names_of_shares(cls, shares: list[str]) -> list[str]:
        """Check that each share is a single name and occurs once."""
        if wrong := [share for share in shares if not share or set(share) & set("/\\")]:
            raise ValueError(f"not a valid share name: {', '.join(map(repr, wrong))}")
        if len({share.lower() for share in shares}) < len(shares):
            raise ValueError("a share is listed twice")
        return shares

    user: str | None = Field(
        default=None,
        description='User of an SMB server, or "DOMAIN\\user". Default: a guest; with Kerberos, the ticket\'s owner.',
    )
    authentication: Authentication = Field(
        default="ntlm",
        description="How clients log on to an SMB server. ntlm: with the user's password. kerberos: with a "
        "ticket from kinit or, if user is set, with the password or the keytab that "
        "KRB5_CLIENT_KTNAME names. dyno never falls back from one to the other.",
    )
    directories: list[str] = Field(
        default=[],
        max_length=16,
        description="For a file server on this machine: the local directory of each share. dyno inspects "
        "the file system there, briefly creates test files, and checks that a directory created through "
        "the share appears there.",
    )
    trust: str = Field(
        default=SYSTEM,
        description='For an https:// or s3s:// URL: the certificates to trust. "system": this system\'s authorities. '
        '"anybody": any certificate, so the identity of the server is unknown. Otherwise a file of authorities '
        "(PEM), relative to the plan's folder.",
    )
    secure_url: str | None = Field(
        default=None,
        description="For an http:// URL and e-commerce suites: the https:// URL of the same server.",
    )
    connect_to: Annotated[str | None, Field(pattern=r"^(/.{1,106}|[0-9A-Fa-f.:]{2,45})$")] = Field(
        default=None,
        description="For a web server: an IP address, or the absolute path of a Unix socket, to connect to "
        "instead of the URL's host. Requests still name the URL's host.",
    )
    region: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Region of an object server. Default: AWS_REGION, the region of the AWS profile, or us-east-1.",
    )
    addressing: Addressing = Field(
        default="path",
        description="Where requests to an object server name the bucket. path: at the beginning of the path. virtual: "
        "in front of the host's name.",
    )
    password_variable: Annotated[
        str,
        Spelled(
            r"[A-Za-z_][A-Za-z0-9_]*",
            "a name of letters, digits and underscores that does not begin with a digit",
        ),
    ] = Field(
        default="DYNO_SMB_PASSWORD",
        description="Environment variable with the user's password.",
    )


class External:
    """A server that the user runs, with its URL and log-on. See `base.ServerDriver` for the contract."""

    name: ClassVar[str] = "external"
    summary: ClassVar[str] = "your own server (by its URL), or a directory"
    debian_package: ClassVar[str | None] = None
    settings_type: ClassVar[type[Settings]] = ExternalSettings

    def __init__(
        self,
        settings: ExternalSettings,
        directory: Path,
        documents: Path,
        cpus: Sequence[int] = (),
        url: str | None = None,
    ) -> None:
        """Create the driver, ignoring `directory`, `documents` and `cpus`. Raises UserError for unusable arguments."""
        del directory, documents, cpus
        if url is None:
            raise UserError(f"server {self.name!r} needs a url", hint=EXAMPLE)
        self.settings = settings
        self._url = url
        self._protocol, self._look = _look(url, settings)
        self._target: Any = None
        self._ticket: str | None = None
        self._process: UsersProcess | None = None
        if self._look.has_shares and not settings.shares and (share := share_of(url)):
            self.settings = settings = settings.model_copy(update={"shares": [share]})
        if self._look.has_shares and not settings.shares:
            raise UserError(f"server {self.name!r} needs shares", hint='For example: shares = ["volume1"]')
        if settings.directories and not is_loopback(url):
            raise UserError(f"{url}: directories requires a server on this machine, with a loopback URL")
        if settings.directories and len(settings.directories) != max(1, len(settings.shares)):
            raise UserError(
                f"{url}: directories must name one directory per share, but has {len(settings.directories)} for "
                f"{plural(max(1, len(settings.shares)), 'share')}"
            )
        for_smb = settings.shares or settings.user is not None or self._by_kerberos
        if not self._look.has_shares and for_smb:
            raise UserError(f"{url}: shares, user and authentication require a URL that begins with smb://")
        secure_url = settings.secure_url
        is_web = self._protocol.work.uses_documents
        if settings.connect_to is not None and (not is_web or secure_url):
            raise UserError(f"{url}: connect_to is only for web servers, and only without secure_url")
        if secure_url is not None and not (
            url.startswith("http:") and secure_url.startswith("https:") and _look(secure_url, settings)
        ):
            raise UserError(f"{url}: secure_url must begin with https://, and url with http://")
        if (settings.region or settings.addressing != "path") and not self._protocol.has_access_keys:
            raise UserError(f"{url}: region and addressing are only for URLs that begin with s3:// or s3s://")
        secure = secure_url is not None or self._is_secure
        for name, is_given, where in (
            ("trust", settings.trust != SYSTEM and not secure, "https:// or s3s://"),
            ("certificate", settings.certificate is not None and not (secure and is_web), "https://"),
        ):
            if is_given:
                raise UserError(f"{url}: {name} is only for URLs that begin with {where}")

    @staticmethod
    def installed() -> Installed | None:
        return Installed("not known before the first answer", None)

    def listen_on(self, address: str) -> None:
        """Raise UserError, because the user decides on which address the server listens."""
        raise UserError(f"the server {self.name} can't listen on the address {address}")

    def prepare(self) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def ready(self) -> None:
        """Check that the password or the access key is known, or a ticket exists. Raises UserError or ServerError."""
        settings = self.settings
        self._access_key()
        self._ticket = ticket_for(
            self._url, settings.user, settings.password_variable, settings.authentication
        )

    @property
    def _by_kerberos(self) -> bool:
        return self.settings.authentication == "kerberos"

    def _password(self) -> str | None:
        return password_of(self.settings.user, self.settings.password_variable)

    def _access_key(self) -> AccessKey | None:
        """Return the access key currently in the environment or in the profile files. Raises UserError."""
        return access_key() if self._protocol.has_access_keys else None

    @property
    def _is_secure(self) -> bool:
        return self._url.startswith(f"{self._protocol.secure_scheme}:")

    @property
    def is_here(self) -> bool:
        """Return True, because it is not known whether the server runs on this machine."""
        return True

    def ask(self, target: Any) -> None:
        """Check that the server answers, and find its processes if it is on loopback. Raises ServerError."""
        first(self._look, self._protocol.title, self._url, target)
        self._target = target
        socket = (self.settings.connect_to or "").startswith("/")
        if target.loopback and self._look.port is not None and not socket:
            self._process = UsersProcess.listening_at(target.address)

    def check(self) -> None:
        """Check that the server still answers. Raises ServerError."""
        if self._target is not None:
            again(self._look, self._protocol.title, self._url, self._target)

    def describe(self) -> Description:
        let_in = (
            self.settings.model_dump(exclude={"trust", "certificate", "key"}) if self._look.has_shares else {}
        )
        if self._protocol.has_access_keys:
            let_in = {"region": self._region(), "addressing": self.settings.addressing}
        if self._is_secure:
            let_in |= {"trust": self.settings.trust}
        if self.settings.secure_url is not None:
            let_in = {"secure_url": self.settings.secure_url, "trust": self.settings.trust}
        if self.settings.certificate is not None:
            let_in |= {"certificate": self.settings.certificate}
        if self.settings.connect_to is not None:
            let_in |= {"connect_to": self.settings.connect_to}
        return Description(
            server=self.name,
            version=self._look.version() or "unknown",
            command=[],
            settings={"url": self._url, **let_in},
            notes=[*self._look.notes(), *self._trust_notes(), *self._key_notes(), self._known()],
        )

    @property
    def url(self) -> str:
        return self._url

    def access(self) -> Access:
        """Return the access, with the ticket that `ready` found or the password currently in the environment."""
        return Access(
            self._url,
            self.settings.user,
            None if self._by_kerberos else self._password(),
            tuple(self.settings.shares),
            ticket=self._ticket,
            trust=self._trust(),
            identity=self.settings.identity(),
            secure_url=self.settings.secure_url,
            connect_to=self.settings.connect_to,
            access_key=self._access_key(),
            region=self._region(),
            addressing=self.settings.addressing,
        )

    def _region(self) -> str:
        """Return the region in the settings, or for an object server the region from the environment.

        Raises UserError.
        """
        return self.settings.region or (region() if self._protocol.has_access_keys else US_EAST_1)

    def _trust(self) -> Any:
        """Return the trusted certificates. Raises UserError if a file of authorities can't be read."""
        if self.settings.trust in (SYSTEM, ANYBODY):
            return self.settings.trust
        file = self.settings.trust
        try:
            content = refuse_pipe(Path(file).expanduser()).read_bytes()
        except OSError as error:
            raise UserError(
                f"the authorities in {file} can't be read: {error.strerror}",
                hint="Give the file of the authority's certificate, or of the server's own certificate.",
            ) from error
        if b"-----BEGIN CERTIFICATE-----" not in content:
            holds, converted = next(
                ((holds, command) for mark, holds, command in OTHER_FORMS if mark in content[:MARKED_BYTES]),
                ("no certificate (PEM)", None),
            )
            raise UserError(
                f"the authorities in {file}: this file contains {holds}",
                hint=f"Convert it: openssl {converted} -in {file} -out authorities.pem"
                if converted
                else "Give the file of the authority's certificate, or of the server's own certificate.",
            )
        # Editors on Windows write a byte order mark at the beginning of a file.
        return authorities(content.decode("utf-8-sig", errors="replace"))

    def _key_notes(self) -> list[str]:
        if self._protocol.has_access_keys and self._access_key() is None:
            return ["Requests were anonymous: neither the environment nor an AWS profile has an access key."]
        return []

    def _trust_notes(self) -> list[str]:
        if self._is_secure and self.settings.trust == ANYBODY:
            return ["Any certificate was accepted, so the server's identity is not known."]
        return []

    def _known(self) -> str:
        if self._look.directory is not None:
            return "A directory, which the kernel serves: its CPU time is included in the generator's."
        if self._process is None:
            return "Started by the user: its configuration, CPU time and memory are unknown."
        return (
            f"Started by the user on this machine: CPU time and memory are those of "
            f"{self._process.program()} and its "
            "children; its configuration is unknown."
        )

    def cpu_s(self) -> float | None:
        return None if self._process is None else self._process.cpu_s()

    def cpu_by_member_s(self) -> dict[str, float | None]:
        return {}

    def rss_bytes(self) -> int | None:
        return None if self._process is None else self._process.rss_bytes()

    def pids(self) -> list[int]:
        return [] if self._process is None else self._process.pids()

    def data_directories(self) -> list[Path]:
        """Return the directory of a `file:` URL, or the directories in the settings."""
        if self._look.directory is not None:
            return [self._look.directory]
        return [Path(directory) for directory in self.settings.directories]

    def crashes(self) -> list[str]:
        """Return an empty list, because the log of a user's server is not read."""
        return []

    def requests_served(self) -> int | None:
        return None

    def syncs_served(self) -> int | None:
        return None


def is_loopback(url: str) -> bool:
    """Return whether a URL names loopback."""
    return bool(_native.names_loopback(urlsplit(url).netloc))


def _look(url: str, settings: ExternalSettings) -> tuple[Protocol[Any], Look]:
    """Return the URL's protocol and the check of its server. Raises UserError."""
    try:
        parts = urlsplit(url)
        protocol = protocols.of_scheme(parts.scheme)
        place = parts.path if protocol and not protocol.has_host else parts.hostname
        plain = place and parts.port != 0 and not parts.fragment and parts.username is None
    except ValueError as error:
        raise UserError(f"{url}: {error}") from None
    look = protocol.look(url) if protocol and plain else None
    if protocol is None or look is None or settings.protocol not in (None, protocol.name):
        raise UserError(f"{url}: not a URL that dyno can load", hint=EXAMPLE)
    if look.has_shares and parts.query:
        raise UserError(f"{url}: not a URL of a file server", hint=EXAMPLE)
    return protocol, look
