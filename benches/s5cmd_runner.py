"""Run s5cmd on many objects, and report its whole command as `files_generator` reports its window.

The first line on standard input is the request. s5cmd reads its operations from a file, one per line.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benches.files_generator import CLOSED, OPEN, say

TIMEOUT_S = 240.0


def main() -> None:
    """Put the objects, then measure a command that puts or gets them."""
    asked = json.loads(sys.stdin.readline())
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        content = Path(name) / "content"
        content.write_bytes(os.urandom(asked["object_bytes"]))
        keys = [f"s3://{asked['bucket']}/s5cmd/{number}" for number in range(asked["operations"])]
        commands = {
            "put": "".join(f"cp {content} {key}\n" for key in keys),
            "get": "".join(f"cat {key}\n" for key in keys),
        }
        run(asked, commands["put"], Path(name))
        say(moment=OPEN, cpu_s=cpu_s())
        began_s = time.monotonic()
        failed = run(asked, commands[asked["operation"]], Path(name))
        took_s = time.monotonic() - began_s
        say(moment=CLOSED, cpu_s=cpu_s())
    count = len(keys) - len(failed)
    say(
        result={
            "operations": count,
            "operations_in_window": count,
            "bytes_in_window": count * asked["object_bytes"],
            "window_s": took_s,
            "errors": len(failed),
            "first_error": failed[0] if failed else "",
        }
    )


def run(asked: dict[str, Any], commands: str, directory: Path) -> list[str]:
    """Run s5cmd, and return its error lines."""
    file = directory / "commands"
    file.write_text(commands)
    key_id, secret = asked["key"]
    options = ["--endpoint-url", asked["endpoint"], "--retry-count", "0"]
    done = subprocess.run(
        [asked["program"], *options, "--numworkers", f"{asked['connections']}", "run", file],
        env={**os.environ, "AWS_ACCESS_KEY_ID": key_id, "AWS_SECRET_ACCESS_KEY": secret},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.stderr.splitlines()


def cpu_s() -> float:
    """Return the CPU seconds of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
