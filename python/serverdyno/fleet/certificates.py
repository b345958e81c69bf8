"""The certificates of a fleet: its authority, and one per machine, with a name and an expiry date.

Both sides of every connection present a certificate, whose name decides what its holder may do. Anyone with the
controller's certificate and key can generate load from every node of the fleet, on servers that consent. So protect the
key like an SSH key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from serverdyno.errors import UserError
from serverdyno.fleet.private_file import make_private, write_private

AUTHORITY, AUTHORITY_KEY = "authority.pem", "authority.key"
CERTIFICATE, KEY = "certificate.pem", "certificate.key"
SKEW = timedelta(minutes=5)  # tolerated difference between the clocks of machines


@dataclass(frozen=True, slots=True)
class Authority:
    """The authority that signs the certificates of one fleet."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, fleet: str, until: datetime) -> Authority:
        """Return a new authority that expires at `until`."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"serverdyno fleet {fleet}")
        certificate = (
            _builder(name, name, key, until)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def read(cls, folder: Path) -> Authority:
        """Return the authority of a fleet's folder. Raises UserError if its key is missing."""
        try:
            certificate = x509.load_pem_x509_certificate((folder / AUTHORITY).read_bytes())
            key = load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), password=None)
        except (OSError, ValueError) as error:
            raise UserError(f"can't read the fleet's certificate authority in {folder}: {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise UserError(f"{folder / AUTHORITY_KEY} is not a key made by dyno fleet init")
        return cls(certificate, key)

    def write(self, folder: Path) -> None:
        write_private(folder / AUTHORITY, self.certificate.public_bytes(Encoding.PEM))
        write_private(folder / AUTHORITY_KEY, _pem(self.key))

    def issue(self, name: str, folder: Path, until: datetime) -> None:
        """Write a certificate for `name`, its key, and the authority's certificate into a new folder."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
        certificate = (
            _builder(_name(name), self.certificate.subject, key, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        make_private(folder)
        write_private(folder / AUTHORITY, self.certificate.public_bytes(Encoding.PEM))
        write_private(folder / CERTIFICATE, certificate.public_bytes(Encoding.PEM))
        write_private(folder / KEY, _pem(key))


def name_of(shown: Mapping[str, Any] | None) -> str | None:
    """Return the name in a peer's certificate, given in the form of `ssl.SSLSocket.getpeercert`."""
    subject = (shown or {}).get("subject", ())
    names = [value for part in subject for key, value in part if key == "commonName"]
    return str(names[0]) if len(names) == 1 else None


def ends(folder: Path) -> datetime:
    """Return the expiry date of the certificate in a folder. Raises UserError if there is none."""
    try:
        certificate = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder} has no fleet certificate: {error}",
            hint="dyno fleet init creates a folder with a certificate for each node. Copy that folder to "
            "the node.",
        ) from error
    return certificate.not_valid_after_utc


def check_valid(folder: Path) -> None:
    """Raise UserError if the certificate in a folder has expired."""
    until = ends(folder)
    if until < datetime.now(UTC):
        raise UserError(
            f"the certificate in {folder} expired on {until:%d %B %Y at %H:%M} UTC",
            hint="Create new ones: dyno fleet init --renew.",
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime
) -> x509.CertificateBuilder:
    # `until` may be in the past: tests issue expired certificates.
    begins = min(datetime.now(UTC), until) - SKEW
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(until)
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
