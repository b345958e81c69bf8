"""Delay every fsync(2) and fdatasync(2) of a server to simulate a slow disk, or let them succeed without effect.

A seccomp filter (seccomp_unotify(2), Linux 5.5) sends only these two calls to the keeper, which lets each continue
after the delay; the kernel then executes the call in full. The filter applies to every process and thread of the
server, and costs every other system call five filter instructions. Concurrent calls wait at the same time. The delay is
a minimum. Writes with O_SYNC and syncs by io_uring are not covered, because they make neither call. This module uses
only the standard library, because the keeper imports it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import heapq
import os
import platform
import select
import socket
import struct
import threading
import time

PR_SET_NO_NEW_PRIVS = 38  # linux/prctl.h
SECCOMP_SET_MODE_FILTER = 1  # linux/seccomp.h
SECCOMP_GET_ACTION_AVAIL = 2
SECCOMP_FILTER_FLAG_NEW_LISTENER = 8
SECCOMP_RET_ALLOW = 0x7FFF0000
SECCOMP_RET_USER_NOTIF = 0x7FC00000
SECCOMP_RET_ERRNO = 0x00050000  # with error 0: the call returns success, and the kernel does nothing
SECCOMP_USER_NOTIF_FLAG_CONTINUE = 1
RECEIVE = 0xC0502100  # SECCOMP_IOCTL_NOTIF_RECV
SEND = 0xC0182101  # SECCOMP_IOCTL_NOTIF_SEND
NOTIFICATION_BYTES = 80  # struct seccomp_notif
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # linux/filter.h: BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
NUMBER_AT, ARCHITECTURE_AT = 0, 4  # struct seccomp_data
# Audit architecture (linux/audit.h), and the system call numbers of seccomp, fsync and fdatasync.
MACHINES = {"x86_64": (0xC000003E, 317, 74, 75), "aarch64": (0xC00000B7, 277, 82, 83)}


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def problem() -> str | None:
    """Return why syncs can't be delayed on this machine; None if they can."""
    if platform.machine() not in MACHINES:
        return f"the system call numbers of {platform.machine()} are not known"
    action = ctypes.c_uint32(SECCOMP_RET_USER_NOTIF)
    if _seccomp(SECCOMP_GET_ACTION_AVAIL, 0, ctypes.byref(action)) != 0:
        return f"the kernel's seccomp does not support notifications ({os.strerror(ctypes.get_errno())})"
    return None


def install(keeper: socket.socket) -> None:
    """Install the filter in the process that becomes the server, and send its notification descriptor to the keeper.

    Raises OSError.
    """
    listener = _filter(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER)
    socket.send_fds(keeper, [b"\0"], [listener])


def skip() -> None:
    """Let the two calls succeed without effect in the process that becomes the server.

    Raises OSError.
    """
    _filter(SECCOMP_RET_ERRNO, 0)


def _filter(action: int, flags: int) -> int:
    """Install a filter with an action for the two calls, and return the kernel's result. Raises OSError."""
    architecture, _, fsync, fdatasync = MACHINES[platform.machine()]
    instructions = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (EQUAL, 0, 3, architecture),  # another architecture: allowed
        (LOAD, 0, 0, NUMBER_AT),
        (EQUAL, 2, 0, fsync),
        (EQUAL, 1, 0, fdatasync),
        (RETURN, 0, 0, SECCOMP_RET_ALLOW),
        (RETURN, 0, 0, action),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in instructions))
    program = _Program(len(instructions), ctypes.addressof(code))
    result = _seccomp(SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(program))
    if result < 0 and ctypes.get_errno() == errno.EACCES:
        # A process without root may install a filter only if it can't gain new privileges.
        ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        result = _seccomp(SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(program))
    if result < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return result


def let_go_later(server: socket.socket, delay_s: float) -> None:
    """Receive the notification descriptor from the new server, and let its calls continue, in a separate thread.

    If the server could not install the filter, it has ended and sends no descriptor.
    """
    listeners = socket.recv_fds(server, 1, 1)[1]
    if listeners:
        threading.Thread(target=_let_go_later, args=(listeners[0], delay_s), daemon=True).start()


def _let_go_later(listener: int, delay_s: float) -> None:
    waiting: list[tuple[float, int]] = []
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while True:
        timeout_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        # select(2) has a time limit in microseconds, and poll(2) only in milliseconds. But only poll(2) reports that
        # the server has ended.
        ready = select.select([listener], [], [], timeout_s)[0]
        if ready:
            if poll.poll(0)[0][1] & select.POLLHUP:
                os.close(listener)
                return
            if (call := _receive(listener)) is not None:
                heapq.heappush(waiting, (time.monotonic() + delay_s, call))
        while waiting and waiting[0][0] <= time.monotonic():
            _let_go(listener, heapq.heappop(waiting)[1])


def _receive(listener: int) -> int | None:
    """Return the kernel's ID of a waiting call; None if its process has ended."""
    notification = bytearray(NOTIFICATION_BYTES)
    try:
        fcntl.ioctl(listener, RECEIVE, notification)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    return int.from_bytes(notification[:8], "little")


def _let_go(listener: int, call: int) -> None:
    answer = struct.pack("<QqiI", call, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE)
    try:
        fcntl.ioctl(listener, SEND, bytearray(answer))
    except OSError as error:
        if error.errno != errno.ENOENT:  # ENOENT: the call was interrupted, or its process has ended
            raise


def _seccomp(*arguments: object) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    return int(library.syscall(MACHINES[platform.machine()][1], *arguments))
