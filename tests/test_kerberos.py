"""A log-on by Kerberos, to a domain that refuses NTLM: Samba's own domain controller."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from domain import HOST, OF_ANOTHER, PASSWORD, UNKNOWN, USER, Domain
from file_server import needs_root

pytestmark = needs_root


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    """One for all tests; its user has a ticket."""
    made = Domain(tmp_path_factory.mktemp("domain"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def sessions(told: dict[str, Any]) -> dict[str, Any]:
    """Of the only kind, of a mix without an error."""
    assert "error" not in told, told
    assert told["whole"], told["errors"]
    [session] = told["sessions"]
    return dict(session)


def test_every_dialect_signs_and_encrypts_with_the_keys_of_a_ticket(domain: Domain) -> None:
    asked = [
        {"max_dialect": "2.0.2", "signing": "required"},
        {"max_dialect": "3.0.2", "signing": "required"},
        {"max_dialect": "3.0.2", "encryption": "required"},
        {"max_dialect": "3.1.1", "signing": "required"},
        {"max_dialect": "3.1.1", "encryption": "required"},
    ]
    for smb, told in zip(asked, domain.load(*({"smb": smb, "length_s": 0.3} for smb in asked)), strict=True):
        session = sessions(told)
        assert session["authentication"] == "Kerberos"
        assert session["dialect"] == smb["max_dialect"]
        assert (session["signing"] is None) == ("encryption" in smb)
        assert session["clients"] == 2
        assert not session["guest"]
    assert domain.smbclient("ls").returncode == 0  # another client, by the same ticket


def test_ciphers_of_256_bits_use_all_of_the_key(domain: Domain) -> None:
    configuration = domain.at / "smb.conf"
    before = configuration.read_text()
    try:
        for cipher in ("AES-256-GCM", "AES-256-CCM"):
            line = f"[global]\n  server smb3 encryption algorithms = {cipher}\n"
            configuration.write_text(before.replace("[global]\n", line))
            assert domain.run("smbcontrol", "-s", str(configuration), "smbd", "reload-config").returncode == 0
            [told] = domain.load({"smb": {"encryption": "required"}, "length_s": 0.5})
            assert sessions(told)["encryption"] == cipher
    finally:
        configuration.write_text(before)
        domain.run("smbcontrol", "-s", str(configuration), "smbd", "reload-config")


def test_a_user_is_known_by_a_password_or_a_keytab_without_a_cache(domain: Domain) -> None:
    keytab = domain.at / "keytab"
    own = ["-s", f"{domain.at}/smb.conf"]
    exported = domain.run("samba-tool", "domain", "exportkeytab", str(keytab), f"--principal={USER}", *own)
    assert exported.returncode == 0, exported.stderr
    absent = {"KRB5CCNAME": f"FILE:{domain.at}/absent"}
    known = {"settings": {"user": USER}, "length_s": 0.5}
    for told in domain.load(
        known | {"environment": absent | {"DYNO_SMB_PASSWORD": PASSWORD}},
        known | {"environment": absent | {"KRB5_CLIENT_KTNAME": f"FILE:{keytab}"}},
    ):
        assert sessions(told)["authentication"] == "Kerberos"
    assert not (domain.at / "absent").exists()


def test_a_session_that_is_lost_is_made_again_with_the_same_ticket(domain: Domain) -> None:
    [told] = domain.load({"close_share": f"{domain.at}/smb.conf"})
    assert told["reconnects"] == 1, told
    assert {error["fault"] for error in told["errors"]} <= {"session_lost", "closed_early"}, told
    assert told["sessions"][0]["authentication"] == "Kerberos"


def test_each_way_to_have_no_ticket_is_told_with_what_to_try(domain: Domain) -> None:
    absent = {"KRB5CCNAME": f"FILE:{domain.at}/absent"}
    wrong, right = {"DYNO_SMB_PASSWORD": "wrong"}, {"DYNO_SMB_PASSWORD": PASSWORD}
    no_keytab = {"KRB5_CLIENT_KTNAME": f"FILE:{domain.at}/no-keytab"}
    alone = {"KRB5_CONFIG": f"{domain.at}/krb5-unreachable.conf"}
    cases: list[tuple[dict[str, Any], dict[str, str], str, str]] = [
        ({}, absent, "redentials cache", "Get a ticket by kinit"),
        ({"host": UNKNOWN}, {}, "not found in Kerberos database", "must be the name that it joined"),
        ({"host": "127.0.0.1"}, {}, "is an address", "full name"),
        ({"settings": {"user": USER}}, absent | wrong, "kinit", "is wrong"),
        ({"settings": {"user": "mallory"}}, wrong, "not found in Kerberos database", "check user"),
        ({"settings": {"user": USER}}, no_keytab, "keytab", "Check the keytab"),
        ({"settings": {"user": "DYNO\\alice"}}, right, "a user is NAME or NAME@REALM", ""),
        ({"settings": {"user": USER}}, alone | right, "Cannot contact any KDC", "can't be reached or found"),
    ]
    told = domain.load(*({**case, "environment": environment} for case, environment, _, _ in cases))
    for (_, _, said, hint), found in zip(cases, told, strict=True):
        assert said in found["error"], found
        assert hint in (found["hint"] or ""), found


def test_a_ticket_that_the_server_refuses_is_told_with_what_to_try(domain: Domain) -> None:
    another, ahead, behind = domain.load(
        {"host": OF_ANOTHER}, {"clock_offset_s": 1200}, {"clock_offset_s": 11 * 3600}
    )
    assert "the log-on by Kerberos was refused" in another["error"], another
    assert "registered to another machine" in another["hint"], another
    assert "the log-on by Kerberos was refused" in ahead["error"], ahead
    assert "clocks" in ahead["hint"], ahead
    assert "the Kerberos ticket has expired" in behind["error"], behind
    assert "kinit" in behind["hint"], behind


def test_ntlm_is_never_replaced_by_kerberos_nor_the_other_way_about(domain: Domain) -> None:
    by_password = {"user": USER, "authentication": "ntlm"}
    [told] = domain.load({"settings": by_password, "environment": {"DYNO_SMB_PASSWORD": PASSWORD}})
    assert "STATUS_NTLM_BLOCKED" in told["error"], told
    assert 'authentication = "kerberos"' in told["hint"], told


PLAN = f"""name = "domain"
title = "A server of a domain"
suite = "quick-files"
repetitions = 1

[[servers]]
server = "external"
url = "smb://{HOST}/"
settings = {{ shares = ["data"], authentication = "kerberos" }}
bounds = {{ max_clients = 16, max_rate_per_s = 100000, max_length_s = 20 }}

[generator]
processes = 2
"""


def test_a_plan_with_a_server_of_a_domain_says_how_its_clients_log_on(domain: Domain, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    into = tmp_path / "experiment"
    dyno = str(Path(sys.executable).with_name("dyno"))
    done = domain.run(dyno, "run", str(plan), "--into", str(into), "--scale", "0.1")
    assert done.returncode == 0, done.stdout + done.stderr
    [note] = into.glob("runs/*/run.json")
    [session] = json.loads(note.read_text())["sessions"]
    assert session["authentication"] == "Kerberos"
