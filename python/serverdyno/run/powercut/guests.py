"""The requirements of each driver's server in a guest: its program, directory, users, and start command.

A new server needs one function and one line in the table. The guest itself is in `machine.py`.
"""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serverdyno.errors import UserError
from serverdyno.run.powercut.boot_files import Contents
from serverdyno.run.powercut.machine import FAILED, READY
from serverdyno.run.powercut.objects import SYNC_PORT
from serverdyno.servers.base import Access
from serverdyno.servers.ganesha import MOUNT_PORT, NFS_PORT, Ganesha
from serverdyno.servers.garage import Garage
from serverdyno.servers.local import LocalServer, find_program
from serverdyno.servers.minio import Minio
from serverdyno.servers.object_server import ObjectServer
from serverdyno.servers.proof import LOOPBACK, free_port
from serverdyno.servers.rclone import Rclone
from serverdyno.servers.samba import CONFIGURATION, Samba
from serverdyno.servers.seaweedfs import Seaweedfs
from serverdyno.servers.versitygw import Versitygw
from serverdyno.servers.volume_server import READY_VOLUMES

ADDRESS = "10.0.2.15"  # address of the first guest in qemu's network
SAMBA_MODULES = Path("/usr/lib/x86_64-linux-gnu/samba")
GANESHA_MODULES = Path("/usr/lib/x86_64-linux-gnu/ganesha")
IDMAP_MODULES = Path("/usr/lib/x86_64-linux-gnu/libnfsidmap")
RPCBIND_USERS = ("_rpc", "rpc")
LOADED_BY_SAMBA = ("auth", "pdb", "service")
ROOT = "root:x:0:0::/:/bin/sh"


@dataclass(frozen=True, slots=True)
class InGuest:
    """A server for a guest. `data`: mount point of the disk. `shares`: directories on it, which belong to `owner`.

    `access`: the access through `ports`, which map ports of 127.0.0.1 to ports of the guest. `changed`: differences
    from the configuration on the host, for the record.
    """

    contents: Contents
    command: list[str]
    data: Path
    shares: list[str]
    owner: tuple[int, int]
    file_system: str
    mount_options: str
    access: Access
    ports: dict[int, int]
    changed: list[str]
    syncs_on: int | None = None
    """Port of the guest on which a connection syncs its disk, for a server whose clients can't ask for a sync."""

    @property
    def disk_file_system(self) -> str:
        """Return the disk's file system: as configured, or ext4 if the configuration names none."""
        return "ext4" if self.file_system == "none" else self.file_system


def without_surroundings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without the ones that the guest replaces: network, directory, disk and kernel settings."""
    ours = ("network", "data_directory", "fsync_delay_ms", "file_system", "mount_options", "image_mib")
    return {
        name: value for name, value in settings.items() if name not in ours and not name.startswith("vm_")
    }


def _samba(server: LocalServer[Any], settings: dict[str, Any]) -> InGuest:
    """Return Samba for a guest, after `prepare`. smbd binds the guest's address instead of loopback."""
    assert isinstance(server, Samba)
    account = pwd.getpwnam(server.user)
    path = server.directory / CONFIGURATION
    text = path.read_text()
    here, there = "interfaces = 127.0.0.1/8", f"interfaces = {ADDRESS}/24"
    assert here in text
    path.write_text(text.replace(here, there, 1))
    modules = [module for name in LOADED_BY_SAMBA for module in sorted((SAMBA_MODULES / name).glob("*.so"))]
    contents = Contents(
        programs=[server.program, *modules],
        texts={
            **_accounts(account.pw_name),
            "etc/hosts": f"127.0.0.1 localhost\n{ADDRESS} guest\n",
        },
        trees=[server.directory],
        modules=("xfs",) if settings.get("file_system") == "xfs" else (),
        directories=["var/lib/samba", "var/cache/samba", "var/log/samba", "run/samba", "dev/shm"],
    )
    return InGuest(
        contents,
        server.command(),
        server.volumes.top,
        list(server.volumes.names),
        (account.pw_uid, account.pw_gid),
        settings.get("file_system", "none"),
        settings.get("mount_options", ""),
        server.access(),
        {server.port: server.port},
        [f"{there} (in place of {here.partition(' = ')[2]})"],
    )


def _ganesha(server: LocalServer[Any], settings: dict[str, Any]) -> InGuest:
    """Return Ganesha for a guest, after `prepare`. Its ports are the usual ones in the guest, and free ones here."""
    assert isinstance(server, Ganesha)
    if server.settings.skip_syncs:
        raise UserError(
            "skip_syncs is not supported in a guest", hint="Remove skip_syncs from Ganesha's settings."
        )
    account = pwd.getpwnam(server.user)
    rpcbind = find_program("rpcbind")
    assert rpcbind is not None  # checked by `prepare`
    rpc_files = {
        name: Path("/", name) for name in ("etc/netconfig", "etc/protocols", "etc/services", "etc/rpc")
    }
    contents = Contents(
        programs=[
            server.program,
            rpcbind,
            *sorted(GANESHA_MODULES.glob("*.so")),
            *sorted(IDMAP_MODULES.glob("*.so")),
        ],
        texts={
            **_accounts(account.pw_name, *RPCBIND_USERS),
            **{name: path.read_text() for name, path in rpc_files.items() if path.exists()},
            "etc/hosts": f"127.0.0.1 localhost\n{ADDRESS} guest\n",
            "etc/idmapd.conf": "[General]\nDomain = guest\n",
            f"{server.directory / READY_VOLUMES}": "",
        },
        trees=[server.directory],
        modules=("xfs",) if settings.get("file_system") == "xfs" else (),
        directories=["run/rpcbind", "var/lib/nfs/ganesha", "var/run/ganesha"],
    )
    here = {free_port(): NFS_PORT, free_port(): MOUNT_PORT}
    port, mount_port = here
    return InGuest(
        contents,
        server.command(),
        server.volumes.top,
        list(server.volumes.names),
        (account.pw_uid, account.pw_gid),
        settings.get("file_system", "none"),
        settings.get("mount_options", ""),
        Access(f"nfs://{LOOPBACK}:{port}/?mountport={mount_port}", None, None, server.exports),
        here,
        [],
    )


def _objects(server: LocalServer[Any], settings: dict[str, Any]) -> InGuest:
    """Return an object server for a guest, after `prepare`. It binds the guest's address instead of loopback."""
    assert isinstance(server, ObjectServer)
    for name, text in server.configuration().items():
        (server.directory / name).write_text(text.replace(LOOPBACK, ADDRESS))
    contents = Contents(
        programs=[server.program],
        texts={
            **_accounts(),
            "etc/hosts": f"127.0.0.1 localhost\n{ADDRESS} guest\n",
            f"{server.directory / READY_VOLUMES}": "",
        },
        trees=[server.directory],
        modules=("xfs",) if settings.get("file_system") == "xfs" else (),
    )
    variables = [f"{name}={value}" for name, value in server.environment().items()]
    return InGuest(
        contents,
        ["env", *variables, *server.command()],
        server.volumes.top,
        list(server.volumes.names),
        (0, 0),
        settings.get("file_system", "none"),
        settings.get("mount_options", ""),
        server.access(),
        {**{port: port for port in server.outer_ports()}, free_port(): SYNC_PORT},
        [f"address {ADDRESS} (instead of {LOOPBACK})"],
        SYNC_PORT,
    )


def _accounts(*names: str) -> dict[str, str]:
    """Return the account files of the guest, with the given users that exist on this machine, and their groups."""
    known = {account.pw_name: account for account in pwd.getpwall()}
    users = [known[name] for name in dict.fromkeys((*names, "nobody")) if name in known]
    groups = {user.pw_gid: grp.getgrgid(user.pw_gid).gr_name for user in users}
    return {
        "etc/passwd": "\n".join(
            [ROOT, *(f"{user.pw_name}:x:{user.pw_uid}:{user.pw_gid}::/:/bin/false" for user in users), ""]
        ),
        "etc/group": "\n".join(["root:x:0:", *(f"{name}:x:{gid}:" for gid, name in groups.items()), ""]),
        "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nrpc: files\n",
    }


@dataclass(frozen=True, slots=True)
class Way:
    """How to put a driver's server into a guest. `settings`: set before `prepare`; `put`: called after it."""

    put: Callable[[LocalServer[Any], dict[str, Any]], InGuest]
    settings: dict[str, Any] = field(default_factory=dict)


WAYS: dict[str, Way] = {
    Samba.name: Way(_samba, {"network": "loopback"}),
    Ganesha.name: Way(_ganesha),
    **{
        driver.name: Way(_objects, {"network": "loopback"})
        for driver in (Seaweedfs, Rclone, Versitygw, Minio, Garage)
    },
}


def way_of(name: str) -> Way:
    """Return how to put the server of the driver `name` into a guest. Raises UserError."""
    if name not in WAYS:
        raise UserError(
            f"server {name!r} can't run in a virtual machine",
            hint=f"Supported servers: {', '.join(sorted(WAYS))}.",
        )
    return WAYS[name]


def init_script(guest: InGuest) -> str:
    """Return the guest's init script: modules, network, disk, shares, server."""
    uid, gid = guest.owner
    options = ",".join(filter(None, ("rw", guest.mount_options)))
    shares = "\n".join(
        f'mkdir -p "{guest.data}/{name}" && chown {uid}:{gid} "{guest.data}/{name}"' for name in guest.shares
    )
    command = " ".join(f"'{part}'" for part in guest.command)
    syncing = "" if guest.syncs_on is None else f"nc -ll -p {guest.syncs_on} -e sync &"
    return f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/sbin:/usr/bin LC_ALL=C.UTF-8
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mkdir -p /dev/shm; mount -t tmpfs none /dev/shm; chmod 1777 /tmp
exec >/dev/ttyS0 2>&1
for module in /modules/*.ko; do insmod "$module"; done
ln -s /proc/self/mounts /etc/mtab; hostname guest
ip link set lo up; ip link set eth0 up; ip addr add {ADDRESS}/24 dev eth0
mkdir -p "{guest.data}"
mount -t {guest.disk_file_system} -o {options} /dev/vda "{guest.data}" || echo "{FAILED}the disk can't be mounted"
{shares}
sync
{syncing}
{command} </dev/null &
server=$!
echo "{READY}"
wait $server
echo "{FAILED}the server ended"
while :; do sleep 60; done
"""
