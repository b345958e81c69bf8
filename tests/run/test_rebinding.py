"""A name whose address changes between two look-ups sends no request to a host that has not consented."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

from support.consenting import ADDRESS, PRELUDE, TOKEN

OTHER = "10.77.0.2"
PATIENCE_S = 120

# Runs in its own network and mount namespaces: a resolver that answers each query with the next of `order`, a host that
# consents and one that does not, and `dyno load` on the name.
LOAD = f"""
import json, os, socket, struct, subprocess, sys, tempfile
from pathlib import Path

order = [{{"consenting": {ADDRESS!r}, "other": {OTHER!r}}}[who] for who in sys.argv[1].split(",")]
asked = {{"consenting": [], "other": []}}
given = []  # addresses that the resolver answered


def answer_names():
    resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    resolver.bind(("127.0.0.1", 53))

    def serve():
        while True:
            question, whom = resolver.recvfrom(512)
            end = question.index(0, 12) + 5
            kind = struct.unpack_from(">H", question, end - 4)[0]
            answers = b""
            if kind == 1:
                given.append(order[min(len(given), len(order) - 1)])
                answers = b"\\xc0\\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(given[-1])
            head = question[:2] + struct.pack(">HHHHH", 0x8180, 1, int(bool(answers)), 0, 0)
            resolver.sendto(head + question[12:end] + answers, whom)

    threading.Thread(target=serve, daemon=True).start()


def serve_at(address, port, name, answer):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked[name].append(self.path)
            status, body = answer(self.path, self.headers["Host"])
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer((address, port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


home = Path(tempfile.mkdtemp())
(home / "serverdyno").mkdir()
(home / "serverdyno" / "token").write_text(TOKEN)
(home / "resolv.conf").write_text("nameserver 127.0.0.1\\noptions timeout:1 attempts:1\\n")
subprocess.run(["mount", "--bind", home / "resolv.conf", "/etc/resolv.conf"], check=True)
answer_names()
consents = lambda path, host: right(path, host) if "well-known" in path else (200, "welcome")
port = serve_at({ADDRESS!r}, 0, "consenting", consents)
serve_at({OTHER!r}, port, "other", lambda path, host: (404, ""))
options = ["--clients", "1", "--length", "1.3s", "--max-rate", "20"]
command = [sys.executable, "-m", "serverdyno", "load", f"http://rebound.example:{{port}}/page", *options]
done = subprocess.run(
    command, env=os.environ | {{"XDG_CONFIG_HOME": str(home)}}, cwd=home, capture_output=True, text=True
)
print(json.dumps({{"asked": asked, "status": done.returncode, "told": done.stderr, "given": given}}))
"""


def loaded(namespace: str, order: str) -> dict[str, object]:
    """Return the requests that each host received, and how the load ended."""
    subprocess.run(["ip", "-netns", namespace, "address", "add", f"{OTHER}/24", "dev", "lo"], check=True)
    program = PRELUDE + textwrap.dedent(LOAD)
    command = ["ip", "netns", "exec", namespace, "unshare", "--mount", sys.executable, "-c", program, order]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    said: dict[str, object] = json.loads(done.stdout)
    return said


def consent_path(path: str) -> bool:
    return path == f"/.well-known/serverdyno/{TOKEN}"


@pytest.mark.parametrize(
    "order",
    ["consenting,other", "consenting,consenting,other", "other,consenting", "consenting,other,consenting"],
)
def test_no_host_is_asked_for_anything_but_its_consent_before_it_has_given_it(
    namespace: str,
    order: str,
) -> None:
    said = loaded(namespace, order)
    asked = said["asked"]
    assert isinstance(asked, dict)
    assert [path for path in asked["other"] if not consent_path(path)] == []
    # The host that consents is asked for consent before anything else.
    assert asked["consenting"] == [] or consent_path(asked["consenting"][0])
    # The first look-up only shows that this is not loopback. If all others give the host that consents, the load runs.
    given = said["given"]
    assert isinstance(given, list)
    refused = said["status"] != 0 and "has not consented to load" in str(said["told"])
    assert refused == (OTHER in given[1:]), said["told"]


def test_a_name_that_stays_is_loaded_at_the_address_that_consented(
    namespace: str,
) -> None:
    said = loaded(namespace, "consenting")
    asked = said["asked"]
    assert isinstance(asked, dict)
    assert said["status"] == 0, said["told"]
    assert asked["other"] == [] and "/page" in asked["consenting"]
