"""Power cuts of object servers without the guest: acknowledged PUTs are compared with the remaining objects."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from serverdyno.errors import ServerError
from serverdyno.plan.model import Configuration, Suite
from serverdyno.run.powercut import guests
from serverdyno.run.powercut.objects import BEFORE, ObjectJournal, Put
from serverdyno.run.powercut.rounds import cut_power, said, verdict
from serverdyno.servers.object_server import ObjectServer
from serverdyno.servers.registry import DRIVERS, create
from serverdyno.servers.signed_request import ObjectClient
from serverdyno.store.powercut import Cut, PowerCuts
from support.file_server import PATIENCE_S
from support.reference_servers import start_s3
from support.report_tables import STRICT, column, report_of, table
from support.synthetic_files import experiment

CLIENTS = 3


def accepted_and_closed(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    connection.close()


@contextmanager
def written(least: int, **options: Any) -> Iterator[tuple[ObjectJournal, Any]]:
    """Yield a journal of at least `least` acknowledged PUTs, and the reference server that acknowledged them."""
    server = start_s3(**options)
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accepted_and_closed, args=(listener,), daemon=True).start()

    def put(key: str, content: bytes) -> None:
        with ObjectClient("127.0.0.1", server.port, None, PATIENCE_S) as client:
            client.ask("PUT", f"/volume1/{key}", content)

    there = SimpleNamespace(host="127.0.0.1", port=server.port, key=None, make_bucket=lambda: None, put=put)
    journal = ObjectJournal(cast(Any, there), CLIENTS, 7, listener.getsockname()[1])
    try:
        journal.wait_until_answering()
        journal.prepare()
        journal.begin(1)
        deadline = time.monotonic() + PATIENCE_S
        while not journal.has_acknowledged() or server.requests()["PutObject"] < least:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        journal.end()
        yield journal, server
    finally:
        server.stop()
        listener.close()


def test_a_server_that_keeps_all_has_lost_nothing() -> None:
    with written(30) as (journal, _):
        cut = journal.compared(0.5)
    assert (cut.lost_files, cut.torn_files, cut.lost_bytes) == (0, 0, 0)
    assert cut.flushed_files >= 25
    assert cut.flushed_bytes >= 1024 * cut.flushed_files


def test_objects_that_are_missing_or_torn_are_counted_apart() -> None:
    with written(40, fault="lost-put=3") as (journal, _):
        lost = journal.compared(0.5)
    assert 0.2 < lost.lost_files / lost.flushed_files < 0.5 and lost.torn_files == 0
    assert lost.lost_bytes > 0
    with written(40, fault="torn-put=3") as (journal, _):
        torn = journal.compared(0.5)
    assert torn.torn_files and torn.lost_files == torn.torn_files


def test_the_loss_of_what_was_synced_before_is_no_verdict_but_an_error() -> None:
    with written(10, flush="ignore") as (journal, server):
        server.restart()
        with pytest.raises(ServerError, match="before the power cut is lost"):
            journal.compared(0.5)
    assert BEFORE.startswith("serverdyno-")


def test_a_refused_put_is_counted_and_a_server_that_refuses_all_is_given_up() -> None:
    with written(30, fault="slow-down=3") as (journal, _):
        cut = journal.compared(0.5)
    assert cut.lost_files == 0 and cut.refused_puts and cut.refused_puts <= cut.unflushed_files
    assert "PUTs refused, the first with" in said(cut, "acknowledged PUT")
    assert "SlowDown" in said(cut, "acknowledged PUT")
    with pytest.raises(ServerError, match=r"refuses every PUT.*SlowDown"), written(1000, fault="slow-down=1"):
        pass


@contextmanager
def answering(*answers: bytes) -> Iterator[int]:
    """Yield the port of a server that sends each connection the next of these answers, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(PATIENCE_S)
                    got = b""
                    while b"\r\n\r\n" not in got and (more := connection.recv(4096)):
                        got += more
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n"
WHOLE, CUT_OFF, EMPTY = HEAD + b"contents", HEAD + b"cont", HEAD
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\ncont"
TORN = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ncont"


@pytest.mark.parametrize("answer", [CUT_OFF, EMPTY, CHUNKED])
def test_an_answer_that_ends_early_is_an_error(answer: bytes) -> None:
    with (
        answering(answer) as port,
        ObjectClient("127.0.0.1", port, None, PATIENCE_S) as client,
        pytest.raises(OSError, match="IncompleteRead"),
    ):
        client.ask("GET", "/volume1/key")


@pytest.mark.parametrize(
    ("answers", "left"),
    [
        ((CUT_OFF, WHOLE), "intact"),
        ((CUT_OFF, TORN), "torn"),
        ((CUT_OFF, EMPTY), "unreadable"),
    ],
)
def test_an_object_is_read_again_after_an_answer_that_was_cut_off(
    answers: tuple[bytes, ...], left: str
) -> None:
    put = Put("key", 8, hashlib.sha256(b"contents").hexdigest())
    with answering(*answers) as port:
        journal = ObjectJournal(cast(Any, SimpleNamespace()), CLIENTS, 7, 0)
        with ObjectClient("127.0.0.1", port, None, PATIENCE_S) as client:
            assert journal._state(client, put, time.monotonic()) == left


def of(name: str, lost: int, torn: int) -> PowerCuts:
    cut = Cut(
        cut_after_s=1.0,
        flushed_files=200,
        flushed_bytes=1,
        lost_files=lost,
        lost_bytes=lost,
        unreadable_files=0,
        torn_files=torn,
        unflushed_files=4,
        kept_unflushed_files=0,
    )
    return PowerCuts(
        configuration=name,
        version="versitygw v1.8.0",
        kernel="6.1.0-57-cloud-amd64",
        changed=[],
        clients=4,
        seed=1,
        took_s=60.0,
        cuts=[cut],
        unit="acknowledged PUT",
    )


def test_cuts_are_told_in_words_and_a_report_warns_of_lost_objects() -> None:
    torn = of("samba-lax", 31, 2)
    assert said(torn.cuts[0], torn.unit) == "31 of 200 acknowledged PUTs lost, 2 of them torn"
    assert verdict(torn) == "1 of 1 cuts lost an acknowledged PUT"
    report = report_of(replace(experiment(STRICT), power_cuts=[of("samba-strict", 0, 0), torn]))
    assert column(table(report, "power-cuts"), "Verdict") == [
        "200 of 200 acknowledged PUTs survived 1 power cut",
        "31 of 200 acknowledged PUTs lost (2 torn) in 1 of 1 power cut",
    ]
    [warning] = [text for text in report.warnings if text.startswith("A power cut lost")]
    assert warning.startswith("A power cut lost acknowledged objects. samba-lax: 31 of 200 ")


def test_refused_puts_that_a_record_does_not_count_are_not_zero() -> None:
    stored = of("samba-strict", 0, 0).model_dump(mode="json")
    [cut] = stored["cuts"]
    counted = [{**cut, "refused_puts": count} for count in (0, 3)]
    del cut["refused_puts"], cut["torn_files"]
    old, new = (PowerCuts.model_validate({**stored, "cuts": cuts}) for cuts in ([cut, counted[0]], counted))
    assert (old.refused_puts, old.torn_files, new.refused_puts, new.torn_files) == (None, None, 3, 0)
    report = report_of(replace(experiment(STRICT), power_cuts=[old, new]))
    found = table(report, "power-cuts")
    place = next(place for place, each in enumerate(found.columns) if each.unit == "refused")
    assert [row[place].text for row in found.rows] == ["not counted", "3"]


@pytest.mark.parametrize(("name", "file"), [("rclone", "run.sh"), ("garage", "garage.toml")])
def test_a_guest_gets_the_object_server_that_is_loaded_but_for_its_address(
    tmp_path: Path, name: str, file: str
) -> None:
    program = tmp_path / name
    program.write_text("#!/bin/sh\necho 1.0\n")
    program.chmod(0o755)
    way = guests.way_of(name)
    server = create(name, {"program": str(program)} | way.settings, documents=Path(os.devnull))
    assert isinstance(server, ObjectServer)
    try:
        server.prepare()
        here = (server.directory / file).read_text()
        guest = way.put(server, {"file_system": "ext4", "mount_options": "nobarrier"})
        there = (server.directory / file).read_text()
    finally:
        server.stop()
    assert there == here.replace("127.0.0.1", "10.0.2.15") != here
    script = guests.init_script(guest)
    assert f'mount -t ext4 -o rw,nobarrier /dev/vda "{server.volumes.top}"' in script
    assert "nc -ll -p 4999 -e sync &" in script


@pytest.mark.skipif(
    "DYNO_POWERCUT" not in os.environ, reason="minutes: set DYNO_POWERCUT to cut a guest's power"
)
@pytest.mark.parametrize(
    ("server", "settings", "keeps"),
    [
        ("versitygw", {}, False),
        ("versitygw", {"file_system": "ext4", "mount_options": "sync"}, True),
    ],
)
def test_a_power_cut_loses_puts_unless_the_file_system_syncs(
    server: str, settings: dict[str, Any], keeps: bool
) -> None:
    if DRIVERS[server].installed() is None:
        pytest.skip(f"{server} is not installed here: run make servers-objects")
    configuration = Configuration("it", server, settings, (), None, None, "s3")
    cuts = cut_power(configuration, cast(Suite, None), 2, 1, print)
    assert cuts.flushed_files > 10
    assert cuts.cuts_with_loss == (0 if keeps else 2)
