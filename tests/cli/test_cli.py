"""`dyno` on the command line: its output, its exit status, and what it leaves behind."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import socket
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from serverdyno.plan import suites
from serverdyno.plan.model import ServerPlan
from serverdyno.report.subjects.reproduce import as_toml
from serverdyno.servers.proof import free_port
from serverdyno.servers.registry import DRIVERS
from serverdyno.servers.running import running
from serverdyno.store.experiment import Experiment
from support.dyno_process import DYNO, INSTALLED, PATIENCE_S, Home, experiment
from support.reference_servers import start_http

RATE = r"(?:[\d,]+|\d\.\d\d)"
"""A rate in the format of `units.format_count`: two decimals below ten, which may occur on a busy machine."""
LOCAL_MODES = 3
"""Index of the local modes in the attributes of a terminal (termios.tcgetattr)."""
VERBS = [
    ["load"],
    ["objects"],
    ["run"],
    ["resume"],
    ["report"],
    ["list"],
    ["show"],
    ["open"],
    ["compare"],
    ["audit"],
    ["suites"],
    ["published", "show"],
    ["suite", "show"],
    ["plan", "check"],
    ["fleet", "init"],
    ["servers"],
    ["selftest"],
    ["powercut"],
    ["bonnie"],
    ["scenario"],
    ["node"],
    ["tree"],
    ["workload", "show"],
    ["reference", "http"],
]
NOBODY = "http://127.0.0.1:9/"
BAD_PLAN = """
name = "Bad Name"
title = "Bad"
suite = "quik-static"
repetitions = 0
[[servers]]
server = "ngnix"
[[servers]]
server = "nginx"
settings = { wrkers = 2 }
"""


@pytest.mark.parametrize("verb", [[], *VERBS], ids=" ".join)
def test_help_shows_an_example(home: Home, verb: list[str]) -> None:
    done = home.here(*verb, "--help")
    assert done.returncode == 0
    assert re.search(r"^ +Example: dyno " + " ".join(verb), done.stdout, re.MULTILINE), done.stdout


def test_the_help_names_every_verb_and_offers_completion(home: Home) -> None:
    told = home.here("--help").stdout
    groups = {verb[0] for verb in VERBS if len(verb) == 2}
    assert re.findall(r"^  ([a-z]+) {2,}", told, re.MULTILINE) == [
        *dict.fromkeys(verb[0] for verb in VERBS if verb[0] not in groups),
        *dict.fromkeys(verb[0] for verb in VERBS if verb[0] in groups),
    ]
    assert "--install-completion" in told


def test_a_shell_completes_verbs(home: Home) -> None:
    done = home.dyno(_DYNO_COMPLETE="complete_bash", COMP_WORDS="dyno re", COMP_CWORD="1")
    assert {"resume", "report", "reference"} <= set(done.stdout.split())


def test_the_version_is_said(home: Home) -> None:
    assert home.dyno("--version").stdout.startswith("serverdyno ")


def test_a_bad_plan_is_refused_with_all_its_problems(home: Home, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(BAD_PLAN)
    for done in (home.here("run", plan, "--into", tmp_path / "e"), home.here("plan", "check", plan)):
        assert done.returncode == 2
        for words in ("line 2: name", "quik-static", "line 5: repetitions", "ngnix", "wrkers"):
            assert words in done.stderr
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["suite", "show", "webbench-2.0-statik"], "did you mean webbench-2.0-static"),
        (["run", "no-such-plan.toml"], "can't read no-such-plan.toml"),
        (["resume", "."], ". is not an experiment"),
        (["report", "."], ". is not an experiment"),
        (["compare", ".", "."], ". is not an experiment"),
        (["load", "http://127.0.0.1:9/", "--into", "taken"], "taken exists and is not empty"),
        (["load", "http://127.0.0.1:9/", "--into", "taken/something"], "taken/something is a file"),
        (["load", "http://127.0.0.1:9/", "--into", "/proc/e"], "can't make /proc/e"),
        (["load", "http://127.0.0.1:9/a b"], "has a character that a URL can't contain"),
        (["tree", "no-such-directory"], "no-such-directory is not a directory"),
        (["reference", "http", "--fault", "sulk"], 'unknown fault "sulk"'),
        (["reference", "http", "--port", "65536"], "--port"),
        (["reference", "http", "--body-bytes", "-1"], "--body-bytes"),
        (["reference", "http", "--port", "65536", "--threads", "0"], "2 problems"),
        (["reference", "smb", "--no-oplocks", "--leases"], "--leases requires oplocks"),
        (["reference", "nfs", "--flush", "never"], "--flush: must be 'honour' or 'ignore'"),
        (
            ["load", NOBODY, "-H", "Connection: close"],
            "--header: the header Connection can't be given; keep_alive decides it: --no-keep-alive",
        ),
        (["load", NOBODY, "-H", "no header"], "--header: 'no header' is not Name: value"),
        (["load", NOBODY, "-H", "@headers.txt"], "headers are not read from a file, so repeat the option"),
        (["load", NOBODY, "--ciphers", "NONE"], '"NONE" is not one of TLS_'),
        (["load", NOBODY, "--arrivals", "uniform"], "--arrivals: requires --rate"),
        (["load", NOBODY, "--expect-status", "700"], "--expect-status: 700 is not a status"),
        (["lode"], "lode"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_users_mistake_ends_with_2_and_words_for_it(home: Home, arguments: list[str], words: str) -> None:
    (home.temporary / "taken").mkdir(exist_ok=True)
    (home.temporary / "taken" / "something").touch()
    done = home.here(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_every_bad_option_of_load_is_named_at_once(home: Home, tmp_path: Path) -> None:
    options = ["--clients", "4,2", "--length", "soon", "--http", "3", "--repetitions", "0", "--max-rate", "0"]
    done = home.here("load", "ftp://127.0.0.1/", *options, "--into", tmp_path / "e")
    assert done.returncode == 2
    named = [line.split(":")[0].strip() for line in done.stderr.splitlines()[1:]]
    assert sorted(named) == ["--clients", "--http", "--length", "--max-rate", "--repetitions", "URL"]
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize("length", ["0.9s", "0s"])
def test_a_length_that_leaves_too_short_a_window_is_refused(home: Home, length: str) -> None:
    done = home.here("load", "http://127.0.0.1:9/", "--length", length)
    assert done.returncode == 2
    assert "--length: must be at least 1.0" in done.stderr


def test_a_target_that_is_not_loopback_needs_bounds_before_anything_is_sent(
    home: Home, tmp_path: Path
) -> None:
    # 192.0.2.0/24 is for documentation (RFC 5737), so no host answers.
    done = home.here("load", "http://192.0.2.1/", "--into", tmp_path / "e")
    assert done.returncode == 2
    assert "--max-rate: required" in done.stderr
    assert not (tmp_path / "e").exists()


def own_address() -> str:
    """Return an address of this machine that is not loopback; packets to it stay here."""
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            if address.family == socket.AF_INET and not address.address.startswith("127."):
                return str(address.address)
    pytest.skip("this machine has no address but loopback")


def test_a_server_that_has_not_consented_is_asked_for_consent_and_nothing_else(
    home: Home, tmp_path: Path
) -> None:
    asked = []
    token = home.temporary / "config" / "serverdyno" / "token"
    token.unlink(missing_ok=True)  # another test of this session may have left its own

    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer((own_address(), 0), Refuses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://{server.server_address[0]!s}:{server.server_port}/page"
        done = home.here("load", url, "--clients", "1", "--max-rate", "10", "--into", tmp_path / "e")
        server.shutdown()
    assert done.returncode == 2
    assert (
        "has not consented to load" in done.stderr and "hint: Create this file on the server" in done.stderr
    )
    [path] = asked
    assert path.startswith("/.well-known/serverdyno/") and path in done.stderr
    assert path.endswith(f"/{token.read_text().strip()}")
    assert token.stat().st_mode & 0o777 == 0o600


def test_loopback_needs_no_token_and_so_no_home_to_keep_it_in(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "no-directory"
    file.touch()
    url = f"http://127.0.0.1:{free_port()}/"
    done = home.here("load", url, "--into", tmp_path / "e", XDG_CONFIG_HOME=str(file))
    assert done.returncode == 1
    assert f"nothing answers HTTP at {url}" in done.stderr
    done = home.here(
        "load",
        f"http://{own_address()}:9/",
        "--max-rate",
        "1",
        "--into",
        tmp_path / "f",
        XDG_CONFIG_HOME=str(file),
    )
    assert done.returncode == 2
    assert "can't store the consent token" in done.stderr


@dataclass(frozen=True)
class Loaded:
    """The result of one `dyno load` of nginx, without a terminal."""

    url: str
    folder: Path
    done: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def loaded(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    if "nginx" not in INSTALLED:
        pytest.skip("nginx is not installed here")
    folder = tmp_path_factory.mktemp("loaded") / "e"
    with running("nginx", {}) as server:
        url = f"{server.url}wbtree/735/735_0000.gif?q=1&r=%20"
        done = home.dyno("load", url, "--clients", "1,2", "--length", "1.5s", "--report", "--into", folder)
    return Loaded(url, folder, done)


def test_load_measures_a_url_with_path_and_query(loaded: Loaded) -> None:
    assert loaded.done.returncode == 0, loaded.done.stderr
    opened = Experiment.open(loaded.folder)
    assert [(record.clients, record.errors) for record in opened.levels()] == [(1, []), (2, [])]
    assert all(record.bytes_read == 735 * record.operations > 0 for record in opened.levels())
    assert all(record.window_s == pytest.approx(1.2) for record in opened.levels())
    assert opened.head.configurations[0].url == loaded.url
    # The command can be repeated as printed.
    assert opened.plan_text.startswith(f"# Made by: dyno load '{loaded.url}' --clients 1,2 --length 1.5s")


def test_load_prints_its_table_on_standard_output_and_where_the_report_is(loaded: Loaded) -> None:
    assert "At the peak: p50 " in loaded.done.stdout
    page = loaded.folder / "report" / "report.html"
    assert loaded.done.stdout.splitlines()[-1] == f"report: {page}"
    assert page.is_file()


def test_progress_in_a_pipe_is_a_line_a_level_without_control_characters(loaded: Loaded) -> None:
    lines = loaded.done.stderr.splitlines()
    assert lines[0] == f"experiment: {loaded.folder}"
    told = [line for line in lines if line.startswith("target r1")]
    for line, clients in zip(told, (1, 2), strict=True):
        assert re.fullmatch(rf"target r1 +{clients} clients +{RATE} operations/s  0 errors, \d+ s left", line)
    assert not {"\x1b", "\r"} & set(loaded.done.stdout + loaded.done.stderr)


def test_a_report_is_written_anew_and_says_the_same(home: Home, loaded: Loaded) -> None:
    page = loaded.folder / "report" / "report.html"
    page.unlink()
    assert home.dyno("report", loaded.folder).stdout == loaded.done.stdout
    assert page.is_file()


def test_a_report_of_nothing_is_refused(home: Home, tmp_path: Path) -> None:
    folder = experiment(tmp_path / "e", [ServerPlan(server="reference")])
    only = folder / "runs" / "001-reference-r1" / "level-01.parquet"
    only.parent.mkdir(parents=True)
    only.touch()
    done = home.here("report", folder)
    assert done.returncode == 2
    assert f"{only} is damaged: it is empty" in done.stderr
    assert "has no finished load level yet" in done.stderr
    assert f"dyno resume {folder}" in done.stderr


def test_load_shows_the_table_and_draws_nothing_that_was_not_asked_for(
    home: Home, tmp_path: Path, short_windows: None
) -> None:
    folder = tmp_path / "e"
    with reference(body_bytes=100) as port:
        url = f"http://127.0.0.1:{port}/"
        done = home.here("load", url, "--clients", "1", "--length", "0.5s", "--cpus", "0", "--into", folder)
    assert done.returncode == 0, done.stderr
    assert "Table 2. Throughput in requests/s" in done.stdout
    assert done.stdout.splitlines()[-1] == f"To write the report with charts: dyno report {folder}"
    assert not (folder / "report").exists()
    assert Experiment.open(folder).head.plan.generator.cpus == [0]
    assert "--cpus 0" in Experiment.open(folder).plan_text


def test_a_run_that_is_refused_leaves_no_folder(home: Home, tmp_path: Path) -> None:
    # A document root without the suite's documents is found before anything is measured.
    plan, folder = tmp_path / "plan.toml", tmp_path / "e"
    with reference(body_bytes=100) as port:
        servers = f'[[servers]]\nserver = "external"\nurl = "http://127.0.0.1:{port}/"\n'
        plan.write_text(f'name = "wrong-root"\nsuite = "quick-web"\n{servers}')
        done = home.here("run", plan, "--into", folder)
    assert done.returncode == 1
    assert "can't serve the workload" in done.stderr and "`dyno tree DIRECTORY` writes it" in done.stderr
    assert not folder.exists()


def test_a_plan_names_a_suite_of_its_own_next_to_it(home: Home, tmp_path: Path) -> None:
    (tmp_path / "more.toml").write_text(as_toml(suites.load("quick-web"), "A suite."))
    plan = tmp_path / "plan.toml"
    plan.write_text('name = "p"\nsuite = "./more.toml"\n[[servers]]\nserver = "reference"\n')
    done = home.here("plan", "check", plan)
    assert done.returncode == 0, done.stderr
    assert "HTTP/1.1, kept-alive connections" in done.stdout
    assert re.search(r"runs? of \d+ levels?: about .*, including .* of load", done.stdout)
    plan.write_text('name = "p"\nsuite = "./none.toml"\n[[servers]]\nserver = "reference"\n')
    assert "can't read" in home.here("plan", "check", plan).stderr


def test_the_keys_of_a_server_of_the_users_are_listed(home: Home) -> None:
    done = home.here("servers", "external")
    assert re.search(r"url +URL of a server that you run", done.stdout)
    assert "nginx" not in done.stdout


def test_load_without_keep_alive_opens_a_connection_a_request(
    home: Home, tmp_path: Path, short_windows: None
) -> None:
    folder = tmp_path / "e"
    with reference(documents={"/a/page.html": b"x" * 4321}, fault="status-500") as port:
        url = f"http://127.0.0.1:{port}/a/page.html?q"
        done = home.here(
            "load", url, "--clients", "2", "--length", "0.5s", "--no-keep-alive", "--into", folder
        )
    assert done.returncode == 0, done.stderr
    [record] = Experiment.open(folder).levels()
    assert record.errors == []
    assert record.connections == record.operations_total > 0
    assert record.bytes_read == 4321 * record.operations


@contextmanager
def reference(**options: Any) -> Iterator[int]:
    """Yield the port of a reference server in this process."""
    server = start_http(**options)
    try:
        yield server.port
    finally:
        server.stop()


def test_load_of_a_page_that_is_not_there_says_so(home: Home, tmp_path: Path) -> None:
    with reference() as port:
        done = home.here("load", f"http://127.0.0.1:{port}/missing.html", "--into", tmp_path / "e")
    assert done.returncode == 1
    assert "can't serve the workload: the server answered with a status that is not a success" in done.stderr
    assert "404 (5 of 5 requests)" in done.stderr and "--expect-status 404" in done.stderr
    assert "Traceback" not in done.stderr


def screen(output: str) -> list[str]:
    """Return the lines that a terminal shows at the end, given the few control sequences that `dyno` uses."""
    lines, row, column = [""], 0, 0
    for match in re.finditer(r"\x1b\[([?\d;]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)", output):
        number, control, start, down, text = match.groups()
        if text:
            lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + len(text) :]
            column += len(text)
        elif start:
            column = 0
        elif down:
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif control == "A":
            row -= int(number or 1)
        elif control == "K":
            assert number == "2"
            lines[row] = ""
        else:
            assert control in "mhl", match[0]
    return [line.rstrip() for line in lines]


def test_a_terminal_shows_the_level_in_progress_and_ctrl_c_ends_it_cleanly(
    home: Home, tmp_path: Path
) -> None:
    folder = experiment(tmp_path / "e", [ServerPlan(server="reference")], clients=range(1, 41))
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    keep_output_at_ctrl_c(slave)
    dyno = subprocess.Popen(
        ["setsid", "--ctty", *DYNO, "resume", str(folder)],
        env=home.environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    with dyno, os.fdopen(master, "r+b", buffering=0) as terminal:
        output = b""
        while not re.search(rf"reference r1 +2 clients +{RATE} operations/s  0 errors, ".encode(), output):
            output += terminal.read(65536)
        terminal.write(b"\x03")  # Ctrl-C, as typed
        while more := read(terminal.fileno()):
            output += more
        assert dyno.wait(PATIENCE_S) == 130
    home.assert_nothing_is_left([])
    text = output.decode()
    rate = r"reference r1  \d+ clients  [\d,.]+ operations/s  (p99 [\d.e+-]+ ms  )?0 errors"
    live = rate + r"; \d+ s left at this level, \d+ s in total"
    assert re.search(live, text)
    assert re.search(r" +1 clients \u2588+[^\r\n]* /s  p99 [\d.e+-]+ ms +0 errors", text)
    shown = [line for line in screen(text) if line]
    assert shown[0] == f"experiment: {folder}"
    finished = [line for line in shown if line.startswith("reference r1")]
    for clients, line in enumerate(finished, start=1):
        assert re.fullmatch(
            rf"reference r1 +{clients} clients +{RATE} operations/s  0 errors, \d+ s left", line
        )
    assert len(finished) >= 2
    assert shown[-1] == f"interrupted; the finished load levels are kept. To continue: dyno resume {folder}"
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l")  # the cursor is back


def keep_output_at_ctrl_c(terminal: int) -> None:
    """Let the kernel keep unread output when Ctrl-C is typed; by default it discards it."""
    attributes = termios.tcgetattr(terminal)
    attributes[LOCAL_MODES] |= termios.NOFLSH
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)


def read(descriptor: int) -> bytes:
    """Return the next output; empty once the other side has closed, which a terminal reports as an error."""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


def test_a_reference_server_on_a_port_in_use_names_it_and_the_way_out(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for kind in ("http", "smb", "nfs"):
            done = home.here("reference", kind, "--port", f"{port}")
            assert done.returncode == 2
            assert f"can't listen on 127.0.0.1, port {port}: Address already in use" in done.stderr
            assert "hint: --port 0 takes any free port, and prints it." in done.stderr


def test_servers_are_listed_one_per_line(home: Home) -> None:
    *listed, last = home.here("servers").stdout.splitlines()
    assert [line.split()[0] for line in listed] == list(DRIVERS)
    assert last == "dyno servers NAME lists the settings of a server."
    assert "(`channels` in [smb])" in " ".join(home.here("servers", "samba").stdout.split())
