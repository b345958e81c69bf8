"""Letters outside ASCII in URLs and paths: every option and file that takes them sends the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.dyno_process import Home
from support.users_web import nginx

pytestmark = pytest.mark.usefixtures("short_windows")
SHORT = ("--clients", "1", "--length", "0.5s")
SUITE_OF_PATHS = """
name = "words"
title = "Words"
description = "d"
source = "a test"
workload = "{workload}"
clients = [1]
length_s = 0.5
[documents]
{documents}
"""
PLAN_OF_WORDS = """
name = "p"
title = "P"
suite = "words.toml"
repetitions = 1
[[servers]]
server = "external"
url = "{url}"
"""


def test_letters_outside_ascii_are_sent_the_same_way_from_every_place(home: Home, tmp_path: Path) -> None:
    word, sent = "/s?q=gr\u00fcn&r=%C3%BC|[x]", "/s?q=gr%C3%BCn&r=%C3%BC|[x]"
    logged = "log_format line $request_uri; access_log words.log line;"
    settings = f"{logged} server {{ listen 127.0.0.1:{{port}}; return 200 a; }}"
    with nginx(tmp_path, settings) as port:
        url = f"http://127.0.0.1:{port}"
        (home.temporary / "urls").write_text(f"{word}\n")
        step = f'[[documents.steps]]\nname = "s"\npath = "{word}"\nstatus = [200, 404]'
        for number, documents in enumerate((f'paths = ["{word}"]', step)):
            workload = ("url", "session")[number]
            suite = SUITE_OF_PATHS.format(workload=workload, documents=documents)
            (home.temporary / "words.toml").write_text(suite)
            (home.temporary / "plan.toml").write_text(PLAN_OF_WORDS.format(url=f"{url}/"))
            done = home.here("run", "plan.toml", "--into", home.temporary / f"e{number}")
            assert done.returncode == 0, done.stderr
        for options in ((f"{url}{word}",), (f"{url}/", "--urls", home.temporary / "urls")):
            done = home.here("load", *options, *SHORT, "-n", "2")
            assert done.returncode == 0, done.stderr
        assert set((tmp_path / "words.log").read_text().splitlines()) == {sent}
