"""Objects that clients put into a server whose power is cut, and their state after the cut.

A PUT counts as acknowledged if its answer came before the cut. Its object is lost if the server has no object of this
key afterwards, and torn if the server returns other bytes. `rounds.py` cuts the power.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal

from serverdyno import clean
from serverdyno.errors import ServerError
from serverdyno.servers import waiting
from serverdyno.servers.object_server import BUCKET, ObjectServer
from serverdyno.servers.signed_request import ObjectClient
from serverdyno.store.powercut import Cut

SIZES_BYTES = (1024, 4096, 65_536, 262_144)
READ_PATIENCE_S = 60.0
"""Time for which a server may answer with errors after its start, until its parts have connected to each other."""
LEAST_READS = 2
"""Attempts to read an object, even after that time, because one truncated answer does not prove a loss."""
ANSWER_TIMEOUT_S = 300.0
MOST_REFUSED = 100
"""Number of refused PUTs, with none acknowledged, after which a round is abandoned."""
POLL_S = 0.05
BEFORE = "serverdyno-before"
"""Key of an object that is on the disk before each round, so that a missing sync can't explain its loss."""
SYNC_PORT = 4999
"""A connection to this port of the guest syncs its disk, and ends when that is done."""

Left = Literal["intact", "lost", "torn", "unreadable"]


@dataclass(slots=True)
class Put:
    """One PUT: its key, the size and SHA-256 of its content, and whether it was acknowledged."""

    key: str
    size: int
    digest: str
    is_acknowledged: bool = False


class ObjectJournal:
    """PUTs of several clients, round by round. `sync_port`: the port here that leads to `SYNC_PORT` of the guest."""

    def __init__(self, server: ObjectServer[Any], clients: int, seed: int, sync_port: int) -> None:
        self._server, self._clients, self._seed, self._sync_port = server, clients, seed, sync_port
        self._puts: list[Put] = []
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._refused: list[str] = []

    def wait_until_answering(self) -> None:
        """Wait until the server admits clients. Raises ServerError."""
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        why = "no answer"
        while time.monotonic() < deadline:
            with suppress(OSError), self._client() as client:
                status, answer = client.ask("GET", "/")
                if status == HTTPStatus.OK:
                    return
                why = f"status {status}: {answer[:200]!r}"
            waiting.look()
            time.sleep(POLL_S)
        raise ServerError(f"the server in the virtual machine refuses clients: {why}")

    def prepare(self) -> None:
        """Create the bucket and sync the guest, so that only the journal's objects can be lost. Raises ServerError."""
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            try:
                self._server.make_bucket()
                self._server.put(BEFORE, BEFORE.encode())
                break
            except ServerError:
                if time.monotonic() > deadline:
                    raise
            waiting.look()
            time.sleep(POLL_S)
        try:
            with socket.create_connection(
                (self._server.host, self._sync_port), ANSWER_TIMEOUT_S
            ) as connection:
                while connection.recv(64):
                    pass
        except OSError as error:
            raise ServerError(f"can't sync the virtual machine before a cut: {error}") from error

    def begin(self, number: int) -> None:
        self._puts, self._refused = [], []
        self._ended.clear()
        self._threads = [
            threading.Thread(target=self._put_all, args=(number, client), daemon=True)
            for client in range(self._clients)
        ]
        for thread in self._threads:
            thread.start()

    def has_acknowledged(self) -> bool:
        """Return whether a PUT was acknowledged. Raises ServerError if the server refuses all."""
        if any(put.is_acknowledged for put in tuple(self._puts)):
            return True
        if len(self._refused) >= MOST_REFUSED:
            raise ServerError(f"the server in the virtual machine refuses every PUT: {self._refused[0]}")
        return False

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _client(self) -> ObjectClient:
        return ObjectClient(self._server.host, self._server.port, self._server.key, ANSWER_TIMEOUT_S)

    def _put_all(self, number: int, client: int) -> None:
        drawn = random.Random(f"{self._seed} {number} {client}")
        with suppress(OSError), self._client() as connection:
            for count in itertools.count():
                content = drawn.randbytes(drawn.choice(SIZES_BYTES))
                key = f"serverdyno-journal-{number}/c{client}/{count}"
                put = Put(key, len(content), hashlib.sha256(content).hexdigest())
                self._puts.append(put)
                if self._ended.is_set():
                    return
                status, answer = connection.ask("PUT", f"/{BUCKET}/{key}", content)
                put.is_acknowledged = status == HTTPStatus.OK
                if not put.is_acknowledged:
                    self._refused.append(f"status {status}: {answer[:200]!r}")
                    self._ended.wait(POLL_S)

    def compared(self, cut_after_s: float) -> Cut:
        """Read every object, and compare it with the bytes that were put."""
        puts = list(self._puts)
        acknowledged = [put for put in puts if put.is_acknowledged]
        others = [put for put in puts if not put.is_acknowledged]
        deadline = time.monotonic() + READ_PATIENCE_S
        with self._client() as client:
            before = Put(BEFORE, len(BEFORE), hashlib.sha256(BEFORE.encode()).hexdigest())
            if (state := self._state(client, before, deadline)) != "intact":
                raise ServerError(
                    f"an object that was synced to the disk before the power cut is {state}",
                    hint="The server has lost more than its last PUTs: its database may be damaged.",
                )
            left = list(self._left(client, acknowledged, deadline))
            kept = sum(1 for state in self._left(client, others, time.monotonic()) if state == "intact")
        gone = [put for put, state in zip(acknowledged, left, strict=True) if state != "intact"]
        return Cut(
            cut_after_s=cut_after_s,
            flushed_files=len(acknowledged),
            flushed_bytes=sum(put.size for put in acknowledged),
            lost_files=len(gone),
            lost_bytes=sum(put.size for put in gone),
            unreadable_files=left.count("unreadable"),
            torn_files=left.count("torn"),
            unflushed_files=len(others),
            kept_unflushed_files=kept,
            refused_puts=len(self._refused),
            first_refusal=clean.line(self._refused[0]) if self._refused else None,
        )

    def _left(self, client: ObjectClient, puts: list[Put], deadline: float) -> Iterator[Left]:
        for put in puts:
            waiting.look()
            yield self._state(client, put, deadline)

    def _state(self, client: ObjectClient, put: Put, deadline: float) -> Left:
        """Return the state of an object after the cut.

        After an error, read it again at least once, until the deadline.
        """
        for attempt in itertools.count(1):
            status = None
            with suppress(OSError):
                status, content = client.ask("GET", f"/{BUCKET}/{put.key}")
            if status == HTTPStatus.OK:
                return "intact" if hashlib.sha256(content).hexdigest() == put.digest else "torn"
            if status == HTTPStatus.NOT_FOUND:
                return "lost"
            if attempt >= LEAST_READS and time.monotonic() > deadline:
                break
            waiting.look()
            time.sleep(POLL_S)
        return "unreadable"
