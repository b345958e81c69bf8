"""TLS settings of clients: versions, ciphers, and the share of resumed sessions.

`servers/tls.py` issues the certificates of servers that dyno starts; `access.py` says which ones clients trust.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from serverdyno import _native
from serverdyno.errors import UserError, refuse_pipe
from serverdyno.plan.protocols.model import Model
from serverdyno.plan.protocols.options import Option

TlsVersion = Literal["1.2", "1.3"]


class ClientCertificate(Model):
    """The certificate that clients present to a server that asks for one."""

    certificate: Annotated[str | None, Option(("--cert", "-E"))] = Field(
        default=None,
        description="A file with the client's certificate and its chain (PEM), for servers that ask for one.",
    )
    key: Annotated[str | None, Option(("--key",))] = Field(
        default=None,
        description="A file with the private key of the certificate (PEM). Default: the file "
        "of the certificate.",
    )

    @model_validator(mode="after")
    def has_a_certificate(self) -> Self:
        if self.key is not None and self.certificate is None:
            raise ValueError("key needs a certificate")
        return self

    def identity(self) -> tuple[str, str] | None:
        """Return certificate and key in PEM; None if clients have no certificate. Raises UserError."""
        if self.certificate is None:
            return None
        certificate, key = _read(self.certificate), _read(self.key or self.certificate)
        if wrong := _native.identity_problem(certificate, key):
            raise UserError(
                f"the client certificate {self.certificate} can't be used: {wrong}",
                hint=self._hint(certificate, key),
            )
        return certificate, key

    def _hint(self, certificate: str, key: str) -> str:
        if "BEGIN TRUSTED CERTIFICATE" in certificate:
            return f"Convert it: openssl x509 -in {self.certificate} -out PLAIN"
        if "BEGIN CERTIFICATE" not in certificate:
            return f"{self.certificate} does not contain a certificate (PEM)."
        if "ENCRYPTED" in key:
            return (
                "The key has a passphrase. Remove it with: "
                f"openssl pkey -in {self.key or self.certificate} -out PLAIN"
            )
        if "PRIVATE KEY" not in key:
            given = "give its file as key (--key)" if self.key is None else f"{self.key} is another file"
            return f"There is no private key (PEM): {given}."
        return "Give the private key of this certificate, and a chain that contains only certificates."


class TlsSettings(ClientCertificate):
    """What a client offers in a handshake.

    `resumption` is the share of connections that offer to resume an earlier session.
    """

    min_version: Annotated[TlsVersion, Option(("--tls-min",))] = Field(
        default="1.2", description="The oldest version of TLS that a client offers."
    )
    max_version: Annotated[TlsVersion, Option(("--tls-max",))] = Field(
        default="1.3", description="The newest version of TLS that a client offers."
    )
    ciphers: Annotated[list[str], Option(listed=True)] = Field(
        default=[],
        max_length=32,
        description="Cipher suites by their IANA names, in order of preference. Default: all.",
    )
    resumption: Annotated[float, Option()] = Field(
        default=0.0,
        ge=0.0,
        le=1.0,
        description="Share of connections that offer to resume an earlier session.",
    )

    @model_validator(mode="after")
    def makes_sense_together(self) -> Self:
        """Refuse versions in the wrong order, and cipher suites that these versions do not support."""
        if self.min_version > self.max_version:
            raise ValueError("min_version is above max_version")
        if self.ciphers and (wrong := _native.tls_problem(self.min_version, self.max_version, self.ciphers)):
            raise ValueError(wrong)
        return self

    def described(self) -> str:
        """Describe the clients' offer, for the methodology."""
        versions = (
            self.max_version
            if self.min_version == self.max_version
            else f"{self.min_version} to {self.max_version}"
        )
        shown = "" if self.certificate is None else ", and show a client certificate"
        ciphers = f", ciphers {', '.join(self.ciphers)}" if self.ciphers else ""
        if self.resumption == 0:
            resumed = "without session resumption"
        elif self.resumption == 1:
            resumed = "with resumption of an earlier session whenever there is one"
        else:
            resumed = f"with resumption of an earlier session on {self.resumption:.0%} of the connections"
        offered = f"Clients offer TLS {versions}{ciphers}, {resumed}{shown}"
        return f"{offered}; they always verify the signatures of handshakes"


def _read(file: str) -> str:
    try:
        # Editors on Windows write a byte order mark at the beginning of a file.
        return refuse_pipe(Path(file).expanduser()).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{file} is not PEM text",
            hint=f"To convert PKCS #12 (.p12, .pfx): openssl pkcs12 -in {file} -nodes -out FILE.pem. "
            f"To convert DER: openssl x509 -inform der -in {file} -out FILE.pem.",
        ) from error
    except OSError as error:
        raise UserError(f"the client certificate or key {file} can't be read: {error.strerror}") from error


def over_tls(url: str | None, server_settings: Any) -> bool:
    """Return whether clients use TLS, judged by the URL, or by the settings of a server that dyno starts."""
    if url is not None:
        return url.lower().startswith("https:")
    return bool(server_settings.get("tls", "off") != "off" and not server_settings.get("also_clear", False))
