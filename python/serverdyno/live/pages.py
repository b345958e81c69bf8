"""Common parts of the local pages: shipped files, and safe response headers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

STATIC = Path(__file__).parent / "static"
SHIPPED = (
    "live.html",
    "live.js",
    "browse.html",
    "browse.js",
    "pages.js",
    "pages.css",
    "uPlot.iife.min.js",
    "uPlot.min.css",
)
SAFE = {
    # Allow only the scripts and styles that ship with the page.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# A report is one file that contains its style. Scripts are forbidden, so untrusted text in the records can't run one.
OF_REPORT = {
    **SAFE,
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
}


def application(start: str, routes: list[Route]) -> Starlette:
    """Return an application whose first page is the shipped file `start`.

    The application answers only requests whose Host is 127.0.0.1 or localhost, so that a foreign name that resolves to
    loopback (DNS rebinding) is refused.
    """
    return Starlette(
        routes=[
            Route("/", _shipped(start)),
            Route("/favicon.ico", _nothing),
            *(Route(f"/{name}", _shipped(name)) for name in SHIPPED),
            *routes,
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
    )


async def _nothing(_request: Request) -> Response:
    return Response(status_code=204, headers=SAFE)


def _shipped(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_request: Request) -> Response:
        return FileResponse(STATIC / name, headers=SAFE)

    return answer
