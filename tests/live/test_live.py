"""The local pages in a real browser, at the widths of a desktop and a phone."""

from __future__ import annotations

import http.client
import re
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from serverdyno import _native
from serverdyno.cli.progress import PlainLines
from serverdyno.live.feed import Event, Feed
from serverdyno.live.pages import STATIC
from serverdyno.plan.model import ServerPlan
from serverdyno.report.views import palette
from serverdyno.run.experiment import carry_out
from serverdyno.store.experiment import Experiment
from support.dyno_process import PATIENCE_S, Home, experiment, wait_for_line

WIDTHS = (1280, 420)
HEIGHT = 1000
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(not (BROWSER and DRIVER), reason="chromium or its driver is not installed")
URL = re.compile(r"http://127\.0\.0\.1:(\d+)/")


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER or ""))
    driver.set_page_load_timeout(PATIENCE_S)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with a complete experiment and a damaged one."""
    folder = tmp_path_factory.mktemp("pages")
    servers = [ServerPlan(server="reference", factors={"threads": [1, 2]})]
    with Experiment.open(experiment(folder / "e", servers, clients=[1, 2]), writable=True) as opened:
        assert carry_out(opened, PlainLines(Console(quiet=True)))
    (folder / "damaged").mkdir()
    (folder / "damaged" / "experiment.json").write_text("{")
    return folder


def told_url(line: str) -> tuple[str, int]:
    found = URL.search(line)
    assert found, line
    return found[0], int(found[1])


def text(browser: webdriver.Chrome, identity: str) -> str:
    return browser.find_element(By.ID, identity).text


def wait(browser: webdriver.Chrome, condition: str) -> None:
    WebDriverWait(browser, PATIENCE_S).until(
        lambda found: found.execute_script(f"return {condition}"), condition
    )


def check_page(browser: webdriver.Chrome) -> None:
    """Check that nothing is wider than the window, and that the browser refused and missed nothing."""
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


def get(port: int, path: str = "/", method: str = "GET", host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, headers={"Host": host or f"127.0.0.1:{port}"})
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Content-Security-Policy", "")
    finally:
        connection.close()


@needs_browser
def test_a_run_is_shown_while_it_goes_on(home: Home, browser: webdriver.Chrome, tmp_path: Path) -> None:
    servers = [ServerPlan(server="reference")]
    folder = experiment(tmp_path / "e", servers, clients=[1, 2, 3, 4, 5, 6], length_s=1.5)
    with home.started("resume", folder, "--live", "0") as dyno:
        url, port = told_url(wait_for_line(dyno, "live page: ")[-1])
        for path in ("/", "/events", "/live.js"):
            # Only for reading, and only under this machine's own name, because a foreign name may resolve to it.
            assert get(port, path, "POST")[0] == 405
            assert get(port, path, host="example.org")[0] == 400
        browser.get(url)
        wait(browser, "document.querySelectorAll('#throughput canvas').length == 1 && levels.length > 0")
        assert "reference" in text(browser, "levels")
        for width in WIDTHS:
            browser.set_window_size(width, HEIGHT)
            check_page(browser)
        _, told = dyno.communicate(timeout=PATIENCE_S)
        assert dyno.returncode == 0, told
    wait(browser, "document.getElementById('state').textContent.includes('has ended')")
    assert text(browser, "state") == f"The run has ended. Report: {folder}/report/report.html"
    assert browser.execute_script("return levels.length") == 6


def test_each_look_at_a_level_replaces_what_was_true_of_it_before(tmp_path: Path) -> None:
    told: list[Event] = []

    class Page(PlainLines):
        """Reads the current state again after each wait."""

        def level_tick(self, snapshot: _native.Snapshot) -> None:
            if snapshot["operations"]:
                told.append(feed.since(0)[1])

    folder = experiment(tmp_path / "e", [ServerPlan(server="reference")], clients=[1])
    with Experiment.open(folder, writable=True) as opened:
        feed = Feed(Page(Console(quiet=True)), opened.head, f"{folder}", [])
        assert carry_out(opened, feed)
    assert {(now["configuration"], now["level"]) for now in told} == {("reference", 1)}
    elapsed_s = [now["elapsed_s"] for now in told]
    assert elapsed_s[-1] > elapsed_s[0] > 0


def test_a_port_that_is_taken_refuses_before_anything_is_measured(home: Home, tmp_path: Path) -> None:
    folder = experiment(tmp_path / "e", [ServerPlan(server="reference")], clients=[1])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = home.here("resume", folder, "--live", f"{taken.getsockname()[1]}")
    assert done.returncode == 2
    assert (
        "error: the page can't listen on 127.0.0.1:" in done.stderr
        and "hint: Use another port" in done.stderr
    )
    assert Experiment.open(folder).levels() == []


@needs_browser
def test_experiments_are_shown_side_by_side(home: Home, browser: webdriver.Chrome, measured: Path) -> None:
    made = home.here("report", measured / "e")
    assert made.returncode == 0, made.stderr
    with home.started("open", measured) as dyno:
        url, port = told_url(wait_for_line(dyno, "Ctrl-C ends it")[-1])
        browser.get(url)
        wait(browser, "document.querySelectorAll('#throughput canvas').length == 1")
        assert text(browser, "state") == "2 of 2 experiments"
        assert f"{measured}/damaged" in text(browser, "rows")
        assert len(browser.find_elements(By.CSS_SELECTOR, "#compared tr")) == 4
        for width in WIDTHS:
            browser.set_window_size(width, HEIGHT)
            check_page(browser)
        browser.find_element(By.ID, "filter").send_keys("no such plan")
        wait(browser, "document.getElementById('state').textContent == '0 of 2 experiments'")
        [number] = browser.execute_script("return experiments.filter((e) => !e.problem).map((e) => e.number)")
        status, policy = get(port, f"/reports/{number}")
        assert status == 200 and "script-src" not in policy and "default-src 'none'" in policy
        for path in (
            f"/reports/{1 - number}",
            "/reports/7",
            "/reports/../../etc/passwd",
            "/live.html/../feed.py",
        ):
            assert get(port, path)[0] == 404, path
        assert get(port, host="example.org")[0] == 400
        browser.get(f"{url}reports/{number}")
        assert browser.find_elements(By.TAG_NAME, "h1")
        check_page(browser)
        dyno.send_signal(signal.SIGINT)
        _, told = dyno.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in told


def test_the_means_are_those_of_the_records(measured: Path) -> None:
    from serverdyno.live.browse import summary  # noqa: PLC0415

    records = Experiment.open(measured / "e").levels()
    points = {
        (curve["configuration"], point["level"]): point
        for curve in summary(measured / "e")["curves"]
        for point in curve["points"]
    }
    assert len(points) == len(records) == 4
    for record in records:
        point = points[record.configuration, record.clients]
        assert point["mean"] == pytest.approx(record.operations / record.window_s)
        assert point["errors"] == 0 and point["repetitions"] == 1


def test_a_folder_without_experiments_is_told(home: Home, tmp_path: Path) -> None:
    done = home.here("open", tmp_path)
    assert done.returncode == 2
    assert f"error: no experiment in or below {tmp_path}" in done.stderr


def test_the_colours_are_those_of_reports() -> None:
    style = (STATIC / "pages.css").read_text()
    for colours in (palette.COLOURS, palette.DARK_COLOURS):
        assert " ".join(f"--series-{place}: {value};" for place, value in enumerate(colours)) in style
