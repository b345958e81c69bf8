"""Power cuts without the guest: acknowledged data are recorded, compared with the remaining data, and reported.

With DYNO_POWERCUT set, the guest is tested, too, which needs minutes, qemu, nbdkit and Debian's packages.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benches.levels import http_target, nfs_target

from serverdyno import _native
from serverdyno.errors import ServerError, UserError
from serverdyno.fleet.consent import open_target
from serverdyno.plan import suites
from serverdyno.plan.model import Configuration
from serverdyno.plan.protocols.smb import SMB
from serverdyno.run.powercut import boot_files, guests
from serverdyno.run.powercut.machine import FAILED, READY, Guest
from serverdyno.run.powercut.rounds import NONCE_BITS, compared, cut_power
from serverdyno.servers import waiting
from serverdyno.servers.registry import DRIVERS
from serverdyno.servers.samba import Samba
from serverdyno.store.powercut import Cut, PowerCuts
from support.dyno_process import wait_until
from support.file_server import PATIENCE_S, needs_root, samba
from support.reference_servers import start_nfs
from support.report_tables import STRICT, column, report_of, table
from support.synthetic_files import experiment

SUITE = suites.load("quick-files")
CLIENTS = 3
SPEC = {"seed": 7, "directory": "journal", "clients": CLIENTS, "most_ns": 60 * 10**9}


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="Debian's packages are needed")
def test_the_first_guest_on_a_machine_gets_a_shell_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The package has other files named busybox, and one of them was once used.
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}")
    monkeypatch.setattr(boot_files, "find_program", lambda _: None)
    shell = boot_files.shell()
    assert subprocess.check_output([shell, "echo", "runs"], text=True) == "runs\n"


def nonce() -> int:
    return secrets.randbits(NONCE_BITS)


def opened(server: Samba) -> _native.Target:
    return open_target(SMB, server.access(), SUITE.settings(SMB))


def written(server: Samba, least: int) -> list[_native.JournalEntry]:
    """Return a finished journal of at least `least` flushed files: six of client 0, and some of each other client."""
    journal = _native.begin_journal(opened(server), json.dumps(SPEC), nonce())
    deadline = time.monotonic() + PATIENCE_S
    while (
        sum(1 for entry in journal.entries() if entry["flushed_bytes"]) < least
        or sum(1 for entry in journal.entries() if entry["client"] == 0) < 6
        or len({entry["client"] for entry in journal.entries()}) < CLIENTS
    ):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert journal.end() == []
    return journal.entries()


def left(server: Samba, entries: list[_native.JournalEntry]) -> list[_native.LeftOfFile]:
    return _native.read_journal(opened(server), json.dumps(SPEC), json.dumps(entries), nonce())


def test_what_a_server_acknowledged_is_found_and_what_is_lost_of_it_is_told_file_by_file() -> None:
    with samba() as server:
        entries = written(server, 30)
        assert {entry["client"] for entry in entries} == {0, 1, 2}
        assert all(entry["flushed_bytes"] in (0, entry["written_bytes"]) for entry in entries)
        whole = compared(entries, left(server, entries), 1.0)
        assert (whole.lost_files, whole.lost_bytes, whole.unreadable_files) == (0, 0, 0)
        assert whole.flushed_files + whole.unflushed_files == len(entries)
        assert whole.kept_unflushed_files == whole.unflushed_files > 0
        # One byte is changed, one file truncated, one file removed, and a whole client's directory removed.
        volume = server.data_directories()[0] / "journal"
        by_name = {(entry["client"], entry["file"]): entry for entry in entries}
        with (volume / "0" / "000002").open("r+b") as changed:
            changed.seek(10_000)
            byte = changed.read(1)
            changed.seek(10_000)
            changed.write(bytes([byte[0] ^ 1]))
        os.truncate(volume / "0" / "000004", 4_096)
        (volume / "0" / "000005").unlink()
        shutil.rmtree(volume / "2")
        found = {(each["client"], each["file"]): each for each in left(server, entries)}
        assert [found[0, number]["intact_bytes"] for number in (2, 4, 5)] == [10_000, 4_096, 0]
        assert all(each["intact_bytes"] == 0 for (client, _), each in found.items() if client == 2)
        assert all(
            each["intact_bytes"] == by_name[name]["written_bytes"]
            for name, each in found.items()
            if name[0] == 1
        )
        assert not any(each["why"] for each in found.values())
        cut = compared(entries, list(found.values()), 1.0)
        of_the_third = sum(1 for entry in entries if entry["client"] == 2 and entry["flushed_bytes"])
        assert cut.lost_files == 3 + of_the_third
        assert cut.lost_bytes > 3 * 8_192


def test_a_journal_ends_by_itself_when_its_server_is_gone() -> None:
    with samba() as server:
        journal = _native.begin_journal(opened(server), json.dumps(SPEC), nonce())
        deadline = time.monotonic() + PATIENCE_S
        while not journal.entries():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        server.stop()
        why = journal.end()
    assert len(why) == 3  # each client lost its connection
    entries = journal.entries()
    assert entries == journal.entries() and journal.end() == []


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_a_journal_over_nfs_ends_without_its_server_and_keeps_what_was_acknowledged(
    version: str,
) -> None:
    # Otherwise its clients would retry for as long as a journal may take.
    server = start_nfs()
    url = f"nfs://127.0.0.1:{server.port}/volume1?vers={version}&mountport={server.port}"
    target = nfs_target(url)
    spec = SPEC | {"most_ns": int(2 * PATIENCE_S * 1e9)}
    journal = _native.begin_journal(target, json.dumps(spec), nonce())
    wait_until(lambda: any(entry["flushed_bytes"] for entry in journal.entries()), "a flush is answered")
    server.stop()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(journal.end).result(PATIENCE_S)
    entries = journal.entries()
    assert any(entry["flushed_bytes"] for entry in entries)
    assert entries == journal.entries() and journal.end() == []


@pytest.mark.parametrize("ends", ["the guest", "its disk", "the server in it"])
def test_a_guest_that_ends_by_itself_ends_the_wait_for_its_server(tmp_path: Path, ends: str) -> None:
    # Other processes stand in for qemu and nbdkit, because only their end matters here.
    console = tmp_path / "console"
    console.write_text(f"{READY}\n")
    idle = ["sleep", "600"]
    silent = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
    target = http_target(url)
    with silent, subprocess.Popen(idle) as disk, subprocess.Popen(idle) as machine:
        guest = Guest(disk, machine, console)
        guest.wait_until_ready()
        guest.check()
        {"the guest": machine.kill, "its disk": disk.kill}.get(
            ends, lambda: console.write_text(f"{READY}\n{FAILED}the server ended\n")
        )()
        with (
            waiting.ended_by(guest.check),
            pytest.raises(ServerError, match="the virtual machine or the server in it ended"),
        ):
            _native.http_get(target, "/", timeout_s=PATIENCE_S, most_bytes=1)
        guest.cut_power()


def test_what_was_only_written_may_be_lost_and_what_was_flushed_may_not() -> None:
    entries: list[_native.JournalEntry] = [
        {"client": 0, "file": 0, "written_bytes": 20, "flushed_bytes": 10},
        {"client": 0, "file": 1, "written_bytes": 10, "flushed_bytes": 0},
        {"client": 0, "file": 2, "written_bytes": 10, "flushed_bytes": 10},
        {"client": 0, "file": 3, "written_bytes": 0, "flushed_bytes": 0},
    ]

    def cut(*intact: int) -> Cut:
        found: list[_native.LeftOfFile] = [
            {"client": 0, "file": number, "intact_bytes": bytes_, "why": None if bytes_ else "EIO"}
            for number, bytes_ in enumerate(intact)
        ]
        return compared(entries, found, 0.5)

    kept = cut(10, 0, 10, 0)
    assert (kept.flushed_files, kept.lost_files, kept.unflushed_files, kept.kept_unflushed_files) == (
        2,
        0,
        1,
        0,
    )
    lost = cut(9, 10, 0, 0)
    assert (lost.lost_files, lost.lost_bytes, lost.unreadable_files) == (2, 11, 1)
    assert lost.kept_unflushed_files == 1


def of(name: str, lost: int) -> PowerCuts:
    cut = Cut(
        cut_after_s=1.5,
        flushed_files=50,
        flushed_bytes=10**6,
        lost_files=lost,
        lost_bytes=lost * 20_000,
        unreadable_files=0,
        unflushed_files=12,
        kept_unflushed_files=1,
    )
    return PowerCuts(
        configuration=name,
        version="Samba 4.17.12",
        kernel="6.1.0-56-cloud-amd64",
        changed=["interfaces = 10.0.2.15/24"],
        clients=4,
        seed=1,
        took_s=90.0,
        cuts=[cut, cut],
    )


def test_a_report_has_the_verdict_next_to_the_throughput_and_a_loss_at_its_head() -> None:
    source = experiment(STRICT)
    assert not any(
        each.key == "power-cuts" for section in report_of(source).sections for each in section.tables
    )
    report = report_of(replace(source, power_cuts=[of("samba-strict", 0), of("samba-lax", 50)]))
    shown = table(report, "power-cuts")
    assert column(shown, "Verdict") == [
        "0 of 100 flushed files lost in 2 power cuts",
        "100 of 100 flushed files lost in 2 of 2 power cuts",
    ]
    assert all(float(text.replace(",", "")) > 0 for text in column(shown, "Highest throughput"))
    [warning] = [said for said in report.warnings if said.startswith("A power cut lost")]
    assert warning == (
        "A power cut lost flushed data. samba-lax: 100 of 100 flushed files lost in 2 of 2 power cuts."
    )
    [found] = [each for each in report.findings if each.topic == "Power cut"]
    assert found.claim.startswith("samba-strict: 0 of 100 flushed files lost in 2 power cuts; samba-lax: ")


@needs_root
def test_a_guest_gets_the_configuration_that_is_loaded_but_for_its_address() -> None:
    settings: dict[str, Any] = {"strict_sync": False, "file_system": "ext4", "mount_options": "nobarrier"}
    way = guests.way_of("samba")
    kept = guests.without_surroundings({**settings, "vm_dirty_ratio": 5, "fsync_delay_ms": 3})
    with samba(kept | way.settings) as server:
        here = (server.directory / "smb.conf").read_text()
        guest = way.put(server, settings)
        there = (server.directory / "smb.conf").read_text()
    assert "strict sync = no" in there
    changed = [(a, b) for a, b in zip(here.splitlines(), there.splitlines(), strict=True) if a != b]
    assert changed == [("    interfaces = 127.0.0.1/8", "    interfaces = 10.0.2.15/24")]
    script = guests.init_script(guest)
    assert f'mount -t ext4 -o rw,nobarrier /dev/vda "{server.volumes.top}"' in script
    with pytest.raises(UserError, match="nginx"):
        guests.way_of("nginx")


@pytest.mark.skipif(
    "DYNO_POWERCUT" not in os.environ, reason="minutes: set DYNO_POWERCUT to cut a guest's power"
)
@pytest.mark.parametrize(
    ("server", "settings", "keeps"),
    [
        ("samba", {"strict_sync": True}, True),
        ("samba", {"strict_sync": False}, False),
        ("ganesha", {}, True),
        ("ganesha", {"file_system": "ext4", "mount_options": "nobarrier"}, False),
    ],
)
def test_a_guest_keeps_what_was_flushed_unless_server_or_file_system_skips_it(
    server: str, settings: dict[str, Any], keeps: bool
) -> None:
    protocol = DRIVERS[server].settings_type.protocol
    cuts = cut_power(Configuration("it", server, settings, (), None, None, protocol), SUITE, 2, 1, print)
    assert cuts.flushed_files > 10
    assert cuts.cuts_with_loss == (0 if keeps else 2)
    assert not list(Path("/tmp").glob("serverdyno-guest-*"))
