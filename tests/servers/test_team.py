"""Teams of a front and the servers behind it, all real.

The tests cover the proof of who answered, with and without TLS, answers to clients, CPU time per member, and remains.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from serverdyno.errors import ServerError, UserError
from serverdyno.servers.documents import document_root
from serverdyno.servers.registry import DRIVERS, create
from serverdyno.servers.running import running
from serverdyno.servers.team import Team
from serverdyno.servers.web import Behind
from support.dynamic_page import counts, loaded
from support.dyno_process import Home, wait_until_missed
from support.teams import TEAMS, named, team_of


@pytest.mark.parametrize("settings", TEAMS, ids=named)
def test_who_answers_behind_the_front_is_proven_and_the_load_is_answered_rightly(
    settings: dict[str, Any],
) -> None:
    with running("team", team_of(settings)) as server:
        assert isinstance(server, Team)
        notes = server.describe().notes
        pages = [note for note in notes if "generated the dynamic page that was requested" in note]
        ports = {port for back in server.back_servers for port in back.ports()}
        assert [any(f"port {port} ({settings['dynamic']})" in page for port in ports) for page in pages] == [
            True
        ] * len(pages)
        assert len(pages) == (2 if "tls" in settings else 1)
        assert "in the clear" in pages[0] and "from the front" in pages[0]
        shares = {"secure_share": 0.3, "dynamic_share_of_secure": 0.5} if "tls" in settings else {}
        before = server.cpu_by_member_s()
        result = loaded(server, shares=shares)
        after = server.cpu_by_member_s()
        pids = server.pids()
        directories = [member.directory for member in server.members.values()]
        assert all(directory.is_dir() for directory in directories)
    assert result["errors"] == []
    assert counts(result)["dynamic"] > 0
    assert len(after) == 1 + settings.get("backs", 1)
    for name, seconds in after.items():
        assert seconds is not None and (before[name] or 0) < seconds, name
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not any(directory.exists() for directory in directories)


def test_documents_come_from_the_front_where_it_has_them_and_from_behind_where_it_has_none() -> None:
    documents = (("nginx", "nginx"), ("haproxy", "Apache"), ("reference", "serverdyno-reference"))
    for front, served_by in documents:
        settings = team_of({"front": front, "back": "apache", "dynamic": "off"})
        with running("team", settings) as server:
            [note] = [note for note in server.describe().notes if note.startswith("Before load, a document")]
            assert f"came from {served_by}" in note, note


@pytest.mark.parametrize(("front", "words"), [("nginx", "Connection refused"), ("reference", "")])
def test_a_front_that_does_not_hand_on_is_told_with_its_own_words(front: str, words: str) -> None:
    settings = team_of({"front": front, "back": "apache", "dynamic": "cgi"})
    server = create("team", settings, documents=document_root())
    assert isinstance(server, Team)
    try:
        server.prepare()
        server.start()
        for back in server.back_servers:
            back.ready()
        server.front.backs = (Behind("127.0.0.1", 1),)  # nothing listens there
        server.front.prepare()
        server.front.start()
        with pytest.raises(ServerError) as caught:
            server.ready()
    finally:
        server.stop()
    assert "status 502" in str(caught.value)
    assert words in str(caught.value)


def test_a_member_that_ends_is_named() -> None:
    with running("team", team_of({"front": "nginx", "back": "apache", "dynamic": "off"})) as server:
        assert isinstance(server, Team)
        server.check()
        process = server.back_servers[0].process
        assert process is not None
        first = psutil.Process(process.pids()[0])
        first.kill()
        psutil.wait_procs([first], timeout=30)
        wait_until_missed(server, "apache exited under load")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"front": "varnish", "tls": "ecdsa-p256"}, "front_settings: tls: must be 'off'"),
        ({"tls": "ecdsa-p256", "tls_by": "back"}, 'tls_by = "back" requires also_clear'),
        (
            {"front_settings": {"processors": 1}},
            "front_settings: set processors in the team's own settings instead",
        ),
        ({"back_settings": {"mpm": "none"}}, "back_settings: mpm"),
        ({"back": "nginx", "dynamic": "cgi"}, "back_settings: dynamic"),
        ({"program": "/bin/true"}, "program: a team has several"),
        ({"front": "reference", "front_settings": {"http2": True}}, "front_settings: http2"),
    ],
)
def test_settings_that_make_no_team_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        create("team", settings, documents=Path("/"))
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["haproxy", "varnish"])
def test_a_proxy_alone_says_that_it_belongs_into_a_team(name: str) -> None:
    if DRIVERS[name].installed() is None:
        pytest.skip(f"{name} is not installed here")
    server = create(name, {}, documents=Path("/"))
    with pytest.raises(ServerError) as caught:
        server.prepare()
    server.stop()
    assert f'front = "{name}"' in (caught.value.hint or "")


def test_the_report_has_the_cpu_time_of_each_member(home: Home, tmp_path: Path) -> None:
    team_of({"front": "nginx", "back": "apache"})
    plan, folder = tmp_path / "p.toml", tmp_path / "e"
    plan.write_text(
        'name = "p"\nsuite = "quick-dynamic"\nscale = 0.3\nrepetitions = 1\n[[servers]]\nserver = "team"\n'
        'settings = { dynamic = "fastcgi", back_settings = { workers = 64 } }\n'
    )
    assert (done := home.dyno("run", plan, "--into", folder)).returncode == 0, done.stderr
    assert (done := home.dyno("report", folder, "--json")).returncode == 0, done.stderr
    report = json.loads((folder / "report" / "report.json").read_text())
    tables = [table for section in report["sections"] for table in section["tables"]]
    [members] = [table for table in tables if table["key"] == "members"]
    shown = {row[2]["text"]: row[3]["text"] for row in members["rows"]}
    assert set(shown) == {"front nginx", "back apache"}
    assert all(float(text) > 0 for text in shown.values()), shown
