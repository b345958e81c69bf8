"""Changes to the host that the keeper makes before a server starts, and reverts when the server has ended.

The changes are a network namespace, a file system on a loop device, the kernel's write-back limits, and a slow disk.
The namespaces, and with them the mount and its loop device, vanish even if the keeper is killed with SIGKILL: the
kernel removes them with the last process inside. The write-back limits apply to the whole machine: see `write_back.py`.

Uses only the standard library, because the keeper runs without site packages. The drivers decide which changes a
server gets.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NotRequired, TypedDict

from serverdyno.servers import sync_delay, write_back

CLONE_NEWNS = 0x00020000  # linux/sched.h
CLONE_NEWNET = 0x40000000
MS_REC = 16384  # linux/mount.h
MS_PRIVATE = 1 << 18
SIOCGIFFLAGS = 0x8913  # linux/sockios.h
SIOCSIFFLAGS = 0x8914
IFF_UP = 1  # linux/if.h
INTERFACE_NAME_BYTES = 16
INTERFACE_REQUEST_BYTES = 40
MOUNT_TIMEOUT_S = 60.0


class Mount(TypedDict):
    """A file system image, its mount point and options. `at` belongs to dyno: it is emptied at the end."""

    image: str
    at: str
    file_system: str
    options: str


class HostChanges(TypedDict):
    """Changes for a server.

    `own_run` gives the server an empty private /run. `sync_delay_s` 0 means no delay. With `skip_syncs`, fsync and
    fdatasync do nothing. `write_back` contains names and values below /proc/sys/vm. `remove` lists directories to
    remove besides the private one.
    """

    own_network: bool
    own_run: NotRequired[bool]
    mount: Mount | None
    write_back: dict[str, int]
    sync_delay_s: float
    skip_syncs: NotRequired[bool]
    remove: list[str]


class Refused(Exception):  # noqa: N818 (it is an answer)
    """A change is not possible on this machine. `hint` is a remedy."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


class AppliedHostChanges:
    """The changes made, to be undone in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def apply(self, wanted: HostChanges) -> None:
        """Make all requested changes. Raises Refused; the caller then undoes the changes made so far."""
        if wanted["sync_delay_s"] or wanted.get("skip_syncs"):
            _check_syncs()
        self._hold_write_back(wanted["write_back"])
        if wanted["own_network"]:
            _own_network()
        if wanted["mount"] is not None or wanted.get("own_run"):
            _own_mounts()
        if wanted.get("own_run"):
            _own_run()
        if (mount := wanted["mount"]) is not None:
            _mount(mount)
            self._undo.append(lambda: _unmount(mount))

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _hold_write_back(self, values: dict[str, int]) -> None:
        with contextlib.suppress(OSError):
            write_back.restore_abandoned()
        if not values:
            return
        try:
            held = write_back.hold(values)
        except BlockingIOError:
            raise Refused(
                "another server has already set the kernel's write-back limits",
                "These limits apply to the whole machine, so wait until the other run has ended.",
            ) from None
        except OSError as error:
            raise Refused(
                f"can't set the kernel's write-back limits: {error}",
                "Only root on the host, not in a container, can set them. Otherwise, remove the vm_ settings.",
            ) from error
        self._undo.append(held.release)


def _check_syncs() -> None:
    if problem := sync_delay.problem():
        raise Refused(
            f"can't delay or skip fsync: {problem}", "Remove fsync_delay_ms and skip_syncs from the settings."
        )


def _call(result: int, what: str) -> None:
    """Raise OSError if a C function reported an error."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _own_network() -> None:
    """Create a network namespace that has only a loopback interface, and activate this interface."""
    try:
        _call(ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET), "unshare")
        with socket.socket() as any_socket:
            request = struct.pack(f"{INTERFACE_NAME_BYTES}sH", b"lo", 0).ljust(INTERFACE_REQUEST_BYTES, b"\0")
            flags = struct.unpack_from(
                "H", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request), INTERFACE_NAME_BYTES
            )
            up = struct.pack(f"{INTERFACE_NAME_BYTES}sH", b"lo", flags[0] | IFF_UP)
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, up.ljust(INTERFACE_REQUEST_BYTES, b"\0"))
    except OSError as error:
        raise Refused(
            f"can't create a network namespace: {error}", 'Set network = "loopback", or run as root.'
        ) from error


def _own_mounts() -> None:
    """Create a private mount namespace, which ends with the server's last process."""
    library = ctypes.CDLL(None, use_errno=True)
    try:
        _call(library.unshare(CLONE_NEWNS), "unshare")
        _call(library.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount")
    except OSError as error:
        raise Refused(f"can't create a mount namespace: {error}", 'Set file_system = "none".') from error


def _own_run() -> None:
    """Mount an empty /run for daemons with fixed paths in it. The mount ends with the last process in the namespace."""
    try:
        mounted = ctypes.CDLL(None, use_errno=True).mount(b"tmpfs", b"/run", b"tmpfs", 0, b"mode=755")
        _call(mounted, "mount")
    except OSError as error:
        raise Refused(f"can't create a private /run: {error}", "Run as root.") from error


def _mount(mount: Mount) -> None:
    """Mount an image on a loop device, which mount(8) chooses and the kernel frees at the unmount (autoclear)."""
    options = ",".join(filter(None, ("loop", mount["options"])))
    command = ["mount", "-t", mount["file_system"], "-o", options, mount["image"], mount["at"]]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=MOUNT_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"{' '.join(command)}: {error}", 'Set file_system = "none".') from error
    if done.returncode != 0:
        raise Refused(
            f"{' '.join(command)}: {done.stderr.strip()}",
            'Check mount_options. If loop devices are not allowed here, set file_system = "none".',
        )


def _unmount(mount: Mount) -> None:
    """Unmount. Remove the contents first, so that they are not written to disk."""
    empty(mount["at"])
    library = ctypes.CDLL(None, use_errno=True)
    if library.umount2(os.fsencode(mount["at"]), 0) != 0 and ctypes.get_errno() == errno.EBUSY:
        library.umount2(os.fsencode(mount["at"]), 2)  # MNT_DETACH: unmount when the last user has left


def empty(directory: str) -> None:
    """Remove the contents of `directory`, as far as possible."""
    import shutil  # noqa: PLC0415 (not needed before the end, and slow to import)

    with contextlib.suppress(OSError):
        for entry in Path(directory).iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    entry.unlink()
