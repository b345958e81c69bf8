"""The outcome of a flush, from the layers below the files and the medium's own fsync: one row per stack."""

from __future__ import annotations

from dataclasses import replace

import pytest

from serverdyno.analysis.durability import InLevel, judged
from serverdyno.analysis.medium import FASTEST_FLUSH_MS, TOO_FAST, Device, Layer, Media

DISK_MS, NVME_MS, NOTHING_MS = 0.11, 0.02, 0.0005
"""Measured medians: a virtual disk, a fast disk, and a sync that does nothing."""
EACH = "at least as many syncs as flushes at each load level, except at the start of its window"
SYNCED = "at least as many syncs as flushes, but "
MEMORY = "synced to memory only: no data reach a disk"
IGNORED = f"{EACH}, and syncs are ignored (mount option volatile)"
IN_CACHE = f"{EACH}, and syncs go no further than the device's cache: "
NO_DEVICE = f"and syncs do not reach a device: {TOO_FAST}"

VDA = Device("vda", "write back")


def on_disk(file_system: str = "ext4", *options: str, device: Device = VDA) -> Layer:
    return Layer(file_system, ("rw", "relatime", *options), device.name, (device,))


def laid(*options: str) -> Layer:
    parts = ("rw", "lowerdir=/sync/l", "upperdir=/volatile/u", "workdir=/w")
    return Layer("overlay", (*parts, *options), "none")


def on_loop(cache: str = "write back") -> Layer:
    return on_disk(device=Device("loop3", cache))


TMPFS = Layer("tmpfs", ("rw",), "tmpfs")
FUSE = Layer("fuse.bindfs", ("rw",), "bindfs")
MAPPED = Layer("xfs", ("rw", "wsync"), "dm-0", (Device("dm-0", "write back"), VDA))
MAPPED_THROUGH = replace(MAPPED, devices=(Device("dm-0", "write through"), VDA))
PERSISTENT = on_disk("ext4", "dax=always", device=Device("pmem0p1", "write back"))
HIDDEN = replace(laid(), unfollowed="the file system below is not visible from here")

STACKS: dict[str, tuple[tuple[Layer, ...], float | None, str]] = {
    "ext4": ((on_disk(),), DISK_MS, EACH),
    "ext4, its time not measured": ((on_disk(),), None, EACH),
    "xfs, disk without a volatile cache": (
        (on_disk("xfs", device=Device("nvme0n1", "write through")),),
        NVME_MS,
        EACH,
    ),
    "btrfs, flushoncommit": ((on_disk("btrfs", "flushoncommit"),), DISK_MS, EACH),
    "ext4, nobarrier": ((on_disk("ext4", "nobarrier"),), DISK_MS, f"{IN_CACHE}mount option nobarrier"),
    "ext4, barrier=0": ((on_disk("ext4", "barrier=0"),), DISK_MS, f"{IN_CACHE}mount option barrier=0"),
    "f2fs, fsync_mode=nobarrier": (
        (on_disk("f2fs", "fsync_mode=nobarrier"),),
        DISK_MS,
        f"{IN_CACHE}mount option fsync_mode=nobarrier",
    ),
    "overlay": ((laid(), on_disk()), DISK_MS, EACH),
    "overlay, fsync=strict": ((laid("fsync=strict"), on_disk()), DISK_MS, EACH),
    "overlay, volatile": ((laid("volatile"), on_disk()), NOTHING_MS, IGNORED),
    "overlay, fsync=volatile": ((laid("fsync=volatile"), on_disk()), NOTHING_MS, IGNORED),
    "overlay, an option of a later kernel": (
        (laid("durable=off"), on_disk()),
        NOTHING_MS,
        f"{EACH}, {NO_DEVICE}",
    ),
    "overlay, an option of a later kernel that names syncs": (
        (laid("fsync=lazy"), on_disk()),
        NOTHING_MS,
        f"{SYNCED}not known below overlay: its mount option fsync=lazy may change what a sync does, {NO_DEVICE}",
    ),
    "overlay out of sight": (
        (HIDDEN,),
        NOTHING_MS,
        f"{SYNCED}not known below overlay: the file system below is not visible from here, {NO_DEVICE}",
    ),
    "tmpfs": ((TMPFS,), NOTHING_MS, MEMORY),
    "overlay on tmpfs": ((laid(), TMPFS), NOTHING_MS, MEMORY),
    "zram": ((on_disk(device=Device("zram0", "write back")),), NVME_MS, MEMORY),
    "image on a disk": ((on_loop(), on_disk()), DISK_MS, EACH),
    "image in memory": ((on_loop(), TMPFS), NVME_MS, MEMORY),
    "image, loop device set to write through": (
        (on_loop("write through"), on_disk()),
        NVME_MS,
        f"{EACH}, and syncs go no further than memory: loop3 is set to write through",
    ),
    "image on an overlay, fsync=volatile": (
        (on_loop(), laid("fsync=volatile"), on_disk()),
        NVME_MS,
        IGNORED,
    ),
    "image on an overlay, an option of a later kernel": (
        (on_loop(), laid("fsync=lazy"), on_disk()),
        NVME_MS,
        f"{SYNCED}not known below overlay: its mount option fsync=lazy may change what a sync does",
    ),
    "device mapper, write back": ((MAPPED,), DISK_MS, EACH),
    "device mapper, write through over write back": (
        (MAPPED_THROUGH,),
        DISK_MS,
        f"{IN_CACHE}dm-0 is set to write through",
    ),
    "virtual disk, write through": ((on_disk(device=Device("vda", "write through")),), DISK_MS, EACH),
    "virtual disk that answers without its host": ((on_disk(),), NOTHING_MS, f"{EACH}, {NO_DEVICE}"),
    "FUSE": ((FUSE,), DISK_MS, f"{SYNCED}not known below fuse.bindfs, which is not a disk file system"),
    "FUSE whose program knows no fsync": (
        (FUSE,),
        NOTHING_MS,
        f"{SYNCED}not known below fuse.bindfs, which is not a disk file system, {NO_DEVICE}",
    ),
    "a file system of a later kernel": (
        (on_disk("laterfs"),),
        NOTHING_MS,
        f"{SYNCED}not known below laterfs, which is not a disk file system, {NO_DEVICE}",
    ),
    "nothing known of it": ((), NOTHING_MS, f"{SYNCED}the medium of the files is not known, {NO_DEVICE}"),
    "persistent memory, or memory that is called so": (
        (PERSISTENT,),
        0.0015,
        f"{SYNCED}not known below pmem0p1: its memory may not survive a power cut",
    ),
    "ext4, sync": ((on_disk("ext4", "sync"),), NOTHING_MS, EACH),
}


def verdict(media: Media) -> str:
    """Return the verdict on a server that made one sync for each of its flushes."""
    return str(judged([InLevel(flushes=10, syncs=10, border=0)], media, syncs_known=True))


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_has_its_verdict(stack: str) -> None:
    layers, fsync_ms, expected = STACKS[stack]
    assert verdict(Media((layers,), (False,), (fsync_ms,))) == expected


def test_a_sync_that_no_device_can_have_made_is_doubted_whatever_the_options_are_called() -> None:
    # Each stack of disks and overlays that is called durable is tested with the time of a sync that does nothing.
    durable = {name: layers for name, (layers, _, expected) in STACKS.items() if expected == EACH}
    assert len(durable) >= 9
    for name, layers in durable.items():
        media = Media((layers,), (False,), (NOTHING_MS,))
        assert verdict(media).endswith(NO_DEVICE) == (name != "ext4, sync"), name
        assert media.ordinary is False, name


def test_the_fastest_disks_are_believed_and_the_slowest_syncs_of_nothing_are_not() -> None:
    for fsync_ms, is_believed in ((0.0089, True), (FASTEST_FLUSH_MS, True), (0.0049, False), (0.0, False)):
        assert (verdict(Media(((on_disk(),),), (False,), (fsync_ms,))) == EACH) is is_believed, fsync_ms


def test_one_volume_of_several_is_enough() -> None:
    media = Media(((on_disk(),), (laid("durable=off"), on_disk())), (False, False), (DISK_MS, NOTHING_MS))
    assert verdict(media) == f"{EACH}, {NO_DEVICE}"


def test_a_library_that_may_have_answered_the_sync_leaves_its_time_without_meaning() -> None:
    media = Media(((on_disk(),),), (False,), (NOTHING_MS,), ("libeatmydata.so",))
    assert verdict(media) == (
        f"{SYNCED}not known: {TOO_FAST}; libeatmydata.so may have answered the sync (LD_PRELOAD)"
    )
    assert verdict(replace(media, fsync_ms=(DISK_MS,))) == EACH
