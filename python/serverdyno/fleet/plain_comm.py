"""The connections of a fleet: TLS with a named certificate on both sides, and messages of plain data.

Dask's own connections unpickle any data that a peer marks as a pickle, and no setting of a server or client prevents
this (`distributed.protocol.core.loads`). The connections of this module replace them in the whole process. A message
is a msgpack map of texts, bytes, numbers, sequences and maps. `answering.py` limits what a peer may request.
"""

from __future__ import annotations

import functools
import ssl
import struct
from collections.abc import Collection
from typing import Any

import msgpack
from distributed.comm import registry
from distributed.comm.core import CommClosedError, FatalCommClosedError
from distributed.comm.tcp import (
    TLS,
    TLSBackend,
    TLSConnector,
    TLSListener,
    convert_stream_closed_error,
    read_bytes_rw,
)
from distributed.protocol import Serialize
from tornado.iostream import StreamClosedError

from serverdyno.fleet import certificates

SCHEME = "tls"
LENGTH = struct.Struct("<Q")
"""The length of a message in bytes, sent before the message."""
COPIED_BYTES = 1 << 16
"""Shorter messages are copied, so that they are sent in one packet with their length."""


class PeerError(FatalCommClosedError):  # type: ignore[misc]  # Dask has no types
    """The peer is not the expected one, or its message can't be read. A retry would fail as well."""


class PlainComm(TLS):  # type: ignore[misc]  # Dask has no types
    """One connection. A message that is too long, or not plain data, ends it."""

    stream: Any

    def __init__(self, *arguments: Any, most_bytes: int, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # If this were set, the error in a peer's answer would be unpickled (`distributed.core.send_recv`).
        self.deserialize = False
        self._most_bytes = most_bytes

    @property
    def peer_name(self) -> str | None:
        """The name in the peer's certificate, which the fleet's authority has signed."""
        return certificates.name_of(self.extra_info.get("peercert"))

    def handshake_info(self) -> dict[str, Any]:
        """Return an empty dict, because compression and pickles are not negotiated."""
        return {}

    @staticmethod
    def handshake_configuration(local: dict[str, Any], remote: dict[str, Any]) -> dict[str, Any]:
        """Return an empty dict, because the peer's proposals are ignored."""
        return {}

    async def read(self, deserializers: object = None) -> dict[str, Any]:
        """Return the next message. Raises PeerError if it can't be read, CommClosedError if the connection ends."""
        if self.stream is None:
            raise CommClosedError("the connection is closed")
        try:
            [length] = LENGTH.unpack(await self.stream.read_bytes(LENGTH.size))
            if length > self._most_bytes:
                raise PeerError(f"it sent a message of more than {self._most_bytes >> 10} KiB")
            message = msgpack.unpackb(await read_bytes_rw(self.stream, length), use_list=False)
            if not isinstance(message, dict):
                raise PeerError("it sent a message that is not a map")
        except (StreamClosedError, ssl.SSLError) as error:
            self.stream, self._closed = None, True
            convert_stream_closed_error(self, error)
            raise
        except (ValueError, TypeError, RecursionError) as error:
            self.abort()
            raise PeerError(f"it sent a message that is not plain data: {error}") from error
        except BaseException:
            self.abort()
            raise
        return message

    async def write(self, msg: Any, serializers: object = None, on_error: str = "message") -> int:
        """Send a message and return its length in bytes. Raises TypeError if it is not plain data."""
        if self.stream is None:
            raise CommClosedError("the connection is closed")
        data = msgpack.packb(msg, default=_without_pickles)
        length = LENGTH.pack(len(data))
        try:
            for part in [length + data] if len(data) < COPIED_BYTES else [length, data]:
                self.stream.write(part)
        except StreamClosedError as error:
            self.stream, self._closed = None, True
            convert_stream_closed_error(self, error)
        return len(data)


def _without_pickles(part: object) -> None:
    """Replace the pickled exception in an error of Dask's server with None. Its text is sent separately."""
    if not isinstance(part, Serialize):
        raise TypeError(f"{type(part).__name__} is not plain data")


class PlainListener(TLSListener):  # type: ignore[misc]  # Dask has no types
    """A listener that accepts only peers whose certificates have one of the given names."""

    def __init__(
        self,
        *arguments: Any,
        peers: Collection[str],
        most_bytes: int,
        refused: Any,
        **options: Any,
    ) -> None:
        """Create the listener. `refused.count` grows with each connection that is refused because of its name."""
        super().__init__(*arguments, **options)
        self.comm_class = functools.partial(PlainComm, most_bytes=most_bytes)
        self._peers, self._refused = peers, refused

    async def _prepare_stream(self, stream: Any, address: str) -> Any:
        stream = await super()._prepare_stream(stream, address)
        if stream is not None and certificates.name_of(stream.socket.getpeercert()) not in self._peers:
            self._refused.count += 1
            stream.close()
            return None
        return stream


class PlainConnector(TLSConnector):  # type: ignore[misc]  # Dask has no types
    """A connector to a peer whose certificate must have a given name."""

    async def connect(
        self,
        address: str,
        deserialize: bool = True,
        *,
        peer: str,
        most_bytes: int,
        **options: Any,
    ) -> PlainComm:
        """Connect. Raises PeerError if another peer answers."""
        self.comm_class = functools.partial(PlainComm, most_bytes=most_bytes)
        comm: PlainComm = await super().connect(address, deserialize, **options)
        if comm.peer_name != peer:
            comm.abort()
            raise PeerError(f"{address} shows the certificate of {comm.peer_name}, not of {peer}")
        return comm


class PlainBackend(TLSBackend):  # type: ignore[misc]  # Dask has no types
    _connector_class, _listener_class = PlainConnector, PlainListener


def install() -> None:
    """Make all of Dask's connections in this process use this module."""
    registry.backends.clear()
    registry.backends[SCHEME] = PlainBackend()
