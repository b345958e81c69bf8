"""The plan behind `dyno load`: one URL of the user's server, and a suite built from a few options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from serverdyno.errors import PlanError
from serverdyno.plan import protocols
from serverdyno.plan.check_suite import MIN_WINDOW_S, suite_problems
from serverdyno.plan.document import Problem, check_model
from serverdyno.plan.expand import levels
from serverdyno.plan.locate import KeyPath
from serverdyno.plan.model import Bounds, GeneratorPlan, Plan, Suite
from serverdyno.plan.open_load import OpenLoad
from serverdyno.plan.protocols.documents import DOCUMENTS, SESSION
from serverdyno.plan.protocols.http import HTTP, STREAMS, HttpSettings, contradiction
from serverdyno.plan.protocols.http_request import RequestSettings
from serverdyno.plan.protocols.options import words_of
from serverdyno.plan.protocols.tls import TlsSettings
from serverdyno.plan.quick_http import SECRET, HttpOptions, addresses_of
from serverdyno.plan.quick_options import (
    Places,
    by_option,
    filled,
    low_bounds,
    names_of,
    open_problems,
    ramp_s,
    read_rates,
    settings_of,
    shown_fields,
)
from serverdyno.plan.validate import cpu_problems, goes_to_loopback, is_loopback, size_problem, url_problem

NAME = "load"
STAND_INS = {"clients": [1], "length": MIN_WINDOW_S, "rate": [1]}
"""Stand-ins for unreadable values, so that everything else is checked as well."""
SESSION_OPTION = "--session"
USUAL = {"clients": "1,4,16,64", "length": "1.5s", "repetitions": "1"}
"""Defaults that give a first figure in about ten seconds."""
OPEN, TRIAL = {"clients": "64", "length": "10s"}, {"clients": "64", "length": "5s"}
"""Defaults with --rate, and with --objective."""
COUNTED = {"clients": "16", "length": "10m"}
"""Defaults with --requests. The length is then only an upper bound."""
SHOWN = {
    "clients": f"{USUAL['clients']}; with --rate or --objective {OPEN['clients']}; "
    f"with --requests {COUNTED['clients']}, or fewer for fewer requests",
    "length": f"{USUAL['length']}; with --rate {OPEN['length']}; with --objective {TRIAL['length']}; "
    f"with --requests {COUNTED['length']}, at most",
    "repetitions": USUAL["repetitions"],
}
_PLACES: Places = (
    (Suite, Suite, ()),
    (Suite, OpenLoad, ("open",)),
    (Plan, Plan, ()),
    (Suite, HttpSettings, (HTTP.section,)),
    (Plan, Bounds, ("servers", 0, "bounds")),
    (Plan, GeneratorPlan, ("generator",)),
    (Suite, RequestSettings, (HTTP.section, "request")),
    (Suite, TlsSettings, (HTTP.section, "tls")),
)
_WITHOUT_SCHEME = re.compile(
    r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)(?::(?P<port>\d{1,5}))?(?:[/?].*)?",
    re.DOTALL,
)


SETTINGS = settings_of(_PLACES)
_OPTIONS: dict[KeyPath, str] = {
    (HTTP.section,): "--http, --streams, --pipeline or --keep-alive",
    ("threads",): "--streams or --pipeline",
    (HTTP.section, "request"): "--header, --data or --expect-status",
    (HTTP.section, "tls"): "--tls-min, --tls-max or --ciphers",
    (DOCUMENTS.section,): "--urls",
    (DOCUMENTS.section, "steps"): SESSION_OPTION,
    ("servers", 0, "url"): "URL",
    ("servers", 0, "bounds"): "--max-rate",
    ("servers", 0, "settings", "connect_to"): "--resolve or --unix-socket",
} | names_of(SETTINGS)


def fields() -> dict[str, FieldInfo]:
    """Return the fields behind all options, by option name, with the defaults of `dyno load`."""
    return shown_fields(SETTINGS, SHOWN) | HttpOptions.model_fields


def quick_plan(url: str, given: Mapping[str, Any]) -> tuple[Plan, Suite, str]:
    """Return the plan, its suite, and the command as the plan's text. `given` contains the options' texts by name.

    Raises PlanError with every mistaken option.
    """
    if url.isdecimal():
        raise PlanError(
            "dyno load", [f"URL: {url} is not a host; for a port of this machine: http://127.0.0.1:{url}/"]
        )
    url = _without_fragment(protocols.normal_url(with_scheme(url)))
    own = {"objective": TRIAL, "rate": OPEN, "requests": COUNTED}
    usual = USUAL | next((texts for name, texts in own.items() if name in given), {})
    texts = {name: {**usual, **given}[name] for name in fields() if name in given or name in usual}
    values, problems = read_rates(_without_implied(texts), fields())
    if "requests" in values:
        fitting = _fitting(values, given)
        values |= {name: [most] if name == "clients" else most for name, most in fitting.items()}
        texts |= {name: f"{most}" for name, most in fitting.items()}
    options = HttpOptions(
        **{name: value for name, value in values.items() if name in HttpOptions.model_fields}
    )
    problems += [
        *_url_problems(url, options, texts),
        *options.problems(url, texts),
        *_contradictions(texts, values),
    ]
    values = {name: stand_in for name, stand_in in STAND_INS.items() if name in texts} | values
    suite, unsound = check_model(Suite, _suite(url, values, options))
    plan, unsound_too = check_model(Plan, _plan(url, values, options))
    problems += [*_by_option(unsound), *_by_option(unsound_too)]
    if suite is not None:
        problems += _by_option(suite_problems(suite))
        wrong = contradiction(suite.settings(HTTP), suite.settings(DOCUMENTS))
        problems += _by_option([] if wrong is None else [Problem((HTTP.section,), wrong)])
    if suite is not None and plan is not None:
        problems += low_bounds(suite, plan)
    if suite is not None and plan is not None and not problems:
        too_many = size_problem(dict(enumerate(plan.servers)), plan.ends_with, len(levels(suite)))
        problems += [] if too_many is None else [f"--clients: {too_many.message}"]
    if plan is not None:
        problems += _by_option(cpu_problems(("generator", "cpus"), plan.generator.cpus))
    if suite is None or plan is None or problems:
        raise PlanError("dyno load", problems)
    _try_secrets(suite.settings(HTTP))
    return plan, suite, f"# Made by: {_command(url, texts)}\n"


def _try_secrets(settings: HttpSettings) -> None:
    """Raise UserError for a missing file or variable that requests need."""
    HTTP.client_section(settings)
    if settings.tls is not None:
        settings.tls.identity()


def _command(url: str, texts: Mapping[str, Any]) -> str:
    words = (word for name, field in fields().items() for word in words_of(name, field, texts.get(name)))
    return shlex.join(["dyno", "load", url, *words])


def _suite(url: str, values: Mapping[str, Any], options: HttpOptions) -> dict[str, Any]:
    ramp_s = _ramp_s(values, options)
    is_session = options.session is not None
    document = {
        "name": NAME,
        "title": _title(values, is_session=is_session),
        "source": "the options of `dyno load`",
        "workload": SESSION if is_session else "url",
        "threads": _at_once(values),
        "ramp_up_s": ramp_s,
        "ramp_down_s": ramp_s,
        "leave_after_errors": None,
        **({DOCUMENTS.section: documents} if (documents := options.documents(url)) else {}),
    }
    own: dict[str, Any] = {"http": "1.1"}
    if {"data", "data_file"} & set(values):
        own["method"] = "POST"
    made = own | dict(values)
    if given := options.headers():
        made["header"] = [*values.get("header", []), *given]
    for name in {"data_file", "cert", "key"} & set(values):
        made[name] = str(Path(values[name]).absolute())
    return filled(document, Suite, made, SETTINGS)


def _fitting(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, int]:
    """Return defaults for clients and streams that the user did not set, at most the number of requests."""
    requests, fitting = values["requests"], dict[str, int]()
    if values.get("http") == "2" and "streams" not in given:
        clients = max(values.get("clients", [1])) if "clients" in given else 1
        fitting["streams"] = max(1, min(STREAMS, requests // clients))
    if "clients" not in given:
        fitting["clients"] = max(1, min(int(COUNTED["clients"]), requests // _at_once({**values, **fitting})))
    return fitting


def _at_once(values: Mapping[str, Any]) -> int:
    """Return the number of requests that a client has under way: its streams, or its pipelined requests."""
    found = values.get("streams", STREAMS) if values.get("http") == "2" else values.get("pipeline", 1)
    return int(found)


def _ramp_s(values: Mapping[str, Any], options: HttpOptions) -> float:
    """Return the given ramp; by default a tenth of the length or less, or 0 if every request counts."""
    if options.ramp is not None:
        return options.ramp
    if "requests" in values:
        return 0.0
    return ramp_s(float(values["length"]))


def _title(values: Mapping[str, Any], *, is_session: bool) -> str:
    what = "One session" if is_session else "One URL"
    if "objective" in values:
        return f"{what}, the highest rate that meets {values['objective']}"
    return f"{what}, {'requests at a given rate' if 'rate' in values else 'more and more clients'}"


def _plan(url: str, values: Mapping[str, Any], options: HttpOptions) -> dict[str, Any]:
    server: dict[str, Any] = {"server": "external", "name": "target", "url": url}
    if trust := options.server_settings():
        server["settings"] = trust
    if "max_rate" in values:
        server["bounds"] = {"max_clients": max(1, *values["clients"]), "max_length_s": values["length"]}
    document: dict[str, Any] = {
        "name": NAME,
        "title": f"Load on {url}",
        "suite": NAME,
        "servers": [server],
    }
    table = filled(document, Plan, values, SETTINGS)
    if addresses := options.each_address(url):
        table["servers"] = [_at(server, address) for address in addresses]
    return table


def _at(server: Mapping[str, Any], address: str) -> dict[str, Any]:
    """Return the plan's server table, changed to connect to one address of its host."""
    settings = {**server.get("settings", {}), "connect_to": address}
    name = "-".join(re.findall("[0-9a-z]+|[.]", address.lower())).replace("-.-", ".")
    return {**server, "name": f"target-{name}", "settings": settings}


def with_scheme(url: str) -> str:
    """Return a URL with the scheme that curl would assume: `host:port/path` is HTTP."""
    found = _WITHOUT_SCHEME.fullmatch(url)
    if found is None:
        return url
    return f"{'https' if found['port'] == '443' else 'http'}://{url}"


def _without_fragment(url: str) -> str:
    """Return a URL from an address bar without its fragment, which is never sent."""
    return re.sub(r"^([^#]*://[^/?#]+[/?][^#]*)#.*", r"\1", url, flags=re.DOTALL)


def _without_implied(texts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without headers of browsers and curl that only describe the clients' usual behaviour."""
    keeps = f"{texts.get('keep_alive', True)}".lower() == "true"
    implied = {"expect:", "transfer-encoding:", "te:", f"content-length:{_body_bytes(texts)}"}
    implied |= {"connection:keep-alive", "connection:keep-alive,te"} if keeps else {"connection:close"}

    def is_implied(header: str) -> bool:
        spelled = "".join(header.split()).lower()
        return spelled in implied or (keeps and spelled.startswith("keep-alive:"))

    headers = [text for text in texts.get("header", ()) if not is_implied(text)]
    return {name: text for name, text in texts.items() if name != "header"} | (
        {"header": headers} if headers else {}
    )


def _body_bytes(texts: Mapping[str, Any]) -> int | None:
    """Return the number of bytes of the body that the options give; None if its file can't be read."""
    if "data_file" in texts:
        try:
            return Path(texts["data_file"]).expanduser().stat().st_size
        except OSError:
            return None  # reported for the option
    return len(texts.get("data", "").encode())


def _url_problems(url: str, options: HttpOptions, texts: Mapping[str, Any]) -> Iterator[str]:
    if problem := url_problem(url, HTTP.schemes):
        has_user = "@" in url.partition("://")[2].partition("/")[0]
        other = "; export DYNO_AUTHORIZATION=user:password, and give --auth basic" if has_user else ""
        yield f"URL: {problem}{other}"
        return
    if found := re.match("http://(https?)(/+)", url):
        yield f"URL: the colon is missing: {found[1]}://{url[found.end() :]}"
        return
    place = options.connect_to()
    if place is None and options.resolve is not None:
        return  # reported for the option
    if "max_rate" not in texts and not _stays_here(url, place):
        yield "--max-rate: required, because the target is not on this machine"


def _stays_here(url: str, connect_to: str | None) -> bool:
    """Return whether the load stays on this machine. This may look up the host. Raises UserError."""
    if connect_to is not None or is_loopback(url):
        return goes_to_loopback(url, connect_to)
    return all(goes_to_loopback(url, address) for address in addresses_of(url))


def _contradictions(texts: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[str]:
    yield from open_problems(texts)
    if re.search(r"[={@&\"/]", texts.get("length", "").lstrip("=")):
        yield "--length: -d sets the length here; for a body, use --data TEXT or --data-file FILE"
    if re.match(r"0?\.\d", texts.get("rate", "")):
        yield "--rate: for less than one request per second, use --clients 1 --think 2s"
    for header in _without_implied(texts).get("header", []):
        name, _, value = header.partition(":")
        if name.strip().lower() == "content-length":
            yield f"--header: Content-Length says {value.strip()}, but the body has {_body_bytes(texts)} bytes"
    for header in values.get("header", []):
        if SECRET.search(name := header.partition(":")[0].strip()):
            yield (
                f"--header: {name} looks like a credential, which every record would contain; put the whole "
                "header into an environment variable, and name the variable with --header-from-env"
            )
    if texts.get("data", "").startswith("@"):
        yield (
            f"--data: {texts['data']} would be sent literally; to send a file, use --data-file "
            f"{texts['data'][1:]}"
        )
    if texts.get("method", "").isdecimal():
        yield "--method: must be a name; for streams per connection (h2load's -m) use --streams"


def _by_option(problems: Iterable[Problem]) -> Iterator[str]:
    """Yield problems of the suite and the plan with the names of the options that caused them."""
    for option, rest, message in by_option(problems, _OPTIONS):
        yield f"{option}: {_within(rest) if option == SESSION_OPTION else ''}{message}"


def _within(path: KeyPath) -> str:
    """Return the prefix of a problem below the list of steps: `step 2, path: `."""
    if not path:
        return ""
    place, *keys = path
    step = f"step {place + 1}" if isinstance(place, int) else f"{place}"
    return f"{', '.join([step, '.'.join(map(str, keys))] if keys else [step])}: "
