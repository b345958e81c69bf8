"""What a server needs in a guest, by its driver: its program, its directory, its users, and how it is started.

A server is added by one function here and one line in the table. Not for the guest itself: see `machine.py`.
"""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serverdyno.errors import UserError
from serverdyno.powercut.boot_files import Contents
from serverdyno.powercut.machine import FAILED, READY
from serverdyno.servers.local import LocalServer
from serverdyno.servers.samba import CONFIGURATION, Samba

ADDRESS = "10.0.2.15"  # what qemu's own network gives to the first guest
SAMBA_MODULES = Path("/usr/lib/x86_64-linux-gnu/samba")
LOADED_BY_SAMBA = ("auth", "pdb", "service")
ROOT = "root:x:0:0::/:/bin/sh"


@dataclass(frozen=True, slots=True)
class InGuest:
    """A server as a guest gets it. `data`: where the disk is mounted; `shares`: directories on it, of the `owner`.

    `changed`: in what its configuration differs from that on the host, for the record.
    """

    contents: Contents
    command: list[str]
    data: Path
    shares: list[str]
    owner: tuple[int, int]
    file_system: str
    mount_options: str
    changed: list[str]

    @property
    def disk_file_system(self) -> str:
        """That of its disk: as configured, or ext4 where that is left to the host."""
        return "ext4" if self.file_system == "none" else self.file_system


def without_surroundings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of the same server where the guest is its surroundings: its own disk, network, limits and time."""
    ours = ("network", "data_directory", "fsync_delay_ms", "file_system", "mount_options", "image_mib")
    kept = {
        name: value for name, value in settings.items() if name not in ours and not name.startswith("vm_")
    }
    return {**kept, "network": "loopback"}


def _samba(server: LocalServer[Any], settings: dict[str, Any]) -> InGuest:
    """After `prepare`. smbd binds the guest's address in place of loopback."""
    assert isinstance(server, Samba)
    account = pwd.getpwnam(server.user)
    group = grp.getgrgid(account.pw_gid)
    path = server.directory / CONFIGURATION
    text = path.read_text()
    here, there = "interfaces = 127.0.0.1/8", f"interfaces = {ADDRESS}/24"
    assert here in text
    path.write_text(text.replace(here, there, 1))
    modules = [module for name in LOADED_BY_SAMBA for module in sorted((SAMBA_MODULES / name).glob("*.so"))]
    contents = Contents(
        programs=[server.program, *modules],
        texts={
            "etc/passwd": f"{ROOT}\nnobody:x:65534:65534::/:/bin/false\n"
            f"{account.pw_name}:x:{account.pw_uid}:{account.pw_gid}::/:/bin/false\n",
            "etc/group": f"root:x:0:\nnogroup:x:65534:\n{group.gr_name}:x:{group.gr_gid}:\n",
            "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
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
        [f"{there} (in place of {here.partition(' = ')[2]})"],
    )


GUESTS: dict[str, Callable[[LocalServer[Any], dict[str, Any]], InGuest]] = {Samba.name: _samba}


def in_guest(name: str) -> Callable[[LocalServer[Any], dict[str, Any]], InGuest]:
    """How the driver `name` comes into a guest. Raises UserError."""
    if name not in GUESTS:
        raise UserError(
            f"server {name!r} can't be put into a guest",
            hint=f"Servers that can: {', '.join(sorted(GUESTS))}.",
        )
    return GUESTS[name]


def init_script(guest: InGuest) -> str:
    """What the guest does from its start: modules, network, disk, shares, server."""
    uid, gid = guest.owner
    options = ",".join(filter(None, ("rw", guest.mount_options)))
    shares = "\n".join(
        f'mkdir -p "{guest.data}/{name}" && chown {uid}:{gid} "{guest.data}/{name}"' for name in guest.shares
    )
    command = " ".join(f"'{part}'" for part in guest.command)
    return f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/sbin:/usr/bin LC_ALL=C.UTF-8
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mkdir -p /dev/shm; mount -t tmpfs none /dev/shm; chmod 1777 /tmp
exec >/dev/ttyS0 2>&1
for module in /modules/*.ko; do insmod "$module"; done
ip link set lo up; ip link set eth0 up; ip addr add {ADDRESS}/24 dev eth0
mkdir -p "{guest.data}"
mount -t {guest.disk_file_system} -o {options} /dev/vda "{guest.data}" || echo "{FAILED}the disk can't be mounted"
{shares}
sync
{command} </dev/null &
server=$!
echo "{READY}"
wait $server
echo "{FAILED}the server ended"
while :; do sleep 60; done
"""
