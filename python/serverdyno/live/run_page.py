"""The page of a run in progress: `dyno run --live PORT`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from serverdyno.live import pages, serve
from serverdyno.live.feed import Feed
from serverdyno.run.progress import Progress
from serverdyno.store.experiment import Experiment

EVERY_S = 0.5
"""Time between two reads of the feed."""


@contextmanager
def watched(progress: Progress, experiment: Experiment, port: int) -> Iterator[tuple[Feed, str]]:
    """Serve the page during the block. Yield a listener to use instead of `progress`, and the page's URL.

    Raises UserError if the port is not available.
    """
    listener = serve.listening(port)
    feed = Feed(progress, experiment.head, f"{experiment.folder}", experiment.readable_levels()[0])
    with serve.beside(application(feed), listener):
        try:
            yield feed, serve.url(listener)
        finally:
            feed.end(None)


def application(feed: Feed) -> Starlette:
    """Return the application with the page and its events."""

    async def answer(request: Request) -> Response:
        return StreamingResponse(
            _stream(feed, _after(request)), media_type="text/event-stream", headers=pages.SAFE
        )

    return pages.application("live.html", [Route("/events", answer)])


def _after(request: Request) -> int:
    """Return the number of events that a reconnecting browser has received; 0 for a new browser."""
    seen = request.headers.get("last-event-id", "0")
    return int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 10 else 0


async def _stream(feed: Feed, index: int) -> AsyncIterator[str]:
    """Yield server-sent events (WHATWG HTML, section 9.2): the run's facts, then the progress twice per second."""
    yield _message("about", feed.about)
    ended = False
    while not ended:
        events, now = feed.since(index)
        index += len(events)
        ended = any(event["kind"] == "end" for event in events)
        if events:
            yield _message("new", events, index)
        yield _message("now", now)
        await asyncio.sleep(0 if ended else EVERY_S)


def _message(name: str, data: object, number: int | None = None) -> str:
    lines = [f"event: {name}", f"data: {json.dumps(data)}"]
    if number is not None:
        lines.insert(1, f"id: {number}")
    return "\n".join([*lines, "", ""])
