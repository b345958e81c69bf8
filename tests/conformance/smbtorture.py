"""Test the reference SMB server with Samba's smbtorture: `python tests/conformance/smbtorture.py [SUITE ...]`.

Each test of the core suites (`SUITES`) runs against its own server, with a time limit, so that a hanging test does not
affect others. It prints the failed and skipped tests, and the share that passes. With `--handles`, it runs the suites
of `HANDLES`; with names, these suites or tests. Needs smbtorture (Debian's samba-testsuite).

It is not for users' servers, because some tests require the behaviour of Windows instead of that of MS-SMB2.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from serverdyno.errors import UserError
from serverdyno.servers.local import find_program
from serverdyno.servers.reference_model import SmbProcess

SUITES = (
    "connect",
    "tcon",
    "session",
    "credits",
    "compound",
    "create",
    "read",
    "rw",
    "lock",
    "oplock",
    "lease",
    "dir",
    "getinfo",
    "setinfo",
    "rename",
)
"""The core of a file server: connections and messages, files, caching, directories, metadata."""

HANDLES = ("durable-open", "durable-open-disconnect", "durable-v2-open", "durable-v2-delay", "replay")
"""Suites on handles that outlive their connection, and on requests that are sent again on the next connection."""

USER, PASSWORD = "bench", "correct horse"  # for a server that runs only during a test
TIMEOUT_S = 60
AT_ONCE = 4
SAID_MOST = 110


@dataclass(frozen=True)
class Outcome:
    """The result of one test. `said` is smbtorture's first line about it."""

    test: str
    result: str
    said: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="SUITE", help="for example: lock, or lock.cancel")
    parser.add_argument("--handles", action="store_true", help="the suites of durable handles and replay")
    parser.add_argument("--output", action="store_true", help="print all that smbtorture says of what fails")
    arguments = parser.parse_args()
    if find_program("smbtorture") is None:
        raise UserError("smbtorture is not installed", hint="apt-get install samba-testsuite")
    tests = tests_of(arguments.names or (HANDLES if arguments.handles else SUITES))
    outcomes = [said(outcome) for outcome in outcomes_of(tests, whole=arguments.output)]
    passed, counted = share_of(outcomes)
    print(f"{passed} of {counted} pass ({passed / max(counted, 1):.0%})")


def tests_of(names: Iterable[str]) -> list[str]:
    """Return the tests of these suites, or with these names, in smbtorture's order. Raises UserError."""
    listed = subprocess.run(
        ["smbtorture", "--list"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    known = listed.stdout.split()
    tests = []
    for name in names:
        found = [test for test in known if test == f"smb2.{name}" or test.startswith(f"smb2.{name}.")]
        if not found:
            raise UserError(f"smbtorture knows no test smb2.{name}")
        tests += found
    return tests


def outcomes_of(tests: Iterable[str], *, whole: bool = False) -> Iterator[Outcome]:
    """Yield outcomes in order; several tests run at once.

    `whole`: `said` has all of smbtorture's output instead of its first line.
    """
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield from threads.map(lambda test: outcome_of(test, whole=whole), tests)


def outcome_of(test: str, *, whole: bool) -> Outcome:
    """Run one test against its own server."""
    server = SmbProcess(threads=2, user=USER).start({}, PASSWORD)
    command = ["smbtorture", "//127.0.0.1/volume1", "-p", str(server.port), "-U", f"{USER}%{PASSWORD}"]
    command += ["--configfile=/dev/null", test]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(test, "failure", f"does not end within {TIMEOUT_S} s")
    finally:
        server.stop()
    results = re.findall(r"^(success|failure|error|skip): (.*?)(?: \[\n(.*?)^\])?$", done.stdout, re.M | re.S)
    results = [(result, text.strip()) for result, _, text in results]
    if not results:
        last = (done.stdout + done.stderr).strip().splitlines()[-1:]
        return Outcome(test, "error", last[0] if last else "says nothing")
    for wanted in ("error", "failure", "skip", "success"):
        if texts := [text for result, text in results if result == wanted]:
            return Outcome(test, wanted, done.stdout if whole else first_line(texts[0]))
    raise AssertionError(results)


def first_line(text: str) -> str:
    """Return the first line of smbtorture's output, without the place in its source."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = re.sub(r"^\(?(?:\.\./)*source4/torture/[\w/]+\.c:\d+\)?:? *", "", line)
    return line if len(line) <= SAID_MOST else f"{line[:SAID_MOST]} ..."


def said(outcome: Outcome) -> Outcome:
    """Print an outcome unless the test passed, and return it."""
    if outcome.result != "success":
        print(f"{outcome.result:8} {outcome.test}: {outcome.said}", flush=True)
    return outcome


def share_of(outcomes: Iterable[Outcome]) -> tuple[int, int]:
    """Return the number of passed tests, and the number of all tests except skipped ones."""
    counts = Counter(outcome.result for outcome in outcomes)
    return counts["success"], counts.total() - counts["skip"]


if __name__ == "__main__":
    main()
