"""A guest whose power can be cut: qemu with software emulation (TCG), and a disk with a volatile cache.

nbdkit serves the disk with its filter `cache`: unflushed data are in a file that vanishes with the process, flushed
data in the image. A power cut kills nbdkit and then qemu with SIGKILL; both also die if this process is killed. The
guest can't reach any network; its server is reached at 127.0.0.1. `guests.py` defines the server in the guest.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from serverdyno.errors import ServerError

READY, FAILED = "dyno: ready", "dyno: failed: "
BOOT_TIMEOUT_S = 300.0
"""Time limit for booting, which takes 8 s on a quiet machine."""
POLL_S = 0.05
IMAGE_BYTES = 512 << 20
MEMORY_MIB = 768
LOG_LINES = 15
# no_timer_check: on a busy machine, the emulated timer is late, and the kernel would panic while booting.
# clocksource=hpet: with the TSC, the clock of a guest that booted on a busy machine ran 70 times too fast. Servers then
# refuse signed requests, and the kernel writes its cache back too early.
KERNEL_OPTIONS = "console=ttyS0 quiet panic=-1 mitigations=off tsc=unstable clocksource=hpet no_timer_check"
DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")


@dataclass(frozen=True, slots=True)
class BootFiles:
    kernel: Path
    initramfs: Path
    image: Path


def make_image(at: Path, file_system: str) -> None:
    """Create an empty disk. Raises ServerError."""
    with at.open("xb") as image:
        image.truncate(IMAGE_BYTES)
    force = "-F" if file_system == "ext4" else "-f"
    command = [f"mkfs.{file_system}", "-q", force, str(at)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOOT_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise ServerError(f"{' '.join(command)}: {done.stderr.strip()}")


class Guest:
    """A running guest. `seconds_to_boot`: the wall-clock time until its server was ready."""

    def __init__(
        self, disk: subprocess.Popen[bytes], machine: subprocess.Popen[bytes], console: Path
    ) -> None:
        self._disk, self._machine, self._console = disk, machine, console
        self.seconds_to_boot = 0.0

    def wait_until_ready(self) -> None:
        """Wait until the server is ready. Raises ServerError with the last console lines if it does not start."""
        begun_s = time.monotonic()
        while READY not in self._said():
            self.check(over=time.monotonic() - begun_s > BOOT_TIMEOUT_S)
            time.sleep(POLL_S)
        self.seconds_to_boot = time.monotonic() - begun_s

    def check(self, *, over: bool = False) -> None:
        """Raise ServerError if the guest or its server has ended, or if the time limit is exceeded (`over`)."""
        said = self._said()
        if over or FAILED in said or self._machine.poll() is not None or self._disk.poll() is not None:
            last = "\n".join(said.strip().splitlines()[-LOG_LINES:])
            what = "ended" if self.seconds_to_boot else "did not start"
            raise ServerError(f"the virtual machine or the server in it {what}:\n{last}")

    def _said(self) -> str:
        return self._console.read_text(errors="replace") if self._console.exists() else ""

    def cut_power(self) -> None:
        """Cut the power at once, without notice to the guest."""
        for process in (self._disk, self._machine):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        for process in (self._disk, self._machine):
            process.wait()


@contextmanager
def powered(files: BootFiles, ports: Mapping[int, int], at: Path) -> Iterator[Guest]:
    """Yield a running guest, and cut its power at the end.

    `ports` maps ports of 127.0.0.1 to ports of the guest. `at`: folder for its socket and console. Raises ServerError.
    """
    socket, console = at / "disk.socket", at / "console"
    for old in (socket, console):
        old.unlink(missing_ok=True)
    disk = subprocess.Popen(
        [
            *DIES_WITH_US,
            "nbdkit",
            "--foreground",
            "--unix",
            str(socket),
            "--filter=cache",
            "file",
            str(files.image),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while not socket.exists():
            if disk.poll() is not None or time.monotonic() > deadline:
                raise ServerError("nbdkit, the disk of the virtual machine, did not start")
            time.sleep(POLL_S)
        machine = subprocess.Popen(
            [*DIES_WITH_US, *_command(files, ports, socket, console)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(at / "qemu.log").open("wb"),
        )
    except BaseException:
        disk.kill()
        disk.wait()
        raise
    guest = Guest(disk, machine, console)
    try:
        guest.wait_until_ready()
        yield guest
    finally:
        guest.cut_power()


def _command(files: BootFiles, ports: Mapping[int, int], socket: Path, console: Path) -> list[str]:
    forwarded = ",".join(f"hostfwd=tcp:127.0.0.1:{here}-:{there}" for here, there in ports.items())
    return [
        "qemu-system-x86_64",
        *("-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", f"{MEMORY_MIB}"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-monitor", "none"),
        *("-serial", f"file:{console}"),
        *("-kernel", str(files.kernel), "-initrd", str(files.initramfs), "-append", KERNEL_OPTIONS),
        *("-drive", f"file=nbd:unix:{socket},if=virtio,format=raw,cache=writeback"),
        *("-netdev", f"user,id=net,restrict=on,{forwarded}"),
        *("-device", "virtio-net-pci,netdev=net,romfile="),
    ]
