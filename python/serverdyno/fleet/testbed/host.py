"""The first process of a host: `python -I -S host.py`, as process 1 of its own namespaces.

It runs until its standard input is closed, and starts the command of each line that it reads. A line is JSON:
`command`, a list of words, `log`, the file for its output, and `environment`; or `remove`, a directory to remove when
the host ends. The tool holds the other end of the input. When the tool ends, even by kill -9, the input is closed. When
process 1 ends, the kernel ends every process of the host and its network.

This program uses only the standard library, so that it starts quickly. `hosts.py` creates the namespaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time

READY = "ready"
MOST_BYTES = 65536
REMOVALS, BETWEEN_S = 50, 0.1
DEAF_TO = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM)


def main() -> None:
    """Report that the host is ready, and start the given commands until the input is closed."""
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_IGN)  # terminal signals are meant for the tool's own process
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    print(READY, flush=True)
    unread, remove = b"", list[str]()
    while True:
        ready, _, _ = select.select([sys.stdin.fileno(), ended], [], [])
        if ended in ready:
            os.read(ended, MOST_BYTES)
            reap()
        if sys.stdin.fileno() in ready:
            data = os.read(sys.stdin.fileno(), MOST_BYTES)
            if not data:
                break
            *lines, unread = (unread + data).split(b"\n")
            for line in lines:
                told = json.loads(line)
                if "remove" in told:
                    remove.append(told["remove"])
                else:
                    start(told)
    for directory in remove:
        take_away(directory)


def take_away(directory: str) -> None:
    """Remove a directory. Try again if ending processes of other hosts still write to the directory."""
    import shutil  # noqa: PLC0415 (not needed before the end, and slow to import)

    for _ in range(REMOVALS):
        shutil.rmtree(directory, ignore_errors=True)
        if not os.path.exists(directory):  # noqa: PTH110 (pathlib is slow to import)
            return
        time.sleep(BETWEEN_S)


def start(told: dict[str, object]) -> None:
    """Start one command without waiting for it."""
    command, log, environment = told["command"], told["log"], told["environment"]
    assert isinstance(command, list) and isinstance(log, str) and isinstance(environment, dict)
    os.posix_spawn(
        command[0],
        command,
        os.environ | environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsigdef=DEAF_TO,
    )


def reap() -> None:
    """Reap ended processes, because orphans of a namespace become children of its process 1."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass


if __name__ == "__main__":
    main()
