"""Real servers under their drivers: they serve, are proven ours, describe themselves, and leave nothing behind."""

from __future__ import annotations

import gzip
import http.client
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest
from benches.levels import http_target

from serverdyno.errors import ServerError, UserError
from serverdyno.servers import documents as documents_module
from serverdyno.servers.apache import Apache, ApacheSettings
from serverdyno.servers.base import Installed, ServerDriver, Settings
from serverdyno.servers.lighttpd import Lighttpd, LighttpdSettings
from serverdyno.servers.local import LocalServer
from serverdyno.servers.nginx import Nginx, NginxSettings
from serverdyno.servers.proof import free_port, get, listeners
from serverdyno.servers.proxy import Proxy
from serverdyno.servers.registry import DRIVERS, create
from serverdyno.servers.web import WebServer, WebSettings

PATIENCE_S = 30.0
# Servers that stand alone; teams have their own tests.
LOCAL_SERVERS = [
    name
    for name, driver in DRIVERS.items()
    if issubclass(driver, WebServer) and not issubclass(driver, Proxy)
]
PRODUCTS = ["apache", "nginx", "lighttpd"]
CONFIGURATIONS: list[tuple[str, dict[str, Any]]] = [
    ("apache", {}),
    ("apache", {"mpm": "prefork", "workers": 8, "access_log": True, "enable_mmap": False}),
    ("apache", {"mpm": "worker", "workers": 128, "keep_alive": False, "sendfile": True}),
    ("apache", {"mpm": "event", "workers": 64, "mmap_file_cache": True, "max_connections_per_child": 50}),
    ("nginx", {}),
    ("nginx", {"workers": 2, "access_log": True, "sendfile": False, "tcp_nopush": False}),
    ("nginx", {"keep_alive": False, "open_file_cache": True, "worker_connections": 64}),
    (
        "nginx",
        {"gzip_level": 6, "gzip_static": True, "multi_accept": True, "reuse_port": True, "aio": "threads"},
    ),
    ("nginx", {"tcp_nodelay": False}),
    ("apache", {"gzip_level": 6, "follow_symlinks": False, "etag": False, "listen_buckets_ratio": 1}),
    ("caddy", {"gzip_level": 6, "http2": True}),
    ("lighttpd", {}),
    ("lighttpd", {"workers": 1, "keep_alive": False, "network_backend": "write"}),
    ("lighttpd", {"workers": 2, "network_backend": "writev", "stat_cache_engine": "disable"}),
    ("caddy", {}),
    ("caddy", {"access_log": True}),
    ("h2o", {}),
    ("h2o", {"workers": 2, "access_log": True}),
    ("apache", {"http2": True, "workers": 64}),
    ("lighttpd", {"http2": True}),
    ("reference", {"http2": True}),
    ("reference", {}),
    ("reference", {"threads": 2}),
]


def named(case: tuple[str, dict[str, Any]]) -> str:
    return " ".join([case[0], *(f"{key}={value}" for key, value in case[1].items())])


@pytest.fixture(scope="session")
def documents() -> Iterator[Path]:
    """Create a small document tree that the workers' user can read, outside of pytest's own directories."""
    with tempfile.TemporaryDirectory(prefix="serverdyno-documents-") as name:
        root = Path(name)
        (root / "wbtree").mkdir()
        (root / "wbtree" / "735.gif").write_bytes(os.urandom(735))
        (root / "wbtree" / "large.htm").write_bytes(os.urandom(500_000))
        for path in (root, root / "wbtree"):
            path.chmod(0o755)
        yield root


def skip_unless_installed(name: str) -> None:
    if DRIVERS[name].installed() is None:
        pytest.skip(f"{name} is not installed here: run tools/install-servers.sh")


@contextmanager
def started(name: str, settings: Mapping[str, Any], documents: Path) -> Iterator[ServerDriver]:
    skip_unless_installed(name)
    server = create(name, settings, documents=documents, cpus=[max(os.sched_getaffinity(0))])
    with stopped_at_end(server):
        server.prepare()
        server.start()
        server.ready()
        yield server


@contextmanager
def stopped_at_end(server: ServerDriver) -> Iterator[ServerDriver]:
    try:
        yield server
    finally:
        server.stop()


def port_of(server: ServerDriver) -> int:
    return int(server.url.rstrip("/").rpartition(":")[2])


def processes_of(server: ServerDriver) -> list[psutil.Process]:
    assert isinstance(server, LocalServer) and server.process is not None
    return [psutil.Process(pid) for pid in (server.process.keeper.pid, *server.process.pids())]


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [each for each in psutil.wait_procs(processes, timeout=PATIENCE_S)[1] if not is_zombie(each)]


def is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("case", CONFIGURATIONS, ids=named)
def test_a_server_is_ours_alone_while_it_runs_and_leaves_nothing(
    case: tuple[str, dict[str, Any]], documents: Path
) -> None:
    name, settings = case
    with started(name, settings, documents) as server:
        everyone = processes_of(server)
        own = {process.pid for process in everyone[1:]}
        found = listeners(port_of(server))
        assert found and {listener.pid for listener in found} <= own
        assert {tuple(process.cpu_affinity()) for process in everyone} == {(max(os.sched_getaffinity(0)),)}
        assert server.cpu_s() is not None
        assert (server.rss_bytes() or 0) > 0
        private = server.directory  # type: ignore[attr-defined]
        assert private.is_dir()
        server.start()  # repeated: does nothing
        assert processes_of(server)[0].pid == everyone[0].pid
    assert alive(everyone) == []
    assert not private.exists()
    assert listeners(port_of(server)) == []
    server.stop()  # repeated: harmless


@pytest.mark.parametrize("case", [case for case in CONFIGURATIONS if case[0] in PRODUCTS], ids=named)
def test_a_server_sends_the_documents_whole_and_honours_keep_alive(
    case: tuple[str, dict[str, Any]], documents: Path
) -> None:
    name, settings = case
    with started(name, settings, documents) as server:
        for file, kind in [("735.gif", "image/gif"), ("large.htm", "text/html")]:
            connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=PATIENCE_S)
            connection.request("GET", f"/wbtree/{file}")
            response = connection.getresponse()
            assert response.read() == (documents / "wbtree" / file).read_bytes()
            assert response.status == http.HTTPStatus.OK
            assert response.getheader("Content-Type") == kind
            assert response.will_close != settings.get("keep_alive", True)
            connection.close()
        assert get(port_of(server), "/wbtree/missing.htm")["status"] == http.HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("name", ["nginx", "apache", "caddy"])
def test_a_server_compresses_html_at_its_level_for_clients_that_ask(name: str, documents: Path) -> None:
    (documents / "text.htm").write_text(
        "".join(f"<p>line {number * number}</p>\n" for number in range(20_000))
    )
    sizes = []
    for level in (0, 1, 9):
        with started(name, {"gzip_level": level}, documents) as server:
            connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=PATIENCE_S)
            connection.request("GET", "/text.htm", headers={"Accept-Encoding": "gzip"})
            response = connection.getresponse()
            body = response.read()
            assert response.getheader("Content-Encoding") == ("gzip" if level else None)
            assert (gzip.decompress(body) if level else body) == (documents / "text.htm").read_bytes()
            sizes.append(len(body))
            connection.request("GET", "/wbtree/735.gif", headers={"Accept-Encoding": "gzip"})
            assert connection.getresponse().getheader("Content-Encoding") is None
            connection.close()
    assert sizes[0] > sizes[1] > sizes[2]


@pytest.mark.parametrize("case", CONFIGURATIONS, ids=named)
def test_a_server_discloses_its_version_command_settings_and_every_configuration_file(
    case: tuple[str, dict[str, Any]], documents: Path
) -> None:
    name, settings = case
    with started(name, settings, documents) as server:
        description = server.describe()
        assert description.server == name
        installed = DRIVERS[name].installed()
        assert installed is not None and description.version == installed.version
        assert any(character.isdigit() for character in description.version)
        assert settings.items() <= description.settings.items()
        assert set(description.settings) == set(DRIVERS[name].settings_type.model_fields)
        if name != "reference":
            assert description.package is not None and description.package.split()[0].startswith(name)
        unset = {key for key, value in description.settings.items() if value is None}
        assert (
            description.effective.keys() <= unset and "processors" in description.effective.keys() | settings
        )
        if "workers" in unset:
            assert description.effective["workers"] == server.processors  # type: ignore[attr-defined]
        first = processes_of(server)[1]
        if name != "nginx":  # nginx overwrites its arguments with a title
            assert first.cmdline() == description.command
        private = server.directory  # type: ignore[attr-defined]
        for file, text in description.files.items():
            assert (private / file).read_text() == text
        assert bool(description.files) == (name != "reference")


def test_apache_maps_every_document_with_mmap_file_cache_and_none_without(documents: Path) -> None:
    for mapped in (True, False):
        with started("apache", {"workers": 64, "mmap_file_cache": mapped}, documents) as server:
            worker = processes_of(server)[-1]
            paths = {region.path for region in worker.memory_maps()}
            assert {str(path) in paths for path in documents.rglob("*.*")} == {mapped}
            body = get(port_of(server), "/wbtree/735.gif")["body"]
            assert body == (documents / "wbtree/735.gif").read_bytes()


@pytest.mark.parametrize("name", [*PRODUCTS, "reference"])
def test_the_server_counts_the_requests_that_it_served(name: str, documents: Path) -> None:
    settings = {} if name == "reference" else {"access_log": True}
    path = "/wbtree/735/735_0000.gif" if name == "reference" else "/wbtree/735.gif"
    with started(name, settings, documents) as server:
        before = server.requests_served()
        assert before is not None
        for _ in range(5):
            get(port_of(server), path)
        after = server.requests_served()
        assert after == before + 5


@pytest.mark.parametrize("name", PRODUCTS)
def test_without_an_access_log_no_request_count_is_made_up(name: str, documents: Path) -> None:
    with started(name, {}, documents) as server:
        assert server.requests_served() is None


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_thousand_connections_at_once_are_served(name: str, documents: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    expected = (documents / "wbtree/735.gif").read_bytes()
    with started(name, {}, documents) as server, ExitStack() as stack:
        address = ("127.0.0.1", port_of(server))
        clients = [
            stack.enter_context(socket.create_connection(address, timeout=PATIENCE_S)) for _ in range(1000)
        ]
        for client in clients:
            client.sendall(b"GET /wbtree/735.gif HTTP/1.0\r\n\r\n")
        for client in clients:
            answer = stack.enter_context(client.makefile("rb")).read()
            assert answer.startswith(b"HTTP/1.1 200") or answer.startswith(b"HTTP/1.0 200")
            assert answer.endswith(expected)


class SharedPort(WebServer[WebSettings]):
    """A server that lets other servers share its port by SO_REUSEPORT."""

    name: ClassVar[str] = "shared-port"
    summary: ClassVar[str] = "for tests"
    debian_package: ClassVar[str | None] = None
    settings_type: ClassVar[type[Settings]] = WebSettings

    @staticmethod
    def installed() -> Installed | None:
        return Installed("test 1", Path(sys.executable))

    def command(self) -> list[str]:
        return [str(self.program), "-I", "-u", str(self.directory / "server.py")]

    def process_count(self) -> int:
        return 1

    def configuration(self) -> dict[str, str]:
        return {
            "server.py": f"""
import http.server, os, socket
class Shared(http.server.ThreadingHTTPServer):
    def server_bind(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()
class Handler(http.server.SimpleHTTPRequestHandler):
    def translate_path(self, path):
        return {str(self.public_directory)!r} + path.removeprefix("/.serverdyno")
Shared(("127.0.0.1", {self.port}), Handler).serve_forever()
"""
        }


@pytest.fixture
def shared_port(documents: Path) -> Iterator[SharedPort]:
    place = Path(tempfile.gettempdir()) / f"serverdyno-shared-{os.getpid()}"
    with stopped_at_end(SharedPort(WebSettings(), place, documents)) as server:
        assert isinstance(server, SharedPort)
        yield server


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])
def test_a_stranger_on_the_same_port_is_seen_and_another_port_is_taken(
    shared_port: SharedPort, address: str
) -> None:
    server = shared_port
    server.prepare()
    port = server.port
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        stranger.bind((address, port))
        stranger.listen()
        server.start()
        assert server.process is not None
        found = server.process.strangers(server.process.listeners(port))
        assert [listener.pid for listener in found] == [os.getpid()]
        server.ready()
        assert server.port != port
        assert (found := server.process.listeners(server.port)) and not server.process.strangers(found)


def test_a_stranger_who_comes_after_the_start_is_seen_too(shared_port: SharedPort) -> None:
    server = shared_port
    server.prepare()
    server.start()
    server.ready()
    assert server.process is not None
    assert (found := server.process.listeners(server.port)) and not server.process.strangers(found)
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        stranger.bind(("127.0.0.1", server.port))
        stranger.listen()
        assert server.process.strangers(server.process.listeners(server.port))


def test_a_server_that_answers_without_the_secret_is_not_ours(
    shared_port: SharedPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serverdyno.servers.local.START_TIMEOUT_S", 1.0)
    server = shared_port
    server.prepare()
    (server.public_directory / "proof").write_text("another secret")
    server.start()
    with pytest.raises(ServerError, match="did not answer correctly"):
        server.ready()


@pytest.mark.parametrize("name", LOCAL_SERVERS)
def test_a_port_that_was_taken_before_the_start_is_left_to_its_owner(name: str, documents: Path) -> None:
    skip_unless_installed(name)
    server = create(name, {}, documents=documents)
    with stopped_at_end(server), socket.socket() as owner:
        server.prepare()
        port = port_of(server)
        owner.bind(("127.0.0.1", port))
        owner.listen()
        server.start()
        server.ready()
        assert port_of(server) != port
        assert [listener.pid for listener in listeners(port)] == [os.getpid()]


class BrokenApache(Apache):
    def configuration(self) -> dict[str, str]:
        return {file: text + "NoSuchDirective on\n" for file, text in super().configuration().items()}


class BrokenNginx(Nginx):
    def configuration(self) -> dict[str, str]:
        return {file: text + "no_such_directive on;\n" for file, text in super().configuration().items()}


class BrokenLighttpd(Lighttpd):
    def configuration(self) -> dict[str, str]:
        return {file: text + "server.port = ((\n" for file, text in super().configuration().items()}


@pytest.mark.parametrize(
    ("driver", "settings", "message"),
    [
        (BrokenApache, ApacheSettings(), "Invalid command 'NoSuchDirective'"),
        (BrokenNginx, NginxSettings(), 'unknown directive "no_such_directive"'),
        (BrokenLighttpd, LighttpdSettings(), "parser failed"),
    ],
)
def test_a_mistake_in_the_configuration_is_told_in_the_servers_own_words(
    driver: type[LocalServer[Any]], settings: Settings, message: str, documents: Path
) -> None:
    skip_unless_installed(driver.name)
    place = Path(tempfile.gettempdir()) / f"serverdyno-broken-{os.getpid()}"
    with stopped_at_end(driver(settings, place, documents)) as server:
        server.prepare()
        server.start()
        with pytest.raises(ServerError) as raised:
            server.ready()
    assert message in str(raised.value)
    assert raised.value.hint


TOOL = """
import signal, sys
from pathlib import Path
from serverdyno.servers.registry import create
server = create({name!r}, {{}}, documents=Path({documents!r}))
server.prepare()
server.start()
server.ready()
print(server.process.keeper.pid, server.directory, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", LOCAL_SERVERS)
def test_no_process_and_no_file_outlives_a_tool_that_is_ended_by_a_signal(
    name: str, number: signal.Signals, documents: Path
) -> None:
    skip_unless_installed(name)
    program = TOOL.format(name=name, documents=str(documents))
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as tool:
        assert tool.stdout is not None
        pid, _, directory = tool.stdout.readline().strip().partition(" ")
        keeper = psutil.Process(int(pid))
        everyone = [keeper, *keeper.children(recursive=True)]
        assert len(everyone) > 1
        tool.send_signal(number)
    assert alive(everyone) == []
    assert not Path(directory).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="it is about root's rights over the workers' user")
@pytest.mark.parametrize("name", PRODUCTS)
def test_root_who_cannot_look_into_other_users_processes_can_still_prove_a_server(
    name: str, documents: Path
) -> None:
    skip_unless_installed(name)
    program = TOOL.format(name=name, documents=str(documents)).replace("signal.pause()", "server.stop()")
    command = ["setpriv", "--bounding-set=-sys_ptrace", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root's servers run as another user, who may be locked out"
)
@pytest.mark.parametrize("name", PRODUCTS)
def test_documents_that_the_workers_cannot_read_are_refused_before_the_start(
    name: str, tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    skip_unless_installed(name)
    server = create(name, {}, documents=tmp_path)
    with (
        stopped_at_end(server),
        pytest.raises(ServerError, match="run as www-data, which has no access to") as raised,
    ):
        server.prepare()
    assert raised.value.hint


def test_a_path_that_could_break_out_of_a_configuration_is_refused(tmp_path: Path) -> None:
    skip_unless_installed("nginx")
    documents = tmp_path / 'a"; }'
    documents.mkdir()
    server = create("nginx", {}, documents=documents)
    with stopped_at_end(server), pytest.raises(ServerError, match="with these characters"):
        server.prepare()


@pytest.mark.parametrize(
    ("name", "settings", "url", "message"),
    [
        ("iis", {}, None, "unknown server 'iis'"),
        ("apache", {"mpm": "perchild"}, None, "mpm"),
        ("apache", {"worker": 3}, None, "worker"),
        ("apache", {"workers": 100, "threads_per_child": 64}, None, "multiple of threads_per_child"),
        ("nginx", {"workers": 0}, None, "workers"),
        ("lighttpd", {"keep_alive_requests": 70_000}, None, "keep_alive_requests"),
        ("nginx", {}, "http://127.0.0.1/", "can't have a url"),
        ("external", {}, None, "needs a url"),
        ("external", {}, "ftp://127.0.0.1/", "not a URL"),
        ("external", {}, "http://127.0.0.1:99999/", "99999|range"),
    ],
)
def test_the_users_mistakes_are_named(
    name: str, settings: dict[str, Any], url: str | None, message: str, documents: Path
) -> None:
    with pytest.raises(UserError, match=message):
        create(name, settings, documents=documents, url=url)


@pytest.mark.parametrize("name", DRIVERS)
def test_every_setting_is_described_and_has_a_default(name: str) -> None:
    fields = DRIVERS[name].settings_type.model_fields
    assert [field for field, info in fields.items() if not info.description or info.is_required()] == []


def test_an_external_server_is_connected_to_and_believed_nothing_more(documents: Path) -> None:
    with started("nginx", {}, documents) as nginx:
        server = create("external", {}, documents=documents, url=nginx.url)
        server.prepare()
        server.start()
        server.ready()
        server.ask(http_target(nginx.url))
        assert server.url == nginx.url
        # Nothing was requested yet; the check before load gets the version.
        assert server.describe().version == "unknown"
        # Its processes are found by the port; its requests are counted in its own log.
        assert server.cpu_s() is not None and server.rss_bytes() and server.requests_served() is None
        server.stop()
        assert get(port_of(nginx), "/wbtree/735.gif")["status"] == http.HTTPStatus.OK


def test_an_external_server_that_does_not_answer_is_an_error_with_advice(documents: Path) -> None:
    server = create("external", {}, documents=documents, url=f"http://127.0.0.1:{free_port()}/")
    with pytest.raises(ServerError, match="nothing answers") as raised:
        server.ask(http_target(server.url))
    assert raised.value.hint


def test_the_document_tree_is_written_once_and_again_when_it_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root = documents_module.document_root()
    files = sorted(path for path in root.rglob("*") if path.is_file())
    assert len(files) == 6001
    assert sum(path.stat().st_size for path in files) == 60_710_378
    assert {path.stat().st_mode & 0o777 for path in files} == {0o644}
    written = files[0].stat().st_mtime_ns
    assert documents_module.document_root() == root
    assert files[0].stat().st_mtime_ns == written
    whole = files[17].read_bytes()
    files[17].write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert documents_module.document_root() == root
    assert files[17].read_bytes() == whole
    assert [path.name for path in root.parent.iterdir()] == [root.name]


def test_a_document_cache_that_is_not_ours_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / f"serverdyno-{os.geteuid()}").symlink_to(elsewhere)
    with pytest.raises(ServerError, match="belongs to another user"):
        documents_module.document_root()


@pytest.mark.parametrize("name", ["apache", "nginx"])
def test_the_crash_of_one_of_its_processes_is_told_by_the_servers_log(name: str, documents: Path) -> None:
    with started(name, {}, documents) as server:
        assert server.crashes() == []
        _keeper, first, *others = processes_of(server)
        for worker in [each for each in others if each.ppid() == first.pid]:
            worker.send_signal(signal.SIGSEGV)
        deadline = time.monotonic() + PATIENCE_S
        while not server.crashes():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        server.check()  # it continues
