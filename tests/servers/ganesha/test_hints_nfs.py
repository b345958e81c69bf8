"""Ganesha's real errors, each with the hint on its cause: a test per row of `advice.rs`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from benches.levels import files_level, nfs_target

from serverdyno import _native
from serverdyno.servers.ganesha import Ganesha, GaneshaSettings
from serverdyno.servers.running import started
from support.consenting import TOKEN
from support.dyno_process import DYNO, PATIENCE_S, Home, wait_until
from support.file_server import needs_root, skip_unless_installed
from support.nfs_server import inside, mixed, target
from support.users_smbd import opened_to_others

pytestmark = needs_root


class Altered(Ganesha):
    """Ganesha with a changed configuration: each pattern is replaced by its value."""

    changes: tuple[tuple[str, str], ...] = ()

    def _configuration(self) -> str:
        text = super()._configuration()
        for pattern, instead in self.changes:
            text, count = re.subn(pattern, instead, text)
            assert count, pattern
        return text

    def answers_as_ours(self) -> bool:
        """Return True, because this server may refuse our client."""
        return True


@contextmanager
def altered(
    directory: Path, version: str, *changes: tuple[str, str], kind: type[Altered] = Altered
) -> Iterator[Ganesha]:
    skip_unless_installed("ganesha.nfsd", "rpcbind")
    opened_to_others(directory.parent)
    server = kind(GaneshaSettings.model_validate({"nfs_version": version}), directory, Path(os.devnull))
    server.changes = changes
    with started(server):
        yield server


def first_hint(server: Ganesha, more: str = "") -> str:
    """Return the hint for the first error, whether of the check before the load or of a level."""
    place = server.access().url
    to = target(server, url=f"{place}{'&' if '?' in place else '?'}{more}")
    [look] = to.look(0)
    if look["why"] is not None:
        return f"{look['why']}. {look['advice']}"
    errors = mixed(to)["errors"]
    return f"{errors[0]['example']}. {errors[0]['advice']}" if errors else ""


class Elsewhere(Altered):
    """Ganesha on a port other than NFS's."""

    def choose_port(self) -> int:
        return 2649


SQUASH = ("Squash = All_Squash", "Squash = Root_Squash")
READ_ONLY = ("Access_Type = RW", "Access_Type = RO")
LOW_PORTS = ("Access_Type = RW", "Access_Type = RW; PrivilegedPort = true")
KERBEROS = ("SecType = sys", "SecType = krb5")


@pytest.mark.parametrize("version", ["3", "4.1"])
@pytest.mark.parametrize(
    ("changes", "more", "hint"),
    [
        ((SQUASH,), "uid=0&gid=0", "The server maps root to nobody (root_squash)"),
        ((SQUASH,), "uid=4321&gid=4321", "The clients' uid has no write access"),
        ((), "uid=0&gid=0", "If it maps all users to nobody (all_squash), chown the directory on the server"),
        ((), "uid=4321&gid=4321", "(all_squash), the clients' uid has no effect: chown"),
        ((READ_ONLY,), "", "The export is read-only"),
        ((KERBEROS,), "", "Allow sec=sys on the export"),
    ],
    ids=["root", "another user", "root as all", "another user as all", "read-only", "Kerberos"],
)
def test_an_error_has_the_hint_of_its_cause(
    tmp_path: Path, version: str, changes: tuple[tuple[str, str], ...], more: str, hint: str
) -> None:
    with altered(tmp_path / "g", version, *changes) as server:
        [volume] = server.data_directories()
        if "uid=" in more:
            os.chown(volume, 0, 0)
            volume.chmod(0o755)
        assert hint in first_hint(server, more)


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_an_export_for_low_ports_is_used_by_root_and_explained_to_others(
    tmp_path: Path, home: Home, version: str
) -> None:
    with altered(tmp_path / "g", version, LOW_PORTS) as server:
        assert first_hint(server) == ""
        url = f"nfs://127.0.0.1/volume1?vers={version}"
        bonnie = [*DYNO, "bonnie", "-s", "1", "--seeks", "5", "-d", url]
        # Root without this capability, like an ordinary user, can't bind such ports.
        unprivileged = ["setpriv", "--bounding-set", "-net_bind_service", *bonnie]
        refused = home.run(inside(server, *unprivileged))
        assert refused.returncode == 1 and "PrivilegedPort = false" in refused.stderr, refused.stderr
        done = home.run(inside(server, *bonnie))
        assert done.returncode == 0, done.stderr


def test_udp_where_an_export_allows_tcp_alone_is_told(tmp_path: Path) -> None:
    with altered(tmp_path / "g", "3", (r"Enable_UDP = \w+", "Enable_UDP = true")) as server:
        assert "The export may not allow UDP" in first_hint(server, "proto=udp")


def test_the_pseudo_root_and_a_file_are_told_as_such(tmp_path: Path) -> None:
    with altered(tmp_path / "g", "4.1") as server:
        (server.data_directories()[0] / "file").touch()
        errors = mixed(target(server, url="nfs://127.0.0.1/?vers=4.1", shares=[]))["errors"]
        assert "name an export below it" in errors[0]["advice"], errors
        [look] = target(server, url="nfs://127.0.0.1/volume1/file?vers=4.1", shares=[]).look(0)
        assert look["advice"] == "The URL names a file: name its directory."


def test_an_export_for_calls_of_nobody_is_tried_as_linux_does(tmp_path: Path) -> None:
    with altered(tmp_path / "g", "3", ("SecType = sys", "SecType = none")) as server:
        # The export can be mounted, but the server accepts no credential, which only calls show.
        assert "Otherwise, allow sec=sys on the export" in first_hint(server)


def test_an_absent_export_has_the_hint_of_its_version(tmp_path: Path) -> None:
    for version, hint in (("3", "`showmount -e`"), ("4.1", "begin at the server's pseudo root")):
        with altered(tmp_path / version, version) as server:
            [look] = target(server, shares=["/elsewhere"]).look(0)
            assert hint in (look["advice"] or "")


@pytest.mark.parametrize(("version", "more"), [("3", "nfsport=2049&mountport=20048"), ("4.1", "vers=4.1")])
def test_an_export_may_have_any_name(tmp_path: Path, version: str, more: str) -> None:
    with altered(tmp_path / "g", version, ("Pseudo = /volume1", 'Pseudo = "/my ž"')) as server:
        for path in ("my%20%C5%BE", "my ž"):
            to = target(server, url=f"nfs://127.0.0.1/{path}?{more}", shares=[])
            assert mixed(to)["errors"] == []


def replace(volume: Path) -> None:
    """Replace an exported directory by another one, which is created first, so that its inode differs."""
    (instead := volume.with_name("instead")).mkdir()
    instead.chmod(0o1777)
    shutil.rmtree(volume)
    instead.rename(volume)


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_an_export_that_is_replaced_during_a_run_is_told_as_such(tmp_path: Path, version: str) -> None:
    with altered(tmp_path / "g", version) as server:
        [volume] = server.data_directories()
        to = target(server)
        shape = {"clients": 1, "threads": 1, "length_s": 3.0, "timeout_s": 20.0}
        load = files_level(to, {"workload": "diskmix"}, None, **shape).start()
        wait_until(lambda: load.snapshot()["operations"] > 0, "the client has begun")
        replace(volume)
        assert load.wait(PATIENCE_S)
        advice = {error["advice"] for error in load.result()["errors"]}
        assert any("replaced the exported directory" in f"{text}" for text in advice), advice


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_an_export_that_was_replaced_before_the_run_is_told_as_such(tmp_path: Path, version: str) -> None:
    with altered(tmp_path / "g", version) as server:
        replace(server.data_directories()[0])
        [look] = target(server).look(1)
        assert "STALE" in (look["why"] or "") and "reload or restart it" in (look["advice"] or "")


def test_a_consent_that_the_user_may_not_read_is_told_with_its_file(tmp_path: Path) -> None:
    with altered(tmp_path / "g", "3", SQUASH) as server:
        file = server.data_directories()[0] / f"serverdyno-{TOKEN}.txt"
        file.touch(mode=0o600)
        with pytest.raises(_native.SessionError) as caught:
            target(server, consent_token=TOKEN)
    why, advice = caught.value.args
    assert f"the file {file.name} in the root of the export /volume1: " in why and "(chmod a+r)" in advice


def test_an_export_for_other_clients_has_the_hint_of_its_list(tmp_path: Path) -> None:
    others = "CLIENT { Clients = 10.9.9.9; Access_Type = RW; } Access_Type = NONE"
    with altered(tmp_path / "g", "3", ("Access_Type = RW", others)) as server:
        assert "The export denies this client" in first_hint(server)


MDONLY = ("Access_Type = RW", "Access_Type = MDONLY")


def test_a_write_to_an_export_of_metadata_alone_is_told(tmp_path: Path) -> None:
    with altered(tmp_path / "g", "3", MDONLY) as server:
        assert "Access_Type = MDONLY: set RW" in first_hint(server)


def test_another_service_at_the_port_is_told(tmp_path: Path) -> None:
    with altered(tmp_path / "g", "3") as server:
        [look] = target(server, url="nfs://127.0.0.1:20048/volume1?vers=4.1", shares=[]).look(0)
        assert "does not speak this version of NFS" in (look["why"] or "")
        assert "another service, such as mountd" in (look["advice"] or "")


def test_an_export_that_names_no_flavor_is_told_as_such(tmp_path: Path) -> None:
    """Ganesha without Kerberos names no flavor for an export that requires it."""
    with altered(tmp_path / "g", "3", KERBEROS, (r"\Z", "\nNFS_KRB5 { Active_krb5 = false; }\n")) as server:
        said = first_hint(server)
        assert "names no security flavor" in said and "Allow sec=sys on the export" in said


RPCBIND_ALONE = """
ip link set lo up; mount -t tmpfs none /run; mkdir /run/rpcbind; rpcbind -w; sleep 1000 & echo; wait"""


def test_a_portmapper_without_nfs_is_told_as_a_service_that_is_not_started() -> None:
    skip_unless_installed("rpcbind", "unshare")
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", RPCBIND_ALONE]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as alone:
        try:
            assert alone.stdout is not None and alone.stdout.readline()
            with pytest.raises(_native.SessionError) as caught:
                nfs_target("nfs://127.0.0.1/export", network_namespace=f"/proc/{alone.pid}/ns/net")
        finally:
            alone.kill()
    assert "no NFS server runs there: the portmapper lists none" in caught.value.args[0]
    assert "systemctl start nfs-server, or nfs-ganesha" in caught.value.args[1]


SILENT = "import socket; s = socket.create_server(('127.0.0.1', 111)); print(flush=True); input()"
"""A portmapper that never answers, as behind a firewall that drops packets."""


def test_a_server_of_nfs4_alone_is_told_with_the_version_to_use(tmp_path: Path) -> None:
    with altered(tmp_path / "g", "4.1", kind=Elsewhere) as server:
        place = f"nfs://127.0.0.1:{server.port}/volume1"

        def refused(url: str) -> None:
            with pytest.raises(_native.SessionError) as caught:
                target(server, url=url, shares=[])
            assert "speaks NFSv4" in caught.value.args[0]
            assert "Measure it with NFSv4.1: ?vers=4.1." in caught.value.args[1]

        refused(place)
        refused(f"nfs://127.0.0.1/volume1?nfsport={server.port}")
        [look] = target(server, url=f"{place}?mountport=20048", shares=[]).look(0)
        assert "?vers=4.1" in (look["advice"] or "")
        pipe = subprocess.PIPE
        with subprocess.Popen(
            inside(server, sys.executable, "-c", SILENT), stdin=pipe, stdout=pipe
        ) as silent:
            assert silent.stdout is not None and silent.stdout.readline()
            refused(place)
            silent.communicate()
        [look] = target(server, url=f"{place}?vers=4.1", shares=[]).look(0)
        assert look["why"] is None
