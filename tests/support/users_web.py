"""Web servers as users run them: with a configuration of their own, on a port of loopback.

Not for our own experiments: those have the drivers of `serverdyno.servers`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from serverdyno.servers.local import find_program
from serverdyno.servers.proof import free_port, listeners
from support.dyno_process import wait_until
from support.file_server import skip_unless_installed

NGINX = """worker_processes 1; pid nginx.pid; error_log error.log; events {{}} daemon off; user root;
http {{ client_body_temp_path cb; proxy_temp_path cp; fastcgi_temp_path cf; uwsgi_temp_path cu;
  scgi_temp_path cs; default_type text/html;
  {settings}
}}
"""
CADDY = """{{
  admin off
  auto_https off
  {settings}
}}
http://127.0.0.1:{port} {{
  {site}
}}
"""
H2O = """num-threads: 2
listen: {{host: 127.0.0.1, port: {port}}}
hosts: {{default: {{paths: {{"/": {{file.dir: {at}}}}}}}}}
{settings}
"""


@contextmanager
def nginx(at: Path, settings: str) -> Iterator[int]:
    """Run nginx with these settings of `http`, in which `{port}` is its port."""
    port = free_port()
    logged = "" if "access_log " in settings else "access_log off; "
    (at / "nginx.conf").write_text(NGINX.format(settings=logged + settings.replace("{port}", str(port))))
    with _running(["nginx", "-p", str(at), "-c", "nginx.conf"], at, port):
        yield port


@contextmanager
def caddy(at: Path, site: str, settings: str = "") -> Iterator[int]:
    """Run Caddy with one site without TLS, and these global settings."""
    port = free_port()
    (at / "Caddyfile").write_text(CADDY.format(port=port, site=site, settings=settings))
    with _running(["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"], at, port):
        yield port


@contextmanager
def h2o(at: Path, settings: str) -> Iterator[int]:
    """Run H2O without TLS, with the documents of a directory and these global settings."""
    port = free_port()
    user = "\nuser: root" if os.geteuid() == 0 else ""
    (at / "h2o.conf").write_text(H2O.format(port=port, at=at, settings=settings + user))
    with _running(["h2o", "-m", "worker", "-c", "h2o.conf"], at, port):
        yield port


@contextmanager
def haproxy(at: Path, settings: str) -> Iterator[int]:
    """Run HAProxy with these sections, in which `{port}` is its port, and time limits longer than any test."""
    port = free_port()
    limits = "\n".join(f"  timeout {name} 5m" for name in ("connect", "client", "server", "queue"))
    text = f"defaults\n  mode http\n{limits}\n{settings.replace('{port}', str(port))}"
    (at / "haproxy.cfg").write_text(text)
    with _running(["haproxy", "-db", "-f", "haproxy.cfg"], at, port):
        yield port


@contextmanager
def _running(command: list[str], at: Path, port: int) -> Iterator[None]:
    skip_unless_installed(command[0])
    program = str(find_program(command[0]))
    home = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), str(at))
    with (
        (at / "log").open("wb") as log,
        subprocess.Popen([program, *command[1:]], cwd=at, env=home, stdout=log, stderr=log) as process,
    ):
        try:
            wait_until(lambda: bool(listeners(port)) or process.poll() is not None, f"{command[0]} listens")
            assert process.poll() is None, (at / "log").read_text()
            yield
        finally:
            process.terminate()
