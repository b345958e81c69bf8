"""Cuts the power of a server's guest repeatedly, and compares the remaining data with the acknowledged data.

Clients write files and flush three of four, or put objects (`objects.py`); this process keeps a journal of the
acknowledged data. At a random moment the guest and its disk's cache are killed. The guest boots again from the flushed
data, and the same server reads every file. `machine.py` runs the guest.
"""

from __future__ import annotations

import json
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from serverdyno import _native, clean, wording
from serverdyno.errors import DynoError, ServerError, UserError
from serverdyno.fleet.consent import open_target
from serverdyno.plan.model import Configuration, Suite
from serverdyno.plan.spoken import protocol_of
from serverdyno.probes.abandoned import private_directory
from serverdyno.run.powercut import boot_files, guests, machine
from serverdyno.run.powercut.guests import InGuest
from serverdyno.run.powercut.machine import BootFiles, Guest
from serverdyno.run.powercut.objects import ObjectJournal
from serverdyno.servers import waiting
from serverdyno.servers.local import LocalServer
from serverdyno.servers.object_server import ObjectServer
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
            unit, journal = _journal_of(server, configuration, suite, guest, seed)
            cuts = _Rounds(guest, files, place, seed, journal, unit, tell).all(rounds)
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
        unit=unit,
    )


def _journal_of(
    server: LocalServer[Any], configuration: Configuration, suite: Suite, guest: InGuest, seed: int
) -> tuple[str, Callable[[], _Journal]]:
    """Return the name of the stored items, and a function that creates their journal once the guest runs."""
    if not isinstance(server, ObjectServer):
        return "flushed file", lambda: _FileJournal(configuration, suite, guest, seed)
    sync_port = next(here for here, there in guest.ports.items() if there == guest.syncs_on)
    return "acknowledged PUT", lambda: ObjectJournal(server, CLIENTS, seed, sync_port)


def _made(guest: InGuest, kernel: boot_files.Kernel, place: Path) -> BootFiles:
    files = BootFiles(kernel.image, place / "initramfs", place / "image")
    boot_files.write_initramfs(files.initramfs, guest.contents, kernel, guests.init_script(guest))
    machine.make_image(files.image, guest.disk_file_system)
    return files


class _Journal(Protocol):
    """The data that clients store, which the server acknowledges until its power is cut."""

    def wait_until_answering(self) -> None:
        """Wait until the server admits clients. Raises ServerError."""

    def prepare(self) -> None:
        """Prepare the server before the clients of a round begin."""

    def begin(self, number: int) -> None:
        """Start the clients of a round."""

    def has_acknowledged(self) -> bool:
        """Return whether the server has acknowledged data in this round."""

    def end(self) -> None:
        """End the clients after the power cut."""

    def compared(self, cut_after_s: float) -> Cut:
        """Compare the data acknowledged in the last round with the remaining data."""


class _FileJournal:
    """Files that clients write, three of four with a flush at the end."""

    def __init__(self, configuration: Configuration, suite: Suite, in_guest: InGuest, seed: int) -> None:
        protocol = protocol_of(configuration, suite)
        self._target = open_target(protocol, in_guest.access, suite.settings(protocol))
        self._seed = seed
        self._spec: dict[str, Any] = {}
        self._entries: list[_native.JournalEntry] = []
        self._journal: _native.Journal | None = None

    def wait_until_answering(self) -> None:
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            looks = self._target.look(secrets.randbits(NONCE_BITS))
            refused = [look["why"] for look in looks if look["why"] is not None]
            if looks and not refused:
                return
            if time.monotonic() > deadline:
                raise ServerError(f"the server in the virtual machine refuses clients: {refused}")
            time.sleep(POLL_S)

    def prepare(self) -> None: ...

    def begin(self, number: int) -> None:
        self._spec = {
            "seed": self._seed + number,
            "directory": f"serverdyno-journal-{number}",
            "clients": CLIENTS,
            "most_ns": MOST_NS,
        }
        nonce = secrets.randbits(NONCE_BITS)
        self._journal = _native.begin_journal(self._target, json.dumps(self._spec), nonce)

    def has_acknowledged(self) -> bool:
        assert self._journal is not None
        return any(entry["flushed_bytes"] for entry in self._journal.entries())

    def end(self) -> None:
        assert self._journal is not None
        self._journal.end()
        self._entries = self._journal.entries()

    def compared(self, cut_after_s: float) -> Cut:
        texts = json.dumps(self._spec), json.dumps(self._entries)
        try:
            left = _native.read_journal(self._target, *texts, secrets.randbits(NONCE_BITS))
        except _native.AnswerError as error:
            raise DynoError(f"can't read the files after a power cut: {error.args[2]}") from error
        return compared(self._entries, left, cut_after_s)


@dataclass(slots=True)
class _Rounds:
    in_guest: InGuest
    files: BootFiles
    place: Path
    seed: int
    journal: Callable[[], _Journal]
    unit: str
    tell: Callable[[str], None]

    def all(self, rounds: int) -> list[Cut]:
        """Run all rounds and return their results. The guest booted after one cut is the guest of the next."""
        cuts: list[Cut] = []
        journal: _Journal | None = None
        cut_after_s = 0.0
        for number in range(rounds + 1):
            with (
                machine.powered(self.files, self.in_guest.ports, self.place) as guest,
                waiting.ended_by(guest.check),
            ):
                journal = journal or self.journal()
                journal.wait_until_answering()
                if number:
                    cuts.append(journal.compared(cut_after_s))
                    self.tell(f"cut {number} of {rounds}: {said(cuts[-1], self.unit)}")
                if number < rounds:
                    cut_after_s = self._cut_under_load(journal, guest, number)
        return cuts

    def _cut_under_load(self, journal: _Journal, guest: Guest, number: int) -> float:
        """Cut the power at a seeded moment after the first acknowledgement. Return the time between the two, in s."""
        at_s = random.Random(f"{self.seed} {number}").uniform(SOONEST_S, LATEST_S)
        journal.prepare()
        journal.begin(number)
        try:
            deadline = time.monotonic() + ANSWER_TIMEOUT_S
            while not journal.has_acknowledged():
                waiting.look()
                if time.monotonic() > deadline:
                    raise ServerError(
                        f"no {self.unit} after {ANSWER_TIMEOUT_S:g} s: the server in the virtual machine "
                        "confirmed nothing"
                    )
                time.sleep(POLL_S)
            cut_at_s = time.monotonic() + at_s
            while (left_s := cut_at_s - time.monotonic()) > 0:
                waiting.look()  # raises if the guest has ended, which is not a power cut
                time.sleep(min(POLL_S, left_s))
        finally:
            guest.cut_power()
            journal.end()
        return at_s


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
    """Return the number of cuts with a loss in words, such as `0 of 5 cuts lost a flushed file`."""
    article = "an" if cuts.unit.startswith("a") else "a"
    return f"{cuts.cuts_with_loss:,} of {len(cuts.cuts):,} cuts lost {article} {cuts.unit}"


def said(cut: Cut, unit: str) -> str:
    """Return the losses of a cut in words, such as `0 of 212 flushed files lost`."""
    torn = f", {cut.torn_files:,} of them torn" if cut.torn_files else ""
    refused = f"; {wording.plural(cut.refused_puts, 'PUT')} refused" if cut.refused_puts else ""
    if cut.first_refusal is not None:
        refused += f", the first with {clean.quoted(cut.first_refusal)}"
    return f"{cut.lost_files:,} of {wording.plural(cut.flushed_files, unit)} lost{torn}{refused}"
