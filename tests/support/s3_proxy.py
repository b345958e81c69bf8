"""A proxy in front of an S3 server that can answer requests itself, late or not at all."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Asked:
    """A request to the server on `port`."""

    port: int
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def passed_on(self) -> Answer:
        server = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        server.request(self.method, self.path, self.body, self.headers)
        answer = server.getresponse()
        headers = {name.title(): value for name, value in answer.headers.items()}
        content = answer.read()
        server.close()
        return answer.status, headers, content


@contextmanager
def s3_proxy(port: int, answered: Callable[[Asked], Answer | None]) -> Iterator[int]:
    """Yield the port of a proxy that answers as `answered` says; None: it closes the connection."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_request(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = answered(Asked(port, self.command, self.path, dict(self.headers), body))
            if answer is None:
                self.close_connection = True
                return
            status, headers, content = answer
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            length = headers["Content-Length"] if self.command == "HEAD" else f"{len(content)}"
            self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_request  # noqa: N815 (names of http.server)

        def log_message(self, *arguments: object) -> None:
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield proxy.server_port
    finally:
        proxy.shutdown()
        proxy.server_close()
