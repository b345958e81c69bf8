"""What sessions negotiated, from the wire to the report: compared with the server's own report, and stored by kind."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from benches.levels import smb_target

from serverdyno.counted import Counted
from serverdyno.plan.protocols.smb import SMB, SmbSettings
from serverdyno.report.build import build_from
from serverdyno.report.model import Report
from serverdyno.report.source import Source
from serverdyno.report.subjects.negotiated import client_cache, size
from serverdyno.run.negotiated import NegotiatedSessions
from serverdyno.servers.samba import Samba
from serverdyno.store.note import ClientCache, RunNote, Session
from support.disk_mix import begun, ended, mixed, target, whole
from support.file_server import PATIENCE_S, needs_root, samba, skip_unless_installed
from support.reference_servers import start_smb
from support.synthetic_experiment import Shape
from support.synthetic_experiment import experiment as web_experiment
from support.synthetic_files import CLIENT_CACHE, UNSIGNED, FileShape, experiment
from support.users_smbd import PASSWORD, USER, started

SIGNED = UNSIGNED | {"signing": "AES-128-GMAC"}
SEALED = UNSIGNED | {"encryption": "AES-128-GCM"}
OLD = UNSIGNED | {"dialect": "2.0.2", "max_read_bytes": 65_536, "max_write_bytes": 65_536, "leases": False}
CLIENTS = 3


def as_the_server_says(server: Samba) -> list[dict[str, Any]]:
    """Return the sessions as the server reports them, in our terms.

    Samba calls a session fully signed if it requires signatures. `--processes` lists sessions only, because smbstatus
    4.17 panics ("tomap == 0") over the access rights of some open files.
    """
    skip_unless_installed("smbstatus")
    command = ["smbstatus", "--processes", "--json", "-s", str(server.directory / "smb.conf")]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
    dialects = {
        "SMB2_02": "2.0.2",
        "SMB2_10": "2.1",
        "SMB3_00": "3.0",
        "SMB3_02": "3.0.2",
        "SMB3_11": "3.1.1",
    }
    return [
        {
            "dialect": dialects[session["session_dialect"]],
            **{
                name: session[name]["cipher"] if session[name]["degree"] == "full" else None
                for name in ("signing", "encryption")
            },
        }
        for session in json.loads(told)["sessions"].values()
    ]


@needs_root
@pytest.mark.parametrize(
    ("settings", "smb", "agreed"),
    [
        ({}, {}, UNSIGNED),
        ({"signing": "required"}, {}, SIGNED),
        (
            {"signing": "required", "max_dialect": "3.0.2"},
            {},
            SIGNED | {"signing": "AES-128-CMAC", "dialect": "3.0.2"},
        ),
        ({"encryption": "required"}, {"encryption": "required"}, SEALED),
        ({"max_dialect": "2.0.2"}, {}, OLD),
        ({"max_dialect": "2.0.2", "signing": "required"}, {}, OLD | {"signing": "HMAC-SHA256"}),
        ({"oplocks": False}, {}, UNSIGNED | {"leases": False}),
    ],
)
def test_what_is_told_of_sessions_is_what_the_server_says_of_them(
    settings: dict[str, Any], smb: dict[str, Any], agreed: dict[str, Any]
) -> None:
    with samba(settings) as server:
        load = begun(target(server, **smb), clients=CLIENTS, engine_threads=2, length_s=PATIENCE_S)
        while load.snapshot()["elapsed_s"] == 0:
            assert not load.wait(0.01)
        seen = as_the_server_says(server)
        load.stop()
        result = ended(load)
    assert result["errors"] == []
    assert result["sessions"] == [agreed | {"clients": CLIENTS, "authentication": "NTLMv2"}]
    assert seen == [{name: agreed[name] for name in ("dialect", "signing", "encryption")}] * CLIENTS
    assert result["client_cache"] == CLIENT_CACHE


@needs_root
def test_a_client_whose_session_did_not_come_up_has_agreed_on_nothing(tmp_path: Path) -> None:
    server = started(tmp_path)
    try:
        to = smb_target(server.url, shares=["data", "denied"], user=USER, password=PASSWORD)
        result = ended(begun(to, clients=2))
    finally:
        server.kill()
    assert result["clients_participating"] == 1
    assert [session["clients"] for session in result["sessions"]] == [1]


@needs_root
def test_a_session_of_several_connections_is_told_and_every_byte_comes_back() -> None:
    with samba({"multi_channel": True}) as server:
        to = target(server, channels=3, encryption="required")
        result = ended(begun(to, clients=CLIENTS, files={"cache": "leases"}))
    assert result["errors"] == []
    assert whole(result)
    [session] = result["sessions"]
    assert (session["clients"], session.get("channels"), session["encryption"]) == (CLIENTS, 3, "AES-128-GCM")


def test_a_server_of_one_connection_a_session_is_refused_in_words() -> None:
    server = start_smb(user=USER, password=PASSWORD, max_dialect="2.1")
    try:
        to = smb_target(
            f"smb://127.0.0.1:{server.port}/", shares=["volume1"], user=USER, password=PASSWORD, channels=2
        )
        result = ended(begun(to))
    finally:
        server.stop()
    assert result["clients_participating"] == 0
    assert any("several connections per session were requested" in str(error) for error in result["errors"])


def test_a_plan_can_not_ask_for_several_connections_over_an_old_dialect() -> None:
    with pytest.raises(ValueError, match=r"more than one channel requires a max_dialect of 3\.0 or later"):
        SmbSettings(channels=2, max_dialect="2.1")
    assert "one session per client, of 4 connections;" in SMB.described(SmbSettings(channels=4), "1 s")


def test_a_guest_is_told() -> None:
    server = start_smb()
    try:
        to = smb_target(f"smb://127.0.0.1:{server.port}/", shares=["volume1"])
        [session] = ended(begun(to))["sessions"]
    finally:
        server.stop()
    assert (session["guest"], session["authentication"], session["signing"], session["clients"]) == (
        True,
        None,
        None,
        2,
    )


def test_the_cache_is_told_as_the_clients_had_it() -> None:
    with samba() as server:
        xp = mixed(
            server, files={"cache": "oplocks", "redirector": "xp", "dormant_files": 7, "dormant_s": 2.5}
        )
        through = mixed(server, files={"cache": "none"})
        manners = mixed(server, files={"cache": "none", "redirector": "xp"})
    assert xp["client_cache"] == CLIENT_CACHE | {
        "asks_for": "oplocks",
        "redirector": "xp",
        "read_run_bytes": 61_440,
        "write_run_bytes": 65_536,
        "read_ahead_bytes": 0,
        "most_deferred": 7,
        "deferred_age_s": 2.5,
    }
    assert through["client_cache"] is None
    assert manners["client_cache"] is not None and manners["client_cache"]["asks_for"] is None


def result_of(*sessions: dict[str, Any], protocol_requests: int | None = 1) -> Counted:
    given = {"sessions": sessions, "client_cache": CLIENT_CACHE, "protocol_requests": protocol_requests}
    return cast("Counted", SimpleNamespace(**given))


def test_the_note_of_a_run_sums_its_levels_by_kind_and_changes_none_of_their_results() -> None:
    first, later = (
        result_of(SIGNED | {"clients": 2}),
        result_of(UNSIGNED | {"clients": 1}, SIGNED | {"clients": 3}),
    )
    agreed = NegotiatedSessions()
    for result in (first, later):
        agreed.add(result)
    assert agreed.note() == {
        "sessions": [Session(**SIGNED | {"clients": 5}), Session(**UNSIGNED | {"clients": 1})],
        "client_cache": ClientCache(**CLIENT_CACHE),
    }
    assert first.sessions[0]["clients"] == 2


def test_the_note_of_a_run_over_http_says_nothing_of_sessions() -> None:
    agreed = NegotiatedSessions()
    agreed.add(result_of(protocol_requests=None))
    assert agreed.note() == {}


def report_of(source: Source) -> Report:
    return build_from(source)


def said_of(report: Report, configuration: str) -> str:
    return next(fact.text for fact in report.methodology if fact.label == f"Configuration {configuration}")


def protection_warnings(report: Report) -> list[str]:
    return [warning for warning in report.warnings if "signing" in warning]


@pytest.mark.parametrize(
    ("session", "said"),
    [
        (
            UNSIGNED,
            "Negotiated: SMB 3.1.1, unsigned, not encrypted, reads and writes of up to 1 MiB, leases.",
        ),
        (
            SIGNED | {"max_write_bytes": 65_536},
            "Negotiated: SMB 3.1.1, signed with AES-128-GMAC, not encrypted, reads of up to 1 MiB, "
            "writes of up to 64 KiB, leases.",
        ),
        (
            UNSIGNED | {"authentication": "Kerberos"},
            "Negotiated: SMB 3.1.1, log-on by Kerberos, unsigned, not encrypted, "
            "reads and writes of up to 1 MiB, leases.",
        ),
        (
            SEALED,
            "Negotiated: SMB 3.1.1, encrypted with AES-128-GCM, reads and writes of up to 1 MiB, leases.",
        ),
        (
            OLD | {"guest": True},
            "Negotiated: SMB 2.0.2, as a guest, unsigned, not encrypted, reads and writes of up to 64 KiB, no leases.",
        ),
    ],
)
def test_the_report_says_what_was_agreed_on(session: dict[str, Any], said: str) -> None:
    report = report_of(experiment({"samba": FileShape(100, sessions=(session,))}, repetitions=2))
    assert said_of(report, "samba").endswith(f" {said}")
    assert protection_warnings(report) == []


def test_sessions_of_one_configuration_that_differ_are_all_said_with_their_counts() -> None:
    shape = FileShape(100, sessions=(SIGNED | {"clients": 1}, UNSIGNED | {"clients": 30}))
    report = report_of(experiment({"samba": shape}, repetitions=2))
    assert said_of(report, "samba").endswith(
        "The clients' sessions differ (clients summed over the load levels): 60 clients with SMB 3.1.1, "
        "unsigned, not encrypted, reads and writes of up to 1 MiB, leases; 2 clients with SMB 3.1.1, "
        "signed with AES-128-GMAC, not encrypted, reads and writes of up to 1 MiB, leases."
    )
    [warning] = protection_warnings(report)
    assert "samba: signed with AES-128-GMAC, not encrypted / unsigned, not encrypted." in warning


def test_configurations_that_are_not_protected_alike_are_told_above_all_figures() -> None:
    shapes = {
        "open": FileShape(300),
        "signed": FileShape(200, sessions=(SIGNED,)),
        "sealed": FileShape(100, sessions=(SEALED,)),
    }
    [warning] = protection_warnings(report_of(experiment(shapes)))
    assert warning == (
        "The configurations protect their sessions differently, so their difference in throughput includes the cost of "
        "signing and encryption. open: unsigned, not encrypted; signed: signed with AES-128-GMAC, not encrypted; "
        "sealed: encrypted with AES-128-GCM."
    )
    alike = {
        "a": FileShape(300, sessions=(SIGNED,)),
        "b": FileShape(200, sessions=(SIGNED | {"leases": False},)),
    }
    assert protection_warnings(report_of(experiment(alike))) == []


def test_what_was_not_recorded_is_not_taken_for_unsigned() -> None:
    source = experiment({"old": FileShape(100), "new": FileShape(100, sessions=(SIGNED,))}, repetitions=2)
    of_old = {key.number for key in source.head.order if key.configuration == "old"}
    first = min(set(source.run_notes) - of_old)
    bare = {
        number: RunNote(state="done") if number in of_old or number == first else note
        for number, note in source.run_notes.items()
    }
    report = report_of(replace(source, run_notes=bare))
    assert said_of(report, "old").endswith("Negotiated: not recorded.")
    assert said_of(report, "new").endswith("leases. 1 run did not record the negotiation.")
    assert protection_warnings(report) == []
    none = experiment({"samba": FileShape(100, sessions=())}, repetitions=1)
    assert said_of(report_of(none), "samba").endswith(
        "Negotiated: not known, because no session was established."
    )


def test_the_report_discloses_the_cache_of_the_runs() -> None:
    source = experiment({"samba": FileShape(100)}, repetitions=2)
    [said] = [fact.text for fact in report_of(source).methodology if fact.label == "Client cache"]
    assert said == client_cache(source)
    assert said == (
        "The client asks for leases (for oplocks if the server has no leases), like a workstation's redirector "
        "(plain). It caches up to 8 MiB of data per client in pages of 4 KiB. As far as the session allows, "
        "it reads up to 1 MiB and writes back up to 1 MiB per request; "
        "the cache reads 1 MiB ahead if an application continues a sequential read; it keeps 45 closed files open, "
        "for at most 10 s."
    )
    other = {"read_run_bytes": 61_440, "read_ahead_bytes": 0, "most_deferred": 0}
    cache = ClientCache(**CLIENT_CACHE | other)
    changed = source.run_notes[2].model_copy(update={"client_cache": cache})
    both = client_cache(replace(source, run_notes={1: source.run_notes[1], 2: changed}))
    assert both is not None
    assert both.startswith(f"{said} In other runs: The client asks for leases")
    assert "it reads up to 60 KiB" in both
    assert both.endswith("the cache reads nothing ahead; it does not keep closed files open.")


def test_a_report_of_web_servers_says_nothing_of_sessions() -> None:
    report = report_of(web_experiment({"apache": Shape(1000)}))
    assert "Agreed" not in said_of(report, "apache")


def test_sizes_are_whole_units_or_bytes() -> None:
    assert [size(count) for count in (8 << 20, 61_440, 65_534, 0)] == [
        "8 MiB",
        "60 KiB",
        "65,534 bytes",
        "0 bytes",
    ]
