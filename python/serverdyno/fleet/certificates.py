"""The certificates of a fleet: an authority of its own, and one for each of its machines, each with an end.

Both sides of every connection show one. Who has one may make load from every node of the fleet, within what servers
consent to: keep them as SSH keys are kept. Not for: the certificates of servers under test.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

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

AUTHORITY, AUTHORITY_KEY = "authority.pem", "authority.key"
CERTIFICATE, KEY = "certificate.pem", "certificate.key"
SKEW = timedelta(minutes=5)  # clocks of machines differ


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs the certificates of one fleet."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, fleet: str, until: datetime) -> Authority:
        """One that ends at `until`."""
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
        """That of a fleet's folder. Raises UserError where its key is not there."""
        try:
            certificate = x509.load_pem_x509_certificate((folder / AUTHORITY).read_bytes())
            key = load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), password=None)
        except (OSError, ValueError) as error:
            raise UserError(f"the authority of the fleet in {folder} can't be read: {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise UserError(f"{folder / AUTHORITY_KEY} is no key that dyno fleet init made")
        return cls(certificate, key)

    def write(self, folder: Path) -> None:
        """Its certificate and its key, the key for this user alone."""
        (folder / AUTHORITY).write_bytes(self.certificate.public_bytes(Encoding.PEM))
        _write_key(folder / AUTHORITY_KEY, self.key)

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
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / AUTHORITY).write_bytes(self.certificate.public_bytes(Encoding.PEM))
        (folder / CERTIFICATE).write_bytes(certificate.public_bytes(Encoding.PEM))
        _write_key(folder / KEY, key)


def ends(folder: Path) -> datetime:
    """When the certificate in a folder ends. Raises UserError where there is none."""
    try:
        certificate = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder} has no certificate of a fleet: {error}",
            hint="dyno fleet init makes them, a folder for each node: copy that folder to the node.",
        ) from error
    return certificate.not_valid_after_utc


def check_valid(folder: Path) -> None:
    """Raises UserError for a certificate that has ended."""
    until = ends(folder)
    if until < datetime.now(UTC):
        raise UserError(
            f"the certificate in {folder} ended on {until:%d %B %Y at %H:%M} UTC",
            hint="Make new ones: dyno fleet init --renew.",
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime
) -> x509.CertificateBuilder:
    # A certificate may be made that has ended: tests show that it is refused.
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


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
