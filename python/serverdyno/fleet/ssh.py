"""Start a fleet's nodes over SSH, with the user's ssh program, keys and configuration, and remove their certificates.

A node's certificate is sent over SSH to a directory of the node. The node keeps running when the connection ends, and
joins the scheduler on this machine (`up.py`).
"""

from __future__ import annotations

import io
import shlex
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from serverdyno.errors import DynoError, PlanError, UserError
from serverdyno.fleet.folder import FLEET, HOSTS, MOST_DAYS, FleetFolder, create
from serverdyno.fleet.private_file import write_private
from serverdyno.plan.document import check_model, described, parse_toml, read_text
from serverdyno.plan.model import Name
from serverdyno.plan.protocols.model import Model, Spelled

AT_ONCE = 16
STEP_S = 60.0
CONNECT_S = 10
OPTIONS = ("-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}")
EXAMPLE = 'For example: at = "10.0.0.1"; [[hosts]] name = "a", ssh = "me@a.example"'

Destination = Annotated[str, Spelled(r"[^-\s][^\s]*", "an ssh destination such as me@a.example")]


class SshHost(Model):
    """A machine on which a node is started."""

    name: Name = Field(description="The node's name.")
    ssh: Destination = Field(description="Destination for `ssh`: me@a.example, or a Host of ~/.ssh/config.")
    dyno: list[str] = Field(
        default=["dyno"],
        min_length=1,
        description="Command that runs `dyno` on this host, as a list of words.",
    )


class SshHosts(Model):
    """The file HOSTS.toml of `dyno fleet up HOSTS.toml`."""

    at: str = Field(description="HOST or HOST:PORT at which every node can reach this machine.")
    days: float = Field(default=90, gt=0, le=MOST_DAYS, description="Validity of the certificates, in days.")
    directory: str = Field(
        default=".cache/serverdyno/fleet",
        min_length=1,
        description="Directory for the node's certificate on each host, relative to the user's home.",
    )
    ssh_options: list[str] = Field(
        default=[], description="Additional options for ssh, as a list of words: -p, 2222."
    )
    hosts: list[SshHost] = Field(min_length=1, description="The machines.")

    @model_validator(mode="after")
    def _have_names_of_their_own(self) -> Self:
        if len({host.name for host in self.hosts}) < len(self.hosts):
            raise ValueError("two hosts have the same name")
        return self


def read_hosts(path: Path) -> SshHosts:
    """Read a file of hosts. Raises PlanError with all its problems."""
    text = read_text(path)
    hosts, problems = check_model(SshHosts, parse_toml(text, str(path)))
    if hosts is None:
        raise PlanError(str(path), described(problems, text))
    return hosts


def folder_of(path: Path, hosts: SshHosts) -> FleetFolder:
    """Return the folder of the fleet, `lab` for `lab.toml`. It is created at first use.

    Raises UserError if the existing folder has other nodes.
    """
    folder = path.with_suffix("")
    names = [host.name for host in hosts.hosts]
    if not (folder / FLEET).exists():
        made = create(folder, hosts.at, names, hosts.days)
    else:
        made = FleetFolder.open(folder)
        if list(made.nodes) != names:
            raise UserError(
                f"{folder} is a fleet of {', '.join(made.nodes)}, but {path} names {', '.join(names)}",
                hint=f"End that fleet with dyno fleet down {folder}, then remove {folder}.",
            )
    write_private(folder / HOSTS, path.read_bytes())
    return made


def start_nodes(folder: FleetFolder, hosts: SshHosts) -> None:
    """Start a node on every host, without waiting for it to join. Raises DynoError that names the failed hosts."""

    def start(host: SshHost) -> None:
        there = _directory(folder, hosts, host)
        place = shlex.quote(there)
        command = shlex.join([*host.dyno, "node", there])
        _run(
            hosts,
            host,
            f"umask 077 && mkdir -p {place} && tar -x -C {place}",
            _packed(folder.node(host.name)),
        )
        # With setsid, the node leaves the SSH session, so it keeps running when the connection ends.
        _run(hosts, host, f"setsid {command} >{place}/node.log 2>&1 </dev/null & echo started")

    _each(hosts, start, "can't be started")


def words_of(folder: FleetFolder, hosts: SshHosts, name: str) -> str:
    """Return the last line of a node's log on its host. Raises DynoError."""
    host = next(host for host in hosts.hosts if host.name == name)
    place = shlex.quote(_directory(folder, hosts, host))
    return _run(hosts, host, f"tail -n 1 {place}/node.log").strip() or "nothing"


def remove_certificates(folder: FleetFolder, hosts: SshHosts) -> None:
    """Remove the nodes' folders from the hosts. Raises DynoError that names the hosts where it failed."""

    def remove(host: SshHost) -> None:
        _run(hosts, host, f"rm -rf {shlex.quote(_directory(folder, hosts, host))}")

    _each(hosts, remove, "still has the node's certificate")


def _directory(folder: FleetFolder, hosts: SshHosts, host: SshHost) -> str:
    return f"{hosts.directory.rstrip('/')}/{folder.name}/{host.name}"


def _packed(folder: Path) -> bytes:
    """Return a node's folder as a tar archive."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path in sorted(folder.iterdir()):
            archive.add(path, path.name)
    return data.getvalue()


def _each(hosts: SshHosts, do: Callable[[SshHost], None], failed: str) -> None:
    def tried(host: SshHost) -> str | None:
        try:
            do(host)
        except DynoError as error:
            return f"{host.name} {failed}: {error}"
        return None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        problems = [problem for problem in pool.map(tried, hosts.hosts) if problem is not None]
    if problems:
        raise DynoError("\n".join(problems), hint="Check that `ssh DESTINATION true` works without a prompt.")


def _run(hosts: SshHosts, host: SshHost, command: str, data: bytes = b"") -> str:
    """Run a command line in the shell of a host. Raises DynoError with its output."""
    words: Sequence[str] = ("ssh", *OPTIONS, *hosts.ssh_options, "--", host.ssh, command)
    try:
        done = subprocess.run(words, input=data, capture_output=True, timeout=STEP_S, check=False)
    except FileNotFoundError as error:
        raise DynoError("ssh is not installed", hint="apt-get install openssh-client") from error
    except subprocess.TimeoutExpired as error:
        raise DynoError(f"ssh {host.ssh} did not finish within {STEP_S:g} s") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip() or f"status {done.returncode}"
        raise DynoError(f"ssh {host.ssh}: {said}")
    return done.stdout.decode(errors="replace")
