"""The negotiated TLS parameters of each configuration, and differences between compared configurations.

In VeriTest's report of 2003 (figure 46) the servers did not even use the same cipher. The cost per handshake and
per byte depends on version, cipher, key exchange, key, and the share of resumed sessions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from serverdyno import wording
from serverdyno.analysis.oddities import resumption_differs
from serverdyno.plan.protocols.access import ANYBODY
from serverdyno.plan.protocols.http import HTTP
from serverdyno.report.source import Source


@dataclass(frozen=True, slots=True)
class Handshakes:
    """One configuration's handshakes over all levels, ramps included. `groups`: handshakes by key exchange."""

    terms: Counter[str]
    groups: Counter[str]
    full: int
    resumed: int

    @property
    def share_resumed(self) -> float:
        return self.resumed / (self.full + self.resumed)


def handshakes(source: Source, configuration: str) -> Handshakes | None:
    """Return the handshakes of a configuration; None without TLS."""
    terms: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    full = resumed = 0
    for record in source.records_of(configuration):
        for row in record.handshakes:
            terms[f"{row.version}, {row.cipher}, certificate with {row.key}"] += row.count
            full += 0 if row.resumed else row.count
            resumed += row.count if row.resumed else 0
            if row.key_exchange is not None:
                groups[row.key_exchange] += row.count
    return Handshakes(terms, groups, full, resumed) if full + resumed else None


def sentences(source: Source, configuration: str) -> str:
    """Return the negotiated TLS parameters of a configuration; empty without TLS."""
    found = handshakes(source, configuration)
    if found is None:
        return ""
    exchanged = f", key exchange {' and '.join(sorted(found.groups))}" if found.groups else ""
    if len(found.terms) == 1:
        agreed = f"{next(iter(found.terms))}{exchanged}"
    else:
        parts = "; ".join(f"{count:,} with {terms}" for terms, count in found.terms.most_common())
        agreed = f"handshakes differ: {parts}{exchanged}"
    return (
        f"Negotiated: {agreed}; {wording.plural(found.full, 'full handshake')} and {found.resumed:,} resumed, "
        "ramps included."
    )


def warnings(source: Source) -> Iterator[str]:
    """Yield warnings on differences in TLS between configurations, and on servers whose certificate was not checked."""
    found = {name: handshakes(source, name) for name in source.configuration_names}
    measured = {record.configuration for record in source.records}
    secure = {name: each for name, each in found.items() if each is not None}
    plain = [name for name in source.configuration_names if name in measured and name not in secure]
    if secure and plain:
        yield (
            f"Only {wording.listing(list(secure))} used TLS; {wording.listing(plain)} did not. The difference between "
            "them includes the cost of encryption."
        )
    ways = {
        name: " / ".join(sorted(each.terms) + [f"key exchange {group}" for group in sorted(each.groups)])
        for name, each in secure.items()
    }
    if len(set(ways.values())) > 1:
        parts = "; ".join(f"{name}: {way}" for name, way in ways.items())
        yield (
            f"The configurations negotiated different TLS parameters, which contribute to their difference. {parts}."
        )
    shares = {name: each.share_resumed for name, each in secure.items()}
    if resumption_differs(shares.values()):
        parts = "; ".join(f"{name}: {share:.0%}" for name, share in shares.items())
        yield (
            "The configurations differ in their share of resumed TLS handshakes, which cost less than full ones. "
            f"Resumed: {parts}."
        )
    fresh = [name for name, each in secure.items() if not each.resumed]
    if fresh and _offers_resumption(source):
        yield (
            f"{wording.listing(fresh)} resumed no TLS session, although clients offered it, so all handshakes were "
            "full ones. Enable session resumption on the server (nginx: ssl_session_tickets, ssl_session_cache; "
            "Apache: SSLSessionTickets, SSLSessionCache)."
        )
    if secure and _keys_logged(source):
        yield (
            "The keys of the TLS sessions were written to a file, because SSLKEYLOGFILE is set in the environment. "
            "Anyone with this file can decrypt a capture of this load, and writing to the file costs time "
            "in each handshake."
        )
    trusting = [
        configuration.name
        for configuration in source.head.configurations
        if configuration.url is not None and configuration.settings.get("trust") == ANYBODY
    ]
    if trusting:
        yield (
            f"The clients accepted any certificate of {wording.listing(trusting)}, as the plan demands, so the "
            "server's identity is not known."
        )


def _offers_resumption(source: Source) -> bool:
    """Return whether clients opened new connections for their requests, and offered to resume earlier sessions."""
    work = source.head.suite.work
    if not work.uses_documents:
        return False
    settings = source.head.suite.settings(HTTP)
    return settings.tls is not None and settings.tls.resumption > 0 and not settings.keep_alive


def _keys_logged(source: Source) -> bool:
    host = source.disclosure.get("host", {}).get("software", {})
    nodes = source.disclosure.get("fleet", {}).get("nodes", [])
    return any(facts.get("tls_keys_logged", False) for facts in (host, *nodes))
