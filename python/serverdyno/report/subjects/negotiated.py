"""Negotiated sessions with file servers, the clients' caches, and differences between configurations in both.

A plan defines the clients' requests. The server's grants determine the cost of every message on both sides. Signing and
encryption cost CPU time per byte, so the throughput of a server that uses them can't be compared with that of one that
does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from serverdyno import wording
from serverdyno.plan import protocols
from serverdyno.plan.spoken import protocol_of
from serverdyno.report.source import Source
from serverdyno.store.note import ClientCache, RunNote, Session
from serverdyno.units import MIB

KIB = 1024
BY_RULES = "close-to-open rules"  # defined in crates/engine/src/files/cache.rs
WITH_DIRECTORIES = "leases of files and directories"
WITH_DELEGATIONS = f"{BY_RULES} and read delegations"


def _protection(session: Session) -> str:
    """Return how messages are protected. Encrypted messages are not signed (MS-SMB2 3.2.4.1.1, 3.3.4.1.1)."""
    if session.encryption:
        return f"encrypted with {session.encryption}"
    signed = f"signed with {session.signing}" if session.signing else "unsigned"
    return f"{signed}, not encrypted"


def _leases(session: Session) -> str:
    if not session.leases:
        return "no leases"
    return WITH_DIRECTORIES if session.directory_leases else "leases"


def _words(session: Session) -> str:
    most_read, most_write = size(session.max_read_bytes), size(session.max_write_bytes)
    sizes = (
        f"reads and writes of up to {most_read}"
        if most_read == most_write
        else f"reads of up to {most_read}, writes of up to {most_write}"
    )
    who = (
        ["as a guest"]
        if session.guest
        else [f"log-on by {session.authentication}"]
        if session.authentication
        else []
    )
    protocol = protocols.of(session.protocol)
    parts = [
        f"{protocol.title} {session.dialect}"
        + (f" over {session.transport.upper()}" if session.transport else ""),
        *who,
        _protection(session),
        sizes,
        _leases(session),
        *([f"{session.channels} connections per session"] if session.channels is not None else []),
        *([f"{session.slots} slots"] if session.slots is not None else []),
        *([note] if (note := protocol.session_note(session.dialect)) else []),
    ]
    return ", ".join(parts)


def size(count: int) -> str:
    """Return `8 MiB`, `60 KiB`; in bytes if it is not a whole number of KiB."""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if count and count % unit == 0:
            return f"{count // unit:,} {name}"
    return f"{count:,} bytes"


def _notes(source: Source, configuration: str) -> Iterator[RunNote]:
    for key in source.head.order:
        if key.configuration == configuration and key.number in source.run_notes:
            yield source.run_notes[key.number]


def kinds(source: Source, configuration: str) -> Counter[Session] | None:
    """Count clients by their negotiated session over levels and runs, most frequent first; None if not recorded."""
    noted = [note.sessions for note in _notes(source, configuration) if note.sessions is not None]
    if not noted:
        return None
    found: Counter[Session] = Counter()
    for session in chain(*noted):
        found[session.model_copy(update={"clients": 0, "lease_s": None})] += session.clients
    return Counter(dict(found.most_common()))


def _with_sessions(source: Source) -> list[str]:
    head = source.head
    return [each.name for each in head.configurations if protocol_of(each, head.suite).has_sessions]


def sentences(source: Source, configuration: str) -> str:
    """Return the negotiated parameters of a configuration's sessions; empty for protocols without sessions."""
    if configuration not in _with_sessions(source):
        return ""
    found = kinds(source, configuration)
    if found is None:
        return "Negotiated: not recorded."
    unsaid = sum(note.sessions is None for note in _notes(source, configuration))
    more = f" {wording.plural(unsaid, 'run')} did not record the negotiation." if unsaid else ""
    if not found:
        return f"Negotiated: not known, because no session was established.{more}"
    if len(found) == 1:
        return f"Negotiated: {_words(next(iter(found)))}.{more}"
    parts = "; ".join(
        f"{wording.plural(count, 'client')} with {_words(kind)}" for kind, count in found.items()
    )
    return f"The clients' sessions differ (clients summed over the load levels): {parts}.{more}"


def warnings(source: Source) -> list[str]:
    """Return warnings on sessions that differ in signing or encryption, between or within configurations."""
    found = {name: kinds(source, name) for name in _with_sessions(source)}
    ways = {name: sorted({_protection(kind) for kind in known}) for name, known in found.items() if known}
    if len({way for each in ways.values() for way in each}) < 2:
        return []
    parts = "; ".join(f"{name}: {' / '.join(each)}" for name, each in ways.items())
    if len({tuple(each) for each in ways.values()}) > 1:
        return [
            "The configurations protect their sessions differently, so their difference in throughput includes the "
            f"cost of signing and encryption. {parts}."
        ]
    return [
        f"The sessions of one configuration differ in signing or encryption, so its figures mix both cases. {parts}."
    ]


def client_cache(source: Source) -> str | None:
    """Return the contents and the rules of the clients' caches; None if not recorded or nothing was cached."""
    found: list[str] = []
    for name in source.configuration_names:
        for note in _notes(source, name):
            cache = note.client_cache
            said = _cache_words(cache) if cache and cache.asks_for else None
            if (
                cache
                and cache.asks_for == WITH_DIRECTORIES
                and said
                and (without := _without_directories(source))
            ):
                said += without
            if said and said not in found:
                found.append(said)
    return " In other runs: ".join(found) or None


def _without_directories(source: Source) -> str:
    """Return a sentence that names the configurations whose server granted no directory leases, or ""."""
    found = {name: kinds(source, name) for name in _with_sessions(source)}
    without = [
        name for name, known in found.items() if known and not any(kind.directory_leases for kind in known)
    ]
    if not without:
        return ""
    offer = "offers" if len(without) == 1 else "offer"
    names = wording.listing(without)
    return f" {names} {offer} no directory leases, so every listing and lookup reaches the server."


def _cache_words(cache: ClientCache) -> str:
    ahead = (
        f"the cache reads {size(cache.read_ahead_bytes)} ahead if an application continues a sequential read"
        if cache.read_ahead_bytes
        else "the cache reads nothing ahead"
    )
    kept = (
        f"it keeps {cache.most_deferred:,} closed files open, for at most {wording.seconds(cache.deferred_age_s)}"
        if cache.most_deferred
        else "it does not keep closed files open"
    )
    if cache.asks_for in (BY_RULES, WITH_DELEGATIONS):
        how = (
            "The client caches files by close-to-open rules, as NFS clients do: each open asks the server, "
            "attributes are valid for 3 to 60 s and names for 30 to 60 s, and a close writes back and "
            "commits"
        )
        if cache.asks_for == WITH_DELEGATIONS:
            how += "; while it holds a read delegation for a file, it uses the cached data without asking the server"
    else:
        asks_for_leases = cache.asks_for in ("leases", WITH_DIRECTORIES)
        instead = " (for oplocks if the server has no leases)" if asks_for_leases else ""
        how = (
            f"The client asks for {cache.asks_for}{instead}, like a workstation's redirector "
            f"({cache.redirector})"
        )
    return (
        f"{how}. It caches up to {size(cache.most_bytes)} of data per client in pages of {size(cache.page_bytes)}. "
        f"As far as the session allows, it reads up to {size(cache.read_run_bytes)} and writes back up to "
        f"{size(cache.write_run_bytes)} per request; {ahead}; {kept}."
    )
