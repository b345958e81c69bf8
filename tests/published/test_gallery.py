"""The pages of `docs/gallery/`: the records next to a page rebuild it with the same verdicts."""

from __future__ import annotations

import re
import tarfile
from html import unescape
from pathlib import Path

import pytest

from serverdyno import published
from support.dyno_process import Home
from support.places import ROOT

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


@pytest.mark.parametrize("name", published.names())
def test_a_page_prints_each_unit_once(name: str) -> None:
    page = unescape((GALLERY / f"{name}.html").read_text())
    assert re.findall(r">[^<]*\b(times|percent|seconds|processors) \1\b|>[^<]*\d s seconds", page) == []
