"""The settings of the reference servers: one model per server, which defines all its options.

`...Serving` contains the settings that a plan can vary; the settings of the drivers inherit them (`reference.py`,
`reference_smb.py`, `reference_nfs.py`, `reference_s3.py`). `...Process` adds the other options of `dyno reference`: the
address, and options for tests (faults, counts, servers behind it). `document` returns the options for the data plane.
"""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from serverdyno import _native
from serverdyno.errors import refuse_contradictions
from serverdyno.plan.protocols.model import SettingsModel, Spelled
from serverdyno.plan.protocols.options import Option
from serverdyno.plan.protocols.smb import Dialect, wrong_dialects
from serverdyno.servers.base import MAX_VOLUMES
from serverdyno.servers.spoken import Http2Spoken, TlsSpoken
from serverdyno.units import MIB

LOOPBACK = "127.0.0.1"
MEMORY_SHARE = 0.75  # share of the memory that is free when the server is prepared
PASSWORD_VARIABLE = "DYNO_SMB_PASSWORD"
SECRET_VARIABLE = "AWS_SECRET_ACCESS_KEY"
Port = Annotated[int, Field(ge=0, le=65535)]
Threads = Annotated[int, Field(ge=1, le=256)]


class Process(SettingsModel):
    """Options of every reference server: address, port, and a fault."""

    port: Port = Field(default=0, description="Port to listen on; 0: any free port.")
    bind: str = Field(
        default=LOOPBACK,
        description="Address of this machine to listen on. Outside loopback, the server consents only to "
        "the token in DYNO_CONSENT_TOKEN, and needs --port.",
    )
    fault: str | None = Field(
        default=None, description="Simulate this fault; --list-faults shows all faults."
    )

    @field_validator("bind")
    @classmethod
    def _is_address(cls, address: str) -> str:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise ValueError(f"{address!r} is not an IP address") from None
        return address

    def _place(self, port: int) -> str:
        return f"[{self.bind}]:{port}" if ":" in self.bind else f"{self.bind}:{port}"


class HttpServing(SettingsModel):
    """Settings of the HTTP server."""

    body_bytes: int | None = Field(
        default=None,
        ge=0,
        le=2**30,
        description="Serve a document of this many bytes at every path, instead of the WebBench tree.",
    )


class HttpProcess(HttpServing, TlsSpoken, Http2Spoken, Process):
    """The options of `dyno reference http`."""

    threads: Threads = Field(default=1, description="Number of threads that handle requests.")
    tls_certificate: Path | None = Field(
        default=None, description="Speak TLS with this certificate (PEM); needs --tls-key."
    )
    tls_key: Path | None = Field(default=None, description="The private key of the certificate (PEM).")
    tls_port: Port | None = Field(
        default=None, description="Speak TLS on this port, and plain HTTP on --port; 0: any free port."
    )
    behind: list[Annotated[int, Field(ge=1, le=65535)]] = Field(
        default=[],
        description="Forward requests below /cgi-bin/ to a server on this port of this machine.",
    )

    @model_validator(mode="after")
    def makes_sense_together(self) -> Self:
        """Refuse TLS options if an option that they require is missing."""
        refuse_contradictions(
            {
                "tls_certificate and tls_key require each other: give both or neither": (
                    (self.tls_certificate is None) != (self.tls_key is None)
                ),
                "tls_port requires tls_certificate and tls_key": (
                    self.tls_port is not None and self.tls_certificate is None and self.tls_key is None
                ),
            }
        )
        return self

    def document(self) -> dict[str, Any]:
        """Return the options as the data plane reads them. Raises OSError for a file that can't be read."""
        return {
            "bind": self._place(self.port),
            "secure_port": self.tls_port,
            "tls": self._tls(),
            **self.model_dump(include={"threads", "body_bytes", "fault", "http2", "behind"}),
        }

    def _tls(self) -> dict[str, Any] | None:
        if self.tls_certificate is None or self.tls_key is None:
            return None
        return {
            "certificate": self.tls_certificate.read_text(encoding="utf-8"),
            "key": self.tls_key.read_text(encoding="utf-8"),
            "min_version": self.tls_min_version,
            "max_version": self.tls_max_version,
            "resumption": self.tls_resumption,
        }

    def start(self, documents: dict[str, bytes], **other: Any) -> _native.ReferenceServer:
        """Start the server in this process.

        `documents` contains additional documents by path; `other` overrides options.

        Raises ValueError or OSError.
        """
        return _native.ReferenceServer.start(json.dumps(self.document() | other), documents)


class FilesServing(SettingsModel):
    """Settings of a file server that do not depend on the protocol."""

    threads: Threads = Field(default=1, description="Number of threads that handle requests.")
    volumes: int = Field(
        default=1,
        ge=1,
        le=MAX_VOLUMES,
        description="Number of shares or exports: volume1, volume2 ..., each with its own tree.",
    )
    capacity_mib: int | None = Field(
        default=None,
        ge=1,
        le=2**24,
        description="Memory for files, in MiB; the disk is full when all of it is used. Default: three "
        "quarters of the free memory.",
    )
    outage_s: float = Field(
        default=1.0,
        ge=0,
        le=3600,
        description="Length of an outage, when a suite kills and restarts the server or SIGHUP restarts the "
        "service. The process keeps running, because the files are in its memory.",
    )

    def free_bytes(self) -> int:
        """Return the memory for files: the setting, or a share of the memory that is free now."""
        import psutil  # noqa: PLC0415  (the help does not need it)

        if self.capacity_mib is not None:
            return self.capacity_mib * MIB
        return max(MIB, int(psutil.virtual_memory().available * MEMORY_SHARE))

    @property
    def volume_names(self) -> tuple[str, ...]:
        """The names of the volumes, the same as on other file servers."""
        return tuple(f"volume{number}" for number in range(1, self.volumes + 1))


class FilesProcess(Process):
    """Options of every reference file server's process that no plan can set."""

    counts: Path | None = Field(
        default=None,
        description="Create this Unix socket. A program that connects to it receives the number of requests "
        "so far by name, as JSON.",
    )


class SmbServing(FilesServing):
    """Settings of the SMB server, named like Samba's settings if Samba has them."""

    min_dialect: Dialect = Field(default="2.0.2", description="The oldest dialect that the server speaks.")
    max_dialect: Dialect = Field(default="3.1.1", description="The newest dialect that the server speaks.")
    oplocks: bool = Field(default=True, description="Grant oplocks. Leases require oplocks.")
    smb2_leases: Annotated[bool | None, Option(("--leases",))] = Field(
        default=None, description="Grant leases; requires oplocks. Default: as oplocks."
    )
    directory_leases: bool | None = Field(
        default=None,
        description="Grant leases of directories, from SMB 3.0 on; requires leases. Default: as leases.",
    )
    durable_handles: bool = Field(
        default=True,
        description="Grant durable handles, which outlive their connection, to clients that ask for them.",
    )
    continuously_available: bool = Field(
        default=False,
        description="Grant persistent handles, which outlive a restart of the server. Requires "
        "durable_handles.",
    )
    signing: Literal["auto", "required"] = Field(
        default="auto",
        description="auto: sign messages if the client asks for it; required: always sign them.",
    )
    encryption: Literal["off", "auto", "required"] = Field(
        default="auto",
        description="off: never encrypt messages; auto: if the client asks for it; required: always.",
    )

    @model_validator(mode="after")
    def makes_sense_together(self) -> Self:
        """Refuse all contradictory settings in one error."""
        wrong = {
            "smb2_leases requires oplocks": bool(self.smb2_leases) and not self.oplocks,
            "directory_leases requires smb2_leases": bool(self.directory_leases) and not self.grants_leases,
            "continuously_available requires durable_handles": self.continuously_available
            and not self.durable_handles,
            **wrong_dialects(self.min_dialect, self.max_dialect, encrypts=self.encryption == "required"),
        }
        refuse_contradictions(wrong)
        return self

    @property
    def grants_leases(self) -> bool:
        return self.oplocks if self.smb2_leases is None else self.smb2_leases

    @property
    def grants_directory_leases(self) -> bool:
        return self.grants_leases if self.directory_leases is None else self.directory_leases


class SmbProcess(SmbServing, FilesProcess):
    """The options of `dyno reference smb`."""

    user: str | None = Field(
        default=None,
        description=f"Name of the only user. The password is in {PASSWORD_VARIABLE}. Default: guests.",
    )

    @model_validator(mode="after")
    def guests_have_no_keys(self) -> Self:
        """Refuse required signing or encryption without a user, because guests have no keys."""
        protects = "required" in (self.signing, self.encryption)
        refuse_contradictions(
            {"signing and encryption require a user, because guests have no keys": protects and not self.user}
        )
        return self

    def document(self, password: str = "") -> dict[str, Any]:
        """Return the options as the data plane reads them."""
        here = {"port", "volumes", "capacity_mib", "outage_s", "counts", "smb2_leases"}
        return {
            **self.model_dump(exclude=here),
            "bind": self._place(self.port),
            "shares": self.volume_names,
            "password": password,
            "leases": self.grants_leases,
            "directory_leases": self.grants_directory_leases,
            "capacity_bytes": self.free_bytes(),
        }

    def start(self, files: dict[str, bytes], password: str = "", **other: Any) -> _native.ReferenceSmbServer:
        """Start the server in this process. `files` go to the root of each share; `other` overrides options.

        Raises ValueError or OSError.
        """
        return _native.ReferenceSmbServer.start(json.dumps(self.document(password) | other), files)


class NfsServing(FilesServing):
    """Settings of the NFS server."""

    max_transfer_bytes: int = Field(
        default=2**20,
        ge=4096,
        le=2**20,
        description="Maximum size of a READ or WRITE, in bytes. The server also prefers this size.",
    )
    flush: Literal["honour", "ignore"] = Field(
        default="honour",
        description="What COMMIT and stable writes do. honour: the file survives a restart of the service. "
        "ignore: the server answers in the same way, but the file does not survive, as with the "
        "export option async.",
    )


class NfsProcess(NfsServing, FilesProcess):
    """The options of `dyno reference nfs`. NFS and MOUNT are on one port."""

    portmapper_port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None, description="Also run a portmapper on this port; the standard port is 111."
    )
    udp: bool = Field(default=False, description="Also answer NFSv3, MOUNT and portmapper requests over UDP.")
    delegations: bool = Field(default=True, description="Grant read delegations to NFSv4.1 clients.")

    def document(self) -> dict[str, Any]:
        """Return the options as the data plane reads them."""
        here = {"port", "volumes", "capacity_mib", "outage_s", "counts", "portmapper_port"}
        return {
            **self.model_dump(exclude=here),
            "bind": self._place(self.port),
            "portmapper": None if self.portmapper_port is None else self._place(self.portmapper_port),
            "exports": [f"/{name}" for name in self.volume_names],
            "capacity_bytes": self.free_bytes(),
        }

    def start(self, files: dict[str, bytes], **other: Any) -> _native.ReferenceNfsServer:
        """Start the server in this process. `files` go to the root of each export; `other` overrides options.

        Raises ValueError or OSError.
        """
        return _native.ReferenceNfsServer.start(json.dumps(self.document() | other), files)


class S3Serving(FilesServing):
    """Settings of the S3 server. Its volumes are buckets."""

    region: Annotated[
        str, Spelled(r"[a-z0-9-]{1,32}", "a name of lower-case letters, digits and hyphens")
    ] = Field(default="us-east-1", description="Region that clients must sign for.")
    flush: Literal["honour", "ignore"] = Field(
        default="honour",
        description="What an acknowledged PUT means. honour: the object survives a restart of the service. "
        "ignore: a restart of the service loses all objects, as a power cut would on a server that never syncs.",
    )


class S3Process(S3Serving, FilesProcess):
    """The options of `dyno reference s3`."""

    access_key_id: str | None = Field(
        default=None,
        max_length=128,
        pattern=r"^[!-~]+$",
        description=(
            f"ID of the only access key. The secret is in {SECRET_VARIABLE}; signatures are verified. Default: "
            "anyone may do everything, without a key."
        ),
    )
    tls_certificate: Path | None = Field(
        default=None, description="Speak only TLS, with this certificate (PEM); needs --tls-key."
    )
    tls_key: Path | None = Field(default=None, description="The private key of the certificate (PEM).")

    @model_validator(mode="after")
    def both_or_neither(self) -> Self:
        """Refuse a certificate without its key, and a key without its certificate."""
        only_one = (self.tls_certificate is None) != (self.tls_key is None)
        refuse_contradictions(
            {"tls_certificate and tls_key require each other: give both or neither": only_one}
        )
        return self

    def document(self, secret: str = "") -> dict[str, Any]:
        """Return the options as the data plane reads them. Raises OSError for a file that can't be read."""
        tls = None
        if self.tls_certificate is not None and self.tls_key is not None:
            tls = {
                "certificate": self.tls_certificate.read_text(encoding="utf-8"),
                "key": self.tls_key.read_text(encoding="utf-8"),
                "min_version": "1.2",
                "max_version": "1.3",
                "resumption": True,
            }
        return {
            **self.model_dump(include={"fault", "threads", "region", "flush"}),
            "bind": self._place(self.port),
            "tls": tls,
            "access_key": self.access_key_id and {"id": self.access_key_id, "secret": secret},
            "buckets": self.volume_names,
            "capacity_bytes": self.free_bytes(),
        }

    def start(self, objects: dict[str, bytes], secret: str = "", **other: Any) -> _native.ReferenceS3:
        """Start the server in this process. `objects` are in each bucket; `other` overrides options.

        Raises ValueError or OSError.
        """
        return _native.ReferenceS3.start(json.dumps(self.document(secret) | other), objects)
