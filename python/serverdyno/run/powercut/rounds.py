"""Cuts the power of a server's guest repeatedly, and compares the remaining data with the acknowledged data.

Clients write files and flush three of four; this process keeps the journal of acknowledged writes and flushes. At a
random moment the guest and its disk's cache are killed. The guest boots again from the flushed data, and the same
server reads every file. `machine.py` runs the guest.
"""

from __future__ import annotations

import json
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serverdyno import _native
from serverdyno.errors import DynoError, ServerError, UserError
from serverdyno.fleet.consent import open_target
from serverdyno.plan.model import Configuration, Suite
from serverdyno.plan.spoken import protocol_of
from serverdyno.probes.abandoned import private_directory
from serverdyno.run.powercut import boot_files, guests, machine
from serverdyno.run.powercut.guests import InGuest
from serverdyno.run.powercut.machine import BootFiles, Guest
from serverdyno.servers import waiting
from serverdyno.servers.local import LocalServer
from serverdyno.servers.registry import create
from serverdyno.store.powercut import Cut, PowerCuts

CLIENTS = 4
SOONEST_S, LATEST_S = 0.2, 3.0
"""Earliest and latest cut, in s after the first answered flush."""
MOST_NS = 120 * 10**9
"""Time limit for writing the journal's files, and for reading them back."""
ANSWER_TIMEOUT_S = 300.0
POLL_S = 0.02
NONCE_BITS = 63


@dataclass(frozen=True, slots=True)
class _Written:
    spec: dict[str, Any]
    entries: list[_native.JournalEntry]
    cut_after_s: float


def cut_power(
    configuration: Configuration, suite: Suite, rounds: int, seed: int, tell: Callable[[str], None]
) -> PowerCuts:
    """Cut the power of the configuration's server `rounds` times. Raises DynoError."""
    way = guests.way_of(configuration.server)
    if missing := boot_files.missing_programs():
        raise UserError(
            "a power cut needs a virtual machine, but the required programs are not installed",
            hint=f"apt-get install {' '.join(missing)}",
        )
    begun_s = time.monotonic()
    settings = guests.without_surroundings(configuration.settings) | way.settings
    server = create(configuration.server, settings, documents=Path("/dev/null"))
    if not isinstance(server, LocalServer):
        raise UserError(f"dyno does not start the server {configuration.server!r}, so it can't cut the power")
    kernel = boot_files.kernel()
    try:
        server.prepare()
        guest = way.put(server, configuration.settings)
        with private_directory("guest") as place:
            files = _made(guest, kernel, place)
            cuts = _Rounds(configuration, suite, guest, files, place, seed, tell).all(rounds)
        description = server.describe()
    finally:
        server.stop()
    return PowerCuts(
        configuration=configuration.name,
        version=description.version,
        kernel=kernel.version,
        changed=guest.changed,
        clients=CLIENTS,
        seed=seed,
        took_s=time.monotonic() - begun_s,
        cuts=cuts,
    )


def _made(guest: InGuest, kernel: boot_files.Kernel, place: Path) -> BootFiles:
    files = BootFiles(kernel.image, place / "initramfs", place / "image")
    boot_files.write_initramfs(files.initramfs, guest.contents, kernel, guests.init_script(guest))
    machine.make_image(files.image, guest.disk_file_system)
    return files


@dataclass(slots=True)
class _Rounds:
    configuration: Configuration
    suite: Suite
    in_guest: InGuest
    files: BootFiles
    place: Path
    seed: int
    tell: Callable[[str], None]

    def all(self, rounds: int) -> list[Cut]:
        """Return all cuts. The guest booted after one cut is the guest of the next."""
        cuts: list[Cut] = []
        written: _Written | None = None
        for number in range(rounds + 1):
            with (
                machine.powered(self.files, self.in_guest.ports, self.place) as guest,
                waiting.ended_by(guest.check),
            ):
                target = self._answering()
                if written is not None:
                    cuts.append(self._compared(target, written))
                    self.tell(f"cut {number} of {rounds}: {said(cuts[-1])}")
                if number < rounds:
                    written = self._written(target, guest, number)
        return cuts

    def _answering(self) -> _native.Target:
        """Return the server as a target once it admits clients. Raises ServerError."""
        protocol = protocol_of(self.configuration, self.suite)
        target = open_target(protocol, self.in_guest.access, self.suite.settings(protocol))
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            looks = target.look(secrets.randbits(NONCE_BITS))
            refused = [look["why"] for look in looks if look["why"] is not None]
            if looks and not refused:
                return target
            if time.monotonic() > deadline:
                raise ServerError(f"the server in the virtual machine refuses clients: {refused}")
            time.sleep(POLL_S)

    def _written(self, target: _native.Target, guest: Guest, number: int) -> _Written:
        """Write files until the power is cut, at a seeded moment after the first answered flush."""
        at_s = random.Random(f"{self.seed} {number}").uniform(SOONEST_S, LATEST_S)
        spec = {
            "seed": self.seed + number,
            "directory": f"serverdyno-journal-{number}",
            "clients": CLIENTS,
            "most_ns": MOST_NS,
        }
        journal = _native.begin_journal(target, json.dumps(spec), secrets.randbits(NONCE_BITS))
        try:
            deadline = time.monotonic() + ANSWER_TIMEOUT_S
            while not any(entry["flushed_bytes"] for entry in journal.entries()):
                waiting.look()
                if time.monotonic() > deadline:
                    raise ServerError("the server in the virtual machine answered no flush")
                time.sleep(POLL_S)
            cut_at_s = time.monotonic() + at_s
            while (left_s := cut_at_s - time.monotonic()) > 0:
                waiting.look()  # raises if the guest has ended: that is no power cut
                time.sleep(min(POLL_S, left_s))
        finally:
            guest.cut_power()
            journal.end()
        return _Written(spec, journal.entries(), at_s)

    def _compared(self, target: _native.Target, written: _Written) -> Cut:
        texts = json.dumps(written.spec), json.dumps(written.entries)
        try:
            left = _native.read_journal(target, *texts, secrets.randbits(NONCE_BITS))
        except _native.AnswerError as error:
            raise DynoError(f"can't read the files after a power cut: {error.args[2]}") from error
        return compared(written.entries, left, written.cut_after_s)


def compared(entries: list[_native.JournalEntry], left: list[_native.LeftOfFile], cut_after_s: float) -> Cut:
    """Compare the acknowledged files with the remaining ones."""
    pairs = list(zip(entries, left, strict=True))
    flushed = [(entry, found) for entry, found in pairs if entry["flushed_bytes"]]
    others = [
        (entry, found) for entry, found in pairs if entry["written_bytes"] and not entry["flushed_bytes"]
    ]
    missing = [max(0, entry["flushed_bytes"] - found["intact_bytes"]) for entry, found in flushed]
    return Cut(
        cut_after_s=cut_after_s,
        flushed_files=len(flushed),
        flushed_bytes=sum(entry["flushed_bytes"] for entry, _ in flushed),
        lost_files=sum(1 for bytes_ in missing if bytes_),
        lost_bytes=sum(missing),
        unreadable_files=sum(1 for _, found in flushed if found["why"] is not None),
        unflushed_files=len(others),
        kept_unflushed_files=sum(
            1 for entry, found in others if found["intact_bytes"] >= entry["written_bytes"]
        ),
    )


def verdict(cuts: PowerCuts) -> str:
    """Return `0 of 5 cuts lost flushed data`."""
    return f"{cuts.cuts_with_loss:,} of {len(cuts.cuts):,} cuts lost flushed data"


def said(cut: Cut) -> str:
    """Return `0 of 212 flushed files lost`."""
    return f"{cut.lost_files:,} of {cut.flushed_files:,} flushed files lost"
