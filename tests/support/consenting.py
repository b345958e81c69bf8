"""A network namespace with an address that is not loopback, and web servers in it that may consent to load."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator

import pytest

TOKEN = "Zr4u7xKq9LmN2pWs"


ADDRESS = "10.77.0.1"


PATIENCE_S = 60


# This runs inside the namespace. `answer(path, host)` returns status and body of every response.
PRELUDE = f"""
import http.server, threading
from benches.levels import http_target, web_level
from serverdyno import _native

TOKEN = {TOKEN!r}

def serve(answer):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = answer(self.path, self.headers["Host"])
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(({ADDRESS!r}, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://{ADDRESS}:{{server.server_port}}/"

def right(path, host):
    if path == f"/.well-known/serverdyno/{{TOKEN}}":
        return 200, _native.consent_document(host, TOKEN)
    return 404, ""

def opened(answer, token=TOKEN):
    try:
        return http_target(serve(answer), token)
    except PermissionError as refusal:
        return str(refusal)
"""


@pytest.fixture
def namespace() -> Iterator[str]:
    """Create a network namespace with one address that is not loopback."""
    name = f"dyno-test-{uuid.uuid4().hex[:12]}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        assert os.geteuid() != 0 or "not permitted" in made.stderr, made.stderr
        pytest.skip(f"network namespaces can't be made here: {made.stderr.strip()}")
    try:
        for command in ("link set lo up", f"address add {ADDRESS}/24 dev lo"):
            subprocess.run(["ip", "-netns", name, *command.split()], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def said(namespace: str, script: str) -> str:
    """Return the output of the script in the namespace."""
    program = PRELUDE + textwrap.dedent(script)
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
