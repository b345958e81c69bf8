"""The benchmarks of S3: our client against minio-go, s5cmd and our own plain HTTP, over TLS, and with many clients.

All tools of a benchmark use one reference S3 server without an access key. So plain HTTP gets and puts the same objects
on the same server. The ratio between the two is the cost of signatures, checksums and the ledger.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from benches.file_runs import FileStand, measure
from benches.file_server import BenchServer
from benches.file_tools import RAMP_S, DynoListener, FileTool
from benches.files import FileCase, Once
from benches.ratios import Bound
from benches.rounds import BenchError, Cpus, Run
from benches.speed import Goal, ReadFigure
from serverdyno import _native
from serverdyno.servers.object_server import BUCKET
from serverdyno.servers.reference_model import S3Process
from serverdyno.servers.reference_s3 import ReferenceS3, ReferenceS3Settings
from serverdyno.servers.running import started
from serverdyno.servers.signed_request import ObjectClient

KIB, MIB = 1 << 10, 1 << 20
OURS, UNCHECKED, PLAIN = "dyno", "dyno, unchecked", "dyno, plain HTTP"
PEER, S5CMD = "minio-go", "s5cmd"
S5CMD_BYTES = 40 << 20  # moved by one call of s5cmd, unless it reaches the maximum number of operations
CPU = "client CPU, us/operation"
CLIENT_ROUNDS = 3
FIGURES: dict[str, ReadFigure] = {
    "operations/s": lambda run: run.requests_s,
    "operations/CPU-second": lambda run: run.requests / run.generator_cpu_s,
    CPU: lambda run: run.generator_cpu_us,
    "server CPU, us/operation": lambda run: run.server_cpu_us,
}


def _bytes_per_client(run: Run) -> float | None:
    value = run.details["rss_growth_bytes"]
    return value / run.connections if isinstance(value, int) else None


CLIENT_FIGURES: dict[str, ReadFigure] = {"client memory, bytes/client": _bytes_per_client, **FIGURES}


@dataclass(frozen=True, slots=True)
class Amount:
    """Objects of a benchmark: their size, concurrent connections, and objects per connection."""

    object_bytes: int
    connections: int
    objects: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the benchmarks; tests use small ones."""

    amounts: tuple[Amount, ...] = (Amount(4 * KIB, 64, 16), Amount(10 * MIB, 8, 2))
    clients: int = 1_000
    s5cmd_operations: int = 2_000  # maximum per call


class BenchS3(ReferenceS3):
    """The reference S3 server without an access key: it takes signed and unsigned requests, and verifies neither."""

    def process_options(self, here: dict[str, Any]) -> S3Process:
        return super().process_options(here).model_copy(update={"access_key_id": None})

    def messages_served(self) -> int | None:
        """Return the number of requests since the start, from the server's own counters."""
        return self.requests_served()

    def empty(self) -> None:
        """Do nothing: our client removes its objects, and the other tools overwrite theirs."""


class SecureBenchS3(BenchS3):
    """The same server over TLS, with its own certificate."""

    @property
    def url(self) -> str:
        """Return the URL of the bucket over TLS."""
        return super().url.replace("s3://", "s3s://")

    def process_options(self, here: dict[str, Any]) -> S3Process:
        certificate, key = _native.Authority().certify("ecdsa-p256", ["127.0.0.1"])
        paths = {"tls_certificate": self.directory / "certificate.pem", "tls_key": self.directory / "key.pem"}
        for path, text in zip(paths.values(), (certificate, key), strict=True):
            path.write_text(text)
        return super().process_options(here).model_copy(update=paths)

    def answers_as_ours(self) -> bool:
        """Return True, because only the server's process listens on its port."""
        return True


@dataclass(frozen=True, slots=True)
class ObjectCase(FileCase):
    """A benchmark on the reference S3 server."""

    kind: type[BenchS3] = BenchS3

    @contextmanager
    def running(self, places: Cpus) -> Iterator[BenchServer]:
        directory = Path(tempfile.gettempdir()) / f"serverdyno-s3-{secrets.token_hex(8)}"
        server = self.kind(ReferenceS3Settings(), directory, Path(os.devnull), [places.server])
        with started(server) as running:
            yield running


def cases(sizes: Sizes, peers: Mapping[str, Path]) -> list[FileCase]:
    """Return the benchmarks in order. `peers` contains the installed programs, by name."""
    both = [(operation, amount) for amount in sizes.amounts for operation in ("put", "get")]
    most = sizes.s5cmd_operations
    compared = [_compared(operation, amount, peers, most) for operation, amount in both]
    secure = [_secure(operation, amount, peers) for operation, amount in both]
    return [*compared, *secure, _clients(sizes.clients)]


def _secure(operation: str, amount: Amount, peers: Mapping[str, Path]) -> FileCase:
    """Return the benchmark over TLS."""
    tools: dict[str, Once] = {OURS: _once(ours(OURS, {operation: 1}, amount, {"trust": "anybody"}))}
    if PEER in peers:
        tools[PEER] = _once(minio_go(peers[PEER], operation, amount, secure=True))
    goals = (Goal(OURS, (PEER,), CPU, Bound(0.5, at_least=False)),)
    name, title = _named(operation, amount)
    return ObjectCase(f"{name}-tls", f"{title}, over TLS", FIGURES, tools, goals, kind=SecureBenchS3)


def _named(operation: str, amount: Amount) -> tuple[str, str]:
    size = (
        f"{amount.object_bytes // KIB} KiB"
        if amount.object_bytes < MIB
        else f"{amount.object_bytes // MIB} MiB"
    )
    return (
        f"objects-{operation}-{size.replace(' ', '').lower()}",
        f"S3: {operation.upper()} of {size}, {amount.connections} connections",
    )


def _compared(operation: str, amount: Amount, peers: Mapping[str, Path], most: int) -> FileCase:
    unchecked = {"verify_share": 0.0} if operation == "get" else {}
    checksum = {} if operation == "get" else {"checksum": "none"}
    tools: dict[str, Once] = {OURS: _once(ours(OURS, {operation: 1}, amount))}
    if PEER in peers:
        tools[PEER] = _once(minio_go(peers[PEER], operation, amount))
    if S5CMD in peers:
        tools[S5CMD] = _once(s5cmd(peers[S5CMD], operation, amount, most))
    tools[PLAIN] = partial(_plainly, operation, amount)
    tools[UNCHECKED] = _once(ours(UNCHECKED, {operation: 1}, amount, checksum, **unchecked))
    return ObjectCase(
        *_named(operation, amount),
        FIGURES,
        tools,
        (
            Goal(OURS, (PEER,), CPU, Bound(0.5, at_least=False)),
            Goal(OURS, (PLAIN,), CPU, Bound(1.3, at_least=False)),
        ),
    )


def _clients(clients: int) -> FileCase:
    """Return the benchmark of many clients. Memory is measured when the window opens, with all clients at work."""
    tool = ours(f"{OURS}, {clients:,} clients", {"get": 1, "put": 1}, Amount(4 * KIB, clients, 1))
    return ObjectCase(
        "objects-clients",
        f"S3: GET and PUT of 4 KiB, {clients:,} clients in one process",
        CLIENT_FIGURES,
        {OURS: _once(tool)},
        most_rounds=CLIENT_ROUNDS,
        own_server=True,
    )


def _once(tool: FileTool) -> Once:
    return lambda stand: measure(stand, tool)


def _plainly(operation: str, amount: Amount, stand: FileStand) -> list[Run]:
    """Get or put one object over plain HTTP. The object is created first. Raises BenchError."""
    path = f"/{BUCKET}/plain"
    with ObjectClient("127.0.0.1", stand.server.port, None) as client:
        status, answer = client.ask("PUT", path, os.urandom(amount.object_bytes))
    if status != HTTPStatus.OK:
        raise BenchError(f"PUT {path}: status {status}: {answer[:500]!r}")
    url = f"http://127.0.0.1:{stand.server.port}{path}"
    web = {"method": operation.upper(), "body_bytes": amount.object_bytes if operation == "put" else None}
    return measure(
        stand, _generator(PLAIN, amount.connections, lambda _: {"target": {"url": url}, "web": web})
    )


def ours(
    name: str,
    weights: Mapping[str, int],
    amount: Amount,
    target: Mapping[str, str] | None = None,
    **shape: Any,
) -> FileTool:
    """Return our S3 client. `target` overrides how requests are signed and checked."""
    objects = {"weights": weights, "object_bytes": amount.object_bytes, "objects": amount.objects}

    def asked(server: BenchServer) -> dict[str, Any]:
        access = server.access()
        reached = {"url": access.url, "access_key": access.access_key, **(target or {})}
        return {"target": reached, "objects": objects}

    return _generator(name, amount.connections, asked, **shape)


Asked = Callable[[BenchServer], dict[str, Any]]  # returns the target and the work


def _generator(name: str, clients: int, asked: Asked, **shape: Any) -> FileTool:
    def request(server: BenchServer, seconds: float) -> str:
        window = {"ramp_up_s": RAMP_S, "length_s": RAMP_S + seconds}
        return json.dumps({**asked(server), "shape": {"clients": clients, **window, **shape}, "hold": False})

    command = [sys.executable, "-m", "benches.files_generator"]
    return FileTool(name, sys.executable, clients, lambda _: command, request, lambda _: DynoListener(), True)


def s5cmd(program: Path, operation: str, amount: Amount, most: int) -> FileTool:
    """Return s5cmd, which runs as a whole command with a fixed number of operations, at most `most`."""
    operations = max(1, min(most, S5CMD_BYTES // amount.object_bytes))

    def request(server: BenchServer, seconds: float) -> str:
        del seconds
        key = server.access().access_key
        assert key is not None
        return json.dumps(
            {
                "program": f"{program}",
                "endpoint": f"http://127.0.0.1:{server.port}",
                "bucket": BUCKET,
                "key": key[:2],
                "operation": operation,
                "operations": operations,
                "object_bytes": amount.object_bytes,
                "connections": amount.connections,
            }
        )

    command = [sys.executable, "-m", "benches.s5cmd_runner"]
    return FileTool(
        S5CMD, sys.executable, amount.connections, lambda _: command, request, lambda _: DynoListener(), True
    )


def minio_go(program: Path, operation: str, amount: Amount, *, secure: bool = False) -> FileTool:
    """Return the minio-go loop, with one connection per goroutine.

    It reports its results in the format of our generator.
    """

    def request(server: BenchServer, seconds: float) -> str:
        key = server.access().access_key
        assert key is not None
        return json.dumps(
            {
                "address": f"127.0.0.1:{server.port}",
                "bucket": BUCKET,
                "key_id": key[0],
                "secret": key[1],
                "operation": operation,
                "object_bytes": amount.object_bytes,
                "objects": amount.objects,
                "connections": amount.connections,
                "seconds": seconds,
                "secure": secure,
            }
        )

    words = [str(program)]
    return FileTool(
        PEER, words[0], amount.connections, lambda _: words, request, lambda _: DynoListener(), True
    )
