"""A private Samba under its driver: it serves, is only ours, follows its settings, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from serverdyno.errors import ServerError, UserError
from serverdyno.plan.protocols.smb import DIALECTS
from serverdyno.servers import write_back
from serverdyno.servers.proof import listeners, offer
from serverdyno.servers.registry import create
from serverdyno.servers.samba import PROTOCOLS, Samba
from serverdyno.servers.samba_defaults import departures
from serverdyno.servers.samba_settings import SambaSettings
from support.dyno_process import wait_until_missed
from support.file_server import (
    NOBODY,
    alive,
    client,
    family,
    flush_twice,
    machine,
    needs_root,
    samba,
    skip_unless_installed,
    smbclient,
    stopped_at_end,
    wait_until_machine_is,
)
from support.places import TESTS

EVERYTHING: dict[str, Any] = {
    "file_system": "ext4",
    "image_mib": 64,
    "mount_options": "noatime,data=writeback",
    "vm_dirty_ratio": 37,
    "vm_dirty_background_ratio": 7,
    "vm_dirty_expire_centisecs": 1234,
    "fsync_delay_ms": 20,
    "volumes": 2,
}
NETWORKS = [pytest.param("namespace", marks=needs_root), "loopback"]


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """Create a file that is larger than one request."""
    path = tmp_path / "document"
    path.write_bytes(os.urandom(3_000_000))
    return path


@pytest.fixture(autouse=True)
def nothing_is_left(own_tmpdir: Path) -> Iterator[None]:
    """Check after each test that the machine and the temporary directory are as before."""
    before = machine()
    yield
    assert machine() == before
    assert list(own_tmpdir.iterdir()) == []


@pytest.mark.parametrize("network", NETWORKS)
def test_an_independent_client_writes_and_reads_every_volume(
    network: str, document: Path, tmp_path: Path
) -> None:
    with samba({"network": network, "volumes": 3}) as server:
        shares = server.access().shares
        assert shares == ("volume1", "volume2", "volume3")
        for share, directory in zip(shares, server.data_directories(), strict=True):
            smbclient(server, f"put {document} {share}.bin; get {share}.bin {tmp_path / share}", share=share)
            assert (tmp_path / share).read_bytes() == document.read_bytes()
            assert (directory / f"{share}.bin").read_bytes() == document.read_bytes()


def test_files_belong_to_a_user_without_rights_and_a_stranger_is_not_let_in(document: Path) -> None:
    with samba() as server:
        smbclient(server, f"put {document} x")
        owner = (server.data_directories()[0] / "x").owner()
        assert owner == server.access().user
        assert owner != "root"
        for stranger in ("%", f"{owner}%wrong", "nobody%"):
            assert (
                client(server, "smbclient", "//127.0.0.1/volume1", "-c", "ls", "-U", stranger).returncode != 0
            )


def test_the_server_hands_out_the_secret_that_only_ours_has(tmp_path: Path) -> None:
    with samba({"volumes": 2}) as server:
        name, content = server.proof()
        for share in server.access().shares:
            smbclient(server, f"get {name} {tmp_path / share}", share=share)
            assert (tmp_path / share).read_text() == content


@pytest.mark.parametrize("network", NETWORKS)
def test_only_its_own_processes_listen_and_nothing_of_it_is_left(network: str) -> None:
    with samba({"network": network}) as server:
        everyone = family(server)
        own = {process.pid for process in everyone[1:]}
        inside = everyone[0].pid if network == "namespace" else None
        assert {listener.pid for listener in listeners(server.port, inside)} <= own
        assert listeners(server.port, inside)
        assert (server.cpu_s() or 0) > 0
        assert (server.rss_bytes() or 0) > 0
        server.check()
    assert alive(everyone) == []
    server.stop()  # repeated: harmless


@needs_root
def test_two_run_at_once_and_neither_sees_the_other(tmp_path: Path) -> None:
    with samba() as first, samba() as second, samba({"network": "loopback"}) as third:
        for number, server in enumerate((first, second, third)):
            name, content = server.proof()
            smbclient(server, f"get {name} {tmp_path / str(number)}")
            assert (tmp_path / str(number)).read_text() == content
        assert first.access().network_namespace != second.access().network_namespace
        assert first.port == second.port != third.port
    assert first.proof()[1] != second.proof()[1]


def test_a_stranger_who_shares_the_port_is_seen_and_another_port_is_taken() -> None:
    with stopped_at_end({"network": "loopback"}) as server, socket.socket() as stranger:
        server.prepare()
        port = server.port
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        stranger.bind(("127.0.0.1", port))
        stranger.listen()
        server.start()
        server.ready()
        assert server.port != port
        assert {listener.pid for listener in listeners(server.port)} <= set(server.pids())


def test_a_server_that_ends_under_load_is_told() -> None:
    with samba() as server:
        everyone = family(server)[1:]
        everyone[0].kill()
        assert alive(everyone) == []
        wait_until_missed(server, "exited under load")


SETTINGS: list[tuple[dict[str, Any], str, str]] = [
    ({"strict_sync": False}, "strict sync", "No"),
    ({"sync_always": True}, "sync always", "Yes"),
    ({"oplocks": False}, "oplocks", "No"),
    ({"oplocks": False}, "level2 oplocks", "No"),
    ({"oplocks": False}, "smb2 leases", "No"),
    ({"level2_oplocks": False}, "level2 oplocks", "No"),
    ({"smb2_leases": False}, "smb2 leases", "No"),
    ({"kernel_oplocks": True}, "kernel oplocks", "Yes"),
    ({"kernel_oplocks": True}, "smb2 leases", "No"),
    ({}, "smb2 leases", "Yes"),
    ({}, "case sensitive", "Yes"),
    ({"case_sensitive": False}, "case sensitive", "No"),
    ({"aio_read_size": 0}, "aio read size", "0"),
    ({"aio_write_size": 70000}, "aio write size", "70000"),
    ({"socket_options": "TCP_NODELAY IPTOS_LOWDELAY"}, "socket options", "TCP_NODELAY IPTOS_LOWDELAY"),
    ({"min_dialect": "3.0"}, "server min protocol", "SMB3_00"),
    ({"max_dialect": "2.1"}, "server max protocol", "SMB2"),  # Samba's name for 2.1
    ({"signing": "required"}, "server signing", "required"),
    ({"encryption": "off"}, "server smb encrypt", "no"),
    ({"encryption": "required"}, "server smb encrypt", "required"),
    ({"operation_counters": False}, "smbd profiling level", "off"),
    ({"durable_handles": False}, "durable handles", "No"),
    ({"multi_channel": True}, "server multi channel support", "Yes"),
]


@pytest.mark.parametrize(("settings", "parameter", "value"), SETTINGS)
def test_each_setting_is_what_samba_itself_reads_from_the_configuration(
    settings: dict[str, Any], parameter: str, value: str
) -> None:
    skip_unless_installed("testparm")
    with stopped_at_end(settings) as server:
        server.prepare()
        configuration = str(server.directory / "smb.conf")
        command = ["testparm", "-s", "-v", "--parameter-name", parameter]
        place = ["--section-name", "volume1"] if parameter in PER_SHARE else []
        read = subprocess.run(
            [*command, *place, configuration], capture_output=True, text=True, check=True, timeout=30
        )
        assert read.stdout.strip().lower() == value.lower()
        for complaint in ("WARNING", "Unknown", "Ignoring", "Global parameter"):
            assert complaint not in read.stderr


PER_SHARE = {
    "strict sync",
    "sync always",
    "oplocks",
    "level2 oplocks",
    "kernel oplocks",
    "case sensitive",
    "aio read size",
    "aio write size",
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_it_speaks_no_other_dialect_than_it_was_set_to(dialect: str) -> None:
    other = "2.0.2" if dialect != "2.0.2" else "3.1.1"
    with samba({"min_dialect": dialect, "max_dialect": dialect}) as server:
        said = offer(server.port, server.access().network_namespace)
        assert said["dialect"] == dialect
        assert not said["signing_required"]
        only = [f"--option=client {end} protocol={PROTOCOLS[other]}" for end in ("min", "max")]
        assert client(server, "smbclient", "//127.0.0.1/volume1", "-c", "ls", *only).returncode != 0


def test_a_higher_log_level_logs_more() -> None:
    logged = {}
    for level in (0, 3):
        with samba({"log_level": level}) as server:
            smbclient(server, "ls")
            logged[level] = (server.directory / "server.log").read_text()
    assert len(logged[3]) > 10 * len(logged[0])


def test_signing_that_is_required_is_said_to_every_client() -> None:
    with samba({"signing": "required"}) as server:
        assert offer(server.port, server.access().network_namespace)["signing_required"]


def test_encryption_that_is_required_shuts_out_who_does_not_encrypt() -> None:
    with samba({"encryption": "required"}) as server:
        smbclient(server, "ls", "--client-protection=encrypt")
        plain = client(
            server, "smbclient", "//127.0.0.1/volume1", "-c", "ls", "--option=client max protocol=SMB2_10"
        )
        assert "ACCESS_DENIED" in plain.stdout + plain.stderr


def test_every_contradiction_is_named_at_once() -> None:
    with pytest.raises(UserError) as raised:
        create(
            "samba",
            {
                "sync_always": True,
                "strict_sync": False,
                "oplocks": False,
                "smb2_leases": True,
                "min_dialect": "3.1.1",
                "max_dialect": "2.1",
                "encryption": "required",
                "mount_options": "noatime",
                "vm_dirty_ratio": 10,
                "vm_dirty_background_ratio": 20,
            },
            documents=Path(os.devnull),
        )
    for named in (
        "sync_always requires strict_sync",
        "smb2_leases requires oplocks",
        "min_dialect is above max_dialect",
        "encryption require",
        "mount_options requires file_system",
        "vm_dirty_background_ratio must be below",
    ):
        assert named in str(raised.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"min_dialect": "1.0"},
        {"volumes": 0},
        {"volumes": 17},
        {"log_level": 11},
        {"signing": "off"},
        {"socket_options": "TCP_NODELAY\n[etc]\npath = /etc"},
        {"mount_options": "noatime\nexec"},
        {"mount_options": "loop=/dev/sda"},
        {"file_system": "xfs", "image_mib": 64},
        {"fsync_delay_ms": -1},
    ],
)
def test_a_value_that_cannot_be_is_refused_before_anything_starts(settings: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        create("samba", settings, documents=Path(os.devnull))


def test_what_a_flush_is_worth_is_disclosed_and_the_password_is_not() -> None:
    notes = {}
    for sync in (True, False):
        with samba({"strict_sync": sync}) as server:
            described = server.describe()
            notes[sync] = described.notes
            assert described.version.startswith("Samba ")
            assert any(character.isdigit() for character in described.version)
            assert described.files["smb.conf"] == (server.directory / "smb.conf").read_text()
            password = server.access().password
            assert password and password not in repr(described) + repr(server.access())
            assert described.command == family(server)[1].cmdline()
            assert described.package is not None and described.package.startswith("samba ")
            assert described.effective["level2_oplocks"] is True
            ratio = int(Path("/proc/sys/vm/dirty_expire_centisecs").read_text())
            assert described.effective["vm_dirty_expire_centisecs"] == ratio
    assert any("answered after fsync" in note for note in notes[True])
    assert any("without fsync" in note for note in notes[False])
    assert not any("without fsync" in note for note in notes[True])
    [differs] = [note for note in notes[False] if note.startswith("Differs from Samba's defaults")]
    # The driver's own settings and those of the plan, without Samba's defaults and without paths.
    always = ("case sensitive = Yes (Auto)", "server multi channel support = No (Yes)")
    assert all(parameter in differs for parameter in (*always, "strict sync = No (Yes)"))
    assert "oplocks" not in differs and "/tmp" not in differs
    assert not any("strict sync = " in note and note.startswith("Differs") for note in notes[True])


def test_what_moves_figures_comes_first_among_the_differences_and_the_log_level_is_one_of_them(
    tmp_path: Path,
) -> None:
    skip_unless_installed("testparm")
    lines = ["[global]", "netbios name = X", "workgroup = Y", "smbd profiling level = count", "log level = 3"]
    lines += ["server multi channel support = no", "case sensitive = yes", "oplocks = no", "read only = no"]
    (tmp_path / "smb.conf").write_text("\n".join([*lines, "[volume1]", f"path = {tmp_path}", ""]))
    said = departures(tmp_path / "smb.conf", 3)
    _, differences = said.removesuffix(".").split(": ", 1)
    names = [each.split(" = ")[0] for each in differences.split(", ")]
    first = ["case sensitive", "oplocks", "server multi channel support", "smbd profiling level", "log level"]
    assert names[:5] == first and {"netbios name", "workgroup", "read only"} <= set(names[5:])
    assert "log level = 3 (0)" in said
    assert "log level" not in departures(tmp_path / "smb.conf", 0)


def test_the_servers_own_counters_tell_what_it_was_asked(document: Path) -> None:
    with samba() as server:
        before = server.operations_served()
        assert before is not None
        flush_twice(server)
        smbclient(server, f"put {document} x; get x /dev/null; rm x")
        after = server.operations_served()
        assert after is not None
        asked = {operation: after[operation] - before[operation] for operation in after}
        assert asked["flush"] == 2
        assert asked["write"] >= 1
        assert asked["read"] >= 1
        assert asked["create"] >= asked["close"] >= 3
        assert server.requests_served() == sum(after.values())


def test_without_counters_no_count_is_made_up() -> None:
    with samba({"operation_counters": False}) as server:
        assert server.operations_served() is None
        assert server.requests_served() is None


@needs_root
@pytest.mark.parametrize(
    ("file_system", "image_mib", "options"), [("ext4", 64, "noatime,data=writeback"), ("xfs", 300, "noatime")]
)
def test_volumes_lie_on_a_file_system_of_their_own_that_nobody_else_sees(
    file_system: str, image_mib: int, options: str, document: Path
) -> None:
    skip_unless_installed(f"mkfs.{file_system}")
    settings = {"file_system": file_system, "image_mib": image_mib, "mount_options": options}
    with samba(settings) as server:
        mounts = Path(f"/proc/{server.pids()[0]}/mounts").read_text().splitlines()
        (mount,) = [line.split() for line in mounts if str(server.volumes.top) in line]
        assert mount[2] == file_system
        assert set(options.split(",")) <= set(mount[3].split(","))
        assert machine().mounts == ()
        assert len(machine().loop_devices) == 1
        smbclient(server, f"put {document} x")
        assert (server.data_directories()[0] / "x").read_bytes() == document.read_bytes()
        space = shutil.disk_usage(server.data_directories()[0])
        assert space.total <= image_mib * 2**20
        assert any(file_system in note and options in note for note in server.describe().notes)


@needs_root
def test_volumes_lie_where_the_user_says_and_go_with_the_server(tmp_path: Path) -> None:
    for directory in (tmp_path, *tmp_path.parents[:3]):
        directory.chmod(directory.stat().st_mode | 0o001)
    with samba({"data_directory": str(tmp_path)}) as server:
        assert all(directory.is_relative_to(tmp_path) for directory in server.data_directories())
        (own,) = tmp_path.iterdir()
        assert own.name.startswith("serverdyno-samba-")
    assert list(tmp_path.iterdir()) == []


@needs_root
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"file_system": "ext4", "image_mib": 64, "mount_options": "nosuchoption"}, "mount"),
        ({"file_system": "ext4", "image_mib": 2**20}, "does not fit"),
        ({"data_directory": "/nonexistent"}, "does not exist"),
    ],
)
def test_what_cannot_be_had_is_said_with_advice_and_leaves_nothing(
    settings: dict[str, Any], message: str
) -> None:
    with stopped_at_end(settings) as server, pytest.raises(ServerError, match=message) as raised:
        server.prepare()
        server.start()
    assert raised.value.hint


@needs_root
def test_the_kernels_limits_are_changed_while_it_runs_and_put_back() -> None:
    before = machine().limits
    with samba({"vm_dirty_ratio": 37, "vm_dirty_writeback_centisecs": 123}) as server:
        assert (write_back.LIMITS / "dirty_ratio").read_text().strip() == "37"
        assert (write_back.LIMITS / "dirty_writeback_centisecs").read_text().strip() == "123"
        assert machine().limits != before
        assert any("vm.dirty_ratio = 37" in note for note in server.describe().notes)
        with (
            stopped_at_end({"vm_dirty_ratio": 36}) as second,
            pytest.raises(ServerError, match="another server has already set") as raised,
        ):
            second.prepare()
            second.start()
        assert raised.value.hint
        assert (write_back.LIMITS / "dirty_ratio").read_text().strip() == "37"
    assert machine().limits == before


TOOL = """
import signal
from pathlib import Path
from serverdyno.servers.registry import create
server = create("samba", {settings!r}, documents=Path("/dev/null"))
server.prepare()
server.start()
server.ready()
print(server.process.keeper.pid, server.directory, flush=True)
signal.pause()
"""


@needs_root
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("settings", [{}, EVERYTHING], ids=["plain", "everything"])
def test_nothing_outlives_a_tool_that_is_ended_by_a_signal(
    number: signal.Signals, settings: dict[str, Any]
) -> None:
    skip_unless_installed("smbd")
    before = machine()
    with subprocess.Popen(
        [sys.executable, "-c", TOOL.format(settings=settings)], stdout=subprocess.PIPE, text=True
    ) as tool:
        assert tool.stdout is not None
        pid, _, directory = tool.stdout.readline().strip().partition(" ")
        keeper = psutil.Process(int(pid))
        everyone = [keeper, *keeper.children(recursive=True)]
        assert len(everyone) > 1
        assert (machine() != before) == bool(settings)
        tool.send_signal(number)
    assert alive(everyone) == []
    assert machine() == before
    assert not Path(directory).exists()


@needs_root
def test_a_keeper_that_is_killed_leaves_nothing_changed_either() -> None:
    before = machine()
    with samba(EVERYTHING) as server:
        everyone = family(server)
        assert machine() != before
        everyone[0].kill()
        assert alive(everyone[:1]) == []
        server.stop()
        assert alive(everyone) == []
        wait_until_machine_is(before)


@needs_root
def test_limits_that_tool_and_keeper_were_killed_with_are_put_back_by_the_next_server() -> None:
    skip_unless_installed("smbd")
    before = machine().limits
    program = TOOL.format(settings={"vm_dirty_ratio": 37, "vm_dirty_background_ratio": 7})
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as tool:
        assert tool.stdout is not None
        pid, _, directory = tool.stdout.readline().strip().partition(" ")
        keeper = psutil.Process(int(pid))
        everyone = [keeper, *keeper.children(recursive=True)]
        assert machine().limits != before
        keeper.kill()  # first, because it would restore them
        tool.kill()
    assert alive(everyone) == []
    with samba():
        assert machine().limits == before
    shutil.rmtree(directory, ignore_errors=True)


def test_an_ordinary_user_can_run_it_too() -> None:
    check_as_nobody(
        """
from support.file_server import samba, smbclient
with samba() as server:
    smbclient(server, "put /etc/hostname x")
    assert (server.data_directories()[0] / "x").read_bytes() == open("/etc/hostname", "rb").read()
    assert server.access().network_namespace is None
    served = server.operations_served()
    assert served is None or served["write"] == 1  # smbstatus may need root
"""
    )


@pytest.mark.parametrize(
    "settings",
    [{"file_system": "ext4"}, {"vm_dirty_ratio": 30}, {"network": "namespace"}],
    ids=lambda settings: next(iter(settings)),
)
def test_what_needs_root_is_refused_to_others_with_advice(settings: dict[str, Any]) -> None:
    check_as_nobody(
        f"""
from support.file_server import stopped_at_end
from serverdyno.errors import ServerError
with stopped_at_end({settings!r}) as server:
    try:
        server.prepare()
        server.start()
    except ServerError as error:
        assert "root" in error.hint or "root" in str(error), (error, error.hint)
    else:
        raise AssertionError("not refused")
"""
    )


def for_everybody(python: str) -> bool:
    """Return whether a Python has our version, and every user can run it and read its library."""
    told = "import sys; print(sys.version_info[:2], sys.base_prefix)"
    done = subprocess.run([python, "-I", "-c", told], capture_output=True, text=True, check=False, timeout=30)
    version, _, prefix = done.stdout.strip().rpartition(" ")
    places = [Path(prefix), Path(python).resolve()]
    open_to_all = all(each.stat().st_mode & 0o001 for place in places for each in (place, *place.parents))
    return version == str(sys.version_info[:2]) and open_to_all


def check_as_nobody(program: str) -> None:
    """Run a program as an unprivileged user in its own directory, and check that it succeeds."""
    skip_unless_installed("smbd", "smbclient")
    become = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"] if os.geteuid() == 0 else []
    others = [place for place in sys.path if place and not place.startswith(sys.base_prefix)]
    modules = [str(TESTS), *others]
    python = next((each for each in (sys.executable, "/usr/bin/python3") if for_everybody(each)), None)
    if python is None:
        pytest.skip(f"no Python {sys.version_info.major}.{sys.version_info.minor} that {NOBODY} may run")
    with tempfile.TemporaryDirectory(prefix="dyno-") as place:
        if become:
            shutil.chown(place, NOBODY)
        done = subprocess.run(
            [*become, python, "-c", program],
            env=os.environ | {"TMPDIR": place, "PYTHONPATH": ":".join(modules), "HOME": place},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        left = list(Path(place).glob("serverdyno-*"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert left == []


def test_a_path_too_long_for_its_sockets_is_refused_before_the_start(tmp_path: Path) -> None:
    place = tmp_path / ("x" * 80) / "serverdyno-samba-test"
    place.parent.mkdir()
    skip_unless_installed("smbd")
    with pytest.raises(ServerError, match="longer than") as raised:
        Samba(SambaSettings(), place, Path(os.devnull)).prepare()
    assert raised.value.hint
