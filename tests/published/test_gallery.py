"""The pages of `docs/gallery/`: the records next to a page rebuild it with the same verdicts."""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from serverdyno import published
from serverdyno.analysis.trust import Limit
from serverdyno.report.build import judged as judged_results
from serverdyno.report.build import source_of
from serverdyno.store.experiment import Experiment
from support.dyno_process import Home
from support.places import ROOT

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
PATIENCE_S = 120
GALLERY = ROOT / "docs" / "gallery"
MOST_PAGE_BYTES, MOST_ARCHIVE_BYTES = 1_500_000, 5_500_000
LISTED = re.findall(r"^## \[(.*?)\]|^\* \[.*?\]\((.*?)\)", (GALLERY / "README.md").read_text(), re.MULTILINE)


def archives() -> dict[str, list[Path]]:
    """Return the archives that the list names for each page that has any."""
    found: dict[str, list[Path]] = {}
    page = ""
    for name, archive in LISTED:
        page = name or page
        if archive:
            found.setdefault(page, []).append(GALLERY / archive)
    return found


def judged(page: Path) -> list[str]:
    """Return the sentences of a page that count verdicts and figures."""
    text = " ".join(unescape(re.sub(r"<[^>]+>", " ", page.read_text())).split())
    verdict = r"(?:Of \d+|None of the) published claims?,? .*?\."
    return re.findall(rf"{verdict}|\d+ of \d+ published figures have one of ours", text)


def test_the_list_names_every_page_and_every_archive_and_none_is_too_large() -> None:
    assert [name for name, _ in LISTED if name] == published.names()
    assert {path for paths in archives().values() for path in paths} == set(GALLERY.glob("*.tar.xz"))
    assert {path.stem for path in GALLERY.glob("*.html")} == set(published.names())
    for path in GALLERY.iterdir():
        assert path.stat().st_size <= (MOST_ARCHIVE_BYTES if path.suffix == ".xz" else MOST_PAGE_BYTES), path


@pytest.mark.parametrize("name", archives())
def test_the_records_rebuild_the_page_with_the_same_verdicts(name: str, home: Home, tmp_path: Path) -> None:
    for path in archives()[name]:
        with tarfile.open(path) as tar:
            tar.extractall(tmp_path, filter="data")
    first, *others = [tmp_path / path.name.removesuffix(".tar.xz") for path in archives()[name]]
    also = [word for other in others for word in ("--with", other)]
    done = home.here("report", first, "--as", name, *also)
    assert done.returncode == 0, done.stdout + done.stderr
    found = judged(first / "report" / f"as-{name}.html")
    assert len(found) == 2
    assert found == judged(GALLERY / f"{name}.html")


def test_the_links_of_1999_limit_nginx_and_not_the_generator(tmp_path: Path) -> None:
    """Four links of 100 Mbit/s: nginx filled them from 16 clients on, Apache did not."""
    with tarfile.open(GALLERY / "mindcraft-1999-second.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    results = judged_results(source_of(Experiment.open(tmp_path / "mindcraft-1999-second")))
    limits = {
        (result.name, level.clients): result.limits_of(level)
        for result in results.configurations
        for level in result.finished
    }
    clients = sorted({number for _, number in limits} - {1})
    filled = [number for number in clients if limits["nginx", number] == (Limit.LINK,)]
    assert filled == [number for number in clients if number >= 16]
    assert not any(Limit.LINK in limits["apache", number] for number in clients)
    # A single client fills its own link of 60 Mbit/s, with either server.
    assert limits["apache", 1] == limits["nginx", 1] == (Limit.LINK,)


@pytest.mark.parametrize("name", published.names())
def test_a_page_prints_each_unit_once(name: str) -> None:
    page = unescape((GALLERY / f"{name}.html").read_text())
    assert re.findall(r">[^<]*\b(times|percent|seconds|processors) \1\b|>[^<]*\d s seconds", page) == []


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service(DRIVER or ""))
    driver.set_page_load_timeout(PATIENCE_S)
    yield driver
    driver.quit()


OUTSIDE = """
const outside = [];
for (const drawing of document.querySelectorAll("svg")) {
    const all = drawing.getBoundingClientRect();
    if (all.right > innerWidth) outside.push(drawing.getAttribute("aria-label"));
    for (const text of drawing.querySelectorAll("text")) {
        const own = text.getBoundingClientRect();
        if (own.right > all.right + 2 || own.left < all.left - 2) outside.push(text.textContent);
    }
}
return outside;
"""
WIDE_TABLES = """
document.querySelectorAll("details").forEach(each => each.open = true);
const tables = [...document.querySelectorAll("table")];
return tables.filter(each => each.getBoundingClientRect().right > innerWidth + 1).map(each => each.textContent);
"""


@pytest.mark.skipif(not (BROWSER and DRIVER), reason="chromium or its driver is not installed")
@pytest.mark.parametrize("name", published.names())
def test_charts_fit_a_screen_and_a_telephone_and_tables_fit_paper(
    name: str, browser: webdriver.Chrome
) -> None:
    for width, media, script in ((1280, "", OUTSIDE), (420, "", OUTSIDE), (695, "print", WIDE_TABLES)):
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
        browser.get((GALLERY / f"{name}.html").as_uri())
        assert browser.execute_script(script) == [], (width, media)
