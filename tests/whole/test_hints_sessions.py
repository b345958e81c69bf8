"""Messages about a session's step that a web server refuses, and about headers that are too long for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.dyno_process import Home
from support.users_web import nginx

pytestmark = pytest.mark.usefixtures("short_windows")
SHORT = ("--clients", "1", "--length", "0.5s")
SERVER = """
server { listen 127.0.0.1:{port};
  location / { return 200 ok; } location /status/400 { return 400; } location /status/401 { return 401; }
  location /status/500 { return 500; } }
"""


def told(home: Home, *options: str | Path) -> str:
    """Return the error of a load that cannot work."""
    done = home.here("load", *options, *SHORT)
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr, done.stderr
    return f"{done.stderr}"


@pytest.mark.parametrize("bytes_sent", [200, 1500, 6000])
@pytest.mark.parametrize("version", ["", "http2"])
def test_the_size_of_a_steps_headers_is_told_where_the_server_takes_less(
    bytes_sent: int, version: str, home: Home, tmp_path: Path
) -> None:
    settings = "location / { return 200 ok; } location /no { return 400; }"
    server = f"server {{ listen 127.0.0.1:{{port}} {version}; large_client_header_buffers 2 1k; {settings} }}"
    (tmp_path / "steps.toml").write_text(
        '[[steps]]\nname = "page"\npath = "/"\n[[steps]]\nname = "cart"\npath = "/no"\n'
        f'headers = ["Cookie: s={"x" * bytes_sent}"]\n'
    )
    options: list[str | Path] = ["--session", tmp_path / "steps.toml", *(["--http2"] if version else [])]
    with nginx(tmp_path, server) as port:
        said = " ".join(told(home, f"http://127.0.0.1:{port}/", *options).split())
    host = f"127.0.0.1:{port}"
    head = (
        f"GET /no HTTP/1.1\r\nHost: {host}\r\nUser-Agent: serverdyno\r\nCookie: s={'x' * bytes_sent}\r\n\r\n"
    )
    size = f"The request line and the headers that dyno sends have {len(head)} bytes"
    assert (size in said) is (bytes_sent > 1000), said
    named = bytes_sent > (1000 if not version else 4000)
    assert ("large_client_header_buffers" in said) is named, said
    # Over HTTP/2 the server ends the connection instead of answering.
    assert ("name it in the step: status = [...]" in said) is (not version or bytes_sent < 1000), said


def test_the_size_of_headers_that_a_server_may_refuse_is_told_and_no_other(
    home: Home, tmp_path: Path
) -> None:
    with nginx(tmp_path, SERVER) as port:
        url = f"http://127.0.0.1:{port}/status/400"
        assert "that dyno sends have" not in told(home, url)
        said = " ".join(told(home, url, "--cookie", f"s={'x' * 1500}").split())
        assert "which may be more than the server accepts." in said
        assert "that dyno sends have" not in told(
            home, url.replace("400", "500"), "--cookie", f"s={'x' * 1500}"
        )


def test_a_step_is_told_by_its_own_headers(home: Home, tmp_path: Path) -> None:
    (tmp_path / "steps.toml").write_text(
        '[[steps]]\nname = "page"\npath = "/"\n'
        '[[steps]]\nname = "own"\npath = "/status/401"\nheaders = ["Authorization: Basic YTpi"]\n'
    )
    with nginx(tmp_path, SERVER) as port:
        said = told(home, f"http://127.0.0.1:{port}/", "--session", tmp_path / "steps.toml")
    assert "The server does not accept the credentials" in said and "status = [...]" in said, said
