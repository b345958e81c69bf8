"""Reports once that clients wait for a restarted server (grace period of NFSv4)."""

from __future__ import annotations

from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.plan.model import Configuration
from serverdyno.run.progress import Progress
from serverdyno.servers.waiting import Look


def grace_told(configuration: Configuration, setup: LoadSetup, progress: Progress) -> Look:
    """Return a function to call during waits, which reports the server's grace period once."""
    told = False

    def look() -> None:
        nonlocal told
        if not told and (setup.target.answers_in_grace or (setup.fleet and setup.fleet.in_grace)):
            told = True
            progress.notice(
                f"{configuration.name}: the server has restarted and is in its grace period (NFS4ERR_GRACE): "
                "clients wait until it ends",
                hint="It lasts 90 s on most servers (Linux: nfsv4gracetime; Ganesha: Grace_Period).",
            )

    return look
