"""The tables of protocols and kinds of work. To add one, write a module next to this one and a line here."""

from __future__ import annotations

import re
from typing import Any

from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.protocols.documents import DOCUMENTS
from serverdyno.plan.protocols.escapes import escaped
from serverdyno.plan.protocols.files import FILES
from serverdyno.plan.protocols.http import HTTP
from serverdyno.plan.protocols.model import HasSettings
from serverdyno.plan.protocols.nfs import NFS
from serverdyno.plan.protocols.objects import OBJECTS
from serverdyno.plan.protocols.posix import POSIX
from serverdyno.plan.protocols.s3 import S3
from serverdyno.plan.protocols.smb import SMB
from serverdyno.plan.protocols.work import Work

PROTOCOLS: dict[str, Protocol[Any]] = {protocol.name: protocol for protocol in (HTTP, SMB, NFS, POSIX, S3)}
WORKS: dict[str, Work[Any]] = {work.name: work for work in (DOCUMENTS, FILES, OBJECTS)}


def known() -> list[Protocol[Any]]:
    return list(PROTOCOLS.values())


def of(name: str) -> Protocol[Any]:
    """Return a protocol by name. Raises KeyError."""
    return PROTOCOLS[name]


def of_scheme(scheme: str) -> Protocol[Any] | None:
    """Return the protocol of a URL scheme; None if the scheme is unknown."""
    return next((protocol for protocol in PROTOCOLS.values() if scheme in protocol.schemes), None)


def has_host(scheme: str) -> bool:
    """Return whether URLs of this scheme name a host, as nearly all unknown schemes do."""
    protocol = of_scheme(scheme)
    return protocol is None or protocol.has_host


def normal_url(url: str) -> str:
    """Return a URL in the form used in requests and records. Text that is not a URL is returned unchanged.

    The scheme is in lower case, an empty port is removed, and a path precedes the query (RFC 3986, 6.2.3). In paths
    of files, repeated slashes are merged. In paths of documents and in prefixes of keys they stay, because a server may
    distinguish them. In paths of documents, letters outside ASCII are percent-encoded.
    """
    # The shortest form of a file's URL (RFC 8089, 2).
    url = re.sub(r"^file:/(?!/)", "file:///", url, flags=re.IGNORECASE)
    found = re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)", url, re.DOTALL)
    if found is None:
        return url
    scheme, host, rest = found[1].lower(), found[2], found[3]
    protocol = of_scheme(scheme)
    if protocol is not None and not protocol.work.uses_documents and not protocol.has_access_keys:
        path, mark, query = rest.partition("?")
        rest = re.sub("/{2,}", "/", path) + mark + query
    if has_host(scheme):
        host = host.removesuffix(":")
        rest = f"/{rest}" if rest.startswith("?") else rest
    if protocol is not None and protocol.work.uses_documents:
        rest = escaped(rest)
    return f"{scheme}://{host}{rest}"


def carrying(work: Work[Any]) -> list[Protocol[Any]]:
    """Return the protocols that carry a kind of work. The first is the default of older experiments."""
    return [protocol for protocol in PROTOCOLS.values() if protocol.work is work]


def work_of(workload: str) -> Work[Any]:
    """Return the kind of work of a workload. Raises KeyError."""
    for work in WORKS.values():
        if workload in work.workloads:
            return work
    raise KeyError(workload)


def workloads() -> list[str]:
    return [name for work in WORKS.values() for name in work.workloads]


def sections() -> dict[str, HasSettings[Any]]:
    """Return the protocols and kinds of work that have their own table in a suite's file, by the table's key."""
    having: list[HasSettings[Any]] = [*PROTOCOLS.values(), *WORKS.values()]
    return {each.section: each for each in having if each.section is not None}


def sections_for(work: Work[Any]) -> list[HasSettings[Any]]:
    """Return the owners of the settings that shape a suite's load: the work, and the protocols that carry it."""
    having: list[HasSettings[Any]] = [*carrying(work), work]
    return [each for each in having if each.section is not None]
