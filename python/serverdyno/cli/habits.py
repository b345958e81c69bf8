"""Recognise common mistakes: options of other tools, pasted text, and URLs or files without their option.

Options with the same meaning are additional spellings of our own options (`plan/quick.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand

from serverdyno.errors import UserError

UsageError: Any = typer.BadParameter.__mro__[1]  # typer does not export its name

LENGTH = "Use --length 10s (or -d 10s)."
REPORT = "Leave the option out; --report writes the page with charts, and every table as CSV."
ON_THE_WEB = {
    "-z": ("the option for the length of the load is --length", LENGTH),
    "-D": ("the option for the length of the load is --length", LENGTH),
    "--duration": ("the option for the length of the load is --length", LENGTH),
    "-q": (
        "the option for the request rate is --rate",
        "Give the requests per second: --rate 1000. Leave ab's -q out: dyno writes its progress to "
        "standard error.",
    ),
    "-R": ("the option for the request rate is --rate", "Give the requests per second: --rate 1000."),
    "-i": ("the option for a HEAD request is --method", "--method HEAD"),
    "-s": (
        "dyno runs no scripts, and the option for a timeout is --timeout",
        "For several paths, use --urls FILE. For requests that build on each other, use --session FILE, see "
        "docs/sessions.md.",
    ),
    "--script": (
        "dyno runs no scripts",
        "For several paths, use --urls FILE. For requests that build on each other, use --session FILE.",
    ),
    "--connections": (
        "the option for the number of connections is --clients",
        "Use --clients 64 (or -c 64).",
    ),
    "--latency": ("dyno always shows response times", REPORT),
    "-w": ("--report writes the results as HTML", REPORT),
    "-x": (
        "--report writes the results as HTML (ab), and dyno uses no proxy (curl, hey)",
        "The load goes directly to the server: give its own URL, or --resolve HOST:PORT:ADDRESS.",
    ),
    "-y": ("--report writes the results as HTML", REPORT),
    "-e": ("--report writes the results as CSV", REPORT),
    "-g": ("dyno counts response times in a histogram, and does not write each one", REPORT),
    "-S": ("dyno shows response times as percentiles", REPORT),
    "-u": (
        "the option for a file to send (ab) is --data-file, and credentials (curl) come from the environment",
        "PUT a file: --method PUT --data-file FILE. Credentials: export DYNO_AUTHORIZATION=user:password, and give "
        "--auth basic.",
    ),
    **dict.fromkeys(
        ("--user", "--username", "--password"),
        (
            "every record would contain a password from the command line",
            "For a web server, export DYNO_AUTHORIZATION=user:password, and give --auth basic. A file server is "
            "measured by dyno bonnie and dyno scenario, which have --user.",
        ),
    ),
    "-v": (
        "dyno prints no answers, and counts failures by kind",
        "Leave it out. The version: dyno --version.",
    ),
    "-V": ("dyno itself prints the version", "dyno --version"),
    "--version": ("dyno itself prints the version", "dyno --version"),
    "-f": (
        "the options for the versions of TLS are --tls-min and --tls-max",
        "For a single version: --tls-min 1.3 --tls-max 1.3.",
    ),
    "-Z": (
        "the option for cipher suites is --ciphers",
        "Give IANA's names: --ciphers TLS_AES_128_GCM_SHA256.",
    ),
    "-I": (
        "the option for a HEAD request (curl) is --method, and the name in a TLS handshake (ab) is the URL's host",
        "--method HEAD. Another address for the host: --resolve HOST:PORT:ADDRESS.",
    ),
    "-B": ("the kernel chooses the local address of each connection", "Leave it out."),
    "-A": (
        "a header sets the user agent (curl), and every record would contain a password (ab)",
        "-H 'User-Agent: NAME'. Credentials: export DYNO_AUTHORIZATION=user:password, and give --auth basic.",
    ),
    "-a": (
        "every record would contain a password from the command line",
        "export DYNO_AUTHORIZATION=user:password, and give --auth basic.",
    ),
    "-P": (
        "dyno uses no proxy: the load goes directly to the server",
        "Give the proxy's own URL, or --resolve HOST:PORT:ADDRESS.",
    ),
    "-L": ("dyno does not follow redirects", "Give the URL that curl -I shows as Location."),
    "--location": ("dyno does not follow redirects", "Give the URL that curl -I shows as Location."),
    "--cacert": ("the option for trusted authorities is --ca-file", "--ca-file FILE (PEM)."),
    "--concurrency": ("the option for the number of clients is --clients", "Use --clients 64 (or -c 64)."),
    "--vus": ("the option for the number of clients is --clients", "Use --clients 64 (or -c 64)."),
    "--http1.1": ("the option for the version of HTTP is --http", "--http 1.1, which is the default."),
    "--http3": ("dyno does not speak HTTP/3", "--http 2 is the newest version."),
    "--data-raw": ("the option for a body is --data", "--data TEXT, or --data-file FILE."),
    "--data-binary": ("the option for a body is --data", "--data TEXT, or --data-file FILE."),
    "-F": (
        "dyno does not build forms",
        "Write the encoded form into a file, and send it with --data-file FILE.",
    ),
    "--compressed": ("dyno requests content codings with a header", "-H 'Accept-Encoding: gzip'."),
    "-4": (
        "dyno uses a host's first address that answers",
        "To use another one: --resolve HOST:PORT:ADDRESS.",
    ),
    "-6": (
        "dyno uses a host's first address that answers",
        "To use another one: --resolve HOST:PORT:[ADDRESS].",
    ),
    "--tlsv1.2": ("the option for the oldest version of TLS is --tls-min", "--tls-min 1.2"),
    "--tlsv1.3": ("the option for the oldest version of TLS is --tls-min", "--tls-min 1.3"),
    "-r": ("dyno continues after errors, and counts each by its kind", "Leave it out."),
    "-l": ("bodies may have any length, unless --expect-bytes sets it", "Leave it out."),
}
"""Options of wrk, ab, h2load, hey, oha and curl that `dyno load` lacks: what dyno does, and what to use instead."""

USER = (
    "the option for the user is --user",
    "--user NAME, and export DYNO_SMB_PASSWORD=... for the password.",
)
PASSWORD = "export DYNO_SMB_PASSWORD=... for the password, and give --user NAME."
ON_FILES: dict[str, tuple[str, str]] = {
    "-U": USER,
    "--username": USER,
    "--password": ("every record would contain a password from the command line", PASSWORD),
    "-A": ("dyno reads the password from the environment, not from a file", PASSWORD),
    "--authentication-file": ("dyno reads the password from the environment, not from a file", PASSWORD),
    "-N": ("without --user, dyno logs on as a guest", "Leave it out."),
    "--no-pass": ("without --user, dyno logs on as a guest", "Leave it out."),
    "-W": ("the domain belongs before the user's name", "--user 'DOMAIN\\NAME'"),
    "--workgroup": ("the domain belongs before the user's name", "--user 'DOMAIN\\NAME'"),
    "-k": ("the option for Kerberos is --authentication kerberos", "--authentication kerberos"),
    "--kerberos": ("the option for Kerberos is --authentication kerberos", "--authentication kerberos"),
    "--use-kerberos": ("the option for Kerberos is --authentication kerberos", "--authentication kerberos"),
    "-p": ("a port belongs in the URL", "-d smb://HOST:PORT/SHARE"),
    "--port": ("a port belongs in the URL", "-d smb://HOST:PORT/SHARE"),
    "-I": ("the URL names the address to connect to", "-d smb://ADDRESS/SHARE"),
    "-L": ("dyno does not list shares", "smbclient -L //HOST lists them."),
    "-t": ("the URL names the protocol", "-d nfs://HOST/EXPORT, or -d smb://HOST/SHARE."),
    "-o": (
        "dyno has no mount options",
        "NFS: the URL contains version, port, user and group, -d "
        "'nfs://HOST:PORT/EXPORT?vers=4.1&uid=1000&gid=1000'. SMB: give --user NAME. The dialect is "
        "max_dialect of a suite.",
    ),
    "--directory": ("the option for the directory is -d", "-d DIRECTORY, or the URL of a server."),
    "--filename": ("dyno chooses the file name itself", "Give the directory for it: -d DIRECTORY."),
    "--numjobs": ("the option for the number of clients is --clients", "--clients 4"),
    "--bs": (
        "the option for the size of reads and writes is --chunk of dyno bonnie",
        "Give it in bytes: --chunk 16384.",
    ),
    "--rw": ("the phases of Bonnie are fixed", "dyno scenario streams reads and writes streams."),
    "--name": ("the option for the label of a row is -m of dyno bonnie", "-m NAME"),
    "--runtime": ("the command ends when its work is done, and at the latest after --hours", "--hours 0.5"),
}
"""Options of smbclient, mount and fio that dyno's file commands lack: what dyno does, and what to use instead."""


class CommandWithHabits(TyperCommand):
    """A command that recognises options of other tools."""

    habits: ClassVar[Mapping[str, tuple[str, str]]] = {}

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


class LoadCommand(CommandWithHabits):
    habits = ON_THE_WEB


class FilesCommand(CommandWithHabits):
    habits = ON_FILES


def explain(error: Exception, words: Sequence[str]) -> None:
    """Add a hint to an error on the command line if `words` show the cause. Raises UserError for an error of click."""
    if not isinstance(error, UsageError | UserError):
        return
    message = error.format_message() if isinstance(error, UsageError) else f"{error}"
    hints = [*_pasted(words)][:1]
    if isinstance(error, UsageError) or message.startswith(_NOT_FOUND):
        hints = hints or [*_misplaced(message, words)]
    if isinstance(error, UserError):
        error.hint = " ".join([*hints, *([error.hint] if error.hint else [])]) or None
    elif hints:
        raise UserError(message, hint=hints[0]) from error


_NOT_FOUND = ("can't read ", "no suite ", "no scenario ")
_DASHES, _QUOTES = (
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d",
    "\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb",
)
_INVISIBLE = re.compile("[\u00a0\u00ad\u200b-\u200f\u202f\u2060\ufeff]")


def _pasted(words: Sequence[str]) -> Iterator[str]:
    """Yield hints on typographic characters from word processors and web pages, and on short options with =."""
    for word in words:
        if re.match(f"-?[{_DASHES}]+-?[A-Za-z0-9]", word):
            name = word.lstrip(f"-{_DASHES}")
            meant = f"{'--' if len(name.partition('=')[0]) > 1 and name[1:2].isalpha() else '-'}{name}"
            yield f"{word} begins with a typographic dash, as from a document or a web page: write {meant}"
        if re.match("-[A-Za-z]=", word):
            yield f"A short option has no =: write {word.replace('=', ' ', 1)}"
        if word[:1] and (word[0] in _QUOTES or word[-1] in _QUOTES):
            yield f"{word} has typographic quotation marks, which the shell does not read: write ' or \"."
        if found := _INVISIBLE.search(word):
            what = (
                "a no-break space" if found[0] in "\u00a0\u202f" else f"the invisible U+{ord(found[0]):04X}"
            )
            yield f"{word} contains {what}, as from a document or a web page: type it again."


def _misplaced(message: str, words: Sequence[str]) -> Iterator[str]:
    """Yield a hint on the option for a URL or a file that is given without it."""
    command = words[0] if words else ""
    refused = {word.strip(":") for word in re.split(r"[\s()'\"]+", message)}
    for word, (fits, hint) in ((word, row) for word in words for row in _PLACES.get(command, _NO_COMMAND)):
        if {word, f"{Path(word)}"} & refused and fits(word):
            yield hint.format(word=word)
            return


def _is_url(word: str) -> bool:
    return word.startswith(("http://", "https://"))


def _is_place(word: str) -> bool:
    return "://" in word or word.startswith(("/", ".", "~", "\\\\"))


_Rows = tuple[tuple[Callable[[str], bool], str], ...]
_ON_PLACE: _Rows = ((_is_place, "A directory, or the URL of a file server, is given as -d {word}"),)
_PLACES: dict[str, _Rows] = {
    "load": (
        (
            _is_url,
            "One load goes to one URL. Several paths: --urls FILE. Several servers: a plan, see docs/plan.md.",
        ),
    ),
    "run": ((_is_url, "A URL is loaded by dyno load {word}; dyno run takes a plan, a TOML file."),),
    "plan": ((_is_url, "A plan is a TOML file. To load a URL: dyno load {word}"),),
    "bonnie": _ON_PLACE,
    "scenario": _ON_PLACE,
}
_NO_COMMAND: _Rows = (
    (lambda word: word.startswith(("s3://", "s3s://")), "To measure a bucket: dyno objects {word}"),
    (_is_url, "To load a URL: dyno load {word}"),
    (lambda word: word.endswith(".toml"), "To measure a plan: dyno run {word}"),
)
