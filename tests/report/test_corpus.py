"""Reports of a corpus of raw experiments, one of each form: no figure changes, cell by cell.

`tools/record_corpus.py` recorded them. A refactoring changes nothing here. After a change that is meant to alter a
figure, write the digests again with `DYNO_UPDATE_GOLDEN=1`, and state in the commit which figures changed and why.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from support.dyno_process import Home

CORPUS = Path(__file__).resolve().parent.parent / "data" / "corpus"
DIGESTS = CORPUS / "figures.json"
FORMS = sorted(path.name for path in CORPUS.iterdir() if path.is_dir())


def figures(folder: Path) -> dict[str, dict[str, str]]:
    """Return a digest of each column of each table of raw figures in a report."""
    found = {}
    for path in sorted((folder / "report" / "tables").glob("*.csv")):
        with path.open(newline="") as lines:
            columns = zip(*csv.reader(lines), strict=True)
            found[path.stem] = {name: digest(cells) for name, *cells in columns}
    return found


def digest(cells: list[str]) -> str:
    return hashlib.sha256("\n".join(map(rounded, cells)).encode()).hexdigest()[:12]


def rounded(cell: str) -> str:
    """Return a number to nine digits: the last ones of a logarithm differ between processors (AVX-512 or not)."""
    try:
        return f"{float(cell):.9g}"
    except ValueError:
        return cell


@pytest.mark.parametrize("form", FORMS)
def test_every_figure_of_the_corpus_is_what_it_was(form: str, home: Home, tmp_path: Path) -> None:
    shutil.copytree(CORPUS / form, tmp_path / form)
    done = home.here("report", tmp_path / form)
    assert done.returncode == 0, done.stdout + done.stderr
    found = figures(tmp_path / form)
    known = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    if os.environ.get("DYNO_UPDATE_GOLDEN"):
        DIGESTS.write_text(json.dumps(known | {form: found}, indent=1, sort_keys=True) + "\n")
        return
    assert found == known[form]


def test_two_experiments_of_the_corpus_compare_as_they_did(home: Home) -> None:
    done = home.here("compare", CORPUS / "closed", CORPUS / "closed-again", "--json")
    assert done.returncode == 0, done.stderr
    golden = CORPUS / "compare.json"
    if os.environ.get("DYNO_UPDATE_GOLDEN"):
        golden.write_text(done.stdout)
    found, known = (json.loads(text, parse_float=rounded) for text in (done.stdout, golden.read_text()))
    assert found == known
