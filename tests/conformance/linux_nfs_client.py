"""Test the reference NFS server with Linux's client: `python tests/conformance/linux_nfs_client.py [--version 4.1]`.

A guest (qemu, Debian's cloud kernel) mounts the server by NFSv3 or NFSv4.1, runs coreutils, tar and find on it, and
compares the results: `linux_nfs_client.sh`. In the middle of a large write, the server restarts and loses unstable
data. libnfs's nfs-cat then reads the files that the guest wrote. The exit status is 1 if a check fails. Needs the
packages of `dyno powercut` and libnfs-utils.
"""

from __future__ import annotations

import argparse
import ctypes.util
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from serverdyno import _native
from serverdyno.errors import ServerError, UserError
from serverdyno.run.powercut.boot_files import Contents, kernel, missing_programs, write_initramfs
from serverdyno.run.powercut.machine import DIES_WITH_US, KERNEL_OPTIONS, MEMORY_MIB
from serverdyno.servers.local import find_program
from serverdyno.servers.reference_model import NfsProcess

TIMEOUT_S = 600.0
POLL_S = 0.1
PATIENCE_S = 20.0
OUTAGE_S = 2.0
FILE_BYTES = 24 << 20
FILES = 2_000
PROGRAMS = (
    "dash ls cp mv rm ln stat dd sha256sum find tar sort truncate mkfifo mkdir rmdir touch chmod chown df diff cat wc "
    "cut readlink grep"
)
CHECK, CHANGE, RESTART, DONE = "check: ", "dyno: change", "dyno: restart", "dyno: done"
SHARED, BEFORE, AFTER = "shared", b"before\n", b"after\n"
MODULES = {"3": "nfsv3", "4.1": "nfsv4"}
GUEST = "10.0.2.15"
SERVER = "10.0.2.2"  # in qemu's own network, the host's loopback has this address

CHECKS = Path(__file__).with_suffix(".sh").read_text(encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", choices=MODULES, default="3", help="version of NFS (default: 3)")
    version: str = parser.parse_args().version
    if missing := [*missing_programs(), *([] if find_program("nfs-cat") else ["libnfs-utils"])]:
        raise UserError(f"not installed: {', '.join(missing)}")
    content = os.urandom(FILE_BYTES)
    server = NfsProcess().start({"from-host": content, SHARED: BEFORE})
    try:
        with tempfile.TemporaryDirectory(prefix="serverdyno-guest-") as place:
            failed = carried_out(server, content, version, Path(place))
        for name, expected in (("copy", content), ("large", content * 6)):
            read = read_by_libnfs(server.port, name)
            failed |= report(f"libnfs reads the same from {name}", read == expected)
        counts = {name: count for name, count in server.requests().items() if count}
        print("requests:", counts)
        print(f"restarts: {server.restarts}, replies given again: {server.replies_given_again}")
    finally:
        server.stop()
    sys.exit(1 if failed else 0)


def report(name: str, good: bool) -> bool:
    """Print the result of a check. Return whether it failed."""
    print("ok    " if good else "FAILED", name)
    return not good


def carried_out(server: _native.ReferenceNfsServer, content: bytes, version: str, place: Path) -> bool:
    """Boot the guest and wait until it has finished. Return whether a check failed. Raises ServerError."""
    found = kernel()
    programs = [path for name in PROGRAMS.split() if (path := find_program(name)) is not None]
    contents = Contents(
        programs=[path.resolve() for path in programs],
        texts={"checks.sh": CHECKS},
        modules=(MODULES[version], "virtio_net"),
    )
    links = "\n".join(f"ln -sf {path.resolve()} /bin/{path.name}" for path in programs)
    initramfs, console = place / "initramfs", place / "console"
    write_initramfs(
        initramfs, contents, found, init_script(mount_command(server.port, version), content, links)
    )
    command = [
        *(*DIES_WITH_US, "qemu-system-x86_64"),
        *("-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", f"{MEMORY_MIB}"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-monitor", "none"),
        *("-serial", f"file:{console}", "-kernel", str(found.image), "-initrd", str(initramfs)),
        *("-append", KERNEL_OPTIONS, "-netdev", "user,id=net"),
        *("-device", "virtio-net-pci,netdev=net,romfile="),
    ]
    machine = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        return followed(server, machine, console)
    finally:
        machine.kill()
        machine.wait()


def followed(server: _native.ReferenceNfsServer, machine: subprocess.Popen[bytes], console: Path) -> bool:
    """Read the console until the guest is done; change a file and restart the server when the guest requests it."""
    deadline = time.monotonic() + TIMEOUT_S
    said, changed = "", False
    while DONE not in said:
        if machine.poll() is not None or time.monotonic() > deadline:
            raise ServerError(f"the guest did not come to its end:\n{said[-3000:]}")
        time.sleep(POLL_S)
        said = console.read_text(errors="replace") if console.exists() else ""
        if CHANGE in said and not changed:
            before = server.requests()
            overwrite_by_libnfs(server.port, SHARED, AFTER)
            changed = True
            given_back = server.requests().get("DELEGRETURN", 0) - before.get("DELEGRETURN", 0)
            print(f"another client has changed a file; delegations given back for it: {given_back}")
        if RESTART in said and server.restarts == 0:
            written = server.requests()["WRITE"]
            while server.requests()["WRITE"] < written + 10 and time.monotonic() < deadline:
                time.sleep(POLL_S)
            lost = server.restart(outage_s=OUTAGE_S)
            print(f"the server has started anew; files with lost writes: {lost}")
    checks = re.findall(rf"{CHECK}(ok|FAILED) (.*?)\r?\n", said)
    failed = [report(name, word == "ok") for word, name in checks]
    if any(failed) or len(checks) != CHECKS.count("\ncheck "):
        print(said)
        return True
    return False


def mount_command(port: int, version: str) -> str:
    """Return the command with which the guest mounts the server."""
    options = f"vers={version},proto=tcp,addr={SERVER},port={port},hard"
    if version == "3":
        return f"mount -t nfs -o {options},mountproto=tcp,mountport={port},nolock {SERVER}:/volume1 /mnt"
    # As in mount.nfs: for nfs4, the options go to the kernel unchanged.
    return f"mount -t nfs4 -o {options},sec=sys,clientaddr={GUEST} {SERVER}:/volume1 /mnt"


def init_script(mount: str, content: bytes, links: str) -> str:
    return f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
{links}
export PATH=/bin:/sbin:/usr/sbin:/usr/bin LC_ALL=C TZ=UTC
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
exec >/dev/ttyS0 2>&1
for module in /modules/*.ko; do insmod "$module"; done
ip link set lo up; ip link set eth0 up; ip addr add {GUEST}/24 dev eth0
mkdir -p /mnt
export FILES={FILES} SUM={hashlib.sha256(content).hexdigest()} LARGE={hashlib.sha256(content * 6).hexdigest()}
# Not busybox's own shell: it takes its own commands before those of coreutils.
{mount} && dash /checks.sh
echo "{DONE}"
while :; do sleep 60; done
"""


def overwrite_by_libnfs(port: int, name: str, data: bytes) -> None:
    """Replace a file's content over NFSv3 by libnfs's library, because nfs-cp overwrites nothing.

    Raises ServerError.
    """
    library = ctypes.util.find_library("nfs")
    if library is None:
        raise UserError("not installed: libnfs")
    libnfs = ctypes.CDLL(library)
    libnfs.nfs_init_context.restype = libnfs.nfs_parse_url_dir.restype = ctypes.c_void_p
    libnfs.nfs_write.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p]
    context, file = ctypes.c_void_p(libnfs.nfs_init_context()), ctypes.c_void_p()
    libnfs.nfs_parse_url_dir(context, f"nfs://127.0.0.1/volume1?nfsport={port}&mountport={port}".encode())
    path, deadline = f"/{name}".encode(), time.monotonic() + PATIENCE_S
    mounted = libnfs.nfs_mount(context, b"127.0.0.1", b"/volume1") == 0
    # libnfs itself does not retry while a slow guest has not yet returned a delegation.
    while mounted and libnfs.nfs_truncate(context, path, ctypes.c_uint64(0)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    done = (
        mounted
        and libnfs.nfs_open(context, path, os.O_WRONLY, ctypes.byref(file)) == 0
        and libnfs.nfs_write(context, file, len(data), data) == len(data)
        and libnfs.nfs_close(context, file) == 0
    )
    libnfs.nfs_destroy_context(context)
    if not done:
        raise ServerError(f"libnfs can't write to {name}")


def read_by_libnfs(port: int, name: str) -> bytes:
    """Return the content of a file, read by libnfs as another client."""
    url = f"nfs://127.0.0.1/volume1/{name}?nfsport={port}&mountport={port}"
    return subprocess.run(["nfs-cat", url], capture_output=True, timeout=TIMEOUT_S, check=False).stdout


if __name__ == "__main__":
    main()
