"""Object servers under their drivers: they store and list objects, sync as promised, and leave nothing behind.

A server that is not installed is skipped: `make servers-objects` installs all.
"""

from __future__ import annotations

import stat
import time
import tomllib
from http import HTTPStatus
from pathlib import Path
from typing import Any

import psutil
import pytest

from serverdyno.errors import ServerError, UserError
from serverdyno.probes.durability import FsyncCounter
from serverdyno.servers.garage import CONFIGURATION, Garage
from serverdyno.servers.object_server import BUCKET
from serverdyno.servers.registry import create
from serverdyno.servers.running import started
from serverdyno.servers.seaweedfs import IDENTITIES
from support.file_server import PATIENCE_S, needs_root
from support.object_servers import running

CONFIGURATIONS: list[tuple[str, dict[str, Any]]] = [
    ("seaweedfs", {}),
    ("seaweedfs", {"fsync": True, "copies": 2}),
    ("rclone", {}),
    ("rclone", {"vfs_cache_mode": "writes"}),
    ("minio", {}),
    ("garage", {"access_log": True}),
    ("garage", {"db_engine": "sqlite", "data_fsync": True, "metadata_fsync": True, "compression_level": 0}),
    ("versitygw", {"access_log": True}),
    ("versitygw", {"metadata": "sidecar", "disable_otmp": True, "keep_alive": False}),
]
PUTS = 20


def named(case: tuple[str, dict[str, Any]]) -> str:
    return " ".join([case[0], *(f"{key}={value}" for key, value in case[1].items())])


@pytest.mark.parametrize("case", CONFIGURATIONS, ids=named)
def test_a_server_stores_objects_for_its_own_key_and_leaves_nothing(case: tuple[str, dict[str, Any]]) -> None:
    name, settings = case
    with running(name, settings) as server:
        processes = [psutil.Process(pid) for pid in server.pids()]
        assert len(processes) == server.process_count()
        key_id, secret, _ = server.key
        assert server.access().access_key == (key_id, secret, None)
        assert server.url == f"s3://127.0.0.1:{server.port}/{BUCKET}"
        with server.client(server.key) as client, server.client((key_id, "wrong", None)) as other:
            for number in range(PUTS):
                assert client.ask("PUT", f"/{BUCKET}/a/{number}", b"%d" % number)[0] == HTTPStatus.OK
            assert client.ask("GET", f"/{BUCKET}/a/7") == (HTTPStatus.OK, b"7")
            assert client.ask("GET", f"/{BUCKET}/a/none")[0] == HTTPStatus.NOT_FOUND
            assert client.ask("GET", f"/{BUCKET}/serverdyno-proof")[0] == HTTPStatus.NOT_FOUND
            assert other.ask("GET", f"/{BUCKET}/a/7")[0] == HTTPStatus.FORBIDDEN
        described = server.describe()
        assert secret not in repr(described)
        commands = [" ".join(process.cmdline()) for process in processes]
        assert not [command for command in commands if secret in command]
        assert described.version.lower().startswith(name)
        [directory] = server.data_directories()
        assert directory.is_dir()
        if settings.get("access_log"):
            assert (server.requests_served() or 0) > PUTS
    assert psutil.wait_procs(processes, timeout=PATIENCE_S)[1] == []
    assert not server.directory.exists()


@needs_root
@pytest.mark.parametrize(
    ("name", "settings", "syncs"),
    [
        ("seaweedfs", {}, 0),
        ("seaweedfs", {"fsync": True}, PUTS),
        ("rclone", {}, 0),
        ("versitygw", {}, 0),
        ("minio", {}, PUTS),
        ("garage", {}, 0),
        ("garage", {"data_fsync": True}, 2 * PUTS),  # block and directory
        ("garage", {"db_engine": "sqlite", "metadata_fsync": True}, 0),
    ],
)
def test_a_server_syncs_each_put_only_if_it_is_told_to(
    name: str, settings: dict[str, Any], syncs: int
) -> None:
    with running(name, settings) as server, FsyncCounter(server.pids()) as counter:
        if counter.reason is not None:
            pytest.skip(counter.reason)
        with server.client(server.key) as client:
            for number in range(PUTS):
                content = b"%d" % number + bytes(65_536)  # Garage stores equal blocks once
                assert client.ask("PUT", f"/{BUCKET}/{number}", content)[0] == HTTPStatus.OK
        counted = sum((counter.counts() or {}).values())
    # A server may sync its own files now and then.
    assert syncs <= counted < syncs + PUTS


def test_the_access_key_of_seaweedfs_is_in_a_private_file() -> None:
    with running("seaweedfs", {}) as server:
        path = server.directory / IDENTITIES
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert server.key[1] in path.read_text()


def test_garage_is_configured_as_its_settings_say(tmp_path: Path) -> None:
    program = tmp_path / "garage"
    program.write_text("#!/bin/sh\necho 'garage cargo:2.5.0 [features: lmdb, sqlite]'\n")
    program.chmod(0o755)
    settings = {"data_fsync": True, "db_engine": "sqlite", "block_size": 65_536, "compression_level": 0}
    server = create("garage", {"program": str(program), **settings}, documents=tmp_path)
    assert isinstance(server, Garage)
    try:
        server.prepare()
        text = (server.directory / CONFIGURATION).read_text()
        described = server.describe()
        secrets = [server.key[1], server.environment()["GARAGE_RPC_SECRET"]]
    finally:
        server.stop()
    written = tomllib.loads(text)
    rpc, s3 = written["rpc_bind_addr"], written["s3_api"]["api_bind_addr"]
    assert s3 == f"127.0.0.1:{server.port}" != rpc and rpc.startswith("127.0.0.1:")
    for directory in (written["metadata_dir"], written["data_dir"]):
        assert Path(directory).parent == server.data
    assert {name: written[name] for name in ("data_fsync", "metadata_fsync", "db_engine", "block_size")} == {
        "data_fsync": True,
        "metadata_fsync": False,
        "db_engine": "sqlite",
        "block_size": 65_536,
    }
    assert (written["compression_level"], written["replication_factor"]) == ("none", 1)
    assert described.version == "Garage 2.5.0"
    assert not [secret for secret in secrets if secret in repr(described)]


def test_a_server_that_is_killed_keeps_what_it_has_and_answers_again() -> None:
    with running("versitygw", {}) as server:
        server.put("k", b"content")
        server.cut_off("server", 0.1)
        deadline = time.monotonic() + PATIENCE_S
        while server.was_cut_off_ns() is None or not server.answers_as_ours():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert server.asked("GET", f"/{BUCKET}/k") == b"content"


def test_what_can_not_be_is_refused_before_anything_starts(tmp_path: Path) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"volumes": 2}, "volumes"),
        ({"network": "namespace"}, "network"),
        ({"copies": 0}, "copies"),
        ({"mount_options": "sync"}, "file_system"),
    ]
    for settings, message in refused:
        with pytest.raises(UserError, match=message):
            create("seaweedfs", settings, documents=tmp_path)
    broken = tmp_path / "weed"
    broken.write_text("#!/bin/sh\necho the disk is on fire >&2\nexit 1\n")
    broken.chmod(0o755)
    server = create("seaweedfs", {"program": str(broken)}, documents=tmp_path)
    with pytest.raises(ServerError, match="the disk is on fire"), started(server):
        pass
