"""Load goes only where it is welcome: from Python, `Target.open` is the only way to a target."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from benches.levels import http_target, nfs_target, smb_target, web_level

from serverdyno import _native
from serverdyno.plan.protocols.access import Access
from serverdyno.plan.protocols.s3 import S3, S3Settings
from serverdyno.servers.consent import CONSENT_PATH, CONSENT_VARIABLE
from serverdyno.servers.proof import free_port
from support.consenting import ADDRESS, TOKEN, said
from support.dyno_process import DYNO, Home, wait_until
from support.reference_servers import start_http, start_nfs, start_s3, start_smb

SHORT = ("--clients", "1", "--length", "1.3s")


def spec(target: _native.Target, **changed: Any) -> _native.PreparedLevel:
    parameters: dict[str, Any] = {"workload": "url", "clients": 1, "threads": 1, "length_s": 0.1}
    return web_level(target, **(parameters | changed))


def test_the_right_document_opens_a_target_that_is_not_loopback(namespace: str) -> None:
    script = """
        target = opened(right)
        host = target.facts["host"]
        print(target.loopback, target.address == host, target.url == f"http://{host}/")
    """
    assert said(namespace, script) == "False True True"


@pytest.mark.parametrize(
    ("answer", "token"),
    [
        ("right", "None"),
        ("right", "'too-short'"),
        ("right", "TOKEN + 'x'"),
        ("lambda path, host: (200, path)", "TOKEN"),
        ("lambda path, host: (200, TOKEN)", "TOKEN"),
        ("lambda path, host: (200, 'welcome')", "TOKEN"),
        ("lambda path, host: (404, right(path, host)[1])", "TOKEN"),
        ("lambda path, host: (302, right(path, host)[1])", "TOKEN"),
        ("lambda path, host: (200, _native.consent_document('10.77.0.1', TOKEN))", "TOKEN"),
        ("lambda path, host: (200, _native.consent_document('other.example', TOKEN))", "TOKEN"),
    ],
)
def test_any_other_answer_is_a_refusal(namespace: str, answer: str, token: str) -> None:
    assert "is not this machine" in said(namespace, f"print(opened({answer}, {token}))")


def test_a_refusal_says_how_to_agree(namespace: str) -> None:
    script = """
        print(opened(lambda path, host: (404, "")))
    """
    refusal = said(namespace, script)
    assert f"/.well-known/serverdyno/{TOKEN}" in refusal
    host = refusal.split()[0]
    assert refusal.splitlines()[-1] == _native.consent_document(host, TOKEN)


def test_a_level_for_a_target_that_is_not_loopback_needs_a_bound_on_its_rate(namespace: str) -> None:
    script = """
        def level(**bounds):
            return web_level(target, workload="url", clients=1, length_s=0.2, **bounds)

        target = opened(lambda path, host: (200, right(path, host)[1]))
        try:
            level()
        except ValueError as problem:
            print(problem)
        for no_bound in (float("inf"), float("nan"), 0.0, -1.0):
            try:
                level(max_rate_per_s=no_bound)
            except ValueError:
                continue
            print("taken:", no_bound)
        load = level(max_rate_per_s=10.0).start()
        assert load.wait(30)
        print(1 <= load.result()["operations_total"] <= 3)
    """
    assert said(namespace, script).splitlines() == [
        "max_rate_per_s: a target that is not loopback needs max_rate_per_s",
        "True",
    ]


def test_loopback_needs_no_consent() -> None:
    for url in ("http://127.0.0.1:1/", "http://127.8.9.10:1/path", "http://[::1]:1/"):
        assert http_target(url).loopback


def open_http(port: int) -> _native.Target:
    return http_target(f"http://127.0.0.1:{port}/", TOKEN)


def open_smb(port: int) -> _native.Target:
    return smb_target(f"smb://127.0.0.1:{port}/volume1", consent_token=TOKEN)


def open_nfs(port: int) -> _native.Target:
    url = f"nfs://127.0.0.1:{port}/volume1?mountport={port}"
    return nfs_target(url, consent_token=TOKEN)


def open_s3(port: int) -> _native.Target:
    section = S3.target_section(Access(f"s3://127.0.0.1:{port}/volume1"), S3Settings())
    return _native.Target.open(S3.name, json.dumps(section), consent_token=TOKEN)


H2C = """worker_processes 1; pid nginx.pid; error_log error.log; events {{}} daemon off; user root;
http {{ access_log access; default_type text/plain; client_body_temp_path cb; proxy_temp_path cp; fastcgi_temp_path cf;
  uwsgi_temp_path cu; scgi_temp_path cs; server {{ listen {address}:8080 http2; root documents; }} }}
"""


def test_a_server_elsewhere_that_speaks_http2_in_the_clear_alone_consents_and_is_loaded(
    namespace: str, tmp_path: Path
) -> None:
    home = Home(tmp_path)  # no other test has created its token
    document = tmp_path / "documents" / CONSENT_PATH.strip("/") / TOKEN
    document.parent.mkdir(parents=True)
    (tmp_path / "documents" / "index.html").write_text("hello")
    (tmp_path / "nginx.conf").write_text(H2C.format(address=ADDRESS))
    token = home.temporary / "config" / "serverdyno" / "token"
    token.parent.mkdir(parents=True)
    token.write_text(f"{TOKEN}\n")
    inside = ["ip", "netns", "exec", namespace]
    load = [*inside, *DYNO, *("load", f"http://{ADDRESS}:8080/", "--http2", "--max-rate", "20", *SHORT)]
    with subprocess.Popen([*inside, "nginx", "-p", str(tmp_path), "-c", "nginx.conf"]) as server:
        try:
            wait_until((tmp_path / "nginx.pid").exists, "nginx has started")
            refused, document_of = home.run(load), _native.consent_document(f"{ADDRESS}:8080", TOKEN)
            document.write_text(document_of)
            done = home.run(load)
        finally:
            server.terminate()
    assert refused.returncode == 2 and "has not consented to load" in refused.stderr, refused.stderr
    assert done.returncode == 0 and "No request failed" in done.stdout, done.stderr
    protocols = {line.split('"')[1].split()[-1] for line in (tmp_path / "access").read_text().splitlines()}
    assert protocols == {"HTTP/2.0"}


def test_a_bucket_elsewhere_consents_by_an_object_and_is_loaded(namespace: str, tmp_path: Path) -> None:
    home = Home(tmp_path)  # no other test has created its token
    token = home.temporary / "config" / "serverdyno" / "token"
    token.parent.mkdir(parents=True)
    token.write_text(f"{TOKEN}\n")
    inside = ["ip", "netns", "exec", namespace]
    url = f"s3://{ADDRESS}:8333/volume1"
    load = [*inside, *DYNO, *("objects", url, "--size", "100", "--max-rate", "100", *SHORT)]
    serve = [*inside, *DYNO, *("reference", "s3", "--bind", ADDRESS, "--port", "8333")]
    answered = []
    for consent in ({}, {CONSENT_VARIABLE: TOKEN}):
        with subprocess.Popen(serve, env={**os.environ, **consent}, stdout=subprocess.PIPE) as server:
            try:
                assert server.stdout is not None and server.stdout.readline()
                answered.append(home.run(load))
            finally:
                server.terminate()
    refused, done = answered
    assert refused.returncode == 2 and "has not consented to load" in refused.stderr, refused.stderr
    assert f"serverdyno-{TOKEN}" in refused.stderr
    assert "Create this object on the server" in refused.stderr
    assert done.returncode == 0 and "No operation failed" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("opened", "start", "name"),
    [
        (open_http, start_http, f"{CONSENT_PATH}{TOKEN}"),
        (open_smb, start_smb, f"serverdyno-{TOKEN}.txt"),
        (open_nfs, start_nfs, f"serverdyno-{TOKEN}.txt"),
        (open_s3, start_s3, f"serverdyno-{TOKEN}"),
    ],
    ids=["http", "smb", "nfs", "s3"],
)
def test_whoever_has_a_token_asks_on_loopback_too(
    opened: Callable[[int], _native.Target], start: Callable[..., Any], name: str
) -> None:
    # The same applies to a server that a node of a fleet runs, or claims to run.
    port = free_port()
    document = _native.consent_document(f"127.0.0.1:{port}", TOKEN).encode()
    silent = start(port=port)
    try:
        with pytest.raises(PermissionError, match=f"^127.0.0.1:{port} has not consented to load"):
            opened(port)
    finally:
        silent.stop()
    consenting = start({name: document}, port=port)
    try:
        assert opened(port).loopback
    finally:
        consenting.stop()


DENIED = b"<Error><Code>%s</Code></Error>"


@pytest.mark.parametrize(
    ("code", "said", "hint"),
    [
        (b"AccessDenied", f"the object serverdyno-{TOKEN} in the bucket volume1: ", "s3:GetObject"),
        (b"SignatureDoesNotMatch", "SignatureDoesNotMatch", "Check the secret of the access key"),
    ],
)
def test_an_object_of_consent_that_may_not_be_read_is_told(code: bytes, said: str, hint: str) -> None:
    class Denying(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(403)
            self.send_header("Content-Length", f"{len(DENIED % code)}")
            self.end_headers()
            self.wfile.write(DENIED % code)

        def log_message(self, *arguments: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Denying) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        access = Access(f"s3://127.0.0.1:{server.server_port}/volume1", access_key=("id", "secret", None))
        try:
            with pytest.raises((_native.SessionError, _native.AnswerError)) as caught:
                section = json.dumps(S3.target_section(access, S3Settings()))
                _native.Target.open("s3", section, consent_token=TOKEN, access_key=access.access_key)
        finally:
            server.shutdown()
    told = caught.value.args
    assert any(said in f"{text}" for text in told) and hint in told[-1], told


@pytest.mark.parametrize(
    "url", ["", "10.77.0.1", "ftp://127.0.0.1/", "http://u@127.0.0.1/", "http://127.0.0.1/ a"]
)
def test_what_is_not_a_plain_url_is_no_target(url: str) -> None:
    with pytest.raises(ValueError, match=r"http|blanks"):
        http_target(url)


def test_a_target_can_be_neither_made_nor_copied_nor_changed_nor_derived() -> None:
    target: Any = http_target("http://127.0.0.1:1/")
    kind: Any = _native.Target
    makers = [
        kind,
        lambda: kind("http://10.77.0.1/"),
        lambda: kind.__new__(kind),
        lambda: object.__new__(kind),
        lambda: copy.copy(target),
        lambda: copy.deepcopy(target),
        lambda: pickle.loads(pickle.dumps(target)),
        lambda: type("Own", (kind,), {}),
        lambda: kind.__class__.__call__(kind),
    ]
    for make in makers:
        with pytest.raises((TypeError, pickle.PicklingError)):
            make()
    for name in ("address", "host", "path", "loopback", "url", "anything"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(target, name, "10.77.0.1:80")


def test_another_object_does_not_become_a_target() -> None:
    class Own:
        __slots__ = ("address", "host", "inner", "path", "url")

    for impostor in (Own(), _native.Histogram.merged([])):
        with pytest.raises(TypeError):
            impostor.__class__ = _native.Target  # type: ignore[assignment]


def test_a_level_takes_nothing_but_a_target() -> None:
    class Pretender:
        url, address, host, path, loopback = "http://10.77.0.1/", "10.77.0.1:80", "10.77.0.1", "/", True

    for pretender in (Pretender(), "http://10.77.0.1/", None):
        with pytest.raises(TypeError):
            _native.prepare("{}", pretender)  # type: ignore[arg-type]


def test_nothing_but_open_makes_a_target_and_nothing_but_a_level_makes_load() -> None:
    makers = [
        name for name in vars(_native.Target) if callable(getattr(_native.Target, name)) and name[0] != "_"
    ]
    assert sorted(makers) == ["look", "open"]
    not_a_level: Any = "http://10.77.0.1/"
    with pytest.raises(TypeError):
        _native.prepare("{}", not_a_level)
    assert spec(http_target("http://127.0.0.1:1/")) is not None
