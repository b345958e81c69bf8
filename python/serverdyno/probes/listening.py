"""Find the sockets that listen on a port, and the processes that hold them.

The kernel reports only listening sockets by netlink (sock_diag(7)). /proc/net/tcp lists every connection, and reading
it takes 5 ms even if there are none.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

LISTEN = 10  # TCP_LISTEN of include/net/tcp_states.h
NETLINK_SOCK_DIAG = 4  # linux/netlink.h
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST_DUMP = 0x301
SOCK_DIAG_BY_FAMILY = 20  # linux/sock_diag.h
HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, sender
REQUEST = struct.Struct(
    "=BBBxI48x"
)  # struct inet_diag_req_v2: family, protocol, extensions, states, any socket
# struct inet_diag_msg: family, 3 bytes, port, peer's port, address, peer's address and more, inode
ANSWER = struct.Struct("=B3x2sH16s44xI")
RECEIVED_BYTES = 1 << 16


def listening_sockets(port: int, inside: int | None = None) -> list[tuple[str, str]]:
    """Return address and inode of each TCP socket that listens on a port.

    The sockets belong to this network namespace, or to the namespace of the process `inside`.
    """
    if inside is None:
        # Kernels without tcp_diag, and sandboxes without netlink, refuse the request: read /proc then.
        with contextlib.suppress(OSError):
            return [
                (address, inode)
                for family in (socket.AF_INET, socket.AF_INET6)
                for address, found, inode in _by_netlink(family)
                if found == port
            ]
    return _by_table(port, inside)


def owners(inodes: set[str]) -> dict[str, list[int | None]]:
    """Return the processes that hold each inode's socket, as far as this user may inspect them."""
    holders: dict[str, list[int | None]] = {}
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    for pid in filter(str.isdigit, os.listdir("/proc") if inodes else ()):
        with contextlib.suppress(OSError):
            for file in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if (inode := wanted.get(os.readlink(f"/proc/{pid}/fd/{file}"))) is not None:
                        holders.setdefault(inode, []).append(int(pid))
    return holders


def _by_netlink(family: int) -> Iterator[tuple[str, int, str]]:
    """Yield address, port and inode of each listening socket. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as link:
        asked = REQUEST.pack(family, socket.IPPROTO_TCP, 0, 1 << LISTEN)
        header = (HEADER.size + REQUEST.size, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST_DUMP, 1, 0)
        link.send(HEADER.pack(*header) + asked)
        while True:
            answer = link.recv(RECEIVED_BYTES)
            at = 0
            while at < len(answer):
                length, kind, *_ = HEADER.unpack_from(answer, at)
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    code = -struct.unpack_from("=i", answer, at + HEADER.size)[0]
                    raise OSError(code, os.strerror(code))
                _, port, _, address, inode = ANSWER.unpack_from(answer, at + HEADER.size)
                yield (
                    socket.inet_ntop(family, address[: 4 if family == socket.AF_INET else 16]),
                    int.from_bytes(port, "big"),
                    str(inode),
                )
                at += (length + 3) & ~3  # NLMSG_ALIGN


def _by_table(port: int, inside: int | None) -> list[tuple[str, str]]:
    """Return the listening sockets in /proc/net/tcp, which may also have 30,000 closed connections."""
    # proc(5): number, local address, remote address, state, queues, timer, retransmits, user, timeout, inode
    line = re.compile(
        rf"^ *\d+: (\w+):{port:04X} \w+:\w+ {LISTEN:02X}" + r"(?: +\S+){5} +(\d+)", re.MULTILINE
    )
    found = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):  # the process has ended, or there is no IPv6
            text = Path(f"/proc/{inside or 'self'}/net/{table}").read_text()
            found += [(_ip(address), inode) for address, inode in line.findall(text)]
    return found


def _ip(hexadecimal: str) -> str:
    """Parse an address in /proc/net/tcp: words of 32 bits in the machine's byte order."""
    words = (int(hexadecimal[at : at + 8], 16) for at in range(0, len(hexadecimal), 8))
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
