"""Uploads that a server refuses before it has read them: the answer counts, and a lost one is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from serverdyno._native import Authority
from serverdyno.store.experiment import Experiment
from support.dyno_process import Home
from support.users_web import nginx

pytestmark = pytest.mark.usefixtures("short_windows")
SHORT = ("--clients", "2", "--length", "0.5s")
BODY_BYTES = 5_000_000
# Without lingering, nginx closes at once, which resets the connection while the client still sends.
REFUSES = """
{certificate} server {{ listen 127.0.0.1:{{port}}{ssl}; lingering_close off; client_max_body_size 0;
  location /large {{ client_max_body_size 1m; root .; }} location /secret {{ return 401; }} location /silent {{ return 444; }} }}
"""


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a server's certificate and a large body."""
    at = tmp_path_factory.mktemp("early")
    certificate, key = Authority().certify("ecdsa-p256", ["server.test"])
    (at / "server.pem").write_text(certificate)
    (at / "server.key").write_text(key)
    (at / "body").write_bytes(bytes(BODY_BYTES))
    return at


def settings(*, secure: bool) -> str:
    certificate = "ssl_certificate server.pem; ssl_certificate_key server.key;" if secure else ""
    return REFUSES.format(certificate=certificate, ssl=" ssl" if secure else "")


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("options", [(), ("--no-keep-alive",)])
def test_an_answer_before_the_end_of_the_body_counts(
    secure: bool, options: tuple[str, ...], home: Home, at: Path, tmp_path: Path
) -> None:
    base, trust = ("https", ("-k",)) if secure else ("http", ())
    asked = (*trust, *options, "--data-file", at / "body", *SHORT)
    with nginx(at, settings(secure=secure)) as port:
        for path, words in (("large", "status 413 (5 of 5 requests)"), ("secret", "status 401 (5 of 5")):
            refused = home.here("load", f"{base}://127.0.0.1:{port}/{path}", *asked)
            assert refused.returncode == 1 and words in refused.stderr, refused.stderr
            assert path != "large" or f"The body that dyno sends has {BODY_BYTES} bytes." in refused.stderr
        into = ("--into", tmp_path / "e", "--expect-status", "413")
        done = home.here("load", f"{base}://127.0.0.1:{port}/large", *asked, *into)
    assert done.returncode == 0 and "No request failed" in done.stdout, (done.stdout, done.stderr)
    [record] = Experiment.open(tmp_path / "e").levels()
    assert 0 < record.bytes_out < BODY_BYTES * record.operations


def test_a_lost_answer_to_a_large_body_has_the_size_of_the_body_in_its_hint(home: Home, at: Path) -> None:
    with nginx(at, settings(secure=False)) as port:
        url = f"http://127.0.0.1:{port}/silent"
        said = home.here("load", url, "--data-file", at / "body", *SHORT).stderr
        small = home.here("load", url, "--data", "x", *SHORT).stderr
    assert f"The body that dyno sends has {BODY_BYTES} bytes." in said and "may want a log-in" in said
    assert "PROXY protocol" not in said and "return 444" not in said
    assert "return 444" in small and "The body that dyno sends" not in small
