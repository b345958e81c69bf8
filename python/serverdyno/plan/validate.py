"""Check that a plan makes sense on this machine, beyond the type of each field.

Every valid part of a document is checked, so that one pass reports every problem. The caller passes the existing
servers and their settings models, because this package has no list of servers.
"""

from __future__ import annotations

import contextlib
import ipaddress
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ValidationError

from serverdyno._native import names_loopback
from serverdyno.plan import protocols, suites
from serverdyno.plan.check_suite import bounds_problems, scale_problems
from serverdyno.plan.document import Problem, check_model, explain, unknown_name
from serverdyno.plan.expand import combinations, configuration_name, levels_of
from serverdyno.plan.model import (
    MAX_LEVELS,
    MAX_RUNS,
    MAX_URL,
    GeneratorPlan,
    Level,
    Plan,
    ServerPlan,
    Suite,
)
from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.protocols.escapes import fully_escaped
from serverdyno.plan.protocols.files import FILES
from serverdyno.plan.protocols.work import Cut
from serverdyno.plan.spoken import SettingsTypes, protocol_of_server

# Names become folder names (at most 255 bytes) and chart legends.
MAX_CONFIGURATION_NAME = 100
MOUNTED = {
    **dict.fromkeys(("sftp", "ssh", "scp", "rsync"), "sshfs"),
    **dict.fromkeys(("dav", "davs", "webdav", "webdavs"), "davfs2"),
    **dict.fromkeys(("ftp", "ftps"), "curlftpfs"),
    "gs": "rclone mount",
    "afp": "afpfs-ng",
    "9p": "mount -t 9p",
    "ceph": "mount -t ceph",
    "glusterfs": "mount -t glusterfs",
}
"""Programs that mount the file systems of URL schemes that users write but dyno does not support."""
UNIX_SOCKET = "to load a Unix socket, give --unix-socket FILE together with http://HOST/PATH"
_NO_URLS = (
    (r"(?:http\+)?unix:.*", UNIX_SOCKET),
    (r"[<'\"(]+(.+?)[>'\")]+", "write {0}"),
    (r"(:\d+(?:/.*)?)", "write http://127.0.0.1{0}"),
    (r"(?:wss?|grpcs?)://.*", "dyno speaks HTTP/1 and HTTP/2, but not WebSocket or gRPC"),
)
"""Patterns for URLs in other tools' notations, with what to write instead."""


@dataclass(frozen=True, slots=True)
class _Context:
    """The context for checking the servers of a plan. `levels` and `suites` leave out unknown suites."""

    settings_types: SettingsTypes
    machine_cpus: Collection[int]
    generator: GeneratorPlan
    levels: list[Level]
    suites: Sequence[Suite]


def check_plan(
    data: Mapping[str, Any],
    settings_types: SettingsTypes,
    machine_cpus: Collection[int] | None = None,
    known: Sequence[Suite] = (),
) -> tuple[Plan | None, list[Problem]]:
    """Return the plan in a document, or None, and all its problems.

    `settings_types` contains the settings model of every known server, by name. `machine_cpus` are the CPUs that may be
    named, by default the CPUs of this process. `known` are the plan's suites that are not shipped.
    """
    plan, unsound = check_model(Plan, data)
    frame = _frame(data, _first_keys(unsound))
    problems: list[Problem] = []
    found, of_suites = _suites_of(data, frame, known)
    problems += of_suites
    available = os.sched_getaffinity(0) if machine_cpus is None else machine_cpus
    context = _Context(settings_types, available, frame.generator, levels_of(found, frame.scale), found)
    problems += cpu_problems(("generator", "cpus"), frame.generator.cpus, available)
    servers = _sound_servers(data)
    if (too_many := size_problem(servers, frame.ends_with, len(context.levels))) is not None:
        return None, [*unsound, *problems, too_many]
    for index, server in servers.items():
        problems += _server_problems(("servers", index), server, context)
    problems += _name_problems(servers)
    problems += _testbed_problems(frame, servers, context)
    # Invalid parts were left out, so ignore further problems with them or their parents.
    doubtful = {found.path[:depth] for found in unsound for depth in range(len(found.path) + 1)}
    return plan, [*unsound, *(found for found in problems if found.path not in doubtful)]


def _suites_of(
    data: Mapping[str, Any], frame: Plan, known: Sequence[Suite]
) -> tuple[list[Suite], list[Problem]]:
    """Return the suites of a plan, and the problems with their names and their scaling."""
    by_name = {suite.name: suite for suite in known}
    found: list[Suite] = []
    problems: list[Problem] = []
    for place, name in enumerate(frame.suite_names):
        path: tuple[str | int, ...] = ("suites", place) if frame.suites else ("suite",)
        if name not in by_name and name not in suites.names():
            if name in (data.get("suite"), *(data.get("suites") or ())):
                problems.append(Problem(path, unknown_name("suite", name, suites.names())))
            continue
        suite = by_name.get(name) or suites.load(name)
        found.append(suite)
        problems += scale_problems(suite, frame.scale)
        if frame.until_percent is not None and (message := precision_problem(suite)):
            problems.append(Problem(("until_percent",), message))
        if frame.suites and suite.open is not None and not suite.open.rate_per_s:
            problems.append(
                Problem(path, f"{name} measures peaks first, so it must be the only suite of a plan")
            )
        if frame.suites and suite.objective is not None:
            problems.append(Problem(path, f"{name} is a search, so it must be the only suite of a plan"))
    return found, problems


def precision_problem(suite: Suite) -> str | None:
    """Return why the precision of a suite's averages is meaningless; None if it is meaningful."""
    if suite.open is None:
        return None
    return (
        f"suite {suite.name} sets the rates itself (open load), so average throughput does not describe "
        "the server"
    )


def url_problem(url: str, schemes: Sequence[str] | None = None, suites: Sequence[Suite] = ()) -> str | None:
    """Return why `url` can't be a target; None if it can.

    `schemes` are the allowed schemes. None allows those of every protocol; the message then names those that can carry
    `suites`. Whether the server consents to load is checked only when the load starts.
    """
    allowed = schemes or [scheme for protocol in protocols.known() for scheme in protocol.schemes]
    if (wrong := _text_problem(url)) is not None:
        return wrong
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        bare = re.match(r"[a-z]+://([0-9A-Fa-f]*:[0-9A-Fa-f:]*:[0-9A-Fa-f]*)(?:/|$)", url)
        return f'"{url}" is not a URL: ' + (
            "write an IPv6 address in brackets, as in http://[::1]:8080/" if bare else f"{error}"
        )
    if parts.username is not None or parts.password is not None:
        return "must not contain a user name or password, because the experiment would contain it"
    if parts.scheme not in allowed:
        named = [scheme for scheme in allowed if _carries(scheme, suites)] or allowed
        told = f'"{url}" must begin with {" or ".join(f"{scheme}://" for scheme in named)}'
        return told + ("" if (meant := _meant(url, allowed)) is None else f": {meant}")
    if (wrong := _place_problem(url, parts)) is not None:
        return wrong
    return _fragment_problem(parts) if parts.fragment else None


def _fragment_problem(parts: SplitResult) -> str:
    protocol = protocols.of_scheme(parts.scheme)
    if protocol is not None and not protocol.work.uses_documents:
        return f"must not contain # (#{parts.fragment}): write # in a name as %23"
    return "must not contain a fragment (#...), which is never sent"


def _carries(scheme: str, suites: Sequence[Suite]) -> bool:
    """Return whether the protocol of a scheme carries the work of each suite."""
    protocol = protocols.of_scheme(scheme)
    return all(protocol in protocols.carrying(suite.work) for suite in suites)


def other_spelling(place: str) -> str | None:
    """Return the URL of a share or export in Windows or mount(8) notation; None if it is in neither."""
    if found := re.fullmatch(r"(smb|cifs|nfs):/?([^/\\].*)", place):
        return f"{found[1].replace('cifs', 'smb')}://{found[2]}"
    if found := re.fullmatch(r"(?:cifs:|smb:)?(?://|\\\\)([^/\\]+)[/\\](.+)", place):
        return f"smb://{found[1]}/" + found[2].replace("\\", "/")
    if found := re.fullmatch(r"([A-Za-z0-9.-]{2,}|\[[0-9a-fA-F:]+\]):(/.*)", place):
        return None if found[2].startswith("//") else f"nfs://{found[1]}{found[2]}"
    return None


def _meant(url: str, allowed: Sequence[str]) -> str | None:
    """Return how to write a URL that is spelled in another convention, or which command accepts it."""
    for pattern, advice in _NO_URLS:
        if found := re.fullmatch(pattern, url):
            return advice.format(*found.groups())
    written = other_spelling(url) or url
    scheme = written.partition(":")[0].lower()
    takes_files = "file" in allowed
    if scheme in MOUNTED:
        use = (
            "give the directory, file:///MOUNTPOINT" if takes_files else FILES.usage.format(url="MOUNTPOINT")
        )
        return f"dyno does not speak it: mount it ({MOUNTED[scheme]}), and {use}"
    if found := re.match(r"/|\.{1,2}/|~", written):
        is_whole = takes_files and found[0] == "/"
        return f"write it file://{written}" if is_whole else FILES.usage.format(url=url)
    protocol = protocols.of_scheme(scheme)
    if protocol is None:
        return None
    if set(protocol.schemes) & set(allowed):
        return f"write it {written}"
    return protocol.work.usage.format(url=written)


def _text_problem(url: str) -> str | None:
    if len(url) > MAX_URL:
        return f"has {len(url):,} characters, more than {MAX_URL:,}"
    protocol = protocols.of_scheme((other_spelling(url) or url).partition(":")[0])
    # Names of shares and directories may contain any letter, but an HTTP request line must be ASCII.
    is_plain = protocol is not None and not protocol.work.uses_documents
    if not url.isprintable() or not (is_plain or (url.isascii() and " " not in url)):
        return f"{url!r} has a character that a URL can't contain; {_written_otherwise(url)}"
    return None


def _written_otherwise(url: str) -> str:
    """Return how to write non-ASCII letters: in a host name by IDNA (RFC 5891), elsewhere as %XX."""
    if re.search(r"\shttps?://", url):
        return "give one URL; for several paths of one server, use --urls FILE"
    with contextlib.suppress(ValueError):
        host = urlsplit(url).hostname or ""
        if " " in host:
            return f"the host {host!r} has a space: remove it"
        if host.isprintable() and not host.isascii():
            return f"write the host as {host.encode('idna').decode()}"
    return f"write {fully_escaped(url)}"


def _place_problem(url: str, parts: SplitResult) -> str | None:
    protocol = protocols.of_scheme(parts.scheme)
    if parts.query and protocol is not None and protocol.no_parameters is not None:
        return f"has parameters (?{parts.query}), and URLs of {protocol.title} have none: {protocol.no_parameters}"
    if not protocols.has_host(parts.scheme):
        is_directory = parts.netloc in ("", "localhost") and parts.path.strip("/")
        return None if is_directory else f'"{url}" names no directory below /: {parts.scheme}:///PATH'
    if not parts.hostname:
        return f'"{url}" names no host: write {parts.scheme}://HOST/PATH'
    if _is_unspecified(parts.hostname):
        here = parts._replace(netloc=f"127.0.0.1:{parts.port}" if parts.port else "127.0.0.1").geturl()
        return f"{parts.hostname} stands for every address of a machine; use {here}"
    return _host_problem(url, parts, parts.hostname)


def _host_problem(url: str, parts: SplitResult, host: str) -> str | None:
    if host == "unix" and ".sock" in parts.path:
        return UNIX_SOCKET
    if wrong := re.search(r"[^\w.:%-]", host):
        return (
            f'"{host}" is not a host name, because it contains {wrong[0]}: replace a placeholder by the name'
        )
    if ":" in host and "%" in host:
        return f'"{url}" names an interface (%{host.partition("%")[2]}), which is not supported: use another address'
    if not _is_host(host) or parts.port == 0:
        return f'"{url}" has an invalid host (1 to 63 characters between dots, at most 253 in all), or port 0'
    return None


def _is_host(name: str) -> bool:
    """Return whether a name is an address in brackets, or short enough to be looked up (RFC 1035, 2.3.4)."""
    if ":" in name:
        return True
    whole = name.removesuffix(".")
    return len(whole) <= 253 and all(1 <= len(label) <= 63 for label in whole.split("."))


def _is_unspecified(host: str) -> bool:
    """Return whether a host is 0.0.0.0 or ::, which servers print as their listening address."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_unspecified
    return host == "0"


def is_loopback(url: str) -> bool:
    """Return whether a URL names a loopback address, `localhost` or a directory. Any other name counts as remote."""
    parts = urlsplit(url)
    return names_loopback(parts.netloc) or not protocols.has_host(parts.scheme)


def goes_to_loopback(url: str, connect_to: str | None) -> bool:
    """Return whether load stays on this machine, judged by the plan only.

    `connect_to` is an address or a Unix socket that replaces the URL's host. `fleet/consent.py` checks the address
    that is actually used.
    """
    if connect_to is None:
        return is_loopback(url)
    return connect_to.startswith("/") or names_loopback(
        f"[{connect_to}]" if ":" in connect_to else connect_to
    )


def _frame(data: Mapping[str, Any], unsound: Collection[str | int]) -> Plan:
    """Return the plan without its servers, with stand-ins for missing or invalid parts."""
    stand_ins: dict[str, Any] = {"name": "stand-in", "title": ""}
    sound = {key: value for key, value in data.items() if key in Plan.model_fields and key not in unsound}
    if isinstance(sound.get("suites"), list):
        sound["suites"] = list(dict.fromkeys(sound["suites"]))
    if ("suite" in sound) == ("suites" in sound):
        sound = {key: value for key, value in sound.items() if key != "suites"} | {"suite": "stand-in"}
    return Plan.model_validate({**stand_ins, **sound, "servers": [{"server": ""}]})


def _sound_servers(data: Mapping[str, Any]) -> dict[int, ServerPlan]:
    entries = data.get("servers")
    if not isinstance(entries, list):
        return {}
    checked = {index: _sound_server(entry) for index, entry in enumerate(entries)}
    return {index: server for index, server in checked.items() if server is not None}


def _sound_server(entry: Any) -> ServerPlan | None:
    """Return the server without its invalid parts; None if too little remains."""
    server, problems = check_model(ServerPlan, entry)
    if server is None and isinstance(entry, dict):
        unsound = _first_keys(problems)
        server, _ = check_model(ServerPlan, {key: entry[key] for key in entry.keys() - unsound})
    return server


def _first_keys(problems: list[Problem]) -> set[str | int]:
    return {problem.path[0] for problem in problems if problem.path}


def size_problem(servers: Mapping[int, ServerPlan], repetitions: int, levels: int = 0) -> Problem | None:
    """Return a problem if there are too many runs or load levels. They are counted before anything is expanded."""
    count = sum(math.prod(map(len, server.factors.values())) for server in servers.values()) * repetitions
    if count > MAX_RUNS:
        return Problem(
            ("servers",), f"the plan has {count:,} runs; the limit is {MAX_RUNS:,}: use fewer factors"
        )
    if count * levels > MAX_LEVELS:
        told = f"{count:,} runs of {levels:,} load levels are {count * levels:,} in all; the limit is {MAX_LEVELS:,}"
        return Problem(("servers",), f"{told}: use fewer factors, repetitions or clients")
    return None


def _server_problems(path: tuple[str, int], server: ServerPlan, context: _Context) -> Iterator[Problem]:
    if server.server not in context.settings_types:
        message = unknown_name("server", server.server, context.settings_types)
        yield Problem((*path, "server"), message)
    else:
        settings_type = context.settings_types[server.server]
        yield from _settings_problems(path, server, settings_type)
        yield from _protocol_problems(path, server, context)
    for factor in server.factors:
        if factor in server.settings:
            message = "is both a factor and a setting: remove one of them"
            yield Problem((*path, "factors", factor), message)
    if server.node is None:
        yield from cpu_problems((*path, "cpus"), server.cpus, context.machine_cpus)
        yield from _processor_problems(path, server, context)
    yield from _node_problems(path, server, context)
    if shared := sorted(set(server.cpus) & set(context.generator.cpus)):
        message = (
            f"generator.cpus also has {_listed(shared)}, so the generator would take CPU time from the server"
        )
        yield Problem((*path, "cpus"), message)
    yield from _target_problems(path, server, context)


def _protocol_problems(path: tuple[str, int], server: ServerPlan, context: _Context) -> Iterator[Problem]:
    """Yield a problem if the server speaks no protocol that carries a suite's work."""
    spoken = protocol_of_server(server, context.settings_types)
    if spoken is not None:
        for suite in context.suites:
            yield from _problems_with(suite, path, server, protocols.of(spoken), context)


def _problems_with(
    suite: Suite, path: tuple[str, int], server: ServerPlan, protocol: Protocol[Any], context: _Context
) -> Iterator[Problem]:
    work = suite.work
    if protocol.work is not work:
        carried = " or ".join(each.title for each in protocols.carrying(work))
        told = f"speaks {protocol.title}, but the suite {suite.name} measures {work.name} over {carried}"
        usage = f"; {protocol.work.usage.format(url=server.url)}" if server.url else ""
        yield Problem((*path, "server"), f"{told}{usage}")
        return
    defaults = {
        key: field.default for key, field in context.settings_types[server.server].model_fields.items()
    }
    for levels in combinations(server):
        settings, work_settings = suite.settings(protocol), suite.settings(work)
        server_settings = {**defaults, **server.settings, **levels}
        wrong = protocol.server_problem(settings, work_settings, server.url, server_settings)
        cut = work.cut(work_settings)
        if wrong is None and cut is not None and not cut.by_clients:
            wrong = cut_problem(server, cut, context.settings_types[server.server])
        if wrong is None and server.url is None:
            wrong = work.server_problem(work_settings, suite.workload, server_settings)
        if wrong is not None:
            yield Problem((*path, "settings" if server.url is None else "url"), wrong)
            return


def _processor_problems(path: tuple[str, int], server: ServerPlan, context: _Context) -> Iterator[Problem]:
    """Yield a problem if the server's setting `processors` exceeds the number of usable CPUs."""
    usable = len(server.cpus or context.machine_cpus)
    for levels in combinations(server):
        count = {**server.settings, **levels}.get("processors")
        if isinstance(count, int) and count > usable:
            table = "factors" if "processors" in levels else "settings"
            where = "cpus names" if server.cpus else "this process may use"
            yield Problem((*path, table, "processors"), f"{count}, but {where} only {usable} CPU(s)")
            return


def _settings_problems(
    path: tuple[str, int], server: ServerPlan, settings_type: type[BaseModel]
) -> Iterator[Problem]:
    """Yield each problem that the settings model finds in any combination of factor levels, once."""
    seen: set[Problem] = set()
    for levels in combinations(server):
        try:
            settings_type.model_validate({**server.settings, **levels})
        except ValidationError as error:
            for found in error.errors(include_url=False):
                place = found["loc"]
                table = "factors" if place and place[0] in levels else "settings"
                problem = Problem((*path, table, *place), explain(found, settings_type))
                if problem not in seen:
                    seen.add(problem)
                    yield problem


def cpu_problems(
    path: tuple[str | int, ...], cpus: list[int], machine_cpus: Collection[int] | None = None
) -> Iterator[Problem]:
    """Yield the problems with a list of CPUs.

    `machine_cpus` are the usable ones, by default the CPUs of this process.
    """
    usable = os.sched_getaffinity(0) if machine_cpus is None else machine_cpus
    if absent := sorted(set(cpus) - set(usable)):
        yield Problem(path, f"this process can't use {_listed(absent)}; usable: {_listed(sorted(usable))}")
    if len(set(cpus)) < len(cpus):
        yield Problem(path, "names a CPU twice")


def _target_problems(path: tuple[str, int], server: ServerPlan, context: _Context) -> Iterator[Problem]:
    settings_type = context.settings_types.get(server.server)
    if not getattr(settings_type, "is_external", False):
        for key in ("url", "bounds"):
            if getattr(server, key) is not None:
                message = (
                    f"requires a server that you run ({_externals(context)}); dyno starts {server.server}"
                )
                yield Problem((*path, key), message)
        return
    if server.cpus:
        message = (
            f'can\'t be set for the server "{server.server}", because dyno does not start it on this machine'
        )
        yield Problem((*path, "cpus"), message)
    spoken = getattr(settings_type, "protocol", None)
    if server.url is None:
        yield Problem((*path, "url"), f'missing: the server "{server.server}" needs a URL')
    elif (
        wrong := url_problem(server.url, spoken and protocols.of(spoken).schemes, context.suites)
    ) is not None:
        yield Problem((*path, "url"), wrong)
    elif not goes_to_loopback(server.url, _connect_to(server)) and server.bounds is None:
        message = "missing: a target that is not loopback needs max_clients, max_rate_per_s and max_length_s"
        yield Problem((*path, "bounds"), message)
    if server.bounds is not None and context.levels:
        yield from bounds_problems((*path, "bounds"), server.bounds, context.levels, context.suites)


def cut_problem(server: ServerPlan, cut: Cut, settings_type: type[BaseModel]) -> str | None:
    """Return why the suite's outage is not possible with a server; None if it is possible."""
    ways: frozenset[str] = getattr(settings_type, "cuts", frozenset()) if server.node is None else frozenset()
    if cut.how in ways:
        return None
    possible = " or ".join(f'"{how}"' for how in sorted({*ways, "connections"}))
    return f'files.failover.cut = "{cut.how}" of the suite is not possible with this server: use {possible}'


def _node_problems(path: tuple[str, int], server: ServerPlan, context: _Context) -> Iterator[Problem]:
    """Yield the reasons why a node can't run the server."""
    if server.node is None:
        if server.address is not None:
            yield Problem((*path, "address"), "requires a node: name the node that runs the server")
        if server.back_nodes:
            yield Problem((*path, "back_nodes"), "require a front on a node: name the front's node")
        return
    yield from _back_problems(path, server)
    if context.generator.fleet is None:
        yield Problem((*path, "node"), "requires a fleet, but the plan has none (generator.fleet)")
    settings_type = context.settings_types.get(server.server)
    if settings_type is not None and not _listens_elsewhere(settings_type):
        yield Problem(
            (*path, "node"), f"{server.server} can't run on a node; servers that can: {_reachable(context)}"
        )
    if server.address is not None:
        try:
            ipaddress.ip_address(server.address)
        except ValueError:
            yield Problem((*path, "address"), f'"{server.address}" is not an IP address')


def _back_problems(path: tuple[str, int], server: ServerPlan) -> Iterator[Problem]:
    """Yield a problem for each use of `back_nodes` with a server that has no servers behind it."""
    if not server.back_nodes:
        return
    place = (*path, "back_nodes")
    if server.server != "team":
        yield Problem(place, f"require a team: {server.server} has no servers behind it")
        return

    def chosen(key: str, default: Any) -> list[Any]:
        return server.factors.get(key) or [server.settings.get(key, default)]

    if "reference" in chosen("front", None):
        yield Problem(place, "the reference server as front can only reach servers on its own machine")
    counts = [count for count in chosen("backs", 1) if isinstance(count, int)]
    if counts and len(set(server.back_nodes)) > max(counts):
        told = f"{len(set(server.back_nodes))} nodes, but the front has only {max(counts)} behind it (backs)"
        yield Problem(place, told)


def _testbed_problems(frame: Plan, servers: Mapping[int, ServerPlan], context: _Context) -> Iterator[Problem]:
    """Yield problems with options that a testbed's hosts can't have, and with servers that they can't reach."""
    if frame.testbed is None:
        return
    if frame.generator.fleet is not None or frame.generator.processes > 1 or frame.generator.cpus:
        yield Problem(
            ("testbed",), "its hosts generate the load, so remove generator.fleet, processes and cpus"
        )
    for name in dict.fromkeys(server.server for server in servers.values()):
        settings_type = context.settings_types.get(name)
        if settings_type is not None and not _listens_elsewhere(settings_type):
            reachable = _reachable(context)
            yield Problem(
                ("testbed",), f"its hosts can't reach the server {name}; reachable servers: {reachable}"
            )


def _reachable(context: _Context) -> str:
    return ", ".join(key for key, each in context.settings_types.items() if _listens_elsewhere(each))


def _listens_elsewhere(settings_type: type[BaseModel]) -> bool:
    """Return whether a server can listen on an address other than loopback.

    If the settings model of a third-party package does not say so, the server can't.
    """
    return bool(getattr(settings_type, "listens_elsewhere", False))


def _connect_to(server: ServerPlan) -> str | None:
    place = server.settings.get("connect_to")
    return place if isinstance(place, str) else None


def _externals(context: _Context) -> str:
    found = [name for name, model in context.settings_types.items() if getattr(model, "is_external", False)]
    return ", ".join(found) or "none"


def _name_problems(servers: Mapping[int, ServerPlan]) -> Iterator[Problem]:
    """Yield problems with configuration names that are too long or not unique."""
    owner: dict[str, int] = {}
    for index, server in servers.items():
        names = [configuration_name(server, levels) for levels in combinations(server)]
        if too_long := next((name for name in names if len(name) > MAX_CONFIGURATION_NAME), None):
            message = f'"{too_long}" is longer than {MAX_CONFIGURATION_NAME} characters: use fewer factors'
            yield Problem(("servers", index), message)
        for name in names:
            first = owner.setdefault(name, index)
            if first != index:
                message = f'two configurations are called "{name}": give one of the two servers a `name`'
                yield Problem(("servers", index), message)
                break
        if len(set(names)) < len(names):
            message = (
                "two combinations of factors have the same name, because a value is repeated or two "
                "values differ only in punctuation"
            )
            yield Problem(("servers", index, "factors"), message)


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
