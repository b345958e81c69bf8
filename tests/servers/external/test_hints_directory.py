"""Errors of a directory of this machine, or on the way to a server, each with the hint on its cause."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from serverdyno.servers.proof import free_port
from support.dyno_process import DYNO, PATIENCE_S, Home, wait_until
from support.file_server import needs_root
from support.reference_servers import start_nfs, start_smb
from support.users_web import nginx

NOBODY = 65534


def bonnie(
    home: Home, place: str | Path, *before: str, size_mib: int = 4, options: Sequence[str] = ()
) -> str:
    """Return the error of Bonnie in a place where it cannot work; `before` is a command that runs it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)  # for the user of `before`
        done = subprocess.run(
            [
                *before,
                *DYNO,
                "bonnie",
                "-s",
                f"{size_mib}",
                "--seeks",
                "10",
                "-d",
                str(place),
                *options,
                "--into",
                f"{folder}/e",
            ],
            env=home.environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr, done.stderr
    return done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of two MiB."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", tmp_path], check=True, timeout=60)
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True, timeout=60)


def test_a_directory_that_is_not_there_or_none_is_told(home: Home, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "hint: Check the path, or create the directory first." in bonnie(home, tmp_path / "absent")
    assert "hint: Give the path of a directory, not of a file." in bonnie(home, tmp_path / "file")


@pytest.mark.parametrize("place", ["/proc", "/sys/kernel"])
def test_a_file_system_of_the_kernel_is_told(home: Home, place: str) -> None:
    said = bonnie(home, place)
    assert "where no files can be created: use a directory on a disk" in said and "is gone" not in said, said


def test_a_limit_of_this_process_is_told(home: Home, tmp_path: Path) -> None:
    said = bonnie(home, tmp_path, "prlimit", "--fsize=1048576")
    assert "raise the limit (ulimit -f)" in said
    assert "the file system refused a call: File too large" in said and "the server" not in said


@pytest.mark.parametrize("protocol", ["smb", "nfs", "file"])
def test_too_few_file_descriptors_are_told_of_every_kind_of_place(
    home: Home, tmp_path: Path, protocol: str
) -> None:
    before = ("prlimit", "--nofile=40:40")
    options = ("-c", "16")
    if protocol == "file":
        said = bonnie(home, tmp_path, *before, options=options)
    else:
        server = start_smb() if protocol == "smb" else start_nfs()
        ports = f"?nfsport={server.port}&mountport={server.port}" if protocol == "nfs" else ""
        host = f"127.0.0.1:{server.port}" if protocol == "smb" else "127.0.0.1"
        try:
            said = bonnie(home, f"{protocol}://{host}/volume1{ports}", *before, options=options)
        finally:
            server.stop()
    assert "ran out of file descriptors" in said and "ulimit -n" in said, said


def test_a_directory_that_is_removed_during_the_load_is_told(home: Home, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with home.started("bonnie", "-s", "64", "--seeks", "10", "-d", place, "--into", tmp_path / "e") as tool:
        wait_until(lambda: bool(list(place.iterdir())), "Bonnie has its file")
        shutil.rmtree(place)
        said = tool.communicate(timeout=PATIENCE_S)[1]
    assert tool.returncode == 1 and "Traceback" not in said, said
    assert "or the directory that contained it, is gone: another program removed it." in said


@pytest.mark.parametrize("command", [("bonnie", "-s", "64"), ("scenario", "metadata")])
def test_an_end_that_was_asked_for_is_told_as_nothing_else(
    home: Home, tmp_path: Path, command: tuple[str, ...]
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with home.started(*command, "-d", place, "--into", tmp_path / "e") as tool:
        wait_until(lambda: any(path.is_file() for path in place.rglob("*")), "a file has been made")
        tool.terminate()
        said = tool.communicate(timeout=PATIENCE_S)[1]
    assert tool.returncode == 128 + signal.SIGTERM, said
    assert "in time" not in said and "error:" not in said and "Traceback" not in said, said
    assert list(place.iterdir()) == []


def test_a_refusal_leaves_no_folder_that_was_made_for_it(home: Home, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    bonnie = ("bonnie", "-s", "1", "-d", tmp_path / "absent", "--into")
    for folder in (tmp_path / "new" / "experiments" / "e", kept / "e"):
        done = home.here(*bonnie, folder)
        assert done.returncode in (1, 2) and "create the directory first" in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == [kept] and list(kept.iterdir()) == []


@needs_root
def test_a_directory_that_may_not_be_written_is_told(home: Home) -> None:
    said = bonnie(home, "/usr", "setpriv", f"--reuid={NOBODY}", "--clear-groups")
    assert "hint: Let the user that runs dyno write to the directory." in said


@needs_root
def test_a_directory_that_may_be_written_but_not_listed_is_told(home: Home) -> None:
    with tempfile.TemporaryDirectory() as folder:  # other users can't enter pytest's own directories
        Path(folder).chmod(0o755)
        (drop_box := Path(folder) / "in").mkdir()
        drop_box.chmod(0o333)
        said = bonnie(home, drop_box, "setpriv", f"--reuid={NOBODY}", "--clear-groups")
    assert "hint: Let the user that runs dyno also list the directory" in said, said


@needs_root
def test_a_full_and_a_read_only_file_system_are_told_apart(home: Home, small_disk: Path) -> None:
    assert "hint: Free some space there, or write less: a smaller -s" in bonnie(home, small_disk)
    options = "remount,size=10m,nr_inodes=1"
    subprocess.run(["mount", "-o", options, small_disk], check=True, timeout=60)
    assert "inodes are used up (df -i)" in bonnie(home, small_disk, size_mib=1)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True, timeout=60)
    assert "hint: The file system is mounted read-only" in bonnie(home, small_disk, size_mib=1)


@needs_root
def test_an_immutable_directory_is_told(home: Home, tmp_path: Path) -> None:
    place = tmp_path / "immutable"
    place.mkdir()
    if subprocess.run(["chattr", "+i", place], check=False, timeout=60).returncode != 0:
        pytest.skip("the file system has no attributes")
    try:
        assert "(lsattr -d shows i or a)" in bonnie(home, place)
        subprocess.run(["chattr", "-i", "+a", place], check=True, timeout=60)
        said = bonnie(home, place)
        [left] = place.iterdir()
        assert (
            f"could not be removed, and remain on file://{place}: {left.name}" in said
            and f"hint: To remove them: rm -r {left}" in said
        )
    finally:
        subprocess.run(["chattr", "-i", "-a", place], check=True, timeout=60)


def test_a_server_that_can_not_be_reached_has_a_hint_by_the_cause(home: Home) -> None:
    port = free_port()
    assert "nothing listens there. The usual port is 445." in bonnie(home, f"smb://127.0.0.1:{port}/a")
    by_nfs = bonnie(home, f"nfs://127.0.0.1:{port}/a?vers=4.1")
    assert "nothing listens there. The usual port is 2049." in by_nfs and "UDP" not in by_nfs
    assert "Check the spelling of the host" in bonnie(home, "smb://no-such-host.invalid/a")
    assert "names no share: write smb://HOST/SHARE" in bonnie(home, f"smb://127.0.0.1:{port}")


@pytest.mark.parametrize("name", ["with space", "100% sure", "Žluť", "a#b?c"])
def test_a_directory_may_have_any_name(home: Home, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    for place in (f"{tmp_path / name}", (tmp_path / name).as_uri()):
        done = home.here("bonnie", "-s", "1", "--seeks", "10", "-d", place)
        assert done.returncode == 0, done.stderr
    assert [*(tmp_path / name).iterdir()] == []


def test_another_kind_of_server_at_the_port_of_nfs_is_told(home: Home, tmp_path: Path) -> None:
    with nginx(tmp_path, "server { listen 127.0.0.1:{port}; }") as port:
        for version in ("3", "4.1"):
            url = f"nfs://127.0.0.1:{port}/a?vers={version}&nfsport={port}&mountport={port}"
            done = home.here("bonnie", "-d", url, "-s", "1")
            assert "the first answer is not an NFS message" in done.stderr, done.stderr
            assert "another kind of server listens" in done.stderr, done.stderr
