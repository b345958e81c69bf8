"""The number of a server's syncs, and the time of the disk's own; unknown figures are not guessed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from serverdyno.plan.model import Level
from serverdyno.probes import durability
from serverdyno.probes.durability import FsyncCounter, disk_fsync_s, remove_abandoned, remove_stale
from serverdyno.probes.medium import LayerReading, medium
from serverdyno.probes.process_start import own_identity
from serverdyno.probes.window import WindowMeter
from serverdyno.servers.host_changes import HostChanges
from serverdyno.servers.process import ServerProcess
from support.file_server import FLUSHES, NOBODY, flush_twice, needs_root, samba, smbclient, stopped_at_end

DELAY_S = 0.05

# It starts at the first line of input; by then the counter is running.
ACTIVE = """
import os, sys, tempfile, threading
file = tempfile.TemporaryFile()
def ask(times, call):
    for _ in range(times): call(file.fileno())
sys.stdin.readline()
ask(2000, os.fsync)
for flags in (os.O_SYNC, os.O_DSYNC, 0):
    os.close(os.open("/dev/null", os.O_WRONLY | flags))
thread = threading.Thread(target=ask, args=(7, os.fsync)); thread.start(); thread.join()
if os.fork() == 0:
    if os.fork() == 0:
        ask(20, os.fsync); os._exit(0)
    os.wait(); ask(3, os.fdatasync); os._exit(0)
os.wait()
print("done", flush=True)
sys.stdin.readline()
"""


def instances(of: int | None = None, namespace: int | None = None) -> set[str]:
    """Return the kernel's tracing instances of a process (default: this one) in a PID namespace (default: ours).

    Instances of other and of killed programs must not disturb a test.
    """
    mount = durability._mount_tracefs()
    try:
        names = os.listdir(f"/proc/self/fd/{mount}/instances")  # noqa: PTH208 (pathlib would close it)
    finally:
        os.close(mount)
    owner = (of or os.getpid(), namespace or own_identity()[2])
    found = {name: durability.INSTANCE.fullmatch(name) for name in names}
    return {name for name, its in found.items() if its and (int(its[1]), int(its[3])) == owner}


@pytest.fixture
def active() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", ACTIVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def act(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


@needs_root
def test_every_call_of_a_process_its_threads_and_its_descendants_is_counted(
    active: subprocess.Popen[str],
) -> None:
    with FsyncCounter([active.pid]) as counter:
        before = counter.counts()
        assert before is not None and set(before.values()) == {0}
        disk_fsync_s(Path.cwd(), 5)  # syncs of this process, not of the one that is followed
        act(active)
        counts = counter.counts()
    assert counts is not None
    assert (counts["fsync"], counts["fdatasync"], counts["open_sync"]) == (2027, 3, 2)
    assert counter.reason is None
    assert instances() == set()


@needs_root
def test_a_count_ends_at_a_moment_though_it_is_read_long_after() -> None:
    with FsyncCounter([os.getpid()]) as counter:
        disk_fsync_s(Path.cwd(), 7)
        border_s = time.monotonic()
        time.sleep(0.00001)  # the kernel's time stamps have microseconds
        disk_fsync_s(Path.cwd(), 11)
        until, all_of_them = counter.counts(border_s), counter.counts()
        assert until is not None and all_of_them is not None
        assert (until["fsync"], all_of_them["fsync"]) == (7, 18)
        border_s = time.monotonic()
        disk_fsync_s(Path.cwd(), 2000)  # more than the kernel's buffer holds
        until = counter.counts(border_s)
        assert until is not None and until["fsync"] == 2018


@needs_root
def test_two_count_at_once_without_disturbing_each_other(active: subprocess.Popen[str]) -> None:
    with FsyncCounter([active.pid]) as of_child, FsyncCounter([os.getpid()]) as of_us_and_child:
        disk_fsync_s(Path.cwd(), 11)
        act(active)
        counted = of_child.counts(), of_us_and_child.counts()
    assert counted[0] is not None and counted[0]["fsync"] == 2027
    assert counted[1] is not None and counted[1]["fsync"] == 2027 + 11


@needs_root
def test_counts_that_fell_are_no_counts() -> None:
    disk = Path.cwd()
    with FsyncCounter([os.getpid()]) as counter:
        disk_fsync_s(disk, 3)
        [instance] = [path for call, path in counter._instances.items() if call == "fsync"]
        (instance / "trace").write_text("")  # discards these events and earlier ones
        assert counter.counts() is None
        assert counter.reason == "the kernel's counts of syncs can't be used: the counts of fsync decreased"


@needs_root
@pytest.mark.parametrize("by_a_counter", [True, False], ids=["counter", "experiment"])
def test_what_a_killed_counter_leaves_is_removed_by_the_next(
    active: subprocess.Popen[str], by_a_counter: bool
) -> None:
    program = f"""
import signal
from serverdyno.probes.durability import FsyncCounter
with FsyncCounter([{active.pid}]) as counter:
    print(counter.counts(), flush=True)
    signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert "'fsync': 0" in killed.stdout.readline()
        assert instances(killed.pid)
        with FsyncCounter([active.pid]):
            pass
        assert instances(killed.pid)  # it is running, so its instances stay
        killed.send_signal(signal.SIGKILL)
    if by_a_counter:
        with FsyncCounter([active.pid]) as counter:
            assert counter.counts() is not None
    else:
        remove_abandoned()
    assert instances(killed.pid) == instances() == set()


@pytest.mark.parametrize(
    ("prefix", "reason"),
    [
        (["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"], "can't mount tracefs"),
        (["unshare", "--fork", "--pid", "--mount-proc"], "PID namespace"),
    ],
    ids=["not root", "PID namespace"],
)
@needs_root
def test_where_calls_cannot_be_seen_there_is_a_reason_and_no_number(prefix: list[str], reason: str) -> None:
    program = """
import os
from serverdyno.probes.durability import FsyncCounter
with FsyncCounter([os.getpid()]) as counter:
    print(counter.counts(), counter.reason)
print(os.getpid(), os.stat("/proc/self/ns/pid").st_ino)
"""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    answer, who = done.stdout.splitlines()
    assert answer.startswith("None ")
    assert reason in answer
    assert instances(*map(int, who.split())) == set()


@needs_root
def test_a_process_that_has_ended_is_a_reason_too() -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    with FsyncCounter([done.pid]) as counter:
        assert counter.counts() is None
        assert "ended" in (counter.reason or "")
    with FsyncCounter([]) as nobody:
        assert nobody.counts() is None
        assert nobody.reason


def test_the_disks_own_time_is_measured_for_each_fsync_and_leaves_no_file(tmp_path: Path) -> None:
    taken_s = disk_fsync_s(tmp_path, 25)
    assert len(taken_s) == 25
    assert min(taken_s) > 0
    assert list(tmp_path.iterdir()) == []


@needs_root
@pytest.mark.parametrize(
    ("settings", "of_flushes", "of_writes"),
    [
        ({"strict_sync": True}, FLUSHES, 0),
        ({"strict_sync": False}, 0, 0),
        ({"sync_always": True}, FLUSHES, 1),
    ],
    ids=["strict sync", "no strict sync", "sync always"],
)
def test_samba_asks_the_disk_as_often_as_its_settings_say_and_its_own_counter_agrees(
    settings: dict[str, bool], of_flushes: int, of_writes: int
) -> None:
    with samba(settings) as server, FsyncCounter(server.pids()) as counter:
        before = server.operations_served()
        flush_twice(server)
        flushed = counter.counts()
        smbclient(server, "put /etc/passwd x")
        written = counter.counts()
        after = server.operations_served()
        profile = subprocess.run(
            ["smbstatus", "--profile", "-s", str(server.directory / "smb.conf")],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        ).stdout
    assert flushed is not None and written is not None and before is not None and after is not None
    assert after["flush"] - before["flush"] == FLUSHES  # all were answered with success
    assert flushed["fsync"] + flushed["fdatasync"] == of_flushes
    assert written["fsync"] + written["fdatasync"] == of_flushes + of_writes
    own = re.search(r"^syscall_asys_fsync_count:\s+(\d+)$", profile, re.MULTILINE)
    assert own is not None and int(own[1]) == of_flushes + of_writes


def test_syncs_are_counted_from_border_to_border_however_late_the_samples_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    level = Level(1, "1", 1, 1, length_s=3.0, ramp_up_s=1.0, ramp_down_s=1.0, delay_s=0.0, think_time_s=0.0)
    now_s = 0.0
    monkeypatch.setattr("serverdyno.probes.window.time", SimpleNamespace(monotonic=lambda: now_s))
    meter = WindowMeter(lambda: 1.0, lambda until_s: {"fsync": round(until_s * 1000)})
    for elapsed_s, late_s in ((0.0, -0.4), (0.5, 0.0), (1.3, 0.2), (2.01, 0.1)):
        now_s = 700.0 + elapsed_s + late_s
        meter.look(elapsed_s, level)
    assert meter.syncs() == {"fsync": 1000}


def kinds(layers: list[LayerReading]) -> list[str]:
    return [layer.file_system for layer in layers]


@needs_root
def test_what_a_server_has_mounted_for_itself_is_followed_to_what_its_image_lies_on(tmp_path: Path) -> None:
    options = "sync,nobarrier,data=writeback"
    settings = {"file_system": "ext4", "mount_options": options, "image_mib": 64, "volumes": 2}
    with samba(settings) as server:
        found = [medium(directory, server.pids()[0]) for directory in server.data_directories()]
        at = str(server.volumes.top)
    assert len(found) == 2 and found[0] == found[1]
    assert found[0][0].file_system == "ext4" and found[0][0].device.startswith("loop")
    assert set(options.split(",")) <= set(found[0][0].options)
    assert found[0][1:] == medium(tmp_path, os.getpid()) != []  # the image is in the same temporary directory
    assert at not in Path("/proc/self/mountinfo").read_text()  # so the other process's mounts were read


MOUNTS = """
import sys
from pathlib import Path
from serverdyno.probes.medium import medium
for path in sys.argv[1:]:
    print(*(f"{each.file_system}:{','.join(each.options)}" for each in medium(Path(path), os.getpid())), sep=" ")
"""


@needs_root
def test_an_overlay_is_followed_to_the_layer_that_is_written_and_the_last_of_two_mounts_counts(
    tmp_path: Path,
) -> None:
    top = tmp_path / "a place"
    top.mkdir()
    program = f"import os{MOUNTS}"
    script = """
set -e
cd "$1"
mkdir memory twice laid
mount -t tmpfs -o noatime none memory
mkdir memory/lower memory/upper memory/work
mount -t overlay -o "lowerdir=memory/lower,upperdir=$1/memory/upper,workdir=memory/work" none laid
mount -t tmpfs -o sync none twice
mount -t ramfs none twice
exec "$2" -c "$3" laid twice memory/lower
"""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", str(top), sys.executable, program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    laid, twice, memory = done.stdout.splitlines()
    assert re.fullmatch(r"overlay:\S.* tmpfs:rw,noatime\S*", laid)
    assert re.fullmatch(r"ramfs:rw\S*", twice)
    assert re.fullmatch(r"tmpfs:rw,noatime\S*", memory)


def test_what_cannot_be_looked_at_is_not_known(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert medium(tmp_path / "not there", os.getpid()) == []
    assert medium(tmp_path, gone.pid) == []


@pytest.mark.parametrize(
    ("settings", "said", "not_said"),
    [
        ({"strict_sync": False}, "a power cut can lose acknowledged data", "synchronously"),
        (
            {"strict_sync": False, "file_system": "ext4", "mount_options": "noatime,sync"},
            "writes synchronously (mount option sync)",
            "can lose",
        ),
        ({"file_system": "ext4"}, "is answered after fsync", "device's cache"),
        (
            {"file_system": "ext4", "mount_options": "nobarrier"},
            "fsync goes no further than the device's cache (mount option nobarrier)",
            "can lose",
        ),
    ],
)
def test_what_samba_discloses_of_a_flush_is_that_of_its_mount(
    settings: dict[str, object], said: str, not_said: str
) -> None:
    with stopped_at_end(settings) as server:
        [flush] = [note for note in server.notes() if "FLUSH" in note]
    assert said in flush and not_said not in flush


SLOW = """
import os, sys, tempfile, threading, time
file = tempfile.TemporaryFile()
def ask(call):
    begun = time.monotonic()
    call(file.fileno())
    print("took", time.monotonic() - begun, flush=True)
for call in (os.fsync, os.fdatasync):
    ask(call)
threads = [threading.Thread(target=ask, args=(os.fsync,)) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
if os.fork() == 0:
    ask(os.fsync); os._exit(0)
os.wait()
print("ready", flush=True)
"""


@pytest.mark.parametrize("delay_s", [0.0, DELAY_S])
def test_a_delayed_fsync_takes_at_least_the_delay_in_every_thread_and_child(
    delay_s: float, tmp_path: Path
) -> None:
    host_changes = HostChanges(own_network=False, mount=None, write_back={}, sync_delay_s=delay_s, remove=[])
    server = ServerProcess.start([sys.executable, "-c", SLOW], tmp_path, host_changes=host_changes)
    try:
        deadline = time.monotonic() + 30
        while server.running():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        log = (tmp_path / "server.log").read_text()
    finally:
        server.stop()
    assert "ready" in log
    took_s = [float(found) for found in re.findall(r"took (\S+)", log)]
    assert len(took_s) == 7
    assert all(each_s >= delay_s for each_s in took_s)


def test_a_slow_disk_shows_in_a_server_that_waits_for_it_and_the_calls_are_still_made() -> None:
    with samba({"sync_always": True, "fsync_delay_ms": 300}) as server:
        begun_s = time.monotonic()
        smbclient(server, "put /etc/passwd x")
        assert time.monotonic() - begun_s >= 0.3
        assert (server.data_directories()[0] / "x").read_bytes() == Path("/etc/passwd").read_bytes()


def test_counters_of_a_process_in_another_pid_namespace_stay_and_those_of_one_that_ended_go(
    tmp_path: Path,
) -> None:
    # A process ID from another PID namespace is meaningless here: that process may be alive.
    pid, started, namespace = own_identity()
    ours = f"serverdyno-{pid}-{started}-{namespace}-abcd-fsync"
    elsewhere = f"serverdyno-2000000000-1-{namespace + 1}-abcd-fsync"
    ended = f"serverdyno-2000000000-1-{namespace}-abcd-fsync"
    for name in (ours, elsewhere, ended, "of-somebody-else"):
        (tmp_path / name).mkdir()
    remove_stale(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {ours, elsewhere, "of-somebody-else"}
