"""Errors, clients that left or completed nothing, and seconds without a completed operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from serverdyno import clean, units, wording
from serverdyno.analysis.trust import FAILED_SHARE, Mark
from serverdyno.plan.protocols.http import BODILESS, EMPTY_HINT, HTTP
from serverdyno.plan.protocols.work import Terms
from serverdyno.plan.spelling import in_plan, is_of_options
from serverdyno.report.basis import Over, basis
from serverdyno.report.figures import fates, operations
from serverdyno.report.figures.results import SIDES, ConfigurationResult, LevelFigures, Results
from serverdyno.report.model import Cell, Column, Figure, Finding, Labels, Panel, Part, Point, Section, Table
from serverdyno.report.parts import NAME, always, errors_cell, level_column, level_figures, lines_of, named

LEFT_UNCOUNTED = "Throughput excludes all work of clients that left, including the work before they left."
MOST_KINDS = 6
MOST_STALLS = 4
"""Maximum number of load levels in one finding; the tables mark all of them."""
LONG_IN_FLIGHT_S = 1.0
"""An operation that has been in flight for this long at the end of the window shows that the stall continues."""
_ENDED = (
    "The server, or a proxy or firewall in front of it, ends connections without an answer. It may limit their number "
    "(nginx: worker_connections; HAProxy: maxconn; Samba: max smbd processes), or one of its processes crashed. Its "
    "log shows which."
)
_SLOW = (
    "The server is too slow at this load, or accepts more connections than it serves at once: look at its log and at "
    "its limits of workers and connections. Give it more time with --timeout."
)
REMEDIES = {
    "idle_close": "Raise the server's keep-alive timeout above the clients' pauses (nginx: keepalive_timeout; Apache: "
    "KeepAliveTimeout; Node: server.keepAliveTimeout).",
    "no_ports": "Use fewer clients, a wider net.ipv4.ip_local_port_range, or several machines (--fleet).",
    "no_files": "Raise the limit of open files (ulimit -n), or use fewer clients.",
    "connection_refused": "The server was down for a time, or has no room for further connections: look at its log, "
    "its limit of connections, and its queue of new ones (the backlog of listen, net.core.somaxconn).",
    "connect_timeout": (
        "The server's queue of new connections may be full (the backlog of listen, net.core.somaxconn), or "
        "a firewall limits the connections per address."
    ),
    "connection_reset": _ENDED,
    "closed_early": _ENDED,
    "truncated": _ENDED,
    "response_timeout": _SLOW,
    "handshake_timeout": _SLOW,
}
"""Remedies for errors of a server that has answered before. The data plane's hints assume that it has not."""
FOR_WEB_SERVERS = {"idle_close": f"{REMEDIES['idle_close']} Or use --no-keep-alive."}
"""Remedies with options that only `dyno load` has."""
MALFORMED = {"malformed_head", "malformed_record", "malformed_message", "not_http2"}
"""Errors whose hints suggest a wrong port, although the port has answered before."""
MOST_REMEDIES = 4
WHERE = {
    "server": "on the server side",
    "network": "on the network",
    "client": "on the client side",
    "check": "in checks",
}

applies = always


def build(results: Results) -> Part:
    section = Section(
        "errors",
        "Errors and clients that left",
        text=_none_text(results),
        figures=tuple(_charts(results)),
        tables=(_table(results),),
        folded=not any(level.marks & {Mark.ERRORS, Mark.CLIENTS_LEFT} for level in results.levels),
    )
    return Part((section,), partial(_findings, results))


def _table(results: Results) -> Table:
    """Return a table, one row per load level with an error or a client that left."""
    rows = [_error_row(level) for level in results.levels if level.marks & {Mark.ERRORS, Mark.CLIENTS_LEFT}]
    columns = (
        NAME,
        level_column(results.axis),
        Column("Clients that took part", "fewest of a repetition"),
        Column("Clients left", "all repetitions"),
        *(Column(side.capitalize(), "errors") for side in SIDES),
        Column("All errors", "by kind"),
        Column("Errors", "in the window"),
    )
    notes = (
        "Errors are counted from start to end of a load level. Client: a fault of the load generator. Check: the "
        "server's answer was wrong.",
        f"{results.terms.operations.capitalize()} that were in flight when the window closed and got no answer in "
        "time are not errors. The table of response times counts them.",
    )
    title = "Errors by side and kind, and clients that left"
    return Table("errors", 0, title, basis(results, Over.SUM), columns, tuple(rows), notes)


def _error_row(level: LevelFigures) -> tuple[Cell, ...]:
    return (
        Cell(level.configuration),
        Cell(wording.whole(level.load)),
        Cell(wording.whole(level.clients_took_part)),
        Cell(
            wording.whole(level.clients_left),
            f"{level.clients_never_began:,} never began" if level.clients_never_began else "",
        ),
        *(Cell(wording.whole(level.errors[side])) for side in SIDES),
        errors_cell([level]),
        Cell(wording.whole(level.errors_in_window)),
    )


def _charts(results: Results) -> Iterator[Figure]:
    """Yield charts with a panel for each kind of error; none without errors."""
    kinds = list(dict.fromkeys(kind for level in results.levels for kind in level.faults))[:MOST_KINDS]

    def panels(group: Sequence[ConfigurationResult]) -> Iterator[Panel]:
        if any(level.faults for result in group for level in result.finished):
            for kind in kinds:
                yield Panel(kind, "Errors", lines_of(results, group, _errors_of(kind)))

    yield from level_figures(
        results, "errors", f"Errors by kind against {results.axis.column}", Over.SUM, panels
    )


def _errors_of(kind: str) -> Callable[[LevelFigures], Point | None]:
    return lambda level: Point(level.load, level.faults.get(kind, 0))


def _none_text(results: Results) -> tuple[str, ...]:
    if not results.levels or any(level.marks & {Mark.ERRORS, Mark.CLIENTS_LEFT} for level in results.levels):
        return ()
    return (
        f"No {results.terms.operation} failed and no client left, in ramps or windows, so the table has no rows.",
    )


def _findings(results: Results, tables: Labels) -> list[Finding]:
    if not results.levels:
        return []
    return [_errors(results, tables), *_stalls(results, tables)]


def _errors(results: Results, tables: Labels) -> Finding:
    levels, notes = results.levels, results.source.run_notes
    total = sum(sum(level.errors.values()) for level in levels)
    never = sum(level.clients_never_began for level in levels)
    left = sum(level.clients_left for level in levels) - never
    done = sum(record.operations_total for record in results.used)
    levels_run = wording.plural(len(results.used), "load level")
    evidence = f"{done:,} successful {results.terms.operations} in {levels_run}, ramps included"
    further = "".join(
        told(results) for told in (_advised_in, _wrong_in, _always_failed_in, _unanswered_in, _starved_in)
    )
    if not total and not left:
        failed = sum(note.state == "failed" for note in notes.values())
        runs = f" in the runs that finished; {wording.plural(failed, 'run')} failed" if failed else ""
        claim = f"No {results.terms.operation} failed and no client left{runs}.{further}"
        return Finding("Errors", claim, f"{evidence}.")
    by_side = {side: sum(level.errors[side] for level in levels) for side in SIDES}
    sides = ", ".join(f"{count:,} {WHERE[side]}" for side, count in by_side.items() if count)
    counted = f"{wording.plural(total, 'error')} ({sides})" if total else "No error"
    absent = [f"{wording.plural(never, 'client')} could not begin"] if never else []
    absent += [f"{wording.plural(left, 'client')} left early"] if left else []
    claim = f"{counted}; {wording.listing(absent) or 'no client left early'}.{further}"
    return Finding("Errors", claim, f"{evidence}; {tables['errors']}.")


def _advised_in(results: Results) -> str:
    """Return each remedy with the number and the first example of its errors, most frequent first."""
    if results.source.cut is not None:
        return ""  # the errors of an outage are intended
    is_web = results.source.head.suite.work.uses_documents
    remedies = REMEDIES | FOR_WEB_SERVERS if is_web else REMEDIES
    counts, examples = Counter[str](), dict[str, str]()
    for record in results.used:
        note = results.source.run_notes.get(record.run)
        noted = (note.remedies if note else None) or {}
        for row in record.failed:
            remedy = remedies.get(row.fault) or (None if row.fault in MALFORMED else noted.get(row.fault))
            if remedy is not None:
                counts[remedy] += row.count
                examples.setdefault(remedy, clean.quoted(row.example))
    return "".join(
        f" {count:,} of the errors: {examples[remedy]}. {_spelled(results, clean.line(remedy))}"
        for remedy, count in counts.most_common(MOST_REMEDIES)
    )


def _spelled(results: Results, text: str) -> str:
    """Return a text with the names of settings that the reader knows: options, or keys of a plan."""
    return text if is_of_options(results.source.head.suite) else in_plan(text)


def _wrong_in(results: Results) -> str:
    """Return the first example of each kind of wrong answer of a configuration, most frequent first."""
    counts, examples = Counter[tuple[str, str]](), dict[tuple[str, str], str]()
    for record in results.used:
        for row in record.failed:
            if row.side == "check":
                kind = record.configuration, row.fault
                counts[kind] += row.count
                examples.setdefault(kind, clean.quoted(row.example))
    each = [
        f"{kind[0]}: {examples[kind]} ({wording.plural(count, 'answer')})"
        for kind, count in counts.most_common()
    ]
    return f" Wrong answers: {named(each)}." if each else ""


def _always_failed_in(results: Results) -> str:
    """Return the classes of operations that always failed, if other classes succeeded."""
    classes = operations.of_records(results.used)
    failed = [row for row in classes if row.errors and not row.count]
    if not failed or len(failed) == len(classes):
        return ""
    each = [f"{clean.quoted(row.operation)} ({row.errors:,} {results.terms.operations})" for row in failed]
    return f" These classes of operations failed each time: {named(each)}."


def _unanswered_in(results: Results) -> str:
    found = sum(level.unanswered for level in results.levels)
    if not found:
        return ""
    in_flight, verb = wording.plural(found, results.terms.operation), "was" if found == 1 else "were"
    return f" {in_flight} {verb} in flight when the window closed and got no answer in time (not counted as errors)."


def _starved_in(results: Results) -> str:
    all_levels = wording.plural(len(results.levels), "load level")
    starved = [level for level in results.levels if level.clients_starved]
    found = [level for level in starved if not _only_failed(results, level)]
    failed = len(starved) - len(found)
    each = f"each {results.terms.operation} of some clients failed (C)"
    words = f" At {failed:,} of {all_levels}, {each}." if failed else ""
    if not found:
        return words
    most = max(found, key=lambda level: level.clients_starved / level.clients)
    why = _why_starved(results, most) if results.work.uses_documents else ""
    waited = f"some clients waited for the whole window and completed no {results.terms.operation} (C)"
    return f"{words} At {len(found):,} of {all_levels}, {waited}.{why}"


def _only_failed(results: Results, level: LevelFigures) -> bool:
    """Return whether every client without a success had only errors, so that none waited without an answer."""
    records = results.records(level.configuration, level.index)
    return all(fates.only_failed(record) == fates.starved(record) for record in records)


def _why_starved(results: Results, level: LevelFigures) -> str:
    """Return the probable cause if clients of a web server completed nothing, and a remedy."""
    settings = results.source.head.suite.settings(HTTP)
    waited = [
        record
        for record in results.records(level.configuration, level.index)
        if record.connections >= record.clients
        and all(row.operations or not row.errors or row.left_at_s is not None for row in record.by_client)
    ]
    if not waited or settings.streams is not None or settings.pipeline is not None:
        return ""
    if level.clients_took_part <= level.clients_starved:
        return _spelled(results, " No client got an answer in the window: use longer load levels (--length).")
    served = wording.plural(level.clients_took_part - level.clients_starved, "connection")
    return _spelled(
        results,
        f" The server accepted their connections but sent no answer. It, or a proxy in front of it, probably "
        f"serves no more than {served} at once. Look for such a limit and raise it (HAProxy: maxconn; Apache: "
        "MaxRequestWorkers; PHP-FPM: pm.max_children; threads or workers of the application), or use fewer clients.",
    )


def _stalls(results: Results, tables: Labels) -> list[Finding]:
    """Return a finding on the seconds of each load level without a success; empty if there are none."""
    found = [
        f"{level.configuration}: {wording.plural(sum(len(seconds) for seconds in level.stalls.values()), 'second')} "
        f"with {level.at} (repetition "
        + "; repetition ".join(f"{number}: {wording.numbers(each)}" for number, each in level.stalls.items())
        + f"){_in_flight(level, results.terms)}"
        for level in results.levels
        if level.stalls
    ]
    if not found:
        return []
    rest = len(found) - MOST_STALLS
    listed = [*found[:MOST_STALLS], *([f"{wording.plural(rest, 'more load level')}"] if rest > 0 else [])]
    rule = "Whole seconds of the window without a success, counted from 0 at the start of the load level"
    claim = f"No {results.terms.operation} completed in these seconds: {'; '.join(listed)}."
    return [Finding("Stall", claim, f"{rule}; {tables['response']}.")]


def _in_flight(level: LevelFigures, terms: Terms) -> str:
    """Return the operations in flight when the window closed; empty if none had lasted a second."""
    longest_s = (level.under_way_longest_ms or 0.0) / units.MS_PER_S
    if longest_s < LONG_IN_FLIGHT_S:
        return ""
    count = wording.plural(level.under_way_at_close, terms.operation)
    return f", with {count} in flight when the window closed, the longest for {longest_s:.1f} s"


def failing(results: Results) -> list[str]:
    """Return a caveat on load levels with too many failures to show the server's speed, worst first."""
    levels = sorted(
        (level for level in results.levels if level.failed_share > FAILED_SHARE),
        key=lambda level: -level.failed_share,
    )
    if not levels:
        return []
    which = named([f"{level.configuration} with {level.at} ({_failed_of(level)})" for level in levels])
    return [
        f"More than {wording.share(FAILED_SHARE)} of the {results.terms.operations} failed at {len(levels):,} of "
        f"{wording.plural(len(results.levels), 'load level')}: {which}; {first_error(levels[0])}. Throughput and "
        "response times "
        "describe only the other operations, so they do not show the server's speed."
    ]


def _failed_of(level: LevelFigures) -> str:
    """Return `12 of 34`, the failures and all operations in the windows; a percentage might round to 100 %."""
    ended = sum(level.operations.values()) + level.errors_in_window
    if not ended:
        return f"{sum(level.errors.values()):,} before the window, in which no operation ended"
    return f"{level.errors_in_window:,} of {ended:,}"


def failed_words(level: LevelFigures, terms: Terms) -> str:
    """Return how many operations of a load level failed, and why."""
    asked = f"{terms.operations} to {level.configuration}"
    return f"{_failed_of(level)} {asked} failed with {level.at}: {first_error(level)}."


def first_error(level: LevelFigures) -> str:
    """Return the first error of the most frequent kind, safe for display; empty if there was none."""
    return clean.quoted(level.first_error)


def empty(results: Results) -> list[str]:
    """Return a caveat on the user's servers whose answers to plain GETs all had no body."""
    source = results.source
    suite = source.head.suite
    request = suite.settings(HTTP).request if suite.workload == "url" else None
    if suite.workload != "url" or (request is not None and request.says_empty):
        return []
    described = source.disclosure.get("servers", {})
    names = [
        name
        for name in source.configuration_names
        if any(record.operations for record in source.records_of(name))
        and not any(record.bytes_read for record in source.records_of(name))
        and BODILESS not in described.get(name, {}).get("notes", ())
    ]
    if not names:
        return []
    hint = _spelled(results, EMPTY_HINT)
    return [f"Every answer of {wording.listing(names)} is empty; {hint[0].lower()}{hint[1:]}"]


def away(results: Results) -> list[str]:
    """Return a caveat on load levels during which connections were refused for some time."""
    levels = [level for level in results.levels if level.refused]
    if not levels:
        return []
    which = named(
        [
            f"{level.configuration} with {level.at} in repetition {repetition} "
            f"({'second' if len(seconds) == 1 else 'seconds'} {wording.numbers(seconds)})"
            for level in levels
            for repetition, seconds in level.refused.items()
        ]
    )
    return [
        f"The server was down, restarted or refused connections at "
        f"{wording.plural(len(levels), 'load level')}: {which}. "
        "The figures include this time. Seconds are counted from 0 at the start of the load level."
    ]


def left_early(results: Results) -> list[str]:
    """Return a caveat on load levels that clients left, which reduced the load; levels left by all come first."""
    levels = [level for level in results.levels if Mark.CLIENTS_LEFT in level.marks]
    if not levels:
        return []
    levels.sort(key=lambda level: not level.all_clients_left)
    which = named(
        [
            f"{level.configuration} with {level.at} "
            f"({'all' if level.all_clients_left else f'{level.clients_left:,}'} of "
            f"{level.clients * level.repetitions:,} lost)"
            for level in levels
        ]
    )
    never = sum(level.clients_never_began for level in levels)
    gone = sum(level.clients_left for level in levels) - never
    did = " or ".join(
        [*(["could not begin"] if never else []), *(["stopped early"] if gone or not never else [])]
    )
    uncounted = f" {LEFT_UNCOUNTED}" if results.terms.below_cache and gone else ""
    if never:
        who = f"{never:,} of the lost clients" if gone else "The lost clients"
        uncounted = f" {who} could not log on or create their workspace.{uncounted}"
    return [
        f"Clients {did} at {len(levels):,} of {wording.plural(len(results.levels), 'load level')}, marked "
        f"L, so the load was lower than planned: {which}. Counts are sums over the repetitions.{uncounted}"
    ]


def starved(results: Results) -> list[str]:
    """Return a caveat on load levels at which some clients completed nothing, largest share first."""
    levels = [level for level in results.levels if level.clients_starved]
    if not levels:
        return []
    levels.sort(key=lambda level: -level.clients_starved / level.clients)
    one = results.terms.operation
    fate = f"but completed no {one} in the window"
    if all(_only_failed(results, level) for level in levels):
        fate = f"but all their {results.terms.operations} in the window failed"
    which = named(
        [
            f"{level.configuration} with {level.at} "
            f"({'up to ' if level.repetitions > 1 else ''}{level.clients_starved:,} of {level.clients:,})"
            for level in levels
        ]
    )
    return [
        f"Up to {levels[0].clients_starved:,} of {levels[0].clients:,} clients completed nothing at "
        f"{len(levels):,} of {wording.plural(len(results.levels), 'load level')}, marked C: {which}. These "
        f"clients stayed, {fate}. Throughput and response times there describe only the other clients."
    ]


def stalled(results: Results) -> list[str]:
    """Return a caveat on load levels without any success for a second or more, longest first."""
    levels = [
        (level, repetition, seconds)
        for level in results.levels
        for repetition, seconds in level.stalls.items()
    ]
    if not levels:
        return []
    levels.sort(key=lambda level: -len(level[2]))
    which = named(
        [
            f"{level.configuration} with {level.at} in repetition {repetition} "
            f"({wording.plural(len(seconds), 'second')}: {wording.numbers(seconds)})"
            for level, repetition, seconds in levels
        ]
    )
    return [
        f"No operation completed for a second or more in {wording.plural(len(levels), 'load level')}, "
        f"marked T: {which}. Seconds are counted from 0 at the start of the load level, ramps included; the "
        "charts of throughput over time show them."
    ]
