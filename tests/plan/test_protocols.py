"""A suite's work is separate from its servers' protocols: plans for one protocol, several, or the wrong one."""

from __future__ import annotations

import json
import re

import pytest
from pydantic import BaseModel

from serverdyno.errors import PlanError
from serverdyno.plan import protocols, suites
from serverdyno.plan.expand import configurations
from serverdyno.plan.load import parse_plan
from serverdyno.plan.model import Suite
from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.protocols.documents import DocumentsSettings
from serverdyno.plan.protocols.files import FILES, FilesSettings
from serverdyno.plan.protocols.http import HTTP, HttpSettings
from serverdyno.plan.protocols.http_request import RequestSettings
from serverdyno.plan.protocols.model import NoSettings
from serverdyno.plan.protocols.registry import PROTOCOLS
from serverdyno.plan.protocols.smb import SMB
from serverdyno.plan.protocols.steps import Step
from serverdyno.plan.spoken import protocol_of, protocols_of
from serverdyno.servers.base import Settings
from serverdyno.servers.registry import settings_types

HEAD = 'name = "p"\ntitle = "t"\nsuite = "quick-files"\n'


class Mounted(Protocol[NoSettings]):
    """Files of a mounted path, as a second protocol for the same kind of work."""

    name = "mounted"
    title = "mounted path"
    schemes = ("file",)
    work = FILES
    settings_type = NoSettings


class MountedSettings(Settings):
    protocol = "mounted"
    is_external = True


@pytest.fixture
def with_mounted(monkeypatch: pytest.MonkeyPatch) -> dict[str, type[BaseModel]]:
    """Return the settings types of all servers, one of which speaks a second protocol for files."""
    monkeypatch.setitem(PROTOCOLS, Mounted.name, Mounted())
    return {**settings_types(), "directory": MountedSettings}


def test_servers_of_different_protocols_for_one_kind_of_work_stand_in_one_plan(
    with_mounted: dict[str, type[BaseModel]],
) -> None:
    text = (
        HEAD
        + '[[servers]]\nserver = "samba"\n[[servers]]\nserver = "directory"\nurl = "file://localhost/srv/"\n'
    )
    found = configurations(parse_plan(text, "p.toml", with_mounted), with_mounted)
    assert [(each.name, each.protocol) for each in found] == [("samba", "smb"), ("directory", "mounted")]
    spoken = protocols_of(found, suites.load("quick-files"))
    assert [protocol.title for protocol in spoken] == ["SMB", "mounted path"]


@pytest.mark.parametrize(
    ("suite", "server", "expected"),
    [
        (
            "quick-files",
            "nginx",
            "line 5: servers[0].server: speaks HTTP, but the suite quick-files measures files over SMB",
        ),
        (
            "quick-static",
            "samba",
            "line 5: servers[0].server: speaks SMB, but the suite quick-static measures documents",
        ),
    ],
)
def test_a_server_that_the_work_can_not_be_carried_out_over_is_told_with_its_line(
    suite: str, server: str, expected: str
) -> None:
    text = HEAD.replace("quick-files", suite) + f'[[servers]]\nserver = "{server}"\n'
    with pytest.raises(PlanError) as caught:
        parse_plan(text, "p.toml", settings_types())
    assert [problem[: len(expected)] for problem in caught.value.problems] == [expected]


@pytest.mark.parametrize(
    ("suite", "server", "expected"),
    [
        (
            "quick-contention",
            'server = "external"\nurl = "nfs://127.0.0.1/exp"',
            "line 6: servers[0].url: clients share files in this suite, but over NFSv3 locks are local to each client "
            "(as in a mount with nolock): end the URL with ?vers=4.1",
        ),
        (
            "quick-contention",
            'server = "reference-nfs"',
            "line 4: servers[0].settings: clients share files in this suite, but over NFSv3 locks are local to each "
            'client (as in a mount with nolock): set nfs_version = "4.1"',
        ),
        ("quick-contention", 'server = "external"\nurl = "nfs://127.0.0.1/exp?vers=4.1"', None),
        ("quick-contention", 'server = "external"\nurl = "nfs://127.0.0.1/exp?nfsvers=4"', None),
        (
            "quick-failover-connections",
            'server = "external"\nurl = "file:///tmp"',
            "line 6: servers[0].url: the suite measures an outage of the server, but a directory has no server: use "
            "smb:// or nfs://",
        ),
    ],
)
def test_a_suite_that_a_protocol_can_not_carry_out_is_told_with_the_line_of_the_server(
    suite: str, server: str, expected: str | None
) -> None:
    # `plan check` once found no problem, and `run` ended in a traceback.
    text = HEAD.replace("quick-files", suite) + f"[[servers]]\n{server}\n"
    if expected is None:
        parse_plan(text, "p.toml", settings_types())
        return
    with pytest.raises(PlanError) as caught:
        parse_plan(text, "p.toml", settings_types())
    assert list(caught.value.problems) == [expected]


def test_an_experiment_from_before_protocols_were_noted_has_the_one_there_was() -> None:
    suite = suites.load("quick-files")
    text = HEAD + '[[servers]]\nserver = "samba"\n'
    [configuration] = configurations(parse_plan(text, "p.toml", settings_types()), {})
    assert configuration.protocol is None
    assert protocol_of(configuration, suite) is SMB


@pytest.mark.parametrize("name", suites.names())
def test_a_suite_is_read_back_as_it_was_written(name: str) -> None:
    suite = suites.load(name)
    assert Suite.model_validate_json(suite.model_dump_json()) == suite


def test_a_suite_of_an_older_experiment_may_have_the_tables_of_all_protocols() -> None:
    written = json.loads(suites.load("quick-static").model_dump_json())
    del written["axis"]
    older = Suite.model_validate_json(json.dumps({**written, "smb": {}, "files": {"cache": "none"}}))
    assert older.settings(HTTP) == HttpSettings(version="1.0", keep_alive=False, receive_buffer_bytes=4096)
    assert older.settings(FILES).cache == "none"
    assert older.parameters() == suites.load("quick-static").parameters()


def test_problems_of_a_suite_and_of_its_tables_are_told_together() -> None:
    text = (
        'name = "s"\ntitle = "t"\nsource = ""\nworkload = "diskmixx"\nclients = [1]\nlength_s = 9\n'
        '[files]\ncache = "all"\ncach = "none"\n[http]\nversion = 1\n[nfsd]\n[sections]\n'
    )
    with pytest.raises(PlanError) as caught:
        suites.parse(text, "s.toml")
    begin = [re.split(" not | unknown key", problem)[0] for problem in caught.value.problems]
    assert begin == [
        "line 4: workload: must be 'webbench-static', 'webbench-dynamic', 'url', 'session', 'diskmix', "
        "'loadfile', 'streams', 'metadata', 'contention', 'failover', 'bonnie', 'scenario' or 'objects',",
        "line 8: files.cache: must be 'none', 'oplocks' or 'leases',",
        "line 9: files.cach:",
        "line 11: http.version: must be '1.0', '1.1' or '2',",
        "line 12: nfsd:",
        "line 13: sections:",
    ]


def test_the_settings_of_a_protocol_that_a_suite_does_not_name_are_its_defaults() -> None:
    suite = suites.load("quick-files")
    assert suite.settings(HTTP) == HttpSettings()
    changed = suite.with_settings(FILES, FilesSettings(cache="none"))
    assert changed.settings(FILES).cache == "none"
    assert suite.settings(FILES).cache == "leases"


def test_every_protocol_has_its_work_in_the_table_and_schemes_of_its_own() -> None:
    schemes = [scheme for protocol in protocols.known() for scheme in protocol.schemes]
    assert len(set(schemes)) == len(schemes)
    for protocol in protocols.known():
        assert protocol in protocols.carrying(protocol.work)
        assert protocols.of(protocol.name) is protocol
        for workload in protocol.work.workloads:
            assert protocols.work_of(workload) is protocol.work


def test_shares_of_a_suite_that_are_more_than_all_requests_are_refused() -> None:
    DocumentsSettings(dynamic_share=0.6, secure_share=0.4, dynamic_share_of_secure=1.0)
    with pytest.raises(ValueError, match="is above 1"):
        DocumentsSettings(dynamic_share=0.6, secure_share=0.5, dynamic_share_of_secure=0.1)


def test_a_body_is_described_by_the_bytes_that_are_sent() -> None:
    described = RequestSettings(method="POST", body="caf\u00e9").described()
    assert described == "Requests: POST, a body of 5 bytes. Expected answers: status 200 to 299."


def test_what_a_session_can_not_have_is_told_with_the_plan() -> None:
    work = DocumentsSettings(steps=[Step(name="a", path="/")])
    for settings, word in (
        (HttpSettings(pipeline=2), "pipeline"),
        (HttpSettings(request=RequestSettings(status=[201])), "request"),
    ):
        said = HTTP.server_problem(settings, work, "http://127.0.0.1/", {})
        assert said is not None and said.startswith(word)
    plain = HttpSettings(request=RequestSettings(headers=["A: b"]))
    assert HTTP.server_problem(plain, work, "http://127.0.0.1/", {}) is None
