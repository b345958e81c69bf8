"""The files that a guest boots from: Debian's cloud kernel, and an initramfs built for each boot.

The initramfs has busybox, kernel modules, the server's program with its libraries, and the server's directory.
Packages that are not installed are downloaded by apt, which checks their signatures, and unpacked into a cache. The
disk is in `machine.py`.
"""

from __future__ import annotations

import gzip
import lzma
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from serverdyno.errors import UserError
from serverdyno.servers.local import find_program

KERNEL_PACKAGE, SHELL_PACKAGE = "linux-image-cloud-amd64", "busybox-static"
ALWAYS = ("virtio_pci", "virtio_blk", "virtio_net", "crc32c_generic")
DOWNLOAD_TIMEOUT_S = 600.0
PROGRAM_TIMEOUT_S = 120.0
DEVICE_MODE, DIRECTORY_MODE, FILE_MODE, LINK_MODE = 0o20600, 0o40755, 0o100000, 0o120777
LIBRARY = re.compile(r"(/\S+) \(0x")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A Debian kernel with its image and modules."""

    image: Path
    modules: Path

    @property
    def version(self) -> str:
        return self.modules.name


@dataclass(slots=True)
class Contents:
    """Files of the guest, copied to the same paths: `programs` with their libraries, `trees` with their owners."""

    programs: list[Path] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    trees: list[Path] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    modules: tuple[str, ...] = ()


def cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "serverdyno" / "guest"


def kernel() -> Kernel:
    """Return the newest available kernel. Download one if there is none. Raises UserError."""
    found = [each for top in (Path("/"), cache()) for each in _kernels(top)]
    if not found:
        _download(_image_package())
        found = list(_kernels(cache()))
    if not found:
        raise UserError(f"{KERNEL_PACKAGE} has no kernel for a virtual machine")
    return max(found, key=lambda each: [int(part) for part in re.findall(r"\d+", each.version)])


def _kernels(top: Path) -> Iterator[Kernel]:
    for image in (top / "boot").glob("vmlinuz-*-cloud-amd64"):
        modules = top / "lib" / "modules" / image.name.removeprefix("vmlinuz-")
        if modules.is_dir():
            yield Kernel(image, modules)


def _image_package() -> str:
    done = _run(["apt-cache", "depends", "--important", KERNEL_PACKAGE])
    if (found := re.search(r"Depends: (linux-image-\S+)", done)) is None:
        raise UserError(
            f"apt has no package {KERNEL_PACKAGE}", hint="A guest needs Debian's packages: apt-get update"
        )
    return found[1]


def shell() -> Path:
    """Return a statically linked busybox, downloaded if there is none. Raises UserError."""
    if (found := _shell()) is not None:
        return found
    _download(SHELL_PACKAGE)
    if (found := _shell()) is None:
        raise UserError(f"the package {SHELL_PACKAGE} has no busybox that runs without libraries")
    return found


def _shell() -> Path | None:
    """Return the path of a busybox that needs no libraries; None if there is none."""
    places = (find_program("busybox"), cache() / "bin" / "busybox", cache() / "usr" / "bin" / "busybox")
    return next((place for place in places if place and place.exists() and not libraries(place)), None)


def _download(package: str) -> None:
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        command = ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=", package]
        _run(command, at=place, timeout_s=DOWNLOAD_TIMEOUT_S)
        for archive in Path(place).glob("*.deb"):
            _run(["dpkg-deb", "--extract", str(archive), str(cache())])


def _run(command: list[str], at: str = "/", timeout_s: float = PROGRAM_TIMEOUT_S) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=at,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{' '.join(command)}: {error}") from error
    if done.returncode != 0:
        raise UserError(
            f"{' '.join(command)}: {done.stderr.strip()}",
            hint="A guest needs Debian's packages: apt-get update",
        )
    return done.stdout


def libraries(program: Path) -> list[Path]:
    """Return all libraries of a program including the loader; empty for a static one."""
    done = subprocess.run(
        ["ldd", str(program)], capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S, check=False
    )
    return [Path(found) for found in LIBRARY.findall(done.stdout)]


def module_files(kernel_: Kernel, wanted: Iterable[str]) -> list[Path]:
    """Return the files of the modules, each after its dependencies, without modules built into the kernel."""
    files = {path.name.partition(".ko")[0].replace("-", "_"): path for path in kernel_.modules.rglob("*.ko*")}
    ordered: dict[str, Path] = {}

    def add(name: str) -> None:
        name = name.replace("-", "_")
        if name in ordered or name not in files:
            return
        for needed in _needed(files[name]):
            add(needed)
        ordered[name] = files[name]

    for name in wanted:
        add(name)
    return list(ordered.values())


def _needed(module: Path) -> list[str]:
    """Return the dependencies from the module's information (modinfo(8)): NAME=VALUE, terminated by zero bytes."""
    told = re.search(rb"\0depends=([^\0]*)\0", b"\0" + module_content(module))
    return [name for name in told[1].decode().split(",") if name] if told else []


def module_content(module: Path) -> bytes:
    """Return the module's uncompressed content."""
    content = module.read_bytes()
    return lzma.decompress(content) if module.suffix == ".xz" else content


def write_initramfs(at: Path, contents: Contents, kernel_: Kernel, init: str) -> None:
    """Write an initramfs (Documentation/driver-api/early-userspace/buffer-format.rst)."""
    with gzip.open(at, "wb", compresslevel=1) as file:
        archive = _Archive(file)
        for name in ("bin", "dev", "etc", "proc", "run", "sys", "tmp", "modules", *contents.directories):
            archive.directory(name.strip("/"))
        archive.file("bin/busybox", 0o755, shell().read_bytes())
        archive.file("init", 0o755, init.encode())
        for name, text in contents.texts.items():
            archive.file(name.strip("/"), 0o644, text.encode())
        for module in module_files(kernel_, (*ALWAYS, *contents.modules)):
            name = module.name.partition(".ko")[0]
            archive.file(f"modules/{archive.count:04}-{name}.ko", 0o644, module_content(module))
        for program in contents.programs:
            for path in (program, *libraries(program)):
                archive.file(f"{path}".strip("/"), 0o755, path.read_bytes())
        for tree in contents.trees:
            archive.tree(tree)
        archive.end()


class _Archive:
    """A newc archive (cpio(5)). Parent directories are added, and no entry is written twice."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file
        self._names: set[str] = set()
        self.count = 0

    def _entry(self, name: str, mode: int, content: bytes, owner: tuple[int, int] = (0, 0)) -> None:
        if name in self._names:
            return
        self._names.add(name)
        self.count += 1
        encoded = os.fsencode(name) + b"\0"
        fields = (self.count, mode, *owner, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
        head = b"070701" + b"".join(b"%08X" % value for value in fields) + encoded
        self._file.write(head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4))

    def directory(self, name: str, mode: int = DIRECTORY_MODE, owner: tuple[int, int] = (0, 0)) -> None:
        parts = Path(name).parts
        for depth in range(1, len(parts)):
            self._entry("/".join(parts[:depth]), DIRECTORY_MODE, b"")
        self._entry(name, mode, b"", owner)

    def file(self, name: str, mode: int, content: bytes, owner: tuple[int, int] = (0, 0)) -> None:
        self.directory(str(Path(name).parent))
        self._entry(name, FILE_MODE | mode, content, owner)

    def tree(self, top: Path) -> None:
        """Add a directory with its subdirectories, regular files and symbolic links."""
        for path in (top, *sorted(top.rglob("*"))):
            status = path.lstat()
            name, owner = f"{path}".strip("/"), (status.st_uid, status.st_gid)
            if stat.S_ISDIR(status.st_mode):
                self.directory(name, status.st_mode, owner)
            elif stat.S_ISREG(status.st_mode):
                self.file(name, stat.S_IMODE(status.st_mode), path.read_bytes(), owner)
            elif stat.S_ISLNK(status.st_mode):
                self._entry(name, LINK_MODE, os.fsencode(path.readlink()))

    def end(self) -> None:
        self._entry("TRAILER!!!", 0, b"")


def missing_programs() -> list[str]:
    """Return the Debian packages of missing programs that this machine needs to run a guest."""
    needed = {
        "qemu-system-x86_64": "qemu-system-x86",
        "nbdkit": "nbdkit",
        "mkfs.ext4": "e2fsprogs",
        "setpriv": "util-linux",
    }
    return [
        package
        for program, package in needed.items()
        if shutil.which(program) is None and not find_program(program)
    ]
