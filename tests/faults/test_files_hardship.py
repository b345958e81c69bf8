"""The disk mix under difficult conditions.

Several volumes, a workspace of an earlier level, a killed server, a full disk, a wrong password, two hundred clients,
and a packet dissector.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from benches import load_files

from serverdyno import _native
from serverdyno.errors import ServerError
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.fleet.preflight import preflight
from serverdyno.plan.expand import levels
from serverdyno.plan.model import GeneratorPlan, Suite
from serverdyno.servers.samba import Samba
from support.disk_mix import PATIENCE_S, begun, clients_directory, ended, mixed, served, target, whole
from support.dyno_process import wait_until_missed
from support.file_server import family, needs_root, samba, skip_unless_installed

ADDRESS = "10.77.0.1"
TOKEN = "Zr4u7xKq9LmN2pWs"
PASS_OPERATIONS = 11_000  # a little more than one client's pass

SUITE = Suite(name="tiny", title="Tiny", source="a test", workload="diskmix", clients=[1], length_s=1.0)


def test_clients_are_dealt_out_to_the_volumes() -> None:
    with samba({"volumes": 4}) as server:
        assert whole(mixed(server, clients=5, length_s=1.5))
        found = [
            {path.name for path in clients_directory(directory).iterdir()}
            for directory in server.data_directories()
        ]
    assert found == [{"0", "4"}, {"1"}, {"2"}, {"3"}]


@needs_root
def test_a_workspace_is_used_again_and_its_contents_are_still_known() -> None:
    # The server's count of writes, without those of the levels, is the number that created the workspaces.
    with samba() as server:
        workspaces = _native.Workspaces()
        making = []
        for known in (workspaces, workspaces, _native.Workspaces()):
            before = served(server)["write"]
            result = mixed(server, workspaces=known)
            assert whole(result)
            in_level = sum(each["count"] for each in result["requests"] if each["request"] == "WRITE")
            making.append(served(server)["write"] - before - in_level)
    first, again, anew = making
    assert first > 0
    assert again <= first / 10  # writes that a cache had not sent when the level ended
    assert anew >= first / 2


@needs_root
@pytest.mark.parametrize("cache", ["none", "leases"])
def test_a_server_that_is_killed_costs_counted_errors_and_the_level_ends(cache: str) -> None:
    with samba() as server:
        load = begun(target(server), files={"cache": cache}, clients=4, length_s=60.0, leave_after_errors=1)
        while load.snapshot()["operations"] == 0:
            assert not load.wait(0.05), load.result()
        for process in family(server)[1:]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        while load.snapshot()["clients_active"] > 0:
            assert not load.wait(0.05)
        load.stop()
        result = ended(load)
        wait_until_missed(server, "exited under load")
    assert result["clients_participating"] == 0
    assert sum(error["count"] for error in result["errors"]) >= 4
    assert {error["side"] for error in result["errors"]} <= {"server", "network"}
    assert all(each["left_at_s"] is not None for each in result["by_client"])


@needs_root
def test_a_crash_of_the_servers_process_is_told_by_its_log_and_costs_that_client_alone() -> None:
    with samba() as server:
        idle = set(server.pids())
        load = begun(target(server), clients=1, length_s=60.0, leave_after_errors=1)
        while load.snapshot()["operations"] == 0:
            assert not load.wait(0.05)
        for pid in set(server.pids()) - idle:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).send_signal(signal.SIGSEGV)
        while load.snapshot()["clients_active"] > 0:
            assert not load.wait(0.05)
        load.stop()
        result = ended(load)
        crashes = server.crashes()
        server.check()
    assert [error["side"] for error in result["errors"]] == ["server"]
    assert "INTERNAL ERROR: Signal 11" in crashes[0]


@pytest.mark.parametrize(
    # MS-ERREF: STATUS_LOGON_FAILURE, STATUS_BAD_NETWORK_NAME
    ("wrong", "said"),
    [
        ({"password": "wrong"}, "STATUS_LOGON_FAILURE"),
        ({"user": "nobody-here"}, "STATUS_LOGON_FAILURE"),
        ({"shares": ["nothing"]}, "STATUS_BAD_NETWORK_NAME"),
    ],
    ids=["password", "user", "share"],
)
def test_who_is_not_let_in_is_told_before_any_load(wrong: dict[str, object], said: str) -> None:
    with samba() as server:
        setup = LoadSetup(
            suite=SUITE, target=target(server, **wrong), generator=GeneratorPlan(), cpus=(), bounds=None
        )
        with pytest.raises(ServerError, match="refused") as raised:
            preflight(setup, levels(SUITE)[0])
        assert said in str(raised.value)
        assert raised.value.hint


def clients_of(volume: Path) -> set[str]:
    """Return the clients whose workspaces are on the volume, complete or in part."""
    return {path.name for path in clients_directory(volume).iterdir()}


@needs_root
@pytest.mark.parametrize("keep", [True, False])
def test_a_full_disk_is_an_error_of_the_server_by_its_name_and_nothing_stays_unasked(keep: bool) -> None:
    with samba({"file_system": "ext4", "image_mib": 64}) as server:
        workspaces = _native.Workspaces()
        files = {"keep_workspace": keep}
        result = mixed(server, clients=4, length_s=0.3, workspaces=workspaces, files=files)
        left = clients_of(server.data_directories()[0])
    found = {(error["side"], error["fault"]) for error in result["errors"]}
    assert ("server", "no_space") in found
    assert result["clients_participating"] < 4
    assert left == ({"0", "1", "2", "3"} if keep else set())
    assert {str(client) for client in workspaces.standing()} == left


def take_all_room(filler: Path) -> None:
    """Reserve all free space without writing anything."""
    size = 0
    with filler.open("wb") as file:
        for step in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), size, step)
                    size += step


@needs_root
def test_a_disk_that_becomes_full_in_the_level_is_left_as_it_was() -> None:
    # Clients that find the disk full do not remove their files during the measurement, so all clients find it full.
    with samba({"file_system": "ext4", "image_mib": 64}) as server:
        volume = server.data_directories()[0]
        filler = volume / "of-somebody-else"
        load = begun(
            target(server),
            clients=2,
            length_s=3.0,
            leave_after_errors=1,
            files={"cache": "none", "keep_workspace": False},
        )
        while load.snapshot()["operations"] == 0:
            assert not load.wait(0.01)
        take_all_room(filler)
        result = ended(load)
        left = clients_of(volume)
    assert {error["fault"] for error in result["errors"]} == {"no_space"}
    assert result["clients_participating"] == 0
    assert left == set()


def listen_overflows(server: Samba) -> int:
    """Return how many connections the kernel refused in the server's network because its accept queue was full."""
    command = ["nsenter", f"--net={server.access().network_namespace}", "cat", "/proc/net/netstat"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    names, values = (line.split() for line in said.splitlines() if line.startswith("TcpExt:"))
    return int(dict(zip(names, values, strict=True))["ListenOverflows"])


@needs_root
def test_two_hundred_clients_on_one_thread_log_on_no_faster_than_the_servers_queue_bears(
    tmp_path: Path,
) -> None:
    load_file = load_files.office(tmp_path / "office.load")
    files = {"workload": "loadfile", "load_file": _native.LoadFile.read(str(load_file))}
    with samba() as server:
        result = mixed(server, clients=200, length_s=4.0, files=files, think_time_s=1.0)
        overflows = listen_overflows(server)
    assert (result["clients_participating"], result["errors"], overflows) == (200, [], 0)
    assert whole(result)
    assert all(client["operations"] > 0 for client in result["by_client"])
    assert (result["generator_threads"], result["connections"], result["reconnects"]) == (1, 200, 0)


@contextmanager
def captured(server: Samba, into: Path) -> Iterator[None]:
    """Capture every packet in the server's network into a file, and fail if the kernel dropped one."""
    inside = ["nsenter", f"--net={server.access().network_namespace}"]
    command = [
        *inside,
        "dumpcap",
        "-q",
        "-i",
        "lo",
        "-B",
        "128",
        "-f",
        f"tcp port {server.port}",
        "-w",
        str(into),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        assert any(line.startswith("File:") for line in process.stderr)
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            told = process.stderr.read()
    assert "/0 (pcap:0/" in told, told


def dissected(capture: Path, display_filter: str) -> list[str]:
    """Return the packets that tshark finds by a display filter."""
    done = subprocess.run(
        ["tshark", "-r", str(capture), "-2", "-Y", display_filter],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return done.stdout.splitlines()


@needs_root
@pytest.mark.parametrize("cache", ["none", "leases"])
def test_a_dissector_of_others_finds_nothing_malformed_in_a_whole_pass(cache: str, tmp_path: Path) -> None:
    skip_unless_installed("tshark", "dumpcap")
    capture = tmp_path / "pass.pcap"
    with samba() as server, captured(server, capture):
        load = begun(target(server), clients=1, length_s=600.0, files={"cache": cache})
        while load.snapshot()["operations"] <= PASS_OPERATIONS:  # no more to dissect than needed
            assert not load.wait(0.01)
        load.stop()
        result = ended(load)
    assert result["pass_operations"] is not None and result["pass_operations"] <= PASS_OPERATIONS
    assert whole(result)
    assert result["passes"] is not None and result["passes"] >= 1
    assert (
        len(dissected(capture, "smb2.cmd == 7 && smb2.flags.response == 0")) > 0
    )  # FLUSH, so the dissector works
    assert dissected(capture, "_ws.malformed || (smb2 && _ws.expert.severity == error)") == []


RELAY = """
import asyncio, sys
address, port = sys.argv[1], int(sys.argv[2])

async def pump(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()

async def serve(reader, writer):
    inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer), return_exceptions=True)

async def main():
    async with await asyncio.start_server(serve, address, port) as server:
        print("listening", flush=True)
        await server.serve_forever()

asyncio.run(main())
"""


@contextmanager
def elsewhere(server: Samba) -> Iterator[str]:
    """Yield a URL of the server that is not loopback: a relay on another address of its network."""
    inside = ["nsenter", f"--net={server.access().network_namespace}"]
    subprocess.run([*inside, "ip", "address", "add", f"{ADDRESS}/24", "dev", "lo"], check=True)
    with subprocess.Popen(
        [*inside, sys.executable, "-c", RELAY, ADDRESS, str(server.port)], stdout=subprocess.PIPE, text=True
    ) as relay:
        try:
            assert relay.stdout is not None and relay.stdout.readline() == "listening\n"
            yield f"smb://{ADDRESS}/"
        finally:
            relay.kill()


@needs_root
def test_a_file_server_elsewhere_is_loaded_only_with_a_file_that_says_it_may() -> None:
    with samba({"volumes": 2}) as server, elsewhere(server) as url:
        tops = server.data_directories()
        consent, name = _native.consent_document(ADDRESS, TOKEN), f"serverdyno-{TOKEN}.txt"
        for token in (None, TOKEN):
            with pytest.raises(PermissionError, match="is not this machine"):
                target(server, url=url, consent_token=token)
        for content in ("welcome\n", _native.consent_document("10.77.0.2", TOKEN)):
            for top in tops:
                (top / name).write_text(content)
            with pytest.raises(PermissionError, match="has not consented"):
                target(server, url=url, consent_token=TOKEN)
        (tops[0] / name).write_text(consent)
        with pytest.raises(PermissionError, match="share volume2"):
            target(server, url=url, consent_token=TOKEN)
        (tops[1] / name).write_text(consent)
        agreed = target(server, url=url, consent_token=TOKEN)
        assert not agreed.loopback
        with pytest.raises(ValueError, match="needs max_rate_per_s"):
            begun(agreed)
        result = ended(begun(agreed, max_rate_per_s=500.0))
    assert result["errors"] == []
    assert 0 < result["operations_total"] <= 500 * 1.0 + 2 * 2
