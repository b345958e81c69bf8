"""Response times on loopback, from the kernel's own timestamps: the reference for a generator's response times.

A packet socket (packet(7)) keeps the headers of every TCP segment of one port with the time at which it was sent. The
socket is read after the run, so that reading does not compete with the load. Needs root (CAP_NET_RAW).
"""

from __future__ import annotations

import ctypes
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

INTERFACE = "lo"
ETH_P_IP = 0x0800
SOL_PACKET, PACKET_STATISTICS, PACKET_IGNORE_OUTGOING = 263, 6, 23  # linux/if_packet.h
SO_ATTACH_FILTER, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 26, 33, 35  # asm-generic/socket.h
BUFFER_BYTES = 512 * 2**20
SNAP_BYTES = 120  # the longest IP and TCP headers
NS_PER_S = 1_000_000_000
SYN, ACK = 0x02, 0x10
STAMP_ATTEMPTS, STAMP_PAUSE_S = 200, 0.01


class WireError(RuntimeError):
    """The kernel lost segments or did not timestamp them, so the response times are not known."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One TCP segment. `at_ns` is the time at which it was sent, in ns since 1970."""

    at_ns: int
    from_client: bool
    client_port: int
    flags: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its response. Times are in ns since 1970.

    An exchange lasts from the client's first segment (the SYN, if a connection was opened) to the last segment of the
    response. `connected_ns` is the time of the server's SYN; None on an existing connection.
    """

    start_ns: int
    connected_ns: int | None
    end_ns: int

    @property
    def response_ns(self) -> int:
        """The time from the request, or from the SYN of a new connection, to the end of the response."""
        return self.end_ns - self.start_ns

    @property
    def connect_ns(self) -> int | None:
        """The time from the client's first SYN to the server's SYN; None on an existing connection."""
        return None if self.connected_ns is None else self.connected_ns - self.start_ns


class Wire:
    """Keeps the segments from and to one port of loopback, from its creation on."""

    def __init__(self, port: int) -> None:
        """Open the socket. Raises PermissionError without CAP_NET_RAW."""
        self._port = port
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        program = port_filter(port)
        buffer = ctypes.create_string_buffer(program)
        head = struct.pack("HL", len(program) // 8, ctypes.addressof(buffer))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, head)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        # Loopback delivers every segment twice, as outgoing and as incoming.
        self._socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self._socket.bind((INTERFACE, ETH_P_IP))
        await_timestamps()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def segments(self) -> list[Segment]:
        """Return all segments so far, in order.

        Raises WireError if some were lost, or not timestamped when they were sent.
        """
        now_ns = time.time_ns()
        found = list(self._received())
        # Timestamping does not stop once begun, so it suffices to check the first segment. The last segment may arrive
        # during the check.
        if found and found[0].at_ns > now_ns:
            raise WireError("segments have the time at which they were read")
        _, dropped = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        if dropped:
            raise WireError(f"{dropped} segments were lost")
        return found

    def _received(self) -> Iterator[Segment]:
        self._socket.setblocking(False)
        while True:
            try:
                data, extra, _, _ = self._socket.recvmsg(SNAP_BYTES, socket.CMSG_SPACE(16))
            except BlockingIOError:
                return
            yield segment(timestamp_ns(extra), data, self._port)


def timestamp_ns(extra: list[tuple[int, int, bytes]]) -> int:
    """Return the time in the control message of SO_TIMESTAMPNS."""
    seconds, nanoseconds = struct.unpack("qq", extra[0][2])
    return int(seconds) * NS_PER_S + int(nanoseconds)


def await_timestamps() -> None:
    """Wait until the kernel timestamps packets, while a socket with SO_TIMESTAMPNS is open. Raises WireError.

    Timestamping begins some time after the option is set; until then a segment gets the time at which it is read.
    """
    with (
        socket.socket(type=socket.SOCK_DGRAM) as receiver,
        socket.socket(type=socket.SOCK_DGRAM) as sender,
    ):
        receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        receiver.bind(("127.0.0.1", 0))
        for _ in range(STAMP_ATTEMPTS):
            sender.sendto(b"?", receiver.getsockname())
            sent_ns = time.time_ns()
            time.sleep(STAMP_PAUSE_S)
            if timestamp_ns(receiver.recvmsg(1, socket.CMSG_SPACE(16))[1]) <= sent_ns:
                return
    raise WireError("the kernel does not timestamp packets on loopback")


def port_filter(port: int) -> bytes:
    """Return a classic BPF program that keeps `SNAP_BYTES` of TCP segments of `port` (IPv4 without options)."""
    load_half, load_byte, jump_if_equal, give_back = 0x28, 0x30, 0x15, 0x06
    return b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (load_byte, 0, 0, 9),
            (jump_if_equal, 0, 5, socket.IPPROTO_TCP),
            (load_half, 0, 0, 20),
            (jump_if_equal, 2, 0, port),
            (load_half, 0, 0, 22),
            (jump_if_equal, 0, 1, port),
            (give_back, 0, 0, SNAP_BYTES),
            (give_back, 0, 0, 0),
        )
    )


def segment(at_ns: int, packet: bytes, server_port: int) -> Segment:
    """Parse an IPv4 packet that contains TCP (RFC 791, RFC 9293)."""
    ip_bytes = (packet[0] & 0x0F) * 4
    total_bytes = int.from_bytes(packet[2:4], "big")
    source, destination = struct.unpack_from("!HH", packet, ip_bytes)
    tcp_bytes = (packet[ip_bytes + 12] >> 4) * 4
    from_client = destination == server_port
    return Segment(
        at_ns=at_ns,
        from_client=from_client,
        client_port=source if from_client else destination,
        flags=packet[ip_bytes + 13],
        payload_bytes=total_bytes - ip_bytes - tcp_bytes,
    )


@dataclass(slots=True)
class _Flow:
    start_ns: int | None = None
    connected_ns: int | None = None
    end_ns: int | None = None

    def whole(self) -> Exchange | None:
        if self.start_ns is None or self.end_ns is None:
            return None
        return Exchange(self.start_ns, self.connected_ns, self.end_ns)


def exchanges(segments: Iterable[Segment]) -> list[Exchange]:
    """Return the answered requests. A client must not send a request before the previous response has ended."""
    flows: dict[int, _Flow] = {}
    found = []
    for part in segments:
        flow = flows.setdefault(part.client_port, _Flow())
        if not part.from_client:
            if part.flags & SYN and flow.connected_ns is None:
                flow.connected_ns = part.at_ns
            if part.payload_bytes:
                flow.end_ns = part.at_ns
        elif part.payload_bytes or part.flags & (SYN | ACK) == SYN:
            if whole := flow.whole():
                found.append(whole)
                flow = flows[part.client_port] = _Flow()
            if flow.start_ns is None:  # a retransmission belongs to the first segment
                flow.start_ns = part.at_ns
    return found + [whole for flow in flows.values() if (whole := flow.whole())]
