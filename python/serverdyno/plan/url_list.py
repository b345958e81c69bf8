"""Read lists of URLs for `dyno load --urls`: paths, URLs, vegeta targets, `uniq -c` output and access logs.

A line that can't be used is refused with its number and a remedy; lines with the same problem count as one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from serverdyno import wording
from serverdyno.errors import PlanError, UserError
from serverdyno.plan.protocols.documents import MOST_PATHS
from serverdyno.plan.protocols.escapes import GRAPHIC, fully_escaped

MOST_BYTES = 64 << 20
DEFAULT_PORTS = {"http": 80, "https": 443}
BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
MOST_WEIGHT = 999_999_999
_IN_LOG = re.compile(r'"([A-Z]+) (\S+) HTTP/[0-9.]+"')
_REQUEST = re.compile(r"([A-Z]+)\s+(\S+)(?:\s+HTTP/[0-9.]+)?")
_COUNTED = re.compile(r"(\d+)\s+(\S+)")
_LOGGED = re.compile(r'\[\d\d/[A-Z][a-z]{2}/\d{4}:.*\] "')
_FRACTION = re.compile(r"\S+\s+(\d*\.\d+)")
_WEIGHTED = re.compile(r"(\S+)(?:\s+(\d+))?")
_SENDS = re.compile(r"\S+\s+(?:POST|PUT|PATCH|DELETE)\b.*")
_TABLE = re.compile(r'"[^"]*"([,;]\S.*)?|[^/,;:#]+([,;][^,;]*)+')
_PAIR = re.compile(r"(\S+)[,;](\d+)")
_STATED = re.compile(r"(https?://|/|[A-Z]+ /)\S*.*")
PACKED = (
    (b"\x1f\x8b", "zcat"),
    (b"\x28\xb5\x2f\xfd", "zstdcat"),
    (b"\xfd7zXZ", "xzcat"),
    (b"BZh", "bzcat"),
    (b"PK", "unzip -p"),
)
"""First bytes of compressed files, such as rotated logs, and the program that prints the contents."""
OF_REFERRERS = ("referer", "referrer", "http_referer")
_ESCAPED = re.compile(r"""\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4}(?:\\u[0-9A-Fa-f]{4})*)|(["\\/bfnrtv]))""")
"""How nginx, Apache and JSON write bytes that a log can't contain."""
CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_VARIABLE = re.compile(r"\$[({]")
OF_GET = r"""keep the lines with GET (grep -E '"GET /[^ ]* HTTP/' FILE)"""
OTHERS = "for requests with other methods, headers or bodies, use a session, see docs/sessions.md"


class _OtherFormatError(ValueError):
    """A line that shows that the file's format can't be used."""


def read_url_list(file: Path, url: str) -> list[str]:
    """Return `/path weight` for each path in the file. URLs in it must name the server of `url`.

    Raises UserError, or PlanError with every line that can't be used.
    """
    found: Counter[str] = Counter()
    problems: list[str] = []
    lines: dict[str, list[int]] = {}
    for number, line in enumerate(_text(file).splitlines(), start=1):
        try:
            for path, weight in _entries(line.strip(), url):
                found[path] += weight
        except _OtherFormatError as error:
            problems = [f"line {number}: {error}"]
            break
        except ValueError as error:
            lines.setdefault(f"{error}", []).append(number)
    problems += [f"{_numbers(numbers)}: {problem}" for problem, numbers in lines.items()]
    if len(found) > MOST_PATHS:
        problems.append(
            f"{len(found):,} different paths, more than {MOST_PATHS}; keep the most frequent: sort {file} | uniq -c | "
            f"sort -rn | head -{MOST_PATHS} (of an access log: awk '{{print $7}}' first)"
        )
    if not found and not problems:
        problems.append("it contains no path; write one per line: /path, or /path weight")
    if problems:
        raise PlanError(str(file), problems)
    return [path if weight == 1 else f"{path} {weight}" for path, weight in found.items()]


def _numbers(lines: list[int]) -> str:
    """Return `line 8`, or `line 8 and 4,999 other lines`."""
    more = f" and {wording.plural(len(lines) - 1, 'other line')}" if len(lines) > 1 else ""
    return f"line {lines[0]}{more}"


def _text(file: Path) -> str:
    try:
        with (Path("/dev/stdin") if f"{file}" == "-" else file).open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise UserError(f"can't read the paths in {file}: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise UserError(f"the file {file} has more than {MOST_BYTES >> 20} MiB")
    encoding = BYTE_ORDER_MARKS.get(content[:2], "utf-8-sig")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        latin = f"line {line}: not UTF-8 text; iconv -f ISO-8859-1 -t UTF-8 converts a Latin 1 file"
        packed = next(
            (
                f"it is compressed; {tool} FILE prints its text"
                for start, tool in PACKED
                if content.startswith(start)
            ),
            None,
        )
        raise PlanError(str(file), [packed or latin]) from error


def _entries(line: str, url: str) -> Iterator[tuple[str, int]]:
    """Yield the paths of a line with their weights; nothing for an empty line. Raises ValueError with advice."""
    if not _IN_LOG.search(line) and (advice := _of_format(line)) is not None:
        raise _OtherFormatError(advice)
    if not line or line.startswith("#"):
        return
    weight = "1"
    if found := _IN_LOG.search(line) or _REQUEST.fullmatch(line):
        is_logged = found.re is _IN_LOG
        if found[1] != "GET":
            keep = OF_GET if is_logged else "keep the lines with GET"
            raise ValueError(f"the method is {found[1]}; {keep}: {OTHERS}")
        target = _ESCAPED.sub(_unescaped, found[2]) if is_logged else found[2]
    elif found := _COUNTED.fullmatch(line):
        weight, target = found[1], found[2]
    elif found := _WEIGHTED.fullmatch(line):
        target, weight = found[1], found[2] or "1"
        if (pair := _PAIR.fullmatch(target)) and found[2] is None:
            raise ValueError(
                f"a comma before a number: write {pair[1]} {pair[2]} if the number is a weight, or {target} 1 if the "
                "comma belongs to the path"
            )
    elif _SENDS.fullmatch(line):
        raise ValueError(f"a request with a method or a body; keep only the URLs: {OTHERS}")
    elif _LOGGED.search(line):
        raise ValueError(f"this line of an access log has no request; {OF_GET}: {OTHERS}")
    elif found := _FRACTION.fullmatch(line):
        raise ValueError(
            f"the weight {found[1]} is not a whole number: write, for example, 5 and 10 instead of 0.5 and 1"
        )
    else:
        raise ValueError(f"{line[:60]!r} is not a path; write /path, or /path weight; write a space as %20")
    if len(weight) > len(str(MOST_WEIGHT)):
        raise ValueError(f"the weight {weight} is above {MOST_WEIGHT:,}")
    yield _path(target, url), int(weight)


def _of_format(line: str) -> str | None:
    """Return how to convert a file of another format; None if the line shows no other format."""
    if line.startswith("#Fields:"):
        return _of_fields(line.split()[1:])
    if line[:1] in ("{", "[", "<") and not _LOGGED.search(line):
        return _of_document(line)
    if _TABLE.fullmatch(line):
        return (
            "a table with commas (CSV); write /path weight: "
            r"""awk -F'[,;]' '{gsub(/["\r]/, "")} $1 ~ /^(\/|http)/ {print $1, $2}' FILE"""
            ", if path and weight are its first two columns"
        )
    return None


def _of_fields(fields: list[str]) -> str:
    """Return how to convert a log in W3C's extended format, such as IIS's, whose columns are `fields`."""
    names = {name: f"${place}" for place, name in enumerate(fields, start=1)}
    path, method = names.get("cs-uri-stem", names.get("cs-uri", "$5")), names.get("cs-method", "$4")
    return (
        "a log in W3C's extended format, as written by IIS; keep only the paths of GET requests: "
        f"awk '!/^#/ && {method} == \"GET\" {{print {path}}}' FILE"
    )


def _of_document(line: str) -> str:
    """Return how to extract the paths from a document in JSON or XML."""
    if line.startswith("<"):
        return (
            "XML (such as a sitemap) or HTML; keep only the URLs, one per line: "
            r"grep -oP '<loc>\s*\K[^<\s]+' FILE | sed 's/&amp;/\&/g' prints the URLs of a sitemap"
        )
    try:
        key = _stated_at(json.loads(line))
    except (ValueError, RecursionError):
        key = None
    return f"JSON; keep only the paths, one per line: jq -r '{key or '.urls[]'}' FILE prints them"


def _stated_at(value: Any, key: str = "") -> str | None:
    """Return a jq filter that selects the first text that is a path, a URL or a request; None if there is none."""
    if isinstance(value, str):
        return (key or ".") if _STATED.fullmatch(value) else None
    if isinstance(value, list):
        return _stated_at(value[0], f"{key or '.'}[]") if value else None
    if not isinstance(value, dict):
        return None
    inner = {name: value[name] for name in value if name.lower() not in OF_REFERRERS and name.isidentifier()}
    return next(filter(None, (_stated_at(each, f"{key}.{name}") for name, each in inner.items())), None)


def _unescaped(found: re.Match[str]) -> str:
    """Return the bytes that an escape in a log stands for; bytes that a URL can't contain are percent-encoded."""
    byte, character, plain = found.groups()
    if byte is not None:
        return quote(bytes([int(byte, 16)]), safe=GRAPHIC)
    if character is not None:
        units = bytes.fromhex(character.replace("\\u", ""))
        return fully_escaped(units.decode("utf-16-be", "replace"))
    return fully_escaped(CONTROLS.get(plain, plain))


def _path(target: str, url: str) -> str:
    """Return the path of a target on the server of `url`. Raises ValueError with advice."""
    if not target.startswith("/"):
        target = _below(target, url)
    path = target.partition("#")[0]  # a fragment is never sent
    return fully_escaped(path)


def _below(target: str, url: str) -> str:
    if _VARIABLE.search(target):
        raise ValueError(
            f"{target[:120]} has a variable of siege; write its value instead of $(...), or remove it if the rest is "
            "a path"
        )
    if re.match(r"[A-Za-z_]+=", target):
        raise ValueError(
            f"{target[:60]!r} is not a path; if it defines a variable of siege, write its value in the URLs; "
            "for what all requests share use options: --header, --data-file"
        )
    if re.fullmatch(r"[A-Za-z_]+:|@.*|[A-Za-z-]+:.*(?<!//).*", target) and "://" not in target:
        raise ValueError(
            f"{target[:60]!r} is not a path; use options for what all requests share: --header, --data-file"
        )
    if not re.match("[A-Za-z][A-Za-z0-9+.-]*://", target):
        if "://" in target:
            raise ValueError(f"{target[:60]!r} begins with neither / nor http://; keep only the URL")
        path = target.removeprefix("./")
        raise ValueError(f"{target[:60]!r} does not begin with /; write /{path[:60]}")
    if _origin(target) != _origin(url):
        raise ValueError(
            f"{target[:120]} is not on the server {url}, but a load has only one server: remove this URL, "
            "or load its server separately"
        )
    parts = urlsplit(target)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        return parts.scheme.lower(), parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme.lower())
    except ValueError as error:
        raise ValueError(f"{url[:120]} is not a URL: {error}") from None
