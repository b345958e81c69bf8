"""`dyno reference http`, `dyno reference smb`, `dyno reference nfs` and `dyno reference s3`."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from serverdyno.cli.fields import add, checked

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from serverdyno import _native

SMB_EXAMPLE = "Example: dyno reference smb --port 1445, then: smbclient -p 1445 -N //127.0.0.1/volume1"
NFS_EXAMPLE = (
    "Example: dyno reference nfs --port 12049, then: "
    "nfs-ls 'nfs://127.0.0.1/volume1?nfsport=12049&mountport=12049'. SIGHUP restarts it."
)
S3_EXAMPLE = (
    "Example: dyno reference s3 --port 8333, then: "
    "aws --endpoint-url http://127.0.0.1:8333 s3 cp FILE s3://volume1/. SIGHUP restarts it."
)
EXAMPLE = "Example: dyno reference http --port 8080"


def _list_faults(context: typer.Context, asked: bool) -> None:
    from serverdyno import _native  # noqa: PLC0415

    if asked:
        faults = _native.reference_faults(f"{context.info_name}")
        width = max(len(name) for name, _ in faults)
        for name, meaning in faults:
            typer.echo(f"{name:<{width}} {meaning}")
        raise typer.Exit


ListFaults = Annotated[
    bool,
    typer.Option("--list-faults", callback=_list_faults, is_eager=True, help="List the faults, and exit."),
]


def register(app: typer.Typer) -> None:
    references = typer.Typer(
        help="Start a server that comes with Serverdyno, to try it out.",
        epilog=EXAMPLE,
        no_args_is_help=True,
    )

    def of(model: str) -> Callable[[], Mapping[str, FieldInfo]]:
        def fields() -> Mapping[str, FieldInfo]:
            from serverdyno.servers import reference_model  # noqa: PLC0415

            found: Mapping[str, FieldInfo] = getattr(reference_model, model).model_fields
            return found

        return fields

    add(references, "http", http, of("HttpProcess"), epilog=EXAMPLE)
    add(references, "smb", smb, of("SmbProcess"), epilog=SMB_EXAMPLE)
    add(references, "nfs", nfs, of("NfsProcess"), epilog=NFS_EXAMPLE)
    add(references, "s3", s3, of("S3Process"), epilog=S3_EXAMPLE)
    app.add_typer(references, name="reference")


def http(given: dict[str, Any], list_faults: ListFaults = False) -> None:
    """Serve the WebBench tree from memory. For tests only."""
    from serverdyno.servers.consent import CONSENT_PATH  # noqa: PLC0415
    from serverdyno.servers.reference_model import HttpProcess  # noqa: PLC0415

    options = checked(HttpProcess, given, "dyno reference http")
    consents = consents_of(options.bind, options.port, options.tls_port)
    with _refusals(options.bind, options.port, options.tls_port):
        server = options.start({f"{CONSENT_PATH}{token}": text for token, text in consents})
    _serve(server)


@contextlib.contextmanager
def _refusals(bind: str, *ports: int | None) -> Iterator[None]:
    """Turn startup errors of a server into a UserError."""
    from serverdyno.errors import UserError  # noqa: PLC0415

    where = " or ".join(f"port {port}" for port in ports if port)
    hints = {
        errno.EADDRINUSE: "--port 0 takes any free port, and prints it.",
        errno.EACCES: (
            "Only root may use ports below 1024: choose a higher port, or --port 0 for any free port."
        ),
        errno.EADDRNOTAVAIL: "--bind requires an address of this machine: `ip address` lists them.",
    }
    try:
        yield
    except OSError as error:
        raise UserError(
            f"the reference server can't listen on {bind}, {where}: {error.strerror or error}",
            hint=hints.get(error.errno or 0),
        ) from error
    except ValueError as error:
        raise UserError(f"the reference server can't be started: {error}") from error


def _serve(server: _native.ReferenceServer) -> None:
    """Serve until interrupted."""
    with contextlib.suppress(KeyboardInterrupt):
        # Programs that start the server read its ports from this line, which is printed once it listens.
        secure = {} if server.secure_port is None else {"tls_port": server.secure_port}
        typer.echo(json.dumps({"port": server.port, **secure}))
        signal.pause()
    server.stop()


def consents_of(bind: str, *ports: int | None) -> list[tuple[str, bytes]]:
    """Return the consent to load, if any: the token from the environment, and the document. Raises UserError."""
    from serverdyno import _native  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.servers.consent import CONSENT_VARIABLE  # noqa: PLC0415
    from serverdyno.servers.reference_model import LOOPBACK  # noqa: PLC0415

    if 0 in ports and bind != LOOPBACK:
        raise UserError("--bind needs explicit ports, because consent is given per port")
    token = os.environ.get(CONSENT_VARIABLE)
    if token is None or 0 in ports:
        return []
    lines = [_native.consent_document(f"{bind}:{port}", token) for port in ports if port is not None]
    return [(token, "\n".join(lines).encode())]


def consent_files(bind: str, port: int) -> dict[str, bytes]:
    """Return the consent as files for the root of each share. Raises UserError."""
    return {f"serverdyno-{token}.txt": text for token, text in consents_of(bind, port)}


def smb(given: dict[str, Any], list_faults: ListFaults = False) -> None:
    """Serve files from memory over SMB 2 and 3. For tests only."""
    from serverdyno.servers.reference_model import PASSWORD_VARIABLE, SmbProcess  # noqa: PLC0415

    options = checked(SmbProcess, given, "dyno reference smb")
    password = _secret("the password of", options.user, PASSWORD_VARIABLE)
    with _refusals(options.bind, options.port):
        server = options.start(consent_files(options.bind, options.port), password)

    def restart() -> dict[str, int]:
        server.restart(outage_s=options.outage_s)
        return {"open_files": server.open_files}

    _serve_files(server, server.requests, options.counts, restart)


def nfs(given: dict[str, Any], list_faults: ListFaults = False) -> None:
    """Serve files from memory over NFSv3 and NFSv4.1. For tests only."""
    from serverdyno.servers.reference_model import NfsProcess  # noqa: PLC0415

    options = checked(NfsProcess, given, "dyno reference nfs")
    with _refusals(options.bind, options.port):
        server = options.start(consent_files(options.bind, options.port))

    def restart() -> dict[str, int]:
        lost = server.restart(outage_s=options.outage_s)
        return {"restarts": server.restarts, "files_with_lost_writes": lost}

    _serve_files(server, server.requests, options.counts, restart)


def s3(given: dict[str, Any], list_faults: ListFaults = False) -> None:
    """Serve objects from memory over S3. For tests only."""
    from serverdyno.servers.reference_model import SECRET_VARIABLE, S3Process  # noqa: PLC0415

    options = checked(S3Process, given, "dyno reference s3")
    secret = _secret("the secret of access key", options.access_key_id, SECRET_VARIABLE)
    consents = consents_of(options.bind, options.port)
    with _refusals(options.bind, options.port):
        server = options.start({f"serverdyno-{token}": text for token, text in consents}, secret)

    def restart() -> dict[str, int]:
        return {"lost_objects": server.restart(outage_s=options.outage_s)}

    _serve_files(server, server.requests, options.counts, restart)


def _secret(what: str, owner: str | None, variable: str) -> str:
    """Return the secret in an environment variable, empty without an owner. Raises UserError if it is missing."""
    from serverdyno.errors import UserError  # noqa: PLC0415

    if owner is None:
        return ""
    if variable not in os.environ:
        raise UserError(
            f"{what} {owner} is missing: the variable {variable} is not set", hint=f"export {variable}=..."
        )
    return os.environ[variable]


def _serve_files(
    server: _native.ReferenceSmbServer | _native.ReferenceNfsServer | _native.ReferenceS3,
    counts: Callable[[], dict[str, int]],
    place: Path | None,
    restart: Callable[[], dict[str, int]],
) -> None:
    """Serve until interrupted. SIGHUP restarts the server and prints the result."""
    asked = threading.Event()
    signal.signal(signal.SIGHUP, lambda *_: asked.set())
    with counted(counts, place), contextlib.suppress(KeyboardInterrupt):
        typer.echo(json.dumps({"port": server.port}))
        while True:
            asked.wait()
            asked.clear()
            typer.echo(json.dumps(restart()))
    server.stop()


@contextlib.contextmanager
def counted(counts: Callable[[], dict[str, int]], place: Path | None) -> Iterator[None]:
    """Send a server's counts to every client that connects to the socket `place`, which is removed at the end."""
    from serverdyno.errors import UserError  # noqa: PLC0415

    if place is None:
        yield
        return
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(place))
    except OSError as error:
        raise UserError(
            f"{place} can't be used as the socket for the counts: {error}",
            hint="Give a short path that does not exist yet, in an existing directory.",
        ) from error
    listener.listen()

    def tell() -> None:
        while True:
            connection, _ = listener.accept()
            with contextlib.suppress(OSError), connection:
                connection.sendall(json.dumps(counts()).encode())

    threading.Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
