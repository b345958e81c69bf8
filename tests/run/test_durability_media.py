"""Environments in which a sync that the kernel counted reaches no disk, or is not needed: real mounts and devices.

In each, a private Samba answers two flushes of smbtorture. The verdict is a report's, read from the run's note.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from serverdyno.analysis.durability import InLevel, Outcome, SyncExtent, Witnesses, judged
from serverdyno.analysis.medium import FASTEST_FLUSH_MS, TOO_FAST, Media
from serverdyno.plan import suites
from serverdyno.probes.durability import FsyncCounter
from serverdyno.probes.medium import medium
from serverdyno.report.subjects.durability import media_of
from serverdyno.run.durability import watched
from serverdyno.servers.samba import Samba
from serverdyno.store.note import RunNote
from serverdyno.store.records import DATA_CALLS
from support.file_server import FLUSHES, PATIENCE_S, flush_twice, needs_root, samba, skip_unless_installed
from support.users_smbd import PASSWORD, USER, started

FS_IOC_SETFLAGS = 0x40086602  # linux/fs.h
FS_SYNC_FL = 0x00000008
EATMYDATA = Path("/usr/lib/x86_64-linux-gnu/libeatmydata.so")
"""Answers fsync(2) and similar calls itself, in every program that it is loaded into."""
MNT_DETACH = 2
needs_eatmydata = pytest.mark.skipif(
    not EATMYDATA.exists(), reason="eatmydata is not installed here: run tools/install-servers.sh tests"
)


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield a directory that the servers' user can enter, and unmount everything below it at the end."""
    with tempfile.TemporaryDirectory(prefix="s-") as name:
        Path(name).chmod(0o755)
        try:
            yield Path(name)
        finally:
            for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
                if (at := line.split(" ")[4]).startswith(f"{name}/"):
                    unmount_lazily(Path(at))


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True, timeout=PATIENCE_S)


def unmount_lazily(at: Path) -> None:
    assert ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(at), MNT_DETACH) == 0


def made(*directories: Path) -> None:
    for directory in directories:
        directory.mkdir(parents=True)


@needs_root
def test_a_server_with_mounts_of_its_own_shows_the_medium_that_it_sees(tmp_path: Path) -> None:
    with subprocess.Popen(
        ["unshare", "--mount", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(b"started\n")
        server.stdin.flush()
        server.stdout.readline()  # it is in its namespace
        found = medium(tmp_path, server.pid)
        server.stdin.close()
    assert found == medium(tmp_path, os.getpid())
    assert found


@contextmanager
def judged_by_two_flushes(
    settings: Mapping[str, Any], arranged: Callable[[Samba], None] = lambda _: None
) -> Iterator[tuple[Outcome, Media]]:
    """Yield the verdict on a server that answers two flushes, after `arranged` was called with it, and its media."""
    with samba(settings) as server:
        arranged(server)
        with watched(server, [suites.load("quick-files")], server.data_directories()) as durability:
            flush_twice(server)
            server.requests_served()
            note = RunNote(state="done", **durability.note())
            counts = durability.syncs()
    assert counts is not None
    level = InLevel(FLUSHES, sum(counts.get(call, 0) for call in DATA_CALLS), border=0)
    witnesses = Witnesses(note.syncs_by_kernel, note.syncs_by_server)
    media = media_of(note)
    yield judged([level], media, syncs_known=True, witnesses=witnesses), media


def overlay(place: Path, upper: str, *options: str) -> Path:
    """Mount an overlay whose writes go to `upper`; create the last part of that path and of the work directory."""
    made(place / "lower", place / upper / "written", place / upper / "work", place / "laid")
    parts = f"lowerdir={place}/lower,upperdir={place}/{upper}/written,workdir={place}/{upper}/work"
    parts = ",".join([parts, *options])
    mount("-t", "overlay", "-o", parts, "none", str(place / "laid"))
    (place / "laid").chmod(0o755)
    return place / "laid"


@needs_root
@pytest.mark.parametrize("what", ["mounted", "another directory", "gone"])
def test_an_overlay_that_writes_to_memory_is_not_taken_for_the_directory_at_its_path(
    place: Path, what: str
) -> None:
    made(place / "memory")
    mount("-t", "tmpfs", "none", str(place / "memory"))
    laid = overlay(place, "memory")
    if what != "mounted":
        unmount_lazily(place / "memory")
    if what == "another directory":
        made(place / "memory" / "written", place / "memory" / "work")
    with judged_by_two_flushes({"data_directory": str(laid)}) as (outcome, _):
        if what == "mounted":
            assert outcome.extent is SyncExtent.MEMORY
        else:
            assert str(outcome) == (
                "at least as many syncs as flushes, but not known below overlay: written data does not appear in the "
                f"directory that its mount names, and syncs do not reach a device: {TOO_FAST}"
            )


def ext4_on_an_image(place: Path) -> None:
    """Mount an image with ext4 at the new directory `disk`."""
    made(place / "disk")
    with (place / "image").open("xb") as image:
        image.truncate(64 * 2**20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(place / "image")], check=True, timeout=PATIENCE_S)
    mount("-o", "loop", str(place / "image"), str(place / "disk"))


@needs_root
@pytest.mark.parametrize("option", ["volatile", "fsync=volatile"])
def test_an_overlay_that_ignores_syncs_is_not_called_durable_by_its_time_either(
    place: Path, option: str
) -> None:
    # Linux before 6.18 knows and lists only `volatile`; later versions list both options as `fsync=volatile`.
    ext4_on_an_image(place)
    try:
        laid = overlay(place, "disk", option)
    except subprocess.CalledProcessError:
        pytest.skip(f"this kernel's overlay knows no option {option}")
    with judged_by_two_flushes({"data_directory": str(laid)}) as (outcome, media):
        assert outcome.weak is not None and not outcome.weak.by_device_cache
        assert str(outcome.weak) == "syncs are ignored (mount option volatile)"
        assert not media.ordinary
    [fsync_ms] = media.fsync_ms
    assert fsync_ms is not None and fsync_ms < FASTEST_FLUSH_MS
    [[top, *below]] = media.volumes
    unnamed = replace(top, options=tuple(each for each in top.options if "volatile" not in each))
    by_time = judged(
        [InLevel(FLUSHES, FLUSHES, border=0)], replace(media, volumes=((unnamed, *below),)), syncs_known=True
    )
    assert str(by_time.weak) == f"syncs do not reach a device: {TOO_FAST}"


@needs_root
def test_a_sync_to_a_real_disk_is_slow_enough_to_be_believed_and_each_volume_is_measured(place: Path) -> None:
    settings = {"file_system": "ext4", "image_mib": 64, "volumes": 2, "data_directory": str(place)}
    with judged_by_two_flushes(settings) as (outcome, media):
        assert outcome == Outcome(SyncExtent.EACH)
    assert len(media.fsync_ms) == len(media.volumes) == 2
    assert all(fsync_ms is not None and fsync_ms >= FASTEST_FLUSH_MS for fsync_ms in media.fsync_ms)


@needs_root
def test_an_overlay_is_followed_to_the_device_that_it_writes_to(place: Path) -> None:
    ext4_on_an_image(place)
    laid = overlay(place, "disk")
    (laid / "deeper").mkdir()
    layers = medium(laid / "deeper", os.getpid())
    assert [layer.file_system for layer in layers[:2]] == ["overlay", "ext4"]
    assert re.fullmatch(r"loop\d+", layers[1].device)
    assert layers[2:] == medium(place, os.getpid())
    # The image's path now belongs to another file, but the loop device still uses the old one.
    (place / "image").rename(place / "moved")
    (place / "image").touch()
    assert medium(laid, os.getpid())[2].devices == layers[2].devices != ()
    # Without the path, the file system of the image is not known either.
    (place / "image").unlink()
    assert medium(laid, os.getpid())[2].devices == layers[2].devices


@needs_root
def test_a_loop_device_that_passes_no_flush_on_cuts_every_sync_short(place: Path) -> None:
    with ExitStack() as put_back:

        def write_through(server: Samba) -> None:
            [layer, *_] = medium(server.data_directories()[0], server.pids()[0])
            cache = Path("/sys/block") / layer.device / "queue" / "write_cache"
            assert cache.read_text().strip() == "write back"
            # the kernel keeps the setting for the next user of the device
            put_back.callback(cache.write_text, "write back")
            cache.write_text("write through")

        settings = {"file_system": "ext4", "image_mib": 64, "data_directory": str(place)}
        with judged_by_two_flushes(settings, write_through) as (outcome, media):
            assert outcome.weak is not None and not outcome.weak.by_device_cache
            assert re.search(
                r"syncs go no further than memory: loop\d+ is set to write through$", str(outcome)
            )
            assert not media.ordinary


@needs_root
@needs_eatmydata
def test_fuse_is_not_known_to_pass_a_sync_on(place: Path) -> None:
    # The FUSE program of this test forwards no sync: it answers each one itself.
    skip_unless_installed("bindfs")
    made(place / "disk", place / "passed")
    command = ["bindfs", "-o", "allow_other", str(place / "disk"), str(place / "passed")]
    environment = {**os.environ, "LD_PRELOAD": str(EATMYDATA)}
    subprocess.run(command, check=True, timeout=PATIENCE_S, env=environment)
    with judged_by_two_flushes({"data_directory": str(place / "passed")}) as (outcome, _):
        assert re.fullmatch(
            r"at least as many syncs as flushes, but not known below fuse(\.bindfs)?, which is not a disk file system",
            str(outcome),
        )


def make_synchronous(server: Samba) -> None:
    """Set `chattr +S`, so that new files in the volume are written at once."""
    opened = os.open(server.data_directories()[0], os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(opened, FS_IOC_SETFLAGS, FS_SYNC_FL.to_bytes(8, "little"))
    finally:
        os.close(opened)


@needs_root
@pytest.mark.parametrize("attribute", [True, False], ids=["chattr +S", "without"])
def test_a_server_without_syncs_breaks_its_word_only_where_writes_wait_for_one(attribute: bool) -> None:
    settings = {"strict_sync": False, "file_system": "ext4", "image_mib": 64}
    arranged = make_synchronous if attribute else lambda _: None
    with judged_by_two_flushes(settings, arranged) as (outcome, _):
        if attribute:
            assert outcome.extent is SyncExtent.UNKNOWN
            assert outcome.because.startswith("writes reach the medium without a sync there")
        else:
            assert outcome == Outcome(SyncExtent.NONE)


@needs_root
def test_syncs_by_io_uring_are_counted_and_the_servers_own_counters_agree(place: Path) -> None:
    skip_unless_installed("smbtorture")
    server = started(place, "vfs objects = io_uring\n  smbd profiling level = count")
    try:
        with FsyncCounter(process.pid for process in server.processes()) as counter:
            flush = ["smbtorture", "//127.0.0.1/data", "-p", str(server.port), "-U", f"{USER}%{PASSWORD}"]
            command = [*flush, "-s", str(server.at / "smb.conf"), "smb2.compound_async.flush_flush"]
            subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
            counts = counter.counts()
    finally:
        server.kill()
    assert counts is not None, counter.reason
    assert counts["io_uring_fsync"] == FLUSHES
    assert counts["fsync"] + counts["fdatasync"] == 0


@needs_root
@needs_eatmydata
def test_a_server_that_counts_syncs_which_never_reach_the_kernel_is_believed_by_neither_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Samba, "environment", lambda _: {"LD_PRELOAD": str(EATMYDATA)})
    with judged_by_two_flushes({}) as (outcome, _):
        assert outcome.extent is SyncExtent.UNKNOWN
        assert outcome.because == (
            f"the server's own counters show {FLUSHES} file syncs in the run, the kernel counted 0"
        )


@needs_root
@needs_eatmydata
def test_a_library_that_answers_syncs_itself_is_named_and_nothing_is_counted_with_it() -> None:
    program = """
import os
from serverdyno.probes.durability import FsyncCounter, preloaded
with FsyncCounter([os.getpid()]) as counter:
    print(preloaded(os.getpid()), counter.counts(), counter.reason)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LD_PRELOAD": str(EATMYDATA)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    reason = "a preloaded library (LD_PRELOAD) keeps dyno's own fsync from the kernel"
    assert done.stdout == f"['{EATMYDATA}'] None {reason}\n"
