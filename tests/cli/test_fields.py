"""Options from the fields of models: how a command shows, reads and writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from pydantic import BaseModel, Field
from typer.testing import CliRunner

from serverdyno.cli.fields import add, checked
from serverdyno.errors import PlanError
from serverdyno.plan.protocols.model import Model
from serverdyno.plan.protocols.options import Option, words
from serverdyno.plan.quick import fields as load_fields
from serverdyno.plan.quick import quick_plan
from serverdyno.servers.reference_model import HttpProcess, NfsProcess, SmbProcess


class Trial(Model):
    level_count: int = Field(default=3, ge=1, le=5000, description="How many; needs is_dry.")
    share: float | None = Field(default=None, gt=0, description="What part.")
    colour: Literal["red", "blue"] = Field(default="red", description="Which one.")
    is_dry: bool = Field(default=True, description="Whether it rains.")
    places: Annotated[list[int], Option(("--places", "-p"), listed=True)] = Field(
        default=[], description="Where."
    )
    files: list[Path] = Field(default=[], description="From what.")


def run(model: type[BaseModel], arguments: list[str]) -> tuple[str, dict[str, Any]]:
    """Return the output of a command with the fields of a model, and the values that it receives."""
    taken: dict[str, Any] = {}

    def command(given: dict[str, Any]) -> None:
        taken.update(given)

    app = typer.Typer(rich_markup_mode=None)
    add(app, "try", command, lambda: model.model_fields, epilog="")
    return CliRunner().invoke(app, arguments).output, taken


def test_help_shows_name_sentence_default_bounds_and_choices() -> None:
    said = " ".join(run(Trial, ["--help"])[0].split())
    for shown in (
        "--level-count <int> How many; needs --is-dry. [default: 3; 1 to 5,000]",
        "--share <float> What part. [above 0]",
        "--colour [red|blue] Which one. [default: red]",
        "--is-dry / --no-is-dry Whether it rains. [default: --is-dry]",
        "-p, --places <int>,... Where.",
        "--files <path> From what. [may be repeated]",
    ):
        assert shown in said, said


def test_every_wrong_option_is_told_at_once_in_the_words_of_a_plan() -> None:
    _, given = run(Trial, ["--level-count", "0", "--share", "x", "--colour", "green", "--no-is-dry"])
    with pytest.raises(PlanError) as caught:
        checked(Trial, given, "dyno try")
    assert caught.value.problems == (
        "--level-count: must be at least 1, not 0",
        "--share: must be a number, not 'x'",
        "--colour: must be 'red' or 'blue', not 'green'",
    )


@pytest.mark.parametrize(
    "model",
    [
        HttpProcess(threads=3, body_bytes=7, http2=True, tls_resumption=False, behind=[81, 82]),
        SmbProcess(port=445, smb2_leases=False, oplocks=True, user="a b", capacity_mib=3, counts=Path("c")),
        NfsProcess(udp=True, delegations=False, flush="ignore", portmapper_port=111, outage_s=0.25),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_words_of_a_model_are_read_as_the_same_model(model: Model) -> None:
    _, given = run(type(model), words(model))
    assert checked(type(model), given, "dyno reference") == model


def test_the_command_in_a_plans_text_makes_the_same_plan() -> None:
    given = {"clients": "2,3", "length": "2m", "header": ["A: b", "C: d"], "keep_alive": False, "http": "1.0"}
    plan, suite, text = quick_plan("http://127.0.0.1/a%20b", given)
    assert text == (
        "# Made by: dyno load http://127.0.0.1/a%20b --clients 2,3 --length 2m --repetitions 1 --http 1.0 "
        "--no-keep-alive --header 'A: b' --header 'C: d'\n"
    )
    assert (suite.clients, suite.length_s, plan.repetitions) == ([2, 3], 120, 1)
    assert set(given) < set(load_fields())
