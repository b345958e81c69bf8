"""Log-on by Kerberos to a domain that refuses NTLM, with Samba's own domain controller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.domain import (
    AWAY,
    HOST,
    MEMBER,
    MEMBER_PORT,
    OF_A_SYSTEM,
    OF_ANOTHER,
    PASSWORD,
    REALM,
    UNKNOWN,
    USER,
    Domain,
)
from support.dyno_process import wait_for_line
from support.file_server import PATIENCE_S, needs_root
from support.suites_of_steps import steps_suite

pytestmark = needs_root


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    """Create one domain for all tests, with a user who has a ticket."""
    made = Domain(tmp_path_factory.mktemp("domain"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def sessions(told: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of all sessions of a level, after checking that they are equal and no error occurred."""
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
    for smb, told in zip(asked, domain.load(*({"smb": smb, "length_s": 0.5} for smb in asked)), strict=True):
        session = sessions(told)
        assert session["authentication"] == "Kerberos"
        assert session["dialect"] == smb["max_dialect"]
        assert (session["signing"] is None) == ("encryption" in smb)
        assert session["clients"] == 2
        assert not session["guest"]
    assert domain.smbclient("ls").returncode == 0  # another client, with the same ticket


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
    absent = {"KRB5CCNAME": f"FILE:{domain.at}/absent"}
    known = {"settings": {"user": USER}, "length_s": 0.5}
    for told in domain.load(
        known | {"environment": absent | {"DYNO_SMB_PASSWORD": PASSWORD}},
        known | {"environment": absent | {"KRB5_CLIENT_KTNAME": domain.keytab()}},
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
    no_keytab = {"KRB5_CLIENT_KTNAME": f"FILE:{domain.at}/absent"}
    of_another = {"KRB5_CLIENT_KTNAME": domain.keytab()}
    alone = {"KRB5_CONFIG": f"{domain.at}/krb5-unreachable.conf"}
    cases: list[tuple[dict[str, Any], dict[str, str], str, str]] = [
        ({}, absent, "redentials cache", "Get a ticket with kinit"),
        ({"host": UNKNOWN}, {}, "not found in Kerberos database", "host name with which the server joined"),
        ({"host": "127.0.0.1"}, {}, "is an address", "full name"),
        ({"settings": {"user": USER}}, absent | wrong, "kinit", "is wrong"),
        ({"settings": {"user": "mallory"}}, wrong, "not found in Kerberos database", "check user"),
        ({"settings": {"user": "-V"}}, right, "Client '-V@", "check user"),
        ({"settings": {"user": USER}}, no_keytab, "not found", "names a keytab with keys"),
        ({"settings": {"user": OF_A_SYSTEM}}, of_another, "no suitable keys", "names a keytab with keys"),
        ({"settings": {"user": "DYNO\\alice"}}, right, "the user must be NAME or NAME@REALM", ""),
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
    assert "--authentication kerberos" in told["hint"], told


SUITE = """name = "tiny"
title = "One level"
source = "a test"
workload = "diskmix"
clients = [2]
length_s = 1
timeout_s = 30
[files]
workspace_bytes = 15728640
"""
PLAN = f"""name = "domain"
title = "A server of a domain"
suite = "./tiny.toml"
repetitions = 1

[[servers]]
server = "external"
url = "smb://{HOST}/"
settings = {{ shares = ["data"], authentication = "kerberos" }}
bounds = {{ max_clients = 16, max_rate_per_s = 100000, max_length_s = 20 }}

[generator]
processes = 2
"""


def planned(directory: Path, plan: str) -> Path:
    """Write the plan to a file next to its suite."""
    (directory / "tiny.toml").write_text(SUITE)
    (directory / "plan.toml").write_text(plan)
    return directory / "plan.toml"


def test_a_plan_with_a_server_of_a_domain_says_how_its_clients_log_on(domain: Domain, tmp_path: Path) -> None:
    plan = planned(tmp_path, PLAN)
    into = tmp_path / "experiment"
    done = domain.dyno("run", str(plan), "--into", str(into))
    assert done.returncode == 0, done.stdout + done.stderr
    [note] = into.glob("runs/*/run.json")
    [session] = json.loads(note.read_text())["sessions"]
    assert session["authentication"] == "Kerberos"


def test_nodes_of_a_fleet_log_on_by_the_ticket_of_the_controller(domain: Domain, tmp_path: Path) -> None:
    lab, into = tmp_path / "lab", tmp_path / "experiment"
    plan = planned(tmp_path, PLAN.replace("processes = 2", f'fleet = "{lab}"'))
    nothing = {
        "KRB5CCNAME": f"FILE:{domain.at}/absent",
        "KRB5_CONFIG": f"{domain.at}/krb5-unreachable.conf",
    }
    nodes = []
    try:
        for command in (("init", "--at", "127.0.0.1", "--nodes", "a"), ("up",)):
            made = domain.dyno("fleet", command[0], str(lab), *command[1:])
            assert made.returncode == 0, made.stdout + made.stderr
        nodes.append(domain.node(lab / "nodes" / "a", **nothing))
        wait_for_line(nodes[0], "a has joined")
        done = domain.dyno("run", str(plan), "--into", str(into))
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        domain.dyno("fleet", "down", str(lab))
        for node in nodes:
            with node:
                node.wait(PATIENCE_S)
    [note] = into.glob("runs/*/run.json")
    [session] = json.loads(note.read_text())["sessions"]
    assert session["authentication"] == "Kerberos"


BY_KERBEROS = ("--authentication", "kerberos")
STEPS = """
[trees.t]
files = [{ name = "a", count = 3, bytes = 5000 }]

[[steps]]
do = "make-tree"
tree = "t"
[[steps]]
do = "list"
tree = "t"
[[steps]]
do = "remove-tree"
tree = "t"
"""


def bonnie(*options: str, host: str = HOST) -> list[str]:
    """Return the command line of the smallest Bonnie on the server's share, which refuses NTLM."""
    return ["bonnie", "-d", f"smb://{host}/data", "-s", "1", "--seeks", "20", *options]


def test_one_liners_log_on_by_the_ticket_of_kinit_a_password_or_a_keytab(
    domain: Domain, tmp_path: Path
) -> None:
    absent = f"FILE:{domain.at}/absent"
    scenario = tmp_path / "tiny.toml"
    scenario.write_text(steps_suite("tiny", STEPS))
    steps = ["scenario", str(scenario), "-d", f"smb://{HOST}/data", "--json", *BY_KERBEROS]
    known = bonnie("--json", "--clients", "2", *BY_KERBEROS, "--user", f"{USER}@{REALM}")
    with_ticket, with_password, with_keytab = domain.dynos(
        (steps, {}),
        ([*steps, "--user", USER], {"KRB5CCNAME": absent, "DYNO_SMB_PASSWORD": PASSWORD}),
        (known, {"KRB5CCNAME": absent, "KRB5_CLIENT_KTNAME": domain.keytab()}),
    )
    for done in (with_ticket, with_password):
        assert done.returncode == 0, done.stderr
        told = [step["do"] for step in json.loads(done.stdout)["steps"]]
        assert told == ["make-tree", "list", "remove-tree"]
    assert with_keytab.returncode == 0, with_keytab.stderr
    assert len(json.loads(with_keytab.stdout)["phases"]) == 6
    assert not list((domain.at / "share").glob("Bonnie*"))
    assert not (domain.at / "absent").exists()


def test_a_one_liner_that_is_not_let_in_says_why_and_what_to_try(domain: Domain) -> None:
    absent = {"KRB5CCNAME": f"FILE:{domain.at}/absent"}
    expired = {"KRB5CCNAME": domain.cache_with_clock_offset(11 * 3600)}
    skewed = {"KRB5CCNAME": domain.cache_with_clock_offset(1200)}
    right = {"DYNO_SMB_PASSWORD": PASSWORD}
    kerberos = bonnie(*BY_KERBEROS)
    cases: list[tuple[list[str], dict[str, str], str, str]] = [
        (kerberos, absent, "No credentials cache found", "Get a ticket with kinit"),
        (kerberos, expired, "Ticket expired", "Get a new ticket with kinit"),
        (kerberos, skewed, "KRB_AP_ERR_SKEW", "clocks of this machine, the KDC and the server differ"),
        (bonnie(*BY_KERBEROS, host="127.0.0.1"), {}, "127.0.0.1 is an address", "full name in the URL"),
        (bonnie(*BY_KERBEROS, host=OF_ANOTHER), {}, "log-on by Kerberos was refused", "another machine"),
        ([*kerberos, "--user", USER], absent, "the password of alice is missing", "KRB5_CLIENT_KTNAME"),
        (bonnie("--user", USER), right, "STATUS_NTLM_BLOCKED", "--authentication kerberos"),
        (bonnie(), {}, "the log-on was refused", ""),  # as a guest, with a ticket in the cache
    ]
    told = domain.dynos(*((command, environment) for command, environment, _, _ in cases))
    for done, (_, _, said, hint) in zip(told, cases, strict=True):
        assert done.returncode != 0 and not done.stdout, done
        assert said in done.stderr and "Traceback" not in done.stderr, done.stderr
        assert hint in done.stderr.partition("hint: ")[2], done.stderr


def test_an_account_that_is_of_no_use_is_told_with_what_to_try(domain: Domain) -> None:
    own = ["-s", f"{domain.at}/smb.conf"]
    for command in (
        ["create", "barred", PASSWORD],
        ["create", "lapsed", PASSWORD, "--must-change-at-next-login"],
        ["disable", "barred"],
    ):
        assert domain.run("samba-tool", "user", *command, *own).returncode == 0
    right = {"DYNO_SMB_PASSWORD": PASSWORD}
    told = domain.dynos(*((bonnie(*BY_KERBEROS, "--user", user), right) for user in ("barred", "lapsed")))
    for done, hint in zip(told, ("has disabled or locked", "The password has expired"), strict=True):
        assert done.returncode != 0
        assert hint in done.stderr.partition("hint: ")[2], done.stderr


def test_a_server_that_has_joined_the_domain_takes_the_same_means(domain: Domain) -> None:
    domain.join()
    host = f"{MEMBER}:{MEMBER_PORT}"
    asked = ({"signing": "required"}, {"encryption": "required"}, {"max_dialect": "2.0.2"})
    for told in domain.load(*({"host": host, "smb": smb, "length_s": 1.5} for smb in asked)):
        assert sessions(told)["authentication"] == "Kerberos"
    known, another, away = domain.dynos(
        (bonnie(*BY_KERBEROS, host=host), {}),
        (bonnie(*BY_KERBEROS, "--user", OF_A_SYSTEM, host=host), {"DYNO_SMB_PASSWORD": PASSWORD}),
        (bonnie(*BY_KERBEROS, host=f"{AWAY}:{MEMBER_PORT}"), {}),
    )
    assert known.returncode == 0, known.stderr
    assert "STATUS_INVALID_TOKEN" in another.stderr, another.stderr
    assert "min domain uid" in another.stderr.partition("hint: ")[2], another.stderr
    assert away.returncode != 0 and "consent" in away.stderr, away.stderr
