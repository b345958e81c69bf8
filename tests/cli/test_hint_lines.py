"""A hint has a line for each piece of advice."""

from __future__ import annotations

import pytest

from serverdyno import wording


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Check the port.", 1),
        ("Check the port. The usual one is 445.", 1),
        ("Start the server. If it runs, check the port. Otherwise look at its log.", 3),
        ("No redirect is followed: use the other URL. Location: http://127.0.0.1/there", 2),
    ],
)
def test_each_piece_of_advice_has_a_line_of_its_own(text: str, lines: int) -> None:
    said = wording.hint(text).split("\n")
    assert len(said) == lines and said[0].startswith("hint: ")
    assert all(line.startswith("  ") for line in said[1:])
    assert " ".join(line.strip() for line in said) == f"hint: {text}"
