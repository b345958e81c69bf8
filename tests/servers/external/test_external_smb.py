"""A file server that the user runs: checked once, trusted no further, and left alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benches.levels import smb_target

from serverdyno import _native
from serverdyno.errors import ServerError, UserError
from serverdyno.servers.proof import free_port
from serverdyno.servers.registry import create
from support.file_server import samba, smbclient


def external(url: str | None, **settings: object) -> Any:
    return create("external", settings, documents=Path(os.devnull), url=url)


@pytest.mark.parametrize(
    ("url", "settings", "message"),
    [
        ("smb://127.0.0.1/", {}, "needs shares"),
        ("http://127.0.0.1/", {"shares": ["a"]}, "require a URL that begins with smb:"),
        ("http://127.0.0.1/", {"user": "a"}, "require a URL that begins with smb:"),
        ("ftp://127.0.0.1/", {}, "not a URL"),
    ],
)
def test_a_server_of_the_users_is_what_the_scheme_of_its_url_says(
    url: str, settings: dict[str, Any], message: str
) -> None:
    assert create("external", {"shares": ["a"]}, documents=Path(os.devnull), url="smb://127.0.0.1/")
    assert create("external", {}, documents=Path(os.devnull), url="http://127.0.0.1/")
    with pytest.raises(UserError, match=message):
        create("external", settings, documents=Path(os.devnull), url=url)


def target(url: str) -> _native.Target:
    return smb_target(url, shares=["a"])


def test_a_file_server_of_the_user_is_looked_at_once_and_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with samba({"network": "loopback", "max_dialect": "3.0.2"}) as server:
        inside = server.access()
        monkeypatch.setenv("DYNO_SMB_PASSWORD", inside.password or "")
        users = external(inside.url, shares=["volume1"], user=inside.user)
        users.prepare()
        users.start()
        users.ready()
        users.ask(target(inside.url))
        assert users.access() == inside
        described = users.describe()
        assert described.version == "SMB 3.0.2"
        assert inside.password and inside.password not in repr(described)
        assert users.requests_served() is None
        assert users.cpu_s() and users.rss_bytes()  # it runs on this machine, so its processes are found
        users.stop()
        smbclient(server, "ls")


@pytest.mark.parametrize(
    ("url", "settings", "message"),
    [
        (None, {"shares": ["a"]}, "needs a url"),
        ("smb://127.0.0.1/", {}, "needs shares"),
        ("http://127.0.0.1/", {"shares": ["a"]}, "require a URL that begins with smb:"),
        ("smb:///a", {"shares": ["a"]}, "not a URL"),
        ("smb://u:p@127.0.0.1/", {"shares": ["a"]}, "not a URL"),
        ("smb://127.0.0.1:99999/", {"shares": ["a"]}, "range"),
    ],
)
def test_the_users_mistakes_about_a_file_server_are_named(
    url: str | None, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        external(url, **settings)


def test_a_file_server_that_does_not_answer_or_speaks_something_else_is_an_error_with_advice() -> None:
    nobody = f"smb://127.0.0.1:{free_port()}/"
    with pytest.raises(ServerError, match="nothing answers SMB") as raised:
        external(nobody, shares=["a"]).ask(target(nobody))
    assert raised.value.hint
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with (
            subprocess.Popen(
                [sys.executable, "-c", HTTP_ANSWER, str(other.fileno())], pass_fds=[other.fileno()]
            ),
            pytest.raises(ServerError, match="no usable answer") as raised,
        ):
            somebody = f"smb://127.0.0.1:{other.getsockname()[1]}/"
            external(somebody, shares=["a"]).ask(target(somebody))
    assert "another kind of server" in (raised.value.hint or "")


HTTP_ANSWER = """
import socket, sys
with socket.socket(fileno=int(sys.argv[1])) as listening:
    connection, _ = listening.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\\r\\n\\r\\n")
"""


def test_a_password_that_is_not_in_the_environment_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DYNO_SMB_PASSWORD", raising=False)
    with pytest.raises(ServerError, match="password") as raised:
        external("smb://127.0.0.1/", shares=["a"], user="u").ready()
    assert "export DYNO_SMB_PASSWORD" in (raised.value.hint or "")


@pytest.mark.parametrize("shares", [[""], ["a/b"], ["data", "Data"]])
def test_what_is_no_name_of_a_share_is_refused_by_the_check(shares: list[str]) -> None:
    with pytest.raises(UserError, match="share"):
        external("smb://127.0.0.1/", shares=shares)
