"""Packets of a load on loopback, captured by dumpcap and read by tshark."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.dyno_process import PATIENCE_S
from support.file_server import skip_unless_installed

HTTP1 = "http"
WRONG = "_ws.malformed || ((tls || http || http2) && _ws.expert.severity == error)"
"""Display filter for packets that tshark considers wrong."""


@contextmanager
def captured(port: int, into: Path) -> Iterator[None]:
    """Capture every packet of a port of loopback, and fail if one was dropped."""
    skip_unless_installed("tshark", "dumpcap")
    command = ["dumpcap", "-q", "-i", "lo", "-B", "64", "-f", f"tcp port {port}", "-w", str(into)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        try:
            if not any(line.startswith("File:") for line in process.stderr):
                pytest.skip("capturing is not allowed here")
            yield
            await_marker(port, into)
        finally:
            process.send_signal(signal.SIGINT)
            told = process.stderr.read()
    assert "dropped on interface" in told and "/0 (pcap:0/" in told, told


def await_marker(port: int, capture: Path) -> None:
    """Wait until a new empty connection, and so everything before it, is in the file."""
    with socket.create_connection(("127.0.0.1", port)) as marker:
        ports = struct.pack("!HH", marker.getsockname()[1], port)
    deadline = time.monotonic() + PATIENCE_S
    while ports not in capture.read_bytes():
        assert time.monotonic() < deadline, "the capture does not go on"
        time.sleep(0.05)


def dissected(capture: Path, port: int, keys: Path, carried: str, *arguments: str) -> list[str]:
    """Return the lines that tshark prints about a capture."""
    layers = [f"tcp.port=={port},{'tls' if keys.exists() else carried}"]
    if carried == HTTP1:
        layers.append(f"tls.port=={port},http")
    decoding = [word for layer in layers for word in ("-d", layer)]
    command = ["tshark", "-r", str(capture), "-2", "-o", f"tls.keylog_file:{keys}", *decoding, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return done.stdout.splitlines()


def values(capture: Path, port: int, keys: Path, carried: str, *fields: str) -> list[Counter[str]]:
    """Return how often each value of each field occurs."""
    named = [word for field in fields for word in ("-e", field)]
    lines = dissected(capture, port, keys, carried, "-T", "fields", *named)
    columns = zip(*(line.split("\t") for line in lines), strict=True)
    return [Counter(value for cell in column for value in cell.split(",") if value) for column in columns]
