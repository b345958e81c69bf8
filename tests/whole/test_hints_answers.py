"""Messages about a web server's answers whose header, request or empty body explains more than the status."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from serverdyno.servers.proof import free_port
from support.dyno_process import Home
from support.users_web import caddy, nginx

pytestmark = pytest.mark.usefixtures("short_windows")
SHORT = ("--clients", "1", "--length", "0.5s")
ANSWERS = """
server { listen 127.0.0.1:{port};
  location /digest { add_header WWW-Authenticate 'Digest realm="a, Basic b", nonce="c"' always;
    add_header WWW-Authenticate NTLM always; return 401; }
  location /basic { add_header WWW-Authenticate 'Basic realm="a"' always; return 401; }
  location /token { add_header WWW-Authenticate 'Bearer error="invalid_token"' always; return 401; }
  location /allow { add_header Allow "GET, HEAD" always; return 405; }
  location /twice { return 409; }
  location /forbidden { return 403; }
  location /done { return 204; }
}
"""


@pytest.mark.parametrize(
    ("path", "options", "hint"),
    [
        ("/digest", (), "with a scheme that dyno does not support"),
        ("/digest", ("--pipeline", "2"), "WWW-Authenticate: Digest, NTLM\n"),
        ("/digest", ("--auth", "basic"), "with a scheme that dyno does not support"),
        ("/basic", (), "DYNO_AUTHORIZATION=user:password and give --auth basic. WWW-"),
        ("/basic", ("--auth", "basic"), "check the user and the password, and give"),
        ("/token", (), "export a token as DYNO_AUTHORIZATION and give --auth bearer. WWW-"),
        ("/token", ("--auth", "bearer"), "check the token, which may have expired"),
        ("/allow", ("--method", "PUT", "--data", "x"), "use another one with --method. Allow: GET, HEAD"),
        ("/twice", ("--data", "a=b"), "may refuse to create the same object twice: --session FILE"),
        ("/forbidden", ("--data", "a=b"), "a log-in or a CSRF token for this method: --session FILE"),
    ],
)
def test_a_status_is_explained_by_a_header_or_by_the_method(
    path: str, options: tuple[str, ...], hint: str, home: Home, tmp_path: Path
) -> None:
    with nginx(tmp_path, ANSWERS) as port:
        url = f"http://127.0.0.1:{port}{path}"
        done = home.here("load", url, *options, *SHORT, DYNO_AUTHORIZATION="bob:wrong")
    assert done.returncode == 1 and hint in done.stderr, done.stderr


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_a_dead_link_among_paths_that_are_served_does_not_doubt_the_site(
    version: str, home: Home, tmp_path: Path
) -> None:
    (tmp_path / "urls").write_text("/done\n/gone\n")
    listens = ANSWERS.replace("{port};", "{port} http2;" if version == "2" else "{port};")
    with nginx(tmp_path, listens) as port:
        url = f"http://127.0.0.1:{port}/"
        done = home.here("load", url, "--urls", tmp_path / "urls", "--http", version, *SHORT)
    shown = " ".join(done.stdout.split())
    assert "failed each time: GET /gone" in shown, done.stderr
    assert (
        "Check the URL with curl -i. If the status is right" in shown and "does not name a site" not in shown
    )


def test_answers_that_are_all_empty_are_told_before_a_figure_is_quoted(home: Home, tmp_path: Path) -> None:
    site = "respond /down 404\n}\nhttp://server.test:{port} {\n  respond hello"
    named = free_port()
    with caddy(tmp_path, site.replace("{port}", str(named))):
        url = f"http://127.0.0.1:{named}/"
        by_address = home.here("load", url, *SHORT)
        assert by_address.returncode == 0, by_address.stderr
        assert f"{url}: the answer is empty" in by_address.stderr
        shown = " ".join(by_address.stdout.split())
        assert "Before you quote a figure" in shown and "Every answer of target is empty" in shown
        assert "give the site's name with -H 'Host: NAME'." in shown
        for options in (
            ("--resolve", f"server.test:{named}:127.0.0.1"),
            ("-H", "Host: server.test"),
            ("--expect-bytes", "0"),
            ("--method", "HEAD"),
            ("--data", "a=b"),
        ):
            asked = url.replace("127.0.0.1", "server.test") if "--resolve" in options else url
            done = home.here("load", asked, *options, *SHORT)
            assert done.returncode == 0, done.stderr
            assert "is empty" not in done.stdout + done.stderr


def test_an_answer_whose_status_has_no_body_is_not_warned_of(home: Home, tmp_path: Path) -> None:
    with nginx(tmp_path, ANSWERS) as port:
        done = home.here("load", f"http://127.0.0.1:{port}/done", *SHORT)
        assert done.returncode == 0, done.stderr
        assert "is empty" not in done.stdout + done.stderr


def test_the_look_and_the_load_keep_the_bound_of_the_rate_together(home: Home) -> None:
    arrived: list[float] = []

    class Noting(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            arrived.append(time.monotonic())
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Noting) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            bounds = ("--max-rate", "4", "--clients", "1", "--length", "2s")
            done = home.here("load", f"http://127.0.0.1:{server.server_port}/", *bounds)
        finally:
            server.shutdown()
            serving.join()
    assert done.returncode == 0, done.stderr
    first, second, third = arrived[:3]
    assert second - first >= 0.25 and third - second >= 0.25


def test_a_server_whose_queue_of_connections_is_full_is_told_from_a_firewall(home: Home) -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # the queue takes one more than the backlog; the last one stays outside
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        done = home.here("load", f"http://127.0.0.1:{listener.getsockname()[1]}/", "--timeout", "1s", *SHORT)
    assert done.returncode == 1
    assert "its queue of new connections is full: ss -ltn shows the queue." in " ".join(done.stderr.split())


def test_a_server_with_a_page_for_every_path_has_its_cause_in_the_hint(home: Home, tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    assert home.here("tree", documents).returncode == 0
    (documents / "index.html").write_text("one page")
    site = f"server {{ listen 127.0.0.1:{{port}}; root {documents}; location / {{ try_files $uri /index.html; }} }}"
    with nginx(tmp_path, site) as port:
        server = f'[[servers]]\nserver = "external"\nurl = "http://127.0.0.1:{port}/"\n'
        plan = tmp_path / "plan.toml"
        plan.write_text(f'name = "p"\nsuite = "quick-static"\nrepetitions = 1\nscale = 0.34\n{server}')
        done = home.here("run", plan, "--clients", "1")
    assert "expects 404 for them" in " ".join(done.stderr.split()), done.stderr
