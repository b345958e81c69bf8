"""Messages about wrong answers and redirects over HTTP/2, which equal those over HTTP/1.1."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.dyno_process import Home
from support.users_web import nginx

pytestmark = pytest.mark.usefixtures("short_windows")
SHORT = ("--clients", "1", "--length", "0.5s")
CONFIGURATION = """
server { listen 127.0.0.1:{port} http2;
  location ~ ^/status/(?<code>\\d+)$ {
    if ($code = 400) { return 400; } if ($code = 403) { return 403; } if ($code = 404) { return 404; }
    if ($code = 426) { return 426; } if ($code = 444) { return 444; } if ($code = 504) { return 504; }
    if ($code = 511) { return 511; } if ($code = 502) { return 502; } }
  location /private { return 302 /login?next=%2F; }
  location /wall { add_header Set-Cookie s=1; return 302 /wall; }
  location /here { return 301 /there; }
  location /loop { return 302 $uri; }
  location /grpc { if ($http_te != trailers) { return 400; } return 200 ok; }
}
"""


def test_te_trailers_which_servers_of_grpc_need_is_sent(home: Home, tmp_path: Path) -> None:
    with nginx(tmp_path, CONFIGURATION) as port:
        asked = ("load", f"http://127.0.0.1:{port}/grpc", "--http2", *SHORT)
        done = home.here(*asked, "-H", "TE: trailers")
        assert done.returncode == 0, done.stderr
        assert home.here(*asked).returncode == 1


def test_headers_that_are_longer_than_the_server_takes_are_told(home: Home, tmp_path: Path) -> None:
    with nginx(tmp_path, CONFIGURATION) as port:
        large = ("--http2", "--cookie", f"s={'x' * 9000}")
        done = home.here("load", f"http://127.0.0.1:{port}/grpc", *large, *SHORT)
    assert done.returncode == 1 and "ENHANCE_YOUR_CALM" in done.stderr, done.stderr
    assert "nginx: large_client_header_buffers" in done.stderr and "as an attack" not in done.stderr


@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/status/403", "--expect-status 403"),
        ("/status/404", "--expect-status 404"),
        ("/status/502", "start that server"),
        ("/status/504", "waited too long for its backend server (HAProxy: timeout server"),
        ("/status/511", "captive portal"),
        ("/private", "Location: http://127.0.0.1:"),
        ("/private", "The server asks for a log-in: give the cookie"),
        ("/wall", "may want the cookie that it sets"),
        ("/here", "dyno does not follow redirects"),
        ("/loop", "redirects to the URL that was requested"),
    ],
)
def test_a_wrong_status_has_the_same_hint_over_both_versions(
    path: str, hint: str, version: str, home: Home, tmp_path: Path
) -> None:
    with nginx(tmp_path, CONFIGURATION if version == "2" else CONFIGURATION.replace(" http2", "")) as port:
        done = home.here("load", f"http://127.0.0.1:{port}{path}", "--http", version, *SHORT)
        assert done.returncode == 1 and hint in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("path", "hint", "other"),
    [
        ("/status/400", "look at the request: curl -v", "https://"),
        ("/status/426", "leave out --http2", "For h2c"),
        ("/status/444", "The server ends this request without a complete answer", "PROXY protocol"),
    ],
)
def test_a_hint_leaves_out_what_http2_has_shown_already(
    path: str, hint: str, other: str, home: Home, tmp_path: Path
) -> None:
    with nginx(tmp_path, CONFIGURATION) as port:
        done = home.here("load", f"http://127.0.0.1:{port}{path}", "--http2", *SHORT)
        assert done.returncode == 1 and hint in done.stderr and other not in done.stderr, done.stderr
