"""Recognise options of wrk, ab, h2load and oha that do not exist here, and name the right one.

Options with the same meaning are additional spellings of our own options (`plan/quick.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from typer.core import TyperCommand

from serverdyno.errors import UserError

LENGTH = "Use --length 10s (or -d 10s)."
REPORT = "Leave it out; --report also writes the page with charts, and every table as CSV."
HABITS = {
    "-z": ("the length of load is --length here", LENGTH),
    "-D": ("the length of load is --length here", LENGTH),
    "--duration": ("the length of load is --length here", LENGTH),
    "-q": (
        "the request rate is --rate here",
        "Give the requests per second: --rate 1000. Leave ab's -q out: progress goes to standard error.",
    ),
    "-R": ("the request rate is --rate here", "Give the requests per second: --rate 1000."),
    "-i": ("HEAD is a method here", "--method HEAD"),
    "-s": (
        "there are no scripts here, and a timeout is --timeout",
        "For several paths, use --urls FILE. For requests that build on each other, use --session FILE, see "
        "docs/sessions.md.",
    ),
    "--script": (
        "there are no scripts here",
        "For several paths, use --urls FILE. For requests that build on each other, use --session FILE.",
    ),
    "--connections": (
        "the number of connections is --clients here",
        "Use --clients 64 (or -c 64).",
    ),
    "--latency": ("response times are always shown", REPORT),
    "-w": ("results as HTML are the page of --report", REPORT),
    "-x": (
        "results as HTML (ab) are the page of --report, and there is no proxy (curl, hey)",
        "Load goes straight to the server: give its own URL, or --resolve HOST:PORT:ADDRESS.",
    ),
    "-y": ("results as HTML are the page of --report", REPORT),
    "-e": ("results as CSV are the tables of --report", REPORT),
    "-g": ("single response times are not written: all of them go into a histogram", REPORT),
    "-S": ("response times are shown as percentiles", REPORT),
    "-u": (
        "a file to send (ab) is --data-file here, and credentials (curl) are in the environment",
        "PUT a file: --method PUT --data-file FILE. Credentials: export DYNO_AUTHORIZATION=user:password, and give "
        "--auth basic.",
    ),
    "-v": (
        "answers are not printed, and failures are counted by kind",
        "Leave it out. The version: dyno --version.",
    ),
    "-V": ("dyno itself prints the version", "dyno --version"),
    "--version": ("dyno itself prints the version", "dyno --version"),
    "-f": (
        "the versions of TLS are --tls-min and --tls-max here",
        "For a single version: --tls-min 1.3 --tls-max 1.3.",
    ),
    "-Z": ("cipher suites are --ciphers here", "Give IANA's names: --ciphers TLS_AES_128_GCM_SHA256."),
    "-I": (
        "HEAD (curl) is a method here, and the name in a TLS handshake (ab) is the host of the URL",
        "--method HEAD. Another address for the host: --resolve HOST:PORT:ADDRESS.",
    ),
    "-B": ("the kernel chooses the address to connect from", "Leave it out."),
    "-A": (
        "the user agent (curl) is a header here, and a password (ab) would stand in every record",
        "-H 'User-Agent: NAME'. Credentials: export DYNO_AUTHORIZATION=user:password, and give --auth basic.",
    ),
    "-a": (
        "a password on the command line would stand in every record",
        "export DYNO_AUTHORIZATION=user:password, and give --auth basic.",
    ),
    "-P": (
        "load goes straight to the server, through no proxy",
        "Give the proxy's own URL, or --resolve HOST:PORT:ADDRESS.",
    ),
    "-L": ("redirects are not followed", "Give the URL that curl -I shows as Location."),
    "--location": ("redirects are not followed", "Give the URL that curl -I shows as Location."),
    "--cacert": ("authorities to trust are --ca-file here", "--ca-file FILE (PEM)."),
    "--concurrency": ("the number of clients is --clients here", "Use --clients 64 (or -c 64)."),
    "--vus": ("the number of clients is --clients here", "Use --clients 64 (or -c 64)."),
    "--http1.1": ("the version of HTTP is --http here", "--http 1.1, which is the default."),
    "--http3": ("dyno does not speak HTTP/3", "--http 2 is the newest version."),
    "--data-raw": ("a body is --data here", "--data TEXT, or --data-file FILE."),
    "--data-binary": ("a body is --data here", "--data TEXT, or --data-file FILE."),
    "-F": (
        "dyno builds no forms",
        "Save the body of one with curl, and give it with --data-file FILE.",
    ),
    "--compressed": ("content codings are requested by a header here", "-H 'Accept-Encoding: gzip'."),
    "-4": ("a host's first address that answers is used", "To use another one: --resolve HOST:PORT:ADDRESS."),
    "-6": (
        "a host's first address that answers is used",
        "To use another one: --resolve HOST:PORT:[ADDRESS].",
    ),
    "--tlsv1.2": ("the oldest version of TLS is --tls-min here", "--tls-min 1.2"),
    "--tlsv1.3": ("the oldest version of TLS is --tls-min here", "--tls-min 1.3"),
    "-r": ("load goes on after errors, and each is counted by its kind", "Leave it out."),
    "-l": ("bodies may have any length, unless --expect-bytes sets it", "Leave it out."),
}


class LoadCommand(TyperCommand):
    """The command `dyno load`, which recognises options of other tools."""

    habits: ClassVar[Mapping[str, tuple[str, str]]] = HABITS

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line. Raises UserError for an option of another tool."""
        takes_value = {
            name: not getattr(option, "is_flag", False)
            for option in self.params
            for name in option.opts
            if name.startswith("-")
        }
        rest = iter(args)
        for word in rest:
            if word == "--":
                break
            name = word if word.startswith("--") else word[:2]
            if name in takes_value:
                if takes_value[name] and word == name:
                    next(rest, None)
            elif name.partition("=")[0] in self.habits:
                said, hint = self.habits[name.partition("=")[0]]
                raise UserError(f"{name.partition('=')[0]}: {said}", hint=hint)
        return super().parse_args(ctx, args)
