"""What a server's files lie on, and what its mount options make of a write and of a sync.

By the mount options alone. What they don't tell (a device's protected cache, a file system's own settings, files
marked synchronous one by one) is not known here. Not for counting syncs: see `durability.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from serverdyno import wording

IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs", "rootfs"}
MEMORY_DEVICE = re.compile(r"z?ram\d+")
ORDINARY = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"}
"""On disks, and asynchronous unless mounted otherwise. Of others (networks, FUSE) the options don't tell that."""
SYNCHRONOUS = {
    "sync": "the file system writes synchronously (mount option sync)",
    "dirsync": "the file system writes directories synchronously (mount option dirsync)",
}
NO_BARRIER = {"nobarrier", "barrier=0", "barrier=none", "fsync_mode=nobarrier"}
"""ext4(5), btrfs(5), and f2fs in the kernel's documentation: a sync leaves data in the device's own cache."""
IGNORED = {("overlay", "volatile")}
"""A sync of such an overlay does nothing (the kernel's Documentation/filesystems/overlayfs.rst)."""
NAMED = ("data=", "commit=", "fsync_mode=")


@dataclass(frozen=True, slots=True)
class Cut:
    """That syncs stop short of the medium. `by_device_cache`: in the device's own cache, which may be protected."""

    words: str
    by_device_cache: bool

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class Layer:
    """A file system, as `probes/medium.py` has found it."""

    file_system: str
    options: tuple[str, ...]
    device: str

    @property
    def in_memory(self) -> bool:
        """By its kind, or by its device."""
        return self.file_system in IN_MEMORY or MEMORY_DEVICE.fullmatch(self.device) is not None

    @property
    def weak(self) -> Cut | None:
        """How far a sync goes where an option cuts it short; else None."""
        if any((self.file_system, option) in IGNORED for option in self.options):
            return Cut("syncs are ignored: mounted volatile", by_device_cache=False)
        cut = [option for option in self.options if option in NO_BARRIER]
        if not cut:
            return None
        return Cut(f"syncs go no further than the device's cache: mounted {cut[0]}", by_device_cache=True)

    def __str__(self) -> str:
        """Its kind, with the options that bear on durability."""
        special = [option for option in self.options if self._bears_on_durability(option)]
        return f"{self.file_system} ({','.join(special)})" if special else self.file_system

    def _bears_on_durability(self, option: str) -> bool:
        return (
            option in SYNCHRONOUS
            or option in NO_BARRIER
            or (self.file_system, option) in IGNORED
            or option.startswith(NAMED)
        )


@dataclass(frozen=True, slots=True)
class Media:
    """Of the volumes of one run, each from its file system down. Of none where that is not known."""

    volumes: tuple[tuple[Layer, ...], ...] = ()

    @property
    def known(self) -> bool:
        """Whether it is of each volume."""
        return bool(self.volumes) and all(self.volumes)

    @property
    def in_memory(self) -> bool:
        """Whether any volume is, at whatever depth."""
        return any(layer.in_memory for layers in self.volumes for layer in layers)

    @property
    def synchronous(self) -> str:
        """Why writes of a volume don't wait for a sync; nothing where they do."""
        options = {
            option for layers in self.volumes for layer in _written(layers) for option in layer.options
        }
        return next((why for option, why in SYNCHRONOUS.items() if option in options), "")

    @property
    def weak(self) -> Cut | None:
        """How far syncs go where an option cuts them short, at whatever depth; else None."""
        return next((layer.weak for layers in self.volumes for layer in layers if layer.weak), None)

    @property
    def ordinary(self) -> bool:
        """Whether all is on file systems of disks that write when they like, and sync in full."""
        written = [_written(layers)[-1:] for layers in self.volumes]
        known = bool(written) and all(each and each[0].file_system in ORDINARY for each in written)
        return known and not (self.in_memory or self.synchronous or self.weak)

    def __str__(self) -> str:
        """Each kind once; the sign for nothing where none is known."""
        texts = dict.fromkeys(", on ".join(map(str, layers)) for layers in self.volumes if layers)
        return wording.listing(list(texts)) or wording.NOTHING

    def in_full(self) -> list[str]:
        """Each kind once, with all its options and devices."""
        texts = (
            ", on ".join(f"{each.file_system} of {each.device} ({','.join(each.options)})" for each in layers)
            for layers in self.volumes
            if layers
        )
        return list(dict.fromkeys(texts))


def _written(layers: Sequence[Layer]) -> Sequence[Layer]:
    """Overlays and the first below them: what an image lies on does not make its writes synchronous."""
    overlays = 0
    while overlays < len(layers) and layers[overlays].file_system == "overlay":
        overlays += 1
    return layers[: overlays + 1]
