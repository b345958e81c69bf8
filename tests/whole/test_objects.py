"""`dyno objects` from the command line to the report, against the reference S3 server."""

from __future__ import annotations

import os
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from serverdyno import _native
from serverdyno.plan.model import ServerPlan
from serverdyno.report.build import build_from, source_of
from serverdyno.store.experiment import Experiment
from support.dyno_process import Home, wait_for_line, wait_until
from support.experiments import Listener, carried_out
from support.objects import created, keys, planned, tiny
from support.reference_servers import start_s3
from support.s3_proxy import Answer, Asked, s3_proxy

pytestmark = pytest.mark.usefixtures("short_windows")
KEY_ID, SECRET = "AKIDTEST", "a-secret/that+nobody=shows"
SHORT = ("--clients", "2", "--length", "0.6s", "--size", "2000", "--objects", "8")
EVERY = "get=5,put=4,head=3,delete=2,list=2,copy=1,get_range=1,delete_many=1"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give this test's user one access key."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))


@contextmanager
def serving(**options: Any) -> Iterator[_native.ReferenceS3]:
    server = start_s3(**options)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def locked(**options: Any) -> Iterator[str]:
    """Yield the URL of a bucket that only the test's access key opens."""
    with serving(access_key_id=KEY_ID, secret=SECRET, **options) as server:
        yield f"s3://127.0.0.1:{server.port}/volume1"


@pytest.mark.parametrize("payload", ["unsigned", "signed", "chunked"])
def test_one_command_measures_a_bucket_and_leaves_it_as_it_was(
    home: Home, tmp_path: Path, payload: str
) -> None:
    folder = tmp_path / "e"
    with locked() as url:
        done = home.here(
            "objects", url, *SHORT, "--mix", EVERY, "--payload", payload, "--into", folder, "--report"
        )
    assert done.returncode == 0, done.stderr
    assert "operations/s" in done.stdout and "Traceback" not in done.stderr
    [record] = Experiment.open(folder).levels()
    assert not record.errors, record.errors
    names = {row.operation for row in record.by_operation if row.count}
    assert names == {"get", "put", "head", "delete", "list", "copy", "get_range", "delete_many"}
    assert record.bytes_checked and record.bytes_read and record.bytes_written


def test_the_prefix_is_removed_at_the_end_and_nothing_else(home: Home, tmp_path: Path) -> None:
    with serving(objects={"mine": b"of the user"}) as server:
        url = f"s3://127.0.0.1:{server.port}/volume1"
        done = home.here("objects", url, *SHORT, "--into", tmp_path / "e")
        assert done.returncode == 0, done.stderr
        assert keys(server.port) == ["mine"]


def test_no_file_of_the_experiment_and_no_message_has_the_secret(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "e"
    with locked() as url:
        done = home.here(
            "objects", url, *SHORT, "--into", folder, "--report", AWS_SESSION_TOKEN="a-token-of-it"
        )
    written = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert len(written) > 3
    for secret in (SECRET, "a-token-of-it"):
        assert secret not in done.stdout + done.stderr
        assert not any(secret.encode() in content for content in written)


def test_every_generator_process_gets_the_key(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    with locked() as url:
        created(folder, url, clients=[2, 4], processes=2)
        listener = Listener()
        assert carried_out(folder, listener), listener.failures
    assert listener.failures == [] and listener.notices == []
    for record in Experiment.open(folder).levels():
        assert record.operations and not record.errors, record.errors
        assert len(record.nodes) == 2
    assert not any(SECRET.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_open_load_accounts_for_every_operation_that_was_due(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "e"
    with locked() as url:
        done = home.here(
            "objects", url, "--rate", "50,100", "--clients", "4", "--length", "1.5s", "--size", "2000",
            "--objects", "8", "--into", folder,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for record in Experiment.open(folder).levels():
        assert record.arrivals and not record.errors
        lost = (record.dropped or 0) + (record.overdue_at_end or 0) + record.failures
        assert record.arrivals == record.operations_total + lost


FAULTS = [
    ("wrong-content=3", {"wrong_content"}),
    ("lost-put=3", {"object_missing", "stale_object", "wrong_etag", "list_missing", "list_wrong"}),
    ("stale-read=3", {"object_missing", "stale_object", "wrong_etag"}),
    ("truncated-list=3", {"list_missing"}),
    ("ghost-entry=3", {"list_unexpected"}),
    ("lost-delete=3", {"list_unexpected"}),
    # One pair of versions in a million has equal contents, so the right ETag may be that of an older version.
    ("wrong-etag=3", {"wrong_etag", "list_wrong", "stale_object"}),
]


@pytest.mark.parametrize(("fault", "expected"), FAULTS, ids=[fault for fault, _ in FAULTS])
def test_what_a_server_does_wrong_is_found_by_the_ledger_and_named_in_the_report(
    tmp_path: Path, fault: str, expected: set[str]
) -> None:
    folder = tmp_path / "e"
    with locked(fault=fault) as url:
        weights = {"get": 5, "put": 5, "head": 2, "delete": 2, "list": 4}
        created(folder, url, clients=[2], weights=weights)
        carried_out(folder)
    [record] = Experiment.open(folder).levels()
    found = {row.fault: row.side for row in record.errors}
    assert found and set(found) <= expected, record.errors
    assert set(found.values()) == {"check"}
    said = [finding.claim for finding in build_from(source_of(Experiment.open(folder))).findings]
    [errors] = [claim for claim in said if "Wrong answers" in claim]
    assert max(record.errors, key=lambda row: row.count).example in errors


def test_slow_down_is_an_error_of_that_name_and_nothing_is_sent_again(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    with serving(fault="slow-down=50") as server:
        created(folder, f"s3://127.0.0.1:{server.port}/volume1", clients=[2])
        carried_out(folder)
    [record] = Experiment.open(folder).levels()
    # The response to HEAD has no code, so the first example may have only the status.
    assert any(row.fault == "slow_down" and "503" in row.example for row in record.errors), record.errors
    assert {row.side for row in record.errors} == {"server"}


class Late:
    """Carries out one change in five without an answer, after ten further requests."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.requests = self.changes = self.carried_out_late = 0
        self.held: list[tuple[int, Asked]] = []

    def answered(self, asked: Asked) -> Answer | None:
        with self.lock:
            self.requests += 1
            removes = "?delete" in asked.path
            while self.held and (removes or self.held[0][0] <= self.requests):
                self.held.pop(0)[1].passed_on()
                self.carried_out_late += 1
            if removes:
                self.changes = 0
            elif asked.method in ("PUT", "DELETE"):
                self.changes += 1
                # No change is held while 16 objects are put before the level, or once the removal has begun.
                if self.changes > 16 and self.changes % 5 == 0:
                    self.held.append((self.requests + 10, asked))
                    return None
            return asked.passed_on()


def test_a_change_that_is_carried_out_after_it_was_given_up_is_no_wrong_answer(tmp_path: Path) -> None:
    late = Late()
    with serving() as server, s3_proxy(server.port, late.answered) as port:
        weights = {"get": 4, "put": 3, "head": 2, "delete": 1, "list": 2, "copy": 1}
        created(tmp_path / "e", f"s3://127.0.0.1:{port}/volume1", clients=[2], length_s=2, weights=weights)
        listener = Listener()
        carried_out(tmp_path / "e", listener)
        assert late.carried_out_late > 5, listener.failures
        assert keys(server.port) == []
    [record] = Experiment.open(tmp_path / "e").levels()
    assert {row.fault for row in record.errors} == {"closed_early"}, record.errors


def test_what_a_killed_load_left_is_named_with_the_command_that_removes_it(
    home: Home, tmp_path: Path
) -> None:
    folder = tmp_path / "e"
    with serving() as server:
        url = f"s3://127.0.0.1:{server.port}/volume1"
        created(folder, url, clients=[2], length_s=60)
        with home.started("resume", folder) as dyno:
            wait_for_line(dyno, "starting")
            wait_until(lambda: len(keys(server.port)) > 2, "objects are put")
            dyno.kill()
            dyno.wait()
        left = keys(server.port)
        assert left and all(key.startswith(f"{_native.Workspaces.DIRECTORY}-") for key in left)
        created(tmp_path / "next", url, clients=[1])
        listener = Listener()
        assert carried_out(tmp_path / "next", listener)
        [notice] = listener.notices
        assert "already exists on bucket volume1, from a load that was killed" in notice
        assert f"aws --endpoint-url http://127.0.0.1:{server.port} s3 rm --recursive s3://volume1/" in notice
        assert "abort-multipart-upload" in notice
        assert keys(server.port) == left


def test_an_interrupted_load_removes_its_objects(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "e"
    with serving() as server:
        created(folder, f"s3://127.0.0.1:{server.port}/volume1", clients=[2], length_s=60)
        with home.started("resume", folder) as dyno:
            wait_for_line(dyno, "starting")
            wait_until(lambda: len(keys(server.port)) > 2, "objects are put")
            dyno.terminate()
            _, told = dyno.communicate(timeout=180)
        assert "removing the clients' workspaces" in told and "Traceback" not in told
        assert keys(server.port) == []


def test_a_bucket_over_tls_is_measured_if_its_authority_is_trusted(home: Home, tmp_path: Path) -> None:
    authority = _native.Authority()
    certificate, private = authority.certify("ecdsa-p256", ["127.0.0.1"])
    for name, text in (("ca", authority.pem), ("server", certificate), ("key", private)):
        (tmp_path / f"{name}.pem").write_text(text)
    with locked(tls_certificate=tmp_path / "server.pem", tls_key=tmp_path / "key.pem") as url:
        secure = url.replace("s3://", "s3s://")
        refused = home.here("objects", secure, *SHORT, "--into", tmp_path / "no")
        assert refused.returncode != 0 and "ertificate" in refused.stderr, refused.stderr
        done = home.here(
            "objects", secure, *SHORT, "--ca-file", tmp_path / "ca.pem", "--into", tmp_path / "e"
        )
    assert done.returncode == 0, done.stderr
    [record] = Experiment.open(tmp_path / "e").levels()
    assert record.operations and not record.errors


def test_a_bucket_may_stand_in_front_of_the_hosts_name(home: Home, tmp_path: Path) -> None:
    with locked() as url:
        named = url.replace("127.0.0.1", "localhost")
        done = home.here("objects", named, *SHORT, "--addressing", "virtual", "--into", tmp_path / "e")
    assert done.returncode == 0, done.stderr
    [record] = Experiment.open(tmp_path / "e").levels()
    assert record.operations and not record.errors


def test_large_objects_are_put_in_parts_and_no_upload_is_left(home: Home, tmp_path: Path) -> None:
    with serving() as server:
        url = f"s3://127.0.0.1:{server.port}/volume1"
        parts = ("--size", "12000000", "--part-bytes", "5242880", "--parts-in-flight", "3", "--objects", "2")
        done = home.here(
            "objects",
            url,
            "--clients",
            "2",
            "--length",
            "4s",
            *parts,
            "--mix",
            "put=1,get=1",
            "--into",
            tmp_path / "e",
        )
        assert done.returncode == 0, done.stderr
        counted = server.requests()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/volume1?uploads", timeout=60) as answer:
            assert b"<Upload>" not in answer.read()
    [record] = Experiment.open(tmp_path / "e").levels()
    assert record.operations and not record.errors
    assert counted["UploadPart"] == 3 * counted["CompleteMultipartUpload"] > 0


def test_the_requests_are_as_many_as_the_server_counted(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    planned(folder, tiny([1, 3]), [ServerPlan(server="reference-s3", name="bucket")])
    assert carried_out(folder)
    [note] = Experiment.open(folder).run_notes().values()
    assert note.requests_answered == note.requests_by_server_count


EMPTY_PAGE = b"""<ListBucketResult><IsTruncated>true</IsTruncated>
<NextContinuationToken>empty</NextContinuationToken></ListBucketResult>"""


def empty_page_first(asked: Asked) -> Answer:
    """Begin each list with an empty page that is not the last, as a store with many deleted keys does."""
    if "list-type=2" not in asked.path or "continuation-token=" in asked.path.replace("token=empty", ""):
        return asked.passed_on()
    if "continuation-token=empty" not in asked.path:
        return 200, {"Content-Type": "application/xml"}, EMPTY_PAGE
    asked.path = asked.path.replace("continuation-token=empty&", "")
    return asked.passed_on()


def test_an_empty_page_is_not_the_end_of_a_list(home: Home, tmp_path: Path) -> None:
    old = f"{_native.Workspaces.DIRECTORY}-0/0/p0000/o00000000"
    with (
        serving(objects={old: b"of a load that was killed"}) as server,
        s3_proxy(server.port, empty_page_first) as port,
    ):
        url = f"s3://127.0.0.1:{port}/volume1"
        created(tmp_path / "e", url, clients=[2], length_s=60)
        with home.started("resume", tmp_path / "e") as dyno:
            before = "".join(wait_for_line(dyno, "starting"))
            wait_until(lambda: len(keys(server.port)) > 3, "objects are put")
            dyno.terminate()
            dyno.communicate(timeout=180)
        assert keys(server.port) == [old]
        assert "already exists on bucket volume1, from a load that was killed" in before


def test_an_upload_whose_part_is_not_answered_in_time_is_aborted_at_once(home: Home, tmp_path: Path) -> None:
    asked_for: list[tuple[str, str]] = []
    over = threading.Event()

    def answered(asked: Asked) -> Answer | None:
        asked_for.append((asked.method, asked.path))
        # Two objects of two parts are put first.
        if "partNumber=" in asked.path and sum("partNumber=" in path for _, path in asked_for) == 5:
            asked_for.clear()
            over.wait(300)
            return None
        if asked.method == "DELETE":
            time.sleep(1)  # slow, like a server that does not answer in time
        return asked.passed_on()

    parts = ("--size", "6000000", "--part-bytes", "5242880", "--parts-in-flight", "1", "--objects", "2")
    level = ("--clients", "1", "--length", "12s", "--timeout", "5s", "--mix", "put=1")
    with serving() as server, s3_proxy(server.port, answered) as port:
        url = f"s3://127.0.0.1:{port}/volume1"
        home.here("objects", url, *level, *parts, "--into", tmp_path / "e")
        over.set()
    aborted = [
        place for place, (how, path) in enumerate(asked_for) if how == "DELETE" and "uploadId=" in path
    ]
    assert aborted == [0], asked_for
