"""The reference SMB server under its driver and from the command line.

It serves the complete disk mix, agrees with the generator's counts, and causes the requested faults.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from benches.levels import smb_target

from serverdyno import _native
from serverdyno.errors import UserError
from serverdyno.plan.protocols.smb import DIALECTS
from serverdyno.servers.reference_model import PASSWORD_VARIABLE
from serverdyno.servers.reference_smb import ReferenceSmb, ReferenceSmbSettings
from serverdyno.servers.registry import create
from serverdyno.servers.running import running
from serverdyno.servers.samba_settings import SambaSettings
from support.disk_mix import begun, ended, passed, whole
from support.dyno_process import Home
from support.file_server import PATIENCE_S, skip_unless_installed
from support.reference_servers import start_smb

USER, PASSWORD = "bench", "correct horse"
CACHES = ("none", "oplocks", "leases")
LOAD_FILE = Path("/usr/share/dbench/client.txt")


@contextmanager
def reference(**options: Any) -> Iterator[_native.ReferenceSmbServer]:
    """Run the reference server on threads of this process."""
    server = start_smb(**{"user": USER, "password": PASSWORD} | options)
    try:
        yield server
    finally:
        server.stop()


def target(server: _native.ReferenceSmbServer, **smb: Any) -> _native.Target:
    url = f"smb://127.0.0.1:{server.port}/"
    return smb_target(url, **{"shares": ["volume1"], "user": USER, "password": PASSWORD} | smb)


# Creating and removing workspaces sends none of these.
OF_THE_MIX_ALONE = ("READ", "FLUSH", "QUERY_DIRECTORY", "OPLOCK_BREAK")


def counted_otherwise(result: dict[str, Any], counted: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return where the counts of requests differ, in total or by command: ours, and the server's."""
    sent = {
        each["request"]: each["count"] for each in result["requests"] if each["request"] in OF_THE_MIX_ALONE
    }
    pairs = {name: (count, counted[name]) for name, count in sent.items()}
    pairs["all"] = (result["protocol_requests"] or 0, sum(counted.values()))
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("cache", CACHES)
def test_the_disk_mix_is_served_whole_and_counted_as_the_generator_counts_it(
    cache: str, threads: int
) -> None:
    with reference(threads=threads, shares=["volume1", "volume2"]) as server:
        to = target(server, shares=["volume1", "volume2"])
        result = ended(begun(to, clients=4, files={"cache": cache}))
        counted = server.requests()
        assert server.open_files == 0
    assert whole(result)
    assert counted_otherwise(result, counted) == {}
    assert passed(result)["flush"] == counted["FLUSH"]


@pytest.mark.parametrize(
    "smb",
    [
        *({"max_dialect": dialect, "signing": "required"} for dialect in DIALECTS),
        *({"max_dialect": dialect, "encryption": "required"} for dialect in DIALECTS[2:]),
    ],
)
@pytest.mark.parametrize("cache", ["oplocks", "leases"])
def test_the_disk_mix_is_served_in_every_dialect_signed_and_encrypted(
    cache: str, smb: dict[str, Any]
) -> None:
    with reference() as server:
        result = ended(begun(target(server, **smb), files={"cache": cache}))
        counted = server.requests()
    assert whole(result)
    assert result["protocol_requests"] == sum(counted.values())


def test_a_load_file_is_replayed(tmp_path: Path) -> None:
    lines = [
        'NTCreateX "\\clients\\client1\\a.dat" 0x42 0x5 1 SUCCESS',
        "WriteX 1 0 4000 4000 SUCCESS",
        "ReadX 1 0 4000 4000 SUCCESS",
        "Close 1 SUCCESS",
    ]
    path = tmp_path / "load.txt"
    path.write_text("\n".join(lines) + "\n")
    with reference() as server:
        load_file = _native.LoadFile.read(str(LOAD_FILE if LOAD_FILE.exists() else path))
        files = {"workload": "loadfile", "load_file": load_file, "cache": "none"}
        result = ended(begun(target(server), files=files))
    assert result["errors"] == []
    assert result["operations"] > 0


def test_contents_that_are_wrong_are_found_wrong() -> None:
    with reference(fault="wrong-content") as server:
        result = ended(begun(target(server), files={"cache": "none"}))
    assert {error["fault"] for error in result["errors"]} == {"wrong_content"}


def test_every_fault_ends_in_counted_errors_and_the_level_ends() -> None:
    # All but the first need a second client, or a lost connection.
    harmless = {"delay=5ms", "no-breaks", "no-directory-breaks", "forgotten-handles", "undone-writes"}
    for name, _ in _native.reference_faults("smb"):
        with reference(fault=name) as server:
            to = target(server, signing="required")
            timeout_s = PATIENCE_S if name in harmless else 0.5
            result = ended(begun(to, clients=1, length_s=0.3, timeout_s=timeout_s))
        assert bool(result["errors"]) != (name in harmless), name


def test_what_can_not_be_is_refused() -> None:
    for options, message in [
        ({"fault": "sulk"}, "no-breaks"),
        ({"signing": "never"}, "'auto' or 'required'"),
        ({"max_dialect": "1.0"}, "3.1.1"),
        ({"bind": "here"}, "IP address"),
    ]:
        with pytest.raises(ValueError, match=message):
            start_smb(**options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="guests have no keys"):
        start_smb(signing="required")


def access_target(server: ReferenceSmb, **smb: Any) -> _native.Target:
    access = server.access()
    assert access.user is not None
    return smb_target(
        access.url,
        shares=list(access.shares),
        user=access.user,
        password=access.password,
        network_namespace=access.network_namespace,
        **smb,
    )


@pytest.mark.parametrize("network", ["auto", "loopback"])
def test_under_its_driver_it_is_a_server_like_others(network: str) -> None:
    settings = {"volumes": 2, "capacity_mib": 256, "network": network}
    with running("reference-smb", settings) as server:
        assert isinstance(server, ReferenceSmb)
        before = server.requests_served()
        result = ended(begun(access_target(server)))
        after = server.requests_served()
        described = server.describe()
        assert before is not None and after is not None
        assert result["protocol_requests"] == after - before
        assert (server.cpu_s() or 0) > 0
        password = server.access().password
        assert password and password not in repr(described) + repr(server.access())
        assert any("256 MiB" in note for note in described.notes)
        directory = server.directory
    assert whole(result)
    assert server.requests_served() is None
    assert not directory.exists()


@pytest.mark.parametrize(
    ("settings", "smb"),
    [
        ({"signing": "required", "max_dialect": "2.1"}, {}),
        ({"encryption": "required"}, {"encryption": "required"}),
        ({"oplocks": False}, {}),
        ({"smb2_leases": False}, {}),
    ],
)
def test_its_settings_are_what_it_does(settings: dict[str, Any], smb: dict[str, Any]) -> None:
    with running("reference-smb", settings) as server:
        assert isinstance(server, ReferenceSmb)
        result = ended(begun(access_target(server, **smb), files={"cache": "leases"}))
        counted = server.operations_served()
    assert whole(result)
    asked = {each["operation"]: each["count"] for each in result["by_operation"]}
    if settings.get("oplocks") is False:
        # The client caches nothing, so that every read reaches the server.
        assert passed(result)["read"] >= asked["read"]
    else:
        assert passed(result)["read"] < 0.8 * asked["read"]
    assert counted is not None and counted["CREATE"] > 0


def test_settings_have_sambas_names_and_values_and_contradictions_are_named_at_once() -> None:
    shared = set(ReferenceSmbSettings.model_fields) & set(SambaSettings.model_fields)
    assert shared >= {
        "min_dialect",
        "max_dialect",
        "oplocks",
        "smb2_leases",
        "signing",
        "encryption",
        "volumes",
    }
    for name in shared - {"network"}:
        ours, theirs = ReferenceSmbSettings.model_fields[name], SambaSettings.model_fields[name]
        assert (ours.annotation, ours.default) == (theirs.annotation, theirs.default), name
    wrong = {"oplocks": False, "smb2_leases": True, "encryption": "required", "max_dialect": "2.1"}
    with pytest.raises(UserError) as raised:
        create("reference-smb", wrong, documents=Path(os.devnull))
    for named in ("smb2_leases requires oplocks", "encryption require"):
        assert named in str(raised.value)


def test_the_command_serves_an_independent_client_until_it_is_interrupted(tmp_path: Path) -> None:
    skip_unless_installed("smbclient")
    counts = tmp_path / "counts"
    command = [
        sys.executable,
        "-m",
        "serverdyno",
        "reference",
        "smb",
        "--user",
        USER,
        "--counts",
        str(counts),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {PASSWORD_VARIABLE: PASSWORD}
    ) as server:
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        sent, got = tmp_path / "sent", tmp_path / "got"
        sent.write_bytes(os.urandom(200_000))
        place = ["//127.0.0.1/volume1", "-p", str(port), "-U", f"{USER}%{PASSWORD}", "-s", os.devnull]
        done = subprocess.run(
            ["smbclient", *place, "-c", f"put {sent} x; get x {got}; ls"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert got.read_bytes() == sent.read_bytes()
        assert counts.exists()
        server.send_signal(signal.SIGINT)
        server.wait(timeout=10)
    assert not counts.exists()


def test_the_command_names_its_faults(home: Home) -> None:
    done = home.here("reference", "smb", "--list-faults")
    assert "no-breaks" in done.stdout
