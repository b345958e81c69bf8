"""Sessions of users who log in, with the application of the reference server and with its faults."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from serverdyno import _native
from serverdyno.plan import protocols
from serverdyno.plan.protocols import steps
from serverdyno.store.experiment import Experiment
from support.dyno_process import PATIENCE_S, Home
from support.places import ROOT
from support.reference_servers import start_http, tls_of

pytestmark = pytest.mark.usefixtures("short_windows")
SHORT = ("--clients", "2", "--length", "0.5s")
CURL = {"1.1": "--http1.1", "2": "--http2-prior-knowledge"}
SHOP = ROOT / "plans" / "suites" / "log-in.toml"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


@contextmanager
def serving(fault: str | None = None, **options: Any) -> Iterator[_native.ReferenceServer]:
    server = start_http(fault=fault, **options)
    try:
        yield server
    finally:
        server.stop()


def session_file(folder: Path) -> Path:
    """Write the steps of the documentation's suite to a file."""
    text = SHOP.read_text()
    file = folder / "session.toml"
    file.write_text(text[text.index("[[documents.steps]]") :].replace("documents.steps", "steps"))
    return file


def asked(port: int, version: str, *arguments: str) -> tuple[int, str, str]:
    """Return status, head and body of an answer to curl, whose last argument is a path."""
    *options, path = arguments
    curl = ["curl", "--silent", "--show-error", "--include", CURL[version], *options]
    done = subprocess.run(
        [*curl, f"http://127.0.0.1:{port}{path}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    head, _, body = done.stdout.replace("\r\n", "\n").partition("\n\n")
    return int(head.split()[1]), head, body


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_the_application_of_the_reference_server_lets_in_who_has_what_it_gave(version: str) -> None:
    with serving(http2=True) as server:
        status, _, form = asked(server.port, version, "/app/login")
        token = form.partition('name="token" value="')[2].partition('"')[0]
        assert (status, "+" in token and "/" in token) == (200, True)

        def posted(place: str, body: str, *fields: str) -> tuple[int, str, str]:
            return asked(server.port, version, *fields, "--data-binary", body, place)

        encoded = token.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
        status, head, _ = posted("/app/login", f"user=u1&password=secret&token={encoded}")
        sid = head.partition("sid=")[2].partition(";")[0]
        assert (status, sid.partition(".")[0]) == (302, "u1")
        for body in (
            f"user=u1&password=secret&token={token}",  # not encoded: the + means a space
            f"user=u1&password=wrong&token={encoded}",
            f"user=&password=secret&token={encoded}",
            "user=u1&password=secret",
            "%",
            "",
        ):
            assert posted("/app/login", body)[0] == 403, body
        assert posted("/app/login", "x" * 4097)[0] == 413
        assert asked(server.port, version, "/app/account")[0] == 401
        assert asked(server.port, version, "--header", f"Cookie: sid=u2{sid[2:]}", "/app/account")[0] == 401
        cookie = ("--header", f"Cookie: lang=en; sid={sid}")
        status, _, account = asked(server.port, version, *cookie, "/app/account")
        key = json.loads(account)["keys"][0]["key"]
        assert (status, json.loads(account)["user"]) == (200, "u1")
        assert posted("/app/orders", "{}", *cookie)[0] == 403
        whole = posted("/app/orders", "{}", *cookie, "--header", f"X-Key: {key}")
        assert whole[::2] == (200, '{"order": 2}\n')
        assert posted("/app/account", "{}", *cookie)[0] == 405
        assert posted("/", "{}")[0] == 405
        assert asked(server.port, version, *cookie, "/app/orders")[0] == 405


@pytest.mark.parametrize(("http2", "secure"), [(False, False), (True, False), (True, True)])
def test_users_log_in_and_order_step_by_step_and_each_step_is_a_class(
    home: Home, tmp_path: Path, *, http2: bool, secure: bool
) -> None:
    authority = _native.Authority()
    (tmp_path / "ca.pem").write_text(authority.pem)
    tls = tls_of(authority)
    streams = 3 if http2 else 1
    how = ("--http2", "--streams", str(streams)) if http2 else ()
    trust = ("--ca-file", tmp_path / "ca.pem") if secure else ()
    with serving(http2=http2, tls=tls if secure else None) as server:
        url = f"{'https' if secure else 'http'}://127.0.0.1:{server.port}/"
        session = ("--session", session_file(tmp_path))
        done = home.here("load", url, *SHORT, *how, *trust, *session, "--into", home.temporary / "e")
        served = server.requests
    assert done.returncode == 0, done.stderr
    with Experiment.open(home.temporary / "e") as experiment:
        [record] = experiment.levels()
    counts = {row.operation: row.count for row in record.by_operation}
    assert list(counts) == ["form", "log in", "account", "order"]
    assert not record.errors and min(counts.values()) > 0
    # Every session is complete, except for those at the edges of the window.
    assert max(counts.values()) - min(counts.values()) <= 2 * 2 * streams
    assert served >= record.operations_total
    assert [row.request for row in record.requests] == (["HTTP/2 stream"] if http2 else [])


def test_a_plan_measures_servers_with_a_suite_of_steps(home: Home) -> None:
    (home.temporary / "plan.toml").write_text(
        f'name = "p"\nsuite = "{SHOP}"\nscale = 0.1\nrepetitions = 1\n'
        '[[servers]]\nserver = "reference"\nsettings = { threads = 1 }\n'
    )
    done = home.here("run", "plan.toml", "--into", home.temporary / "e")
    assert done.returncode == 0, done.stderr
    with Experiment.open(home.temporary / "e") as experiment:
        records = list(experiment.levels())
    assert [row.operation for row in records[0].by_operation] == ["form", "log in", "account", "order"]
    assert all(record.operations > 0 and not record.errors for record in records)
    report = (home.temporary / "e" / "report" / "report.html").read_text()
    assert "A session of 4 steps" in report


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("huge-head", "larger than dyno's limit"),
        ("garbage", "not HTTP"),
        ("status-500", "status 500"),
        ("status-500", "If this status is right, name it in the step: status = [...]"),
        (None, "lacks a value that later steps of the session need: token"),
        (None, "step 'form' takes token from regex: 'name=\"other\""),
    ],
)
def test_a_server_that_answers_otherwise_is_told_by_its_kind(
    home: Home, tmp_path: Path, fault: str | None, said: str
) -> None:
    file = session_file(tmp_path)
    if fault is None:
        file.write_text(file.read_text().replace('name="token"', 'name="other"'))
    with serving(fault) as server:
        url = f"http://127.0.0.1:{server.port}/"
        done = home.here("load", url, *SHORT, "--session", file, "--into", home.temporary / "e")
    assert done.returncode != 0
    assert said in " ".join((done.stderr + done.stdout).split())


class SignUp(BaseHTTPRequestHandler):
    """A server that accepts each name once, and redirects with an absolute URL."""

    protocol_version = "HTTP/1.1"
    names: ClassVar[set[bytes]] = set()

    def do_POST(self) -> None:
        name = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(
            409 if name in self.names else 303, f"http://{self.headers['Host']}/account?of={name.decode()}"
        )
        self.names.add(name)

    def do_GET(self) -> None:
        self.answer(200 if self.path.removeprefix("/account?of=").encode() in self.names else 404, "")

    def answer(self, status: int, location: str) -> None:
        self.send_response(status)
        self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("name", "is_right"), [("u-${unique}", True), ("u-${client}-${round}", False)])
def test_users_sign_up_with_unique_names_and_follow_a_redirect_with_a_whole_url(
    home: Home, tmp_path: Path, name: str, *, is_right: bool
) -> None:
    file = tmp_path / "session.toml"
    file.write_text(
        f'[[steps]]\nname = "sign up"\nmethod = "POST"\npath = "/users"\nbody = "{name}"\nstatus = [303]\n'
        'take.next = { header = "Location" }\n[[steps]]\nname = "account"\npath = "${next}"\n'
    )
    SignUp.names.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), SignUp) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        done = home.here("load", url, *SHORT, "--session", file, "--into", home.temporary / "e")
        server.shutdown()
    assert done.returncode == 0, done.stderr
    with Experiment.open(home.temporary / "e") as experiment:
        [record] = experiment.levels()
    assert record.operations > 0
    # The check before load signed up as the first client did.
    assert (record.failures == 0) == is_right
    assert is_right or "409" in record.errors[0].example


def test_mistakes_in_steps_are_told_together_before_load(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "session.toml"
    file.write_text(
        '[[steps]]\nname = "a"\npath = "/${x}"\ntake.v = { regex = "(" }\n'
        '[[steps]]\nname = "b"\npath = "/"\ntake.w = { header = "a", cookie = "b" }\n'
    )
    done = home.here("load", "http://127.0.0.1:9/", "--session", file, "--method", "POST")
    assert done.returncode == 2
    assert "--session: its steps define the requests" in done.stderr
    assert "--session: step 2, take.w: " in done.stderr
    file.write_text(file.read_text().replace(', cookie = "b"', ""))
    done = home.here("load", "http://127.0.0.1:9/", "--session", file, "--rate", "10")
    assert 'no earlier step takes "x"' in done.stderr
    assert '"(" is not a valid regular expression' in done.stderr
    for text, said in (("steps = 3", "is not a session"), ("[[steps]]\nname =", "not valid TOML")):
        file.write_text(text)
        done = home.here("load", "http://127.0.0.1:9/", "--session", file)
        assert done.returncode == 2 and said in done.stderr, done.stderr


def test_steps_that_follow_from_each_other_come_at_no_rate_of_their_own(home: Home, tmp_path: Path) -> None:
    done = home.here(
        "load", "http://127.0.0.1:9/", "--session", session_file(tmp_path), "--rate", "10", "-c", "4"
    )
    assert done.returncode == 2
    assert "depends on the last answer" in done.stderr


def test_the_data_plane_reads_the_steps_that_the_control_plane_writes() -> None:
    step = steps.Step(name="a", path="/", take={"v": steps.Take(json_pointer="/a")})
    assert steps.checked([step]) == [step]
    assert "session" in protocols.work_of("session").workloads
