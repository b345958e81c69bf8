"""The medium below a server's files, and the effect of its mount options on writes and syncs.

The evidence consists of the mounts, the devices below them, and the time of the medium's own fsync. A trial also shows
whether a write waits for a sync. This evidence does not show a device's protected cache, single files that are marked
synchronous, or a disk that falsely confirms a sync after a plausible time. `durability.py` judges counts of syncs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from serverdyno import wording

IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs", "rootfs", "the server's memory"}
MEMORY_DEVICE = re.compile(r"z?ram\d+")
ORDINARY = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"}
"""File systems of disks, which are asynchronous unless mounted otherwise and pass a sync on to the device.

The effect of a sync on other file systems (network, FUSE) is not known.
"""
LOOP = re.compile(r"loop\d+")
WRITE_BACK, WRITE_THROUGH = "write back", "write through"
"""Values of `queue/write_cache`. The kernel passes no flush on to a device with write through."""
SYNCHRONOUS = {
    "sync": "the file system writes synchronously (mount option sync)",
    "dirsync": "the file system writes directories synchronously (mount option dirsync)",
}
NO_BARRIER = {"nobarrier", "barrier=0", "barrier=none", "fsync_mode=nobarrier"}
"""Options with which a sync leaves data in the device's own cache: ext4(5), btrfs(5), and the kernel's documentation
of f2fs."""
IGNORED = {("overlay", "volatile"), ("overlay", "fsync=volatile")}
"""Overlay options with which a sync does nothing (Documentation/filesystems/overlayfs.rst: two names of one option)."""
OF_SYNCS = re.compile(r"sync|volatile|barrier|flush")
"""Matches the names of options that may change the effect of a sync."""
HARMLESS = {
    "async",
    "barrier",
    "barrier=1",
    "barrier=flush",
    "flushoncommit",
    "noflushoncommit",
    "fsync=auto",
    "fsync=strict",
    "fsync_mode=posix",
    "fsync_mode=strict",
    "journal_async_commit",
    "wsync",
    "flush_merge",
    "noflush_merge",
}
"""Matching options that leave fsync(2) as it is: it writes the file and flushes the device.

Sources: ext4(5), btrfs(5), xfs(5), and the kernel's documentation of f2fs and overlayfs. The effect of any other
option is unknown.
"""
FASTEST_FLUSH_MS = 0.005
"""Shortest plausible sync.

A sync of new data waits for a device, and then for its journal. One of the fastest disks takes 8.9 us for 4 KiB
(Intel Optane DC P4800X, AnandTech, April 2017), without a file system. A sync that does nothing takes 0.5 us.
"""
PERSISTENT_MEMORY = re.compile(r"pmem\d+.*")
TOO_FAST = f"the medium's own fsync takes less than {FASTEST_FLUSH_MS:g} ms, but no device is that fast"
NO_MEDIUM = "the medium of the files is not known"
NAMED = ("data=", "commit=", "fsync_mode=", "fsync=")


@dataclass(frozen=True, slots=True)
class Cut:
    """The place above the medium at which syncs stop.

    `by_device_cache`: they stop in the device's own cache, which may be protected.
    """

    words: str
    by_device_cache: bool

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class Device:
    """A block device. `write_cache` is None if the kernel does not report it."""

    name: str
    write_cache: str | None

    def __str__(self) -> str:
        return f"{self.name} ({self.write_cache or 'its cache is not known'})"


@dataclass(frozen=True, slots=True)
class Layer:
    """A file system below a server's files, as read by `probes/medium.py`."""

    file_system: str
    options: tuple[str, ...]
    device: str
    devices: tuple[Device, ...] = ()
    unfollowed: str = ""

    @property
    def in_memory(self) -> bool:
        """Return whether the layer is in memory, by its type or by its device."""
        return self.file_system in IN_MEMORY or any(map(MEMORY_DEVICE.fullmatch, self._names))

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.device, *(device.name for device in self.devices))

    @property
    def is_persistent_memory(self) -> bool:
        """Return whether the device is named like persistent memory, on which a sync need not wait.

        Ordinary memory can have the same name.
        """
        return any(map(PERSISTENT_MEMORY.fullmatch, self._names))

    @property
    def gap(self) -> str:
        """Return why the effect of a sync in this layer or below it is not known; empty if it is known."""
        if self.file_system != "overlay" and self.file_system not in ORDINARY:
            return f"not known below {self.file_system}, which is not a disk file system"
        if self.unfollowed:
            return f"not known below {self.file_system}: {self.unfollowed}"
        strange = next((option for option in self.options if self._is_strange(option)), "")
        if strange:
            return (
                f"not known below {self.file_system}: its mount option {strange} may change what a sync does"
            )
        if self.is_persistent_memory:
            return f"not known below {self.device}: its memory may not survive a power cut"
        unknown = [device.name for device in self.devices if device.write_cache is None]
        return f"not known below {unknown[0]}, which may have a cache" if unknown else ""

    def _is_strange(self, option: str) -> bool:
        """Return whether an option may change a sync in an unknown way. Options that name a directory don't."""
        if option in HARMLESS or option in SYNCHRONOUS or option in NO_BARRIER:
            return False
        names_directory = "=/" in option or (
            self.file_system == "overlay" and "dir" in option.partition("=")[0]
        )
        return (
            not names_directory
            and (self.file_system, option) not in IGNORED
            and bool(OF_SYNCS.search(option))
        )

    @property
    def weak(self) -> Cut | None:
        """Return where a mount option or a device stops syncs; None if they reach the medium."""
        if any((self.file_system, option) in IGNORED for option in self.options):
            return Cut("syncs are ignored (mount option volatile)", by_device_cache=False)
        cut = [option for option in self.options if option in NO_BARRIER]
        if not cut:
            return self._stopped
        return Cut(
            f"syncs go no further than the device's cache: mount option {cut[0]}", by_device_cache=True
        )

    @property
    def _stopped(self) -> Cut | None:
        """Return where a device does not forward flushes to the layer below it; None if each device forwards them."""
        for place, device in enumerate(self.devices):
            if device.write_cache != WRITE_THROUGH:
                continue
            if LOOP.fullmatch(device.name):
                words = f"syncs go no further than memory: {device.name} is set to {WRITE_THROUGH}"
                return Cut(words, by_device_cache=False)
            if any(lower.write_cache == WRITE_BACK for lower in self.devices[place + 1 :]):
                words = (
                    f"syncs go no further than the device's cache: {device.name} is set to {WRITE_THROUGH}"
                )
                return Cut(words, by_device_cache=True)
        return None

    def __str__(self) -> str:
        """Return the type of the file system, with the options that affect durability."""
        special = [option for option in self.options if self._bears_on_durability(option)]
        return f"{self.file_system} ({','.join(special)})" if special else self.file_system

    def _bears_on_durability(self, option: str) -> bool:
        return (
            option in SYNCHRONOUS
            or option in NO_BARRIER
            or (self.file_system, option) in IGNORED
            or self._is_strange(option)
            or option.startswith(NAMED)
        )


@dataclass(frozen=True, slots=True)
class Media:
    """The layers of each volume of one run, from its file system down; empty if not known.

    `at_once`: whether a new file in each volume was written without a sync; None if not known. `fsync_ms` is the median
    of each volume's own fsync of new data; None if not measured. `preloaded` are the libraries (LD_PRELOAD) that may
    have answered the fsync.
    """

    volumes: tuple[tuple[Layer, ...], ...] = ()
    at_once: tuple[bool | None, ...] = ()
    fsync_ms: tuple[float | None, ...] = ()
    preloaded: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Return whether the layers of each volume are known."""
        return bool(self.volumes) and all(self.volumes)

    @property
    def gap(self) -> str:
        """Return why the effect of a sync is not known; empty if each layer down to the devices is known."""
        if not self.known:
            return NO_MEDIUM
        for layers in self.volumes:
            if gap := next((layer.gap for layer in layers if layer.gap), ""):
                return gap
            if not layers[-1].devices:
                return f"not known below {layers[-1].file_system}: its device is not known"
        if self.preloaded and self._is_too_fast:
            libraries = wording.listing(list(self.preloaded))
            return f"not known: {TOO_FAST}; {libraries} may have answered the sync (LD_PRELOAD)"
        return ""

    @property
    def _is_too_fast(self) -> bool:
        """Return whether a volume's own fsync is faster than any device, although writes wait for a sync there."""
        if self.synchronous:
            return False
        return any(
            taken_ms is not None
            and taken_ms < FASTEST_FLUSH_MS
            and not any(layer.is_persistent_memory for layer in layers or ())
            for layers, taken_ms in zip_longest(self.volumes, self.fsync_ms)
        )

    @property
    def in_memory(self) -> bool:
        """Return whether any layer of any volume is in memory."""
        return any(layer.in_memory for layers in self.volumes for layer in layers)

    @property
    def synchronous(self) -> str:
        """Return why writes of a volume reach the medium without a sync; empty if they don't."""
        options = {
            option for layers in self.volumes for layer in _written(layers) for option in layer.options
        }
        if why := next((why for option, why in SYNCHRONOUS.items() if option in options), ""):
            return why
        return (
            "writes reach the medium without a sync there (tested with a file; chattr +S has this effect)"
            if any(self.at_once)
            else ""
        )

    @property
    def needs_no_sync(self) -> str:
        """Return why a server that makes no sync may still keep its promise; empty if it can't."""
        if self.synchronous or (self.at_once and None not in self.at_once):
            return self.synchronous
        return "a test file could not show whether writes wait for a sync" if self.known else NO_MEDIUM

    @property
    def weak(self) -> Cut | None:
        """Return the place where syncs stop, such as an option or a device; None if they reach the medium."""
        by_option = next((layer.weak for layers in self.volumes for layer in layers if layer.weak), None)
        if by_option or self.preloaded or not self._is_too_fast:
            return by_option
        return Cut(f"syncs do not reach a device: {TOO_FAST}", by_device_cache=False)

    @property
    def ordinary(self) -> bool:
        """Return whether all volumes are on file systems of disks that write asynchronously and sync in full."""
        written = [_written(layers)[-1:] for layers in self.volumes]
        known = bool(written) and all(each and each[0].file_system in ORDINARY for each in written)
        return known and not (self.in_memory or self.synchronous or self.weak)

    def __str__(self) -> str:
        """Return each distinct volume once; a dash if none is known."""
        texts = dict.fromkeys(", on ".join(map(str, layers)) for layers in self.volumes if layers)
        return wording.listing(list(texts)) or wording.NOTHING

    def in_full(self) -> list[str]:
        """Return each distinct volume once, with all its options and devices."""
        texts = (", on ".join(map(_in_full, layers)) for layers in self.volumes if layers)
        return list(dict.fromkeys(texts))


def _in_full(layer: Layer) -> str:
    below = f", devices {wording.listing(list(map(str, layer.devices)))}" if layer.devices else ""
    return f"{layer.file_system} of {layer.device} ({','.join(layer.options)}){below}"


def _written(layers: Sequence[Layer]) -> Sequence[Layer]:
    """Return the overlays and the first layer below them.

    Mount options below a loop device do not make writes above it synchronous.
    """
    overlays = 0
    while overlays < len(layers) and layers[overlays].file_system == "overlay":
        overlays += 1
    return layers[: overlays + 1]
