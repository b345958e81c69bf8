"""Errors that reach the user. The class tells whose fault the error is, and `hint` suggests a remedy.

Failed operations under load are counted instead (see `crates/measure/src/fault.rs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

MOST_PROBLEMS = 100
"""The maximum number of problems reported per document."""


class DynoError(Exception):
    """An error with advice. `cli` prints it without a traceback and exits with `exit_status`."""

    exit_status = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UserError(DynoError):
    """The user's mistake: a plan, an option or a path that can't be used. Exit status 2."""

    exit_status = 2


class PlanError(UserError):
    """All problems of one plan or suite, each with its key and line."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        shown = [f"  {problem}" for problem in problems[:MOST_PROBLEMS]]
        if len(problems) > len(shown):
            shown.append(f"  and {len(problems) - len(shown):,} more")
        super().__init__("\n".join([f"{source}: {count}", *shown]))
        self.problems = tuple(problems)


class WriteError(DynoError):
    """A file of an experiment could not be written."""


class ServerError(DynoError):
    """A server under test could not be prepared, started, proven to be ours, or stopped."""


class ServerEndedError(ServerError):
    """A server that dyno started has ended by itself. Its files are removed, and every wait for it ends."""


class WorkloadError(ServerError):
    """A server answers, but does not serve the workload."""


class GoneError(ServerError):
    """A server that answered before no longer accepts connections."""


NOBODY_THERE = ("connection_refused", "connect_timeout", "unreachable")


def no_answer(url: str, protocol: str, error: Exception) -> ServerError:
    """Return the error for a server that gave no usable answer. `error` is the data plane's `AnswerError`."""
    fault, side, words, advice = error.args
    if side == "client":
        return ServerError(f"{url} can't be reached from this machine: {words}", hint=advice)
    if fault in NOBODY_THERE:
        return GoneError(f"nothing answers {protocol} at {url}: {words}", hint=advice)
    return ServerError(f"{url} gave no usable answer: {words}", hint=advice)


def gone(url: str, protocol: str, error: Exception) -> ServerError | None:
    """Return the error for a server that is gone after a level; None if it may only be slow or overloaded."""
    fault, _, words, _ = error.args
    if fault not in ("connection_refused", "unreachable"):
        return None
    return ServerError(
        f"the {protocol} server at {url} no longer answers: {words}",
        hint="Check the server's log. `dyno resume` repeats the run.",
    )


class ConsentError(UserError):
    """A target outside loopback that has not consented to load."""


NO_PIPE = "Standard input and pipes can't be read a second time: save the text in a file, and give its name."


def refuse_pipe(file: Path) -> Path:
    """Return the path of a file that every run reads. Raises UserError for a pipe, which can be read only once."""
    if file.name == "-" or (file.exists() and not (file.is_file() or file.is_dir())):
        raise UserError(f"can't read {file}: it is not a file", hint=NO_PIPE)
    return file


def refuse_contradictions(wrong: Mapping[str, bool]) -> None:
    """Raise ValueError with all contradictions that apply. `wrong` maps each message to whether it applies.

    For the validator of a settings model: the message becomes a problem of the plan.
    """
    if problems := [problem for problem, found in wrong.items() if found]:
        raise ValueError("; ".join(problems))
