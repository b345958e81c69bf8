"""The server of a local page, in a thread next to a run, or in the main thread until it is interrupted."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

from serverdyno.errors import UserError

LOOPBACK = "127.0.0.1"
LINGER_S = 5
"""Longest wait for pages to receive the last event and close their connections. Without open pages there is no wait."""
END_S = 10.0


def listening(port: int) -> socket.socket:
    """Return a socket that listens on loopback; port 0 takes any free port. Raises UserError."""
    try:
        return socket.create_server((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        raise UserError(
            f"the page can't listen on {LOOPBACK}:{port}: {error}",
            hint="Use another port, or 0 for any free port.",
        ) from error


def url(listener: socket.socket) -> str:
    return f"http://{LOOPBACK}:{listener.getsockname()[1]}/"


def server(app: Starlette) -> uvicorn.Server:
    """Return a server that writes no log, and that can end while pages are connected."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=LINGER_S,
            limit_concurrency=64,
        )
    )


@contextmanager
def beside(app: Starlette, listener: socket.socket) -> Iterator[None]:
    """Serve in a thread during the block."""
    serving = server(app)
    # A daemon thread, so that the end of the program does not wait for a browser.
    thread = threading.Thread(target=serving.run, args=([listener],), name="live page", daemon=True)
    thread.start()
    try:
        yield
    finally:
        serving.should_exit = True
        thread.join(END_S)
        listener.close()
