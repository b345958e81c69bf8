"""Holds the reference SMB server against Samba's smbtorture: `python tools/smbtorture.py [SUITE ...]`.

Each test of the core suites (`SUITES`) runs alone against a server of its own, with a time limit: one that hangs
costs no other. Without arguments, docs/smbtorture.md is written anew: the share that passes, and every test that does
not, with what smbtorture says and why. With `--handles` it is docs/smbtorture-handles.md, of `HANDLES`. With names of
suites or tests, only these run, and what fails is printed. Needs smbtorture (Debian's samba-testsuite).

Not for: judging servers of users. The tests at times ask for what Windows does, not for what MS-SMB2 demands.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from serverdyno import _native
from serverdyno.errors import UserError
from serverdyno.servers.local import find_program

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
"""What a server of files is at its core: connections and messages, files, caching, directories, metadata."""

HANDLES = ("durable-open", "durable-open-disconnect", "durable-v2-open", "durable-v2-delay", "replay")
"""Handles that outlive their connection, and what is sent again on the next."""

DOCUMENT = Path(__file__).parents[1] / "docs" / "smbtorture.md"
HANDLES_DOCUMENT = DOCUMENT.with_name("smbtorture-handles.md")
USER, PASSWORD = "bench", "correct horse"  # of a server that lives as long as a test
TIMEOUT_S = 60
AT_ONCE = 4
GOAL = 0.70
SAID_MOST = 110

WHY: tuple[tuple[str, str], ...] = (
    (r"smb2\.session\.reauth[2-5]\..*", "logs on once more as nobody; nobody is not let in here"),
    (r"smb2\.compound\.related[47]\..*", "sets a security descriptor; there are none here"),
    (r"smb2\.create\.(acl.*|nulldacl.*)", "needs security descriptors; there are none here"),
    (r"smb2\.getinfo\.qsec_.*", "needs security descriptors; there are none here"),
    (r"smb2\.create\.gentest.*", "needs security descriptors and streams; there are none here"),
    (r"smb2\.create\.quota.*", "needs quotas; there are none here"),
    (r"smb2\.getinfo\.(fsinfo|qfs_buffercheck).*", "needs quotas and sizes of a real file system"),
    (r"smb2\.create\.blob.*", "needs room that is kept in advance, and durable handles"),
    (
        r"smb2\.(getinfo\.(complex|normalized)|lease\.request|oplock\.(stream1|batch26)).*",
        "needs streams; there are none here",
    ),
    (r"smb2\.compound\.compound-padding.*", "needs streams; there are none here"),
    (r"smb2\.(dir\.one|getinfo\.getinfo_access).*", "needs short names for long ones; there are none here"),
    (
        r"smb2\.replay\.(replay-dhv2|dhv2-pending|replay6).*",
        "a CREATE that is sent again is a new one here; only handles come back",
    ),
    (r"smb2\.durable-v2-open\.app-instance.*", "needs application instance ids; there are none here"),
    (r"smb2\.durable-open\.alloc-size.*", "needs sizes that are kept in advance"),
    (
        r"smb2\.lock\.cancel-(tdis|logoff).*",
        "a lock that waits when its tree goes fails here; Windows grants it",
    ),
    (r"smb2\.compound\.interim2.*", "needs a wait within a compound to fail; here it waits"),
    (r"smb2\.oplock\.statopen1.*", "READ_CONTROL alone takes no oplock away here"),
)
"""Why tests fail: a pattern of their names and the reason. The first that matches holds."""


@dataclass(frozen=True)
class Outcome:
    """What became of one test. `said` is smbtorture's first line about it."""

    test: str
    result: str
    said: str = ""

    @property
    def suite(self) -> str:
        """The name between dots: "lock" of "smb2.lock.cancel.cancel"."""
        return self.test.split(".")[1]

    @property
    def why(self) -> str:
        """The first reason that suits it."""
        matching = (reason for pattern, reason in WHY if re.fullmatch(pattern, self.test))
        return next(matching, "not looked into")


def main() -> None:
    """Run it once."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="SUITE", help="for example: lock, or lock.cancel")
    parser.add_argument("--handles", action="store_true", help="the suites of durable handles and replay")
    parser.add_argument("--output", action="store_true", help="print all that smbtorture says of what fails")
    arguments = parser.parse_args()
    if find_program("smbtorture") is None:
        raise UserError("smbtorture is not installed", hint="apt-get install samba-testsuite")
    suites = HANDLES if arguments.handles else SUITES
    tests = tests_of(arguments.names or suites)
    outcomes = [said(outcome) for outcome in outcomes_of(tests, whole=arguments.output)]
    passed, counted = share_of(outcomes)
    print(f"{passed} of {counted} pass ({passed / max(counted, 1):.0%})")
    if arguments.names:
        return
    if arguments.handles:
        HANDLES_DOCUMENT.write_text(document(outcomes, HANDLES, "--handles"), encoding="utf-8")
    else:
        DOCUMENT.write_text(document(outcomes), encoding="utf-8")
        sys.exit(0 if passed >= GOAL * counted else 1)


def tests_of(names: Iterable[str]) -> list[str]:
    """The tests of these suites, or with these names, in smbtorture's order. Raises UserError."""
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
    """Some at a time, in order. `whole`: with all that smbtorture says, not the first line."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield from threads.map(lambda test: outcome_of(test, whole=whole), tests)


def outcome_of(test: str, *, whole: bool) -> Outcome:
    """Run one test against a server of its own."""
    server = _native.ReferenceSmbServer.start(threads=2, user=USER, password=PASSWORD)
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
    """The first line of what smbtorture says, without where its own source stands."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = re.sub(r"^\(?(?:\.\./)*source4/torture/[\w/]+\.c:\d+\)?:? *", "", line)
    return line if len(line) <= SAID_MOST else f"{line[:SAID_MOST]} ..."


def said(outcome: Outcome) -> Outcome:
    """The same, printed unless it passed."""
    if outcome.result != "success":
        print(f"{outcome.result:8} {outcome.test}: {outcome.said}", flush=True)
    return outcome


def share_of(outcomes: Iterable[Outcome]) -> tuple[int, int]:
    """How many passed, and how many there are without those that smbtorture skips."""
    counts = Counter(outcome.result for outcome in outcomes)
    return counts["success"], counts.total() - counts["skip"]


def document(outcomes: list[Outcome], suites: Iterable[str] = SUITES, option: str = "") -> str:
    """docs/smbtorture.md, or the page of other suites, which an option asks for."""
    version = subprocess.run(["smbtorture", "--version"], capture_output=True, text=True, check=True)
    passed, counted = share_of(outcomes)
    whose = "these" if option else "Samba's core"
    lines = [
        f"# The reference SMB server and smbtorture{': handles that outlive connections' if option else ''}",
        "",
        f"`{' '.join(['python tools/smbtorture.py', option]).rstrip()}` made this page. It runs each test of "
        f"{whose} suites against the reference",
        f"server, each for at most {TIMEOUT_S} s (smbtorture {version.stdout.split()[-1]}).",
        "",
        f"**{passed} of {counted} tests pass ({passed / counted:.0%}).** Tests that smbtorture skips do not count.",
        "",
        "| suite | pass | fail | skipped |",
        "|---|---:|---:|---:|",
    ]
    for suite in suites:
        ours = [outcome for outcome in outcomes if outcome.suite == suite]
        passes, of = share_of(ours)
        lines.append(f"| smb2.{suite} | {passes} | {of - passes} | {len(ours) - of} |")
    lines += ["", "## What fails, and why", "", "| test | smbtorture says | why |", "|---|---|---|"]
    for outcome in outcomes:
        if outcome.result in ("failure", "error"):
            text = outcome.said.replace("|", "\\|").replace("`", "'")
            lines.append(f"| {outcome.test} | `{text}` | {outcome.why} |")
    lines += ["", "## Skipped by smbtorture", ""]
    lines += [f"- {outcome.test}: {outcome.said}" for outcome in outcomes if outcome.result == "skip"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
