"""`dyno reference http`, `dyno reference smb` and `dyno reference nfs`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from serverdyno import _native

PASSWORD_VARIABLE = "DYNO_SMB_PASSWORD"
LOOPBACK = "127.0.0.1"
MIB = 2**20
SMB_EXAMPLE = "Example: dyno reference smb --port 1445, then: smbclient -p 1445 -N //127.0.0.1/volume1"
NFS_EXAMPLE = (
    "Example: dyno reference nfs --port 12049, then: "
    "nfs-ls 'nfs://127.0.0.1/volume1?nfsport=12049&mountport=12049'. SIGHUP makes it start anew."
)
EXAMPLE = "Example: dyno reference http --port 8080"


Bind = Annotated[
    str,
    typer.Option(
        help="Address of this machine to listen on. Outside loopback, consent is given for the token in "
        "DYNO_CONSENT_TOKEN alone; needs --port."
    ),
]


def register(app: typer.Typer) -> None:
    references = typer.Typer(
        help="Start a server that comes with Serverdyno, for a first test.",
        epilog=EXAMPLE,
        no_args_is_help=True,
    )
    references.command("http", epilog=EXAMPLE)(http)
    references.command("smb", epilog=SMB_EXAMPLE)(smb)
    references.command("nfs", epilog=NFS_EXAMPLE)(nfs)
    app.add_typer(references, name="reference")


def http(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free one.")] = 0,
    bind: Bind = LOOPBACK,
    threads: Annotated[int, typer.Option(min=1, max=256, help="Threads that serve.")] = 1,
    body_bytes: Annotated[
        int | None,
        typer.Option(min=0, max=2**30, help="Serve this many bytes for every path, not the WebBench tree."),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="Speak TLS with this certificate (PEM); needs --tls-key.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of the certificate (PEM).")] = None,
    tls_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Speak TLS on this port, and plain HTTP on --port; 0: any free port."
        ),
    ] = None,
    tls_min_version: Annotated[str, typer.Option(help="The oldest version of TLS: 1.2 or 1.3.")] = "1.2",
    tls_max_version: Annotated[str, typer.Option(help="The newest version of TLS.")] = "1.3",
    tls_resumption: Annotated[bool, typer.Option(help="Let clients resume earlier TLS sessions.")] = True,
    http2: Annotated[
        bool, typer.Option("--http2", help="Also speak HTTP/2: by ALPN over TLS, else with prior knowledge.")
    ] = False,
    behind: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            max=65535,
            help="Port of a server on this machine that is asked for what is below /cgi-bin/; repeatable.",
        ),
    ] = None,
    fault: Annotated[
        str | None, typer.Option(help="Make this fault in every answer; see --list-faults.")
    ] = None,
    list_faults: Annotated[bool, typer.Option("--list-faults", help="Name the faults, and end.")] = False,
) -> None:
    """Serve the WebBench tree from memory. For tests only."""
    from serverdyno import _native  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.servers.consent import CONSENT_PATH  # noqa: PLC0415

    if list_faults:
        for name, meaning in _native.reference_faults():
            typer.echo(f"{name:<16} {meaning}")
        return
    try:
        tls = tls_of(
            tls_certificate, tls_key, tls_port, (tls_min_version, tls_max_version), resumption=tls_resumption
        )
        server = _native.ReferenceServer.start(
            port=port,
            bind=bind,
            documents={f"{CONSENT_PATH}{token}": text for token, text in consents_of(bind, port, tls_port)},
            threads=threads,
            body_bytes=body_bytes,
            fault=fault,
            tls=tls,
            secure_port=tls_port,
            http2=http2,
            behind=behind,
        )
    except (ValueError, OSError) as error:
        raise UserError(f"the reference server can't be started: {error}") from error
    _serve(server)


def _serve(server: _native.ReferenceServer) -> None:
    """Serve until the user ends it."""
    with contextlib.suppress(KeyboardInterrupt):
        # For programs that start it: where it listens, on one line, as soon as it does.
        secure = {} if server.secure_port is None else {"tls_port": server.secure_port}
        typer.echo(json.dumps({"port": server.port, **secure}))
        signal.pause()
    server.stop()


def consents_of(bind: str, *ports: int | None) -> list[tuple[str, bytes]]:
    """Whose load is consented to, the token of the environment, and the document that says so.

    Raises UserError.
    """
    from serverdyno import _native  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.servers.consent import CONSENT_VARIABLE  # noqa: PLC0415

    if 0 in ports and bind != LOOPBACK:
        raise UserError("--bind needs ports of your choice: consent is given for each of them")
    token = os.environ.get(CONSENT_VARIABLE)
    if token is None or 0 in ports:
        return []
    lines = [_native.consent_document(f"{bind}:{port}", token) for port in ports if port is not None]
    return [(token, "\n".join(lines).encode())]


def consent_files(bind: str, port: int) -> dict[str, bytes]:
    """The same as files in the root of each share. Raises UserError."""
    return {f"serverdyno-{token}.txt": text for token, text in consents_of(bind, port)}


def tls_of(
    certificate: Path | None,
    key: Path | None,
    port: int | None,
    versions: tuple[str, str],
    *,
    resumption: bool,
) -> _native.TlsOfReference | None:
    """How the server speaks TLS; None: not at all. Raises UserError, and OSError for a file that can't be read.

    `port`: of its own; None: there is none. `versions`: the oldest and the newest.
    """
    from serverdyno.errors import UserError  # noqa: PLC0415

    if certificate is None and key is None and port is None:
        return None
    if certificate is None and key is None:
        raise UserError("--tls-port needs --tls-certificate and --tls-key", hint="Give all three, or none.")
    if certificate is None or key is None:
        raise UserError("--tls-certificate and --tls-key go together", hint="Give both, or none.")
    return {
        "certificate": certificate.read_text(encoding="utf-8"),
        "key": key.read_text(encoding="utf-8"),
        "min_version": versions[0],
        "max_version": versions[1],
        "resumption": resumption,
    }


CapacityMib = Annotated[
    int,
    typer.Option(min=1, max=2**24, help="Memory for files, in MiB; when it is used up, the disk is full."),
]
DurableHandles = Annotated[bool, typer.Option(help="Grant handles that outlive their connection.")]
ContinuouslyAvailable = Annotated[
    bool, typer.Option(help="Grant handles that outlive a restart of the server.")
]
PortmapperPort = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="Also be a portmapper there (111 is the usual port); left out: not."),
]
Udp = Annotated[bool, typer.Option("--udp", help="Also answer NFSv3, MOUNT and the portmapper over UDP.")]
Delegations = Annotated[bool, typer.Option(help="Delegate files for reading to clients of NFSv4.1.")]
OutageSeconds = Annotated[
    float, typer.Option(min=0, max=3600, help="How long it is away when SIGHUP makes it start anew.")
]


def smb(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free one.")] = 0,
    bind: Bind = LOOPBACK,
    threads: Annotated[int, typer.Option(min=1, max=256, help="Threads that serve.")] = 1,
    volumes: Annotated[int, typer.Option(min=1, max=16, help="Shares volume1, volume2 ...")] = 1,
    user: Annotated[
        str | None,
        typer.Option(help=f"The only user; the password is in {PASSWORD_VARIABLE}. Default: guests."),
    ] = None,
    min_dialect: Annotated[
        str, typer.Option(help="The oldest version: 2.0.2, 2.1, 3.0, 3.0.2, 3.1.1.")
    ] = "2.0.2",
    max_dialect: Annotated[str, typer.Option(help="The newest version.")] = "3.1.1",
    signing: Annotated[str, typer.Option(help="auto (as the client asks) or required.")] = "auto",
    encryption: Annotated[str, typer.Option(help="off, auto or required.")] = "auto",
    oplocks: Annotated[bool, typer.Option(help="Grant oplocks and leases.")] = True,
    leases: Annotated[bool, typer.Option(help="Grant leases.")] = True,
    directory_leases: Annotated[
        bool, typer.Option(help="Grant leases of directories, too. Needs leases.")
    ] = True,
    durable_handles: DurableHandles = True,
    continuously_available: ContinuouslyAvailable = False,
    outage_s: OutageSeconds = 0.5,
    capacity_mib: CapacityMib = 1024,
    counts: Annotated[
        Path | None,
        typer.Option(
            help="Unix socket to be made: who connects is sent the requests so far by command (JSON)."
        ),
    ] = None,
    fault: Annotated[str | None, typer.Option(help="Make this fault; see --list-faults.")] = None,
    list_faults: Annotated[bool, typer.Option("--list-faults", help="Name the faults, and end.")] = False,
) -> None:
    """Serve files from memory over SMB 2 and 3. For tests only."""
    from serverdyno import _native  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415

    if list_faults:
        for name, meaning in _native.reference_smb_faults():
            typer.echo(f"{name:<18} {meaning}")
        return
    _check_password(user)
    try:
        server = _native.ReferenceSmbServer.start(
            port=port,
            bind=bind,
            files=consent_files(bind, port),
            threads=threads,
            shares=[f"volume{number}" for number in range(1, volumes + 1)],
            user=user,
            password=os.environ.get(PASSWORD_VARIABLE, ""),
            min_dialect=min_dialect,
            max_dialect=max_dialect,
            signing=signing,  # type: ignore[arg-type]  # checked there
            encryption=encryption,  # type: ignore[arg-type]
            oplocks=oplocks,
            leases=leases,
            directory_leases=directory_leases,
            durable_handles=durable_handles,
            continuously_available=continuously_available,
            capacity_bytes=capacity_mib * MIB,
            fault=fault,
        )
    except (ValueError, OSError) as error:
        raise UserError(f"the reference server can't be started: {error}") from error
    _serve_smb(server, counts, outage_s)


def nfs(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of NFS and MOUNT; 0: any free one.")] = 0,
    bind: Bind = LOOPBACK,
    portmapper_port: PortmapperPort = None,
    udp: Udp = False,
    threads: Annotated[int, typer.Option(min=1, max=256, help="Threads that serve.")] = 1,
    volumes: Annotated[int, typer.Option(min=1, max=16, help="Exports /volume1, /volume2 ...")] = 1,
    flush: Annotated[
        str,
        typer.Option(help="COMMIT and stable writes: honour, or ignore as with the export option async."),
    ] = "honour",
    max_transfer_bytes: Annotated[
        int, typer.Option(min=4096, max=2**20, help="Bytes of one READ or WRITE, at most.")
    ] = 2**20,
    outage_s: OutageSeconds = 0.5,
    capacity_mib: CapacityMib = 1024,
    counts: Annotated[
        Path | None,
        typer.Option(
            help="Unix socket to be made: who connects is sent the requests so far by procedure (JSON)."
        ),
    ] = None,
    fault: Annotated[str | None, typer.Option(help="Commit a fault; --list-faults names them.")] = None,
    delegations: Delegations = True,
    list_faults: Annotated[bool, typer.Option("--list-faults", help="Name the faults, and end.")] = False,
) -> None:
    """Serve files in memory over NFSv3 and NFSv4.1. For tests only."""
    from serverdyno import _native  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415

    if list_faults:
        for name, meaning in _native.reference_nfs_faults():
            typer.echo(f"{name:<20} {meaning}")
        return
    try:
        server = _native.ReferenceNfsServer.start(
            port=port,
            bind=bind,
            files=consent_files(bind, port),
            portmapper_port=portmapper_port,
            udp=udp,
            delegations=delegations,
            threads=threads,
            exports=[f"/volume{number}" for number in range(1, volumes + 1)],
            flush=flush,  # type: ignore[arg-type]  # checked there
            max_transfer_bytes=max_transfer_bytes,
            capacity_bytes=capacity_mib * MIB,
            fault=fault,
        )
    except (ValueError, OSError) as error:
        raise UserError(f"the reference server can't be started: {error}") from error
    _serve_nfs(server, counts, outage_s)


def _check_password(user: str | None) -> None:
    """Raises UserError where a user has no password."""
    from serverdyno.errors import UserError  # noqa: PLC0415

    if user is not None and PASSWORD_VARIABLE not in os.environ:
        raise UserError(
            f"the password of {user} is missing: the variable {PASSWORD_VARIABLE} is not set",
            hint=f"export {PASSWORD_VARIABLE}=...",
        )


def _serve_smb(server: _native.ReferenceSmbServer, counts: Path | None, outage_s: float) -> None:
    """Serve until the user ends it."""

    def restart() -> dict[str, int]:
        server.restart(outage_s=outage_s)
        return {"open_files": server.open_files}

    _serve_files(server, server.requests, counts, restart)


def _serve_nfs(server: _native.ReferenceNfsServer, counts: Path | None, outage_s: float) -> None:
    """Serve until the user ends it."""

    def restart() -> dict[str, int]:
        lost = server.restart(outage_s=outage_s)
        return {"restarts": server.restarts, "files_with_lost_writes": lost}

    _serve_files(server, server.requests, counts, restart)


def _serve_files(
    server: _native.ReferenceSmbServer | _native.ReferenceNfsServer,
    counts: Callable[[], dict[str, int]],
    place: Path | None,
    restart: Callable[[], dict[str, int]],
) -> None:
    """Serve until the user ends it; SIGHUP makes it start anew, and what that came to is printed."""
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
    """Tells a server's counts to whoever connects to the socket `place`, which is removed at the end."""
    from serverdyno.errors import UserError  # noqa: PLC0415

    if place is None:
        yield
        return
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(place))
    except OSError as error:
        raise UserError(
            f"{place} can't be a socket that tells the counts: {error}",
            hint="It must be a short path, in a directory that is there, where nothing is yet.",
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
