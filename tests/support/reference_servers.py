"""Reference servers of this process, started through the models of their options.

`options`: fields of the model, and other keys of the document that the data plane reads.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from serverdyno import _native
from serverdyno.servers.reference_model import HttpProcess, NfsProcess, S3Process, SmbProcess


def start_http(documents: dict[str, bytes] | None = None, **options: Any) -> _native.ReferenceServer:
    fields, other = _parted(HttpProcess, options)
    return HttpProcess(**fields).start(documents or {}, **other)


def tls_of(authority: _native.Authority, key: str = "ecdsa-p256", **changed: Any) -> Any:
    """Return the TLS options of a server with a new certificate for `names`; `made`: its other options."""
    names, made = changed.pop("names", ["127.0.0.1"]), changed.pop("made", {})
    certificate, private = authority.certify(key, names, **made)
    versions = {"min_version": "1.2", "max_version": "1.3", "resumption": True}
    return {"certificate": certificate, "key": private, **versions, **changed}


def start_smb(files: dict[str, bytes] | None = None, **options: Any) -> _native.ReferenceSmbServer:
    fields, other = _parted(SmbProcess, options)
    return SmbProcess(**fields).start(files or {}, **other)


def start_nfs(files: dict[str, bytes] | None = None, **options: Any) -> _native.ReferenceNfsServer:
    fields, other = _parted(NfsProcess, options)
    return NfsProcess(**fields).start(files or {}, **other)


def start_s3(objects: dict[str, bytes] | None = None, **options: Any) -> _native.ReferenceS3:
    fields, other = _parted(S3Process, options)
    return S3Process(**fields).start(objects or {}, **other)


def _parted(model: type[BaseModel], options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    fields = {name: value for name, value in options.items() if name in model.model_fields}
    return fields, {name: value for name, value in options.items() if name not in fields}
