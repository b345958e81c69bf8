"""Test the reference server with h2spec, in the clear and over TLS: `python tests/conformance/h2spec.py [h2spec]`.

Install h2spec by `go install github.com/summerwind/h2spec/cmd/h2spec@latest`. docs/http2.md says what may fail, and
why. The exit status is 1 if anything else fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

from serverdyno import _native
from serverdyno.servers.reference_model import HttpProcess

TIMEOUT_S = 300
BODY_BYTES = 1000
KNOWN = ("Sends invalid connection preface",)
"""h2spec's name for the known failure: input without a valid HTTP/2 connection preface is answered as HTTP/1.1."""


CROSS = "\N{MULTIPLICATION SIGN}"


def main() -> None:
    """Run h2spec in the clear and over TLS, and exit with 1 if an unknown case fails."""
    program = sys.argv[1] if len(sys.argv) > 1 else "h2spec"
    certificate, key = _native.Authority().certify("ecdsa-p256", ["127.0.0.1"])
    tls: Any = {
        "certificate": certificate,
        "key": key,
        "min_version": "1.2",
        "max_version": "1.3",
        "resumption": True,
    }
    unknown = [
        failure
        for how, options, secure in (("in the clear", (), None), ("over TLS", ("--tls", "--insecure"), tls))
        for failure in failures_of(program, how, options, secure)
        if failure not in KNOWN
    ]
    for failure in unknown:
        print(f"h2spec: not known to fail: {failure}", file=sys.stderr)
    sys.exit(1 if unknown else 0)


def failures_of(program: str, how: str, options: tuple[str, ...], tls: Any) -> list[str]:
    """Return the names of the failed cases, and print the counts."""
    server = HttpProcess(body_bytes=BODY_BYTES, http2=True).start({}, tls=tls)
    try:
        command = [program, "--host", "127.0.0.1", "--port", str(server.port), "--timeout", "4", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    finally:
        server.stop()
    counts = re.search(r"^\d+ tests, .*$", done.stdout, re.MULTILINE)
    if counts is None:
        sys.exit(f"h2spec said nothing that could be read:\n{done.stdout}{done.stderr}")
    print(f"{how}: {counts[0]}")
    failed = done.stdout.partition("Failures:")[2]
    return re.findall(rf"^\s*{CROSS} \d+: (.+)$", failed, re.MULTILINE)


if __name__ == "__main__":
    main()
