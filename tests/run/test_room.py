"""Workspaces without enough space: an experiment is refused before a server is started or anything is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from serverdyno.errors import UserError
from serverdyno.plan.model import Plan, ServerPlan, Suite
from serverdyno.plan.protocols.files import FilesSettings
from serverdyno.run.create import create_experiment
from serverdyno.run.room import check_room
from serverdyno.store.experiment import Experiment
from support.experiments import Listener, carried_out

TIB = 2**40
MIB = 2**20


def created(folder: Path, workspace_bytes: int, *servers: ServerPlan) -> Path:
    """Create an experiment with levels of one and two clients, without starting it."""
    suite = Suite(
        name="tiny",
        title="Tiny",
        source="a test",
        workload="diskmix",
        clients=[1, 2],
        length_s=0.5,
        sections={"files": FilesSettings(workspace_bytes=workspace_bytes)},
    )
    plan = Plan(name="tiny", title="Tiny", suite="tiny", repetitions=1, servers=list(servers))
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    return folder


def of(server: str, **settings: Any) -> ServerPlan:
    return ServerPlan(server=server, name=f"own-{server}", settings=settings)


@pytest.mark.parametrize("server", ["samba", "reference-smb"])
def test_workspaces_of_a_tebibyte_are_refused_before_anything_is_started(tmp_path: Path, server: str) -> None:
    folder = created(tmp_path / "e", TIB, of(server))
    listener = Listener()
    with pytest.raises(
        UserError, match=rf"2 clients need 2,097,152 MiB, but own-{server} has [\d,]+ MiB"
    ) as raised:
        carried_out(folder, listener)
    assert raised.value.hint is not None and "fewer clients" in raised.value.hint
    assert listener.stages == ["recording the properties of this machine"]
    opened = Experiment.open(folder)
    assert (opened.levels(), opened.run_notes()) == ([], {})


def test_every_server_without_the_room_is_named(tmp_path: Path) -> None:
    servers = [
        of("samba", file_system="ext4", image_mib=64),
        of("reference-smb", capacity_mib=39),
        ServerPlan(server="reference-smb", name="fits", settings={"capacity_mib": 40}),
    ]
    head = Experiment.open(created(tmp_path / "e", 20 * MIB, *servers)).head
    check_room(head.suite, head.levels, [each for each in head.configurations if each.name == "own-samba"])
    with pytest.raises(UserError, match=r"40 MiB, but own-reference-smb has 39 MiB$"):
        check_room(head.suite, head.levels, head.configurations)


def test_the_disk_of_a_node_is_not_looked_for_on_this_machine(tmp_path: Path) -> None:
    head = Experiment.open(created(tmp_path / "e", TIB, of("reference-smb", capacity_mib=39))).head
    check_room(head.suite, head.levels, [replace(each, node="n1") for each in head.configurations])


def test_a_directory_that_is_not_there_is_for_the_start_to_refuse(tmp_path: Path) -> None:
    head = Experiment.open(created(tmp_path / "e", TIB, of("samba", data_directory="/nonexistent"))).head
    check_room(head.suite, head.levels, head.configurations)
