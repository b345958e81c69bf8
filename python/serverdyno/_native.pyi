"""The data plane as Python sees it. Everything that happens while a level runs is in Rust, without the GIL."""

from collections.abc import Callable
from typing import Any, TypedDict, final

class ClassFacts(TypedDict):
    name: str  # "223.gif"
    files: int
    bytes: int  # of all files of the class
    weight: int  # of 100
    missing: bool  # the class of files that must not exist

class TreeFacts(TypedDict):
    files: int
    bytes: int
    digest: str  # hex, of every path, size and content
    classes: list[ClassFacts]

def tree_facts() -> TreeFacts: ...
def tree_write(directory: str) -> None:
    """Write the WebBench document tree below `directory`, which must exist. Raises OSError."""

def tree_check(directory: str) -> list[str]:
    """Return at most 20 problems of a tree (missing, wrong size or content); empty: it is complete."""

def workload_paths(seed: int, client: int, thread: int, count: int) -> list[str]:
    """Return the first `count` request paths of one client thread of `webbench-static`."""

def session_problems(steps: str) -> list[str]:
    """Return the problems of a session's steps (JSON, as in the section `workload` of a document), a sentence each."""

def header_problems(headers: list[tuple[str, str]]) -> list[str]:
    """Return the problems of a request's headers, each a name and a value; a sentence each."""

@final
class Target:
    """A destination that consents to load. Only `open` makes one, and `prepare` accepts nothing else."""

    @staticmethod
    def open(
        protocol: str,
        section: str,
        *,
        consent_token: str | None = None,
        password: str | None = None,
        ticket: str | None = None,
        identity: tuple[str, str] | None = None,
        access_key: tuple[str, str, str | None] | None = None,
        timeout_s: float = 10.0,
        max_rate_per_s: float | None = None,
        processes: int = 1,
        turn: int = 0,
    ) -> Target:
        """Resolve the URL in the section `target` of a document (JSON) once, and prove consent unless it is loopback.

        `crates/engine/src/kinds/` defines the section. `access_key` is the ID, secret and session token for S3; without
        it, requests are anonymous. `timeout_s` bounds the opening, and each later look.
        Requests to a file or object server keep `max_rate_per_s`: this process has a share of it, as one of
        `processes`, and its first request comes after `turn` requests of others.

        Raises ValueError (not a usable section or URL; every problem, a line each), OSError (does not resolve or
        connect), AnswerError (did not answer the request for consent), PermissionError (no consent; the message
        says how to give it), SessionError (a file server gives no session to look for consent).
        """
    protocol: str
    section: dict[str, Any]  # as it was opened
    url: str
    timeout_s: float
    max_rate_per_s: float | None
    address: str  # "127.0.0.1:8080", the one that was checked and is used
    loopback: bool
    answers_in_grace: (
        int  # of an NFSv4 server so far, that asked clients to wait for the end of its grace period
    )
    facts: dict[str, Any]  # of HTTP `host` (the Host header) and `path`, of SMB `shares`
    def look(self, nonce: int, *, sessions: int = 0) -> list[ShareLook]:
        """Log on to every share and ask for its free space, within `timeout_s` and without writing.

        Empty for a target without shares. `nonce` must differ each time, so that the server sees new clients. If there
        are fewer shares than `sessions`, so many sessions are opened at once, the additional ones on the first share.
        """

class JournalEntry(TypedDict):
    """A file of a journal, and what the server acknowledged of it. Bytes count from the file's beginning."""

    client: int
    file: int
    written_bytes: int
    flushed_bytes: int  # of those written: a flush that followed them was answered with success

class LeftOfFile(TypedDict):
    """What is left of a file of a journal."""

    client: int
    file: int
    intact_bytes: int  # from its beginning, as they were written; 0: none, or no such file
    why: str | None  # it can't be read; None: it was read, or is not there

@final
class Journal:
    """Files that clients write and flush until the server is gone."""

    def entries(self) -> list[JournalEntry]:
        """Return what was acknowledged so far."""

    def end(self) -> list[str]:
        """End the clients within a second, and return the error of each that failed; a second call returns none."""

class JobStage(TypedDict):
    ended: bool
    gate: int | None  # at which all clients of this process wait
    kind: str | None  # of the gate: begin, end or between

@final
class Job:
    """Levels on files that end when their work is done, under way on threads of their own."""

    @staticmethod
    def start(target: Target, job: str) -> Job:
        """Begin a job: JSON of `FileJob` (`crates/engine/src/job.rs`). Raises ValueError."""
    def wait(self, timeout_s: float) -> JobStage:
        """Wait until it is at a gate or has ended. Releases the GIL."""
    def wait_for_end(self, timeout_s: float) -> bool:
        """Wait for the end of a job that was stopped; true once it has come. Releases the GIL."""
    def open_gate(self, gate: int, begins_monotonic_ns: int) -> None:
        """Open a gate. Levels that begin there do so at this moment."""
    def stop(self, *, at_once: bool = False) -> None:
        """Stop it after its current call; it removes its files. `at_once`: its server is gone, and its files stay."""
    def tallies(self) -> bytes:
        """Return what was counted of each level, for `merge_levels`. Raises ValueError or AnswerError.

        The last argument of the AnswerError is the number of the step.
        """

def merge_levels(tallies: list[bytes]) -> list[dict[str, Any] | None]:
    """Return what all nodes counted of each level of a job: the fields of `serverdyno.counted.Counted`.

    None stands for a level in which no node took part.
    """

def begin_journal(target: Target, spec: str, nonce: int) -> Journal:
    """Start to write, on a thread of its own. Raises ValueError.

    `spec` is JSON of seed, directory, clients, most_ns. `nonce` must differ each time.
    """

def read_journal(target: Target, spec: str, entries: str, nonce: int) -> list[LeftOfFile]:
    """Read what is left of all `entries` (JSON). Raises ValueError, AnswerError."""

@final
class Load:
    """A level under way."""

    def snapshot(self) -> Snapshot: ...
    def go(self, start_monotonic_ns: int) -> None:
        """Start a level whose document says `"start": "on_command"`, at this time of CLOCK_MONOTONIC."""

    def stop(self) -> None:
        """End the level early. Its `result` is marked `stopped`."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the level; true once it has come. Releases the GIL."""

    def result(self) -> dict[str, Any]:
        """Return what was counted: those fields of `serverdyno.counted.Counted` that the work has.

        Raises RuntimeError while the level runs.
        """

    def tally(self) -> bytes:
        """Return what was counted as the part of a level, for `merge`."""

class Snapshot(TypedDict):
    elapsed_s: float  # 0 while clients are being prepared
    clients_prepared: int
    operations: int  # completed so far, ramps included
    bytes_in: int
    bytes_moved: int  # application bytes, read and written
    errors: int
    clients_active: int
    p99_ms: float | None  # of the response times so far, at most an eighth too high; None of few

def counted_schema() -> str:
    """Return the JSON schema of what was counted of a level, with the text of each figure."""

@final
class PreparedLevel:
    """A level that was checked, ready to start."""

    def start(self) -> Load:
        """Start the level on its own threads. Raises OSError if this process may not open enough files."""

    def workspace_bytes(self) -> int | None:
        """Return the most bytes that one client's files have at one time, in a first pass; None: it has no files.

        Servers need a little more.
        """

    def preparation_s(self) -> float:
        """Return about how long the bound of the rate makes the preparation of all clients last; 0: no bound."""

    def remove_workspaces(self, most_s: float) -> Removal | None:
        """Start to remove what clients left; ends by itself after `most_s`. None: the work leaves nothing."""

def prepare(
    document: str, target: Target, workspaces: Workspaces | None = None, load_file: LoadFile | None = None
) -> PreparedLevel:
    """Return the level of a document (`LevelSpec` in `crates/engine/src/spec.rs`, as JSON) for an open target.

    Raises ValueError that lists every problem, one per line, with its key's path.
    """

def merge(tallies: list[bytes], *, with_clients: bool = True) -> dict[str, Any]:
    """Return one level, as `Load.result` does, from the tallies of its parts in any order.

    `with_clients` includes the rows of single clients; otherwise `by_client` is empty. Raises ValueError if the
    tallies are not of one level.
    """

@final
class Workspaces:
    """The content of the clients' files, kept from level to level so that data of an earlier one can be checked."""

    DIRECTORY: str  # how the name of a load's directory in a share begins
    def __init__(self, name: int | None = None) -> None:
        """Create workspaces. `name` has 32 bits, for processes that share a load; None: a new one."""

    def standing(self) -> list[int]:
        """Return the clients whose workspaces are on the server, in whole or in part."""

    def assume_standing(self, clients: list[int]) -> None:
        """Record clients that may have workspaces of which their process can no longer tell."""

    def begun(self) -> bool:
        """Return whether any workspace was ever begun, even if it is gone by now."""

    def diskmix_files(
        self, client: int, *, seed: int, operations: int, workspace_bytes: int = 20971520
    ) -> dict[str, bytes] | None:
        """Return the files of a client's directory, by path, after this many successful operations of a first level.

        They are computed in memory. Only the mark by which contents differ from level to level comes from the level.
        None: no level has left a workspace of this client.
        """

@final
class LoadFile:
    """A dbench load file, parsed whole."""

    @staticmethod
    def read(path: str) -> LoadFile:
        """Read a file. Raises OSError, or ValueError that lists what is invalid, each with its line."""
    @staticmethod
    def parse(content: bytes) -> LoadFile:
        """Parse the content of a file. Raises ValueError as `read` does."""
    operations: int
    counts: dict[str, int]  # by the file's own names of operations

class AcceptanceLine(TypedDict):
    name: str
    fact: float  # a pass
    known: str  # how well: "seen", "derived" ...
    ours: float
    tolerance: float  # how far ours may be from the fact; 0: exact
    within: bool

def diskmix_acceptance() -> list[AcceptanceLine]:
    """Compare the disk mix with the published counts, sizes and positions."""

class SessionError(Exception):
    """A file server gave no session. `args`: why, and what to try."""

class ShareLook(TypedDict):
    share: str
    free_bytes: int | None  # for us; None: the server does not say, or says what can't be
    is_used: bool  # clients of an earlier load, or of one that goes on, have a directory there
    keeps_versions: bool  # a bucket keeps what clients delete or replace
    recycle_bin: str | None  # a directory to which the server may move what clients delete
    recycled_entries: int  # what is in it
    why: str | None  # it can't be used
    advice: str | None  # what to try then

class LeftOver(TypedDict):
    client: int
    share: str
    directory: str  # from the root of the share
    why: str | None  # it could not be removed; None: nobody came to it

@final
class Removal:
    """A removal of what the clients of levels have made and not removed themselves."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end; true once it has come. Releases the GIL."""

    def stop(self) -> None:
        """Give up within a moment."""

    def left(self) -> list[LeftOver]:
        """Return what remains now."""

@final
class Histogram:
    """An HDR histogram of nanoseconds (3 significant digits, nothing clipped)."""

    @staticmethod
    def from_bytes(data: bytes) -> Histogram: ...
    @staticmethod
    def merged(parts: list[bytes]) -> Histogram: ...
    def to_bytes(self) -> bytes: ...
    def value_at(self, quantile: float) -> int:
        """Return the value at `quantile` (0..1), in ns; 0 if the histogram is empty, so check `count` first."""
    count: int
    mean: float
    deviation: float  # about the mean, divided by the count
    max: int
    min: int

class AnswerError(Exception):
    """A server gave no readable answer. `args`: the fault's name, its side, a message, and a hint or None."""

class Answer(TypedDict):
    status: int
    server: str | None  # the header
    body: bytes  # or its beginning
    whole: bool  # whether it is all of the body

def identity_problem(certificate: str, key: str) -> str | None:
    """Return why a client can't use this certificate with this key, both PEM; None: it can."""

def http_connect(target: Target, *, timeout_s: float) -> None:
    """Connect to the target's address without a request. Raises AnswerError."""

def http_get(target: Target, path: str, *, timeout_s: float, most_bytes: int) -> Answer:
    """Send a plain GET to the target's address, outside of load; read at most `most_bytes` of the body.

    Releases the GIL; a signal ends it. Raises AnswerError.
    """

class Offer(TypedDict):
    dialect: str
    signing_required: bool
    directory_leases: bool
    server_guid: bytes
    max_read_bytes: int
    max_write_bytes: int

def smb_probe(address: str, *, timeout_s: float, network_namespace: str | None = None) -> Offer:
    """Return what the SMB server at "127.0.0.1:445" offers, by one NEGOTIATE from inside the namespace.

    Releases the GIL; a signal ends it. Raises AnswerError.
    """

def look_while_waiting(look: Callable[[], None]) -> None:
    """Call `look` a few times per second during each later wait for an answer, and once at its end.

    It runs in the waiting thread, and an exception in it ends the wait. `Load.wait` and `Removal.wait` are short and
    do not call it. Raises RuntimeError the second time.
    """

def names_loopback(host: str) -> bool:
    """Return whether a host, with or without a port, is written as loopback: an address, or `localhost`."""

def consent_document(authority: str, token: str) -> str:
    """Return what `/.well-known/serverdyno/<token>` must contain on `authority` ("host:port")."""

@final
class Authority:
    """An authority for the certificates of a run's servers. Its key exists nowhere else."""

    def __init__(self) -> None: ...
    pem: str  # its own certificate, to be trusted
    def certify(self, key: str, names: list[str], *, expired: bool = False) -> tuple[str, str]:
        """Return a certificate and its key as PEM. `key` is "ecdsa-p256" or "rsa-2048". Raises ValueError."""

def tls_problem(least: str, most: str, ciphers: list[str]) -> str | None:
    """Return why clients can't offer these cipher suites with these versions of TLS; None: they can."""

@final
class ReferenceServer:
    """The reference HTTP server, on threads of this process. Binds loopback only, unless `bind` says otherwise."""

    @staticmethod
    def start(options: str, documents: dict[str, bytes]) -> ReferenceServer:
        """Start with the JSON of `HttpProcess.document()`, and further `documents` by path, which no fault affects.

        Raises ValueError or OSError.
        """
    def stop(self) -> None: ...
    port: int
    secure_port: int | None
    requests: int  # answered so far

def page_path() -> str:
    """Return the path of the dynamic page."""

def page_bytes() -> int:
    """Return the size of a dynamic page."""

def page_check(page: bytes, script: str, query: str) -> bool:
    """Return whether a page is, byte for byte, the answer to a GET of `script` with `query`."""

def page_shown(page: bytes, name: str) -> str | None:
    """Return the value that a page shows for a CGI variable, or for CARRIER; None: it shows none."""

def reference_faults(protocol: str) -> list[tuple[str, str]]:
    """Return names and meanings of the faults of a protocol's reference server: http, smb, nfs or s3."""

@final
class ReferenceSmbServer:
    """The reference SMB server, on threads of this process. Binds loopback only, unless `bind` says otherwise.

    In its `requests`, each part of a compound counts once, under the name that MS-SMB2 gives its command ("CREATE").
    """

    @staticmethod
    def start(options: str, files: dict[str, bytes]) -> ReferenceSmbServer:
        """Start with the JSON of `SmbProcess.document()`, and `files` in the root of each share.

        Raises ValueError or OSError.
        """
    def stop(self) -> None: ...
    def restart(self, *, outage_s: float = 0.0) -> int:
        """Close every connection and be away for a while. Files and persistent handles stay. Returns 0."""
    def cut_connections(self) -> None:
        """Close every connection."""
    def requests(self) -> dict[str, int]:
        """Return the requests so far by command."""
    port: int
    open_files: int  # now, in all shares

@final
class ReferenceNfsServer:
    """The reference NFS server, on threads of this process. Binds loopback only, unless `bind` says otherwise.

    In its `requests`, those of MOUNT and the portmapper don't count.
    """

    @staticmethod
    def start(options: str, files: dict[str, bytes]) -> ReferenceNfsServer:
        """Start with the JSON of `NfsProcess.document()`, and `files` in the root of each export.

        Raises ValueError or OSError.
        """
    def stop(self) -> None: ...
    def restart(self, *, outage_s: float = 0.0) -> int:
        """Restart: connections close, unstable writes are lost, the write verifier changes, files stay.

        Returns how many files lost something, once the server is up again.
        """
    def requests(self) -> dict[str, int]:
        """Return the requests so far by procedure."""
    port: int
    restarts: int
    replies_given_again: int  # to calls that were sent once more

@final
class ReferenceS3:
    """The reference S3 server, on threads of this process. Binds loopback only, unless `bind` says otherwise."""

    @staticmethod
    def start(options: str, objects: dict[str, bytes]) -> ReferenceS3:
        """Start with the JSON of `S3Process.document()`, and `objects` in each bucket.

        Raises ValueError or OSError.
        """
    def stop(self) -> None: ...
    def restart(self, *, outage_s: float = 0.0) -> int:
        """Close every connection and be away for a while. Returns the number of lost objects: with `flush` ignore, all.

        Objects that are there from the start stay.
        """
    def requests(self) -> dict[str, int]:
        """Return the requests so far by operation ("PutObject" ...), also those that were refused."""
    port: int

def build_info() -> dict[str, str]:
    """Return `version`, `profile` ("release" or "debug") and `target`."""
