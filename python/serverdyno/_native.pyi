"""The interface of the data plane to Python. Rust runs the levels, without the GIL."""

from collections.abc import Callable
from typing import Any, TypedDict, final

class ClassFacts(TypedDict):
    name: str  # "223.gif"
    files: int
    bytes: int  # total size of the files of the class
    weight: int  # in percent
    missing: bool  # whether this is the class of files that must not exist

class TreeFacts(TypedDict):
    files: int
    bytes: int
    digest: str  # over every path, size and content, in hexadecimal
    classes: list[ClassFacts]

def tree_facts() -> TreeFacts: ...
def tree_write(directory: str) -> None:
    """Write the WebBench document tree below `directory`, which must exist. Raises OSError."""

def tree_check(directory: str) -> list[str]:
    """Return at most 20 problems of a tree (missing files, wrong sizes or contents); empty if it is complete."""

def workload_paths(seed: int, client: int, thread: int, count: int) -> list[str]:
    """Return the first `count` request paths of one client thread of `webbench-static`."""

def session_problems(steps: str) -> list[str]:
    """Return a sentence per problem of a session's steps (JSON, as in the section `workload` of a document)."""

def header_problems(headers: list[tuple[str, str]]) -> list[str]:
    """Return a sentence per problem of a request's headers, each a name and a value."""

@final
class Target:
    """A destination that consents to load. Only `open` creates one, and `prepare` accepts no other destination."""

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
        it, requests are anonymous. `timeout_s` bounds the opening, and each later look. Requests to a file or object
        server do not exceed `max_rate_per_s`: this process has a share of it, as one of `processes`, and its first
        request follows `turn` requests of others.

        Raises ValueError (invalid section or URL; one line per problem), OSError (the name can't be resolved, or the
        connection fails), AnswerError (no answer to the request for consent), PermissionError (no consent; the message
        says how to give it), SessionError (a file server grants no session in which to look for the consent).
        """
    protocol: str
    section: dict[str, Any]  # as given to `open`
    url: str
    timeout_s: float
    max_rate_per_s: float | None
    address: str  # "127.0.0.1:8080": the address that consented, and to which the load goes
    loopback: bool
    answers_in_grace: (
        int  # number of answers so far in which an NFSv4 server asked clients to wait for its grace period
    )
    facts: dict[str, Any]  # HTTP: `host` (the Host header) and `path`; SMB: `shares`
    def look(self, nonce: int, *, sessions: int = 0) -> list[ShareLook]:
        """Log on to every share and query its free space, within `timeout_s` and without writing.

        The result is empty for a target without shares. `nonce` must differ each time, so that the server sees new
        clients. At least `sessions` sessions are open at once; those beyond one per share are on the first share.
        """

class JournalEntry(TypedDict):
    """A file of a journal, and its acknowledged bytes, counted from the file's beginning."""

    client: int
    file: int
    written_bytes: int
    flushed_bytes: int  # written bytes that a successful flush followed

class LeftOfFile(TypedDict):
    """The state of a journal's file after the power cut."""

    client: int
    file: int
    intact_bytes: int  # bytes from its beginning that are as written; 0 also if the file does not exist
    why: str | None  # why the file can't be read; None if it was read or does not exist

@final
class Journal:
    """Files that clients write and flush until the server's power is cut."""

    def entries(self) -> list[JournalEntry]:
        """Return the files with the bytes acknowledged so far."""

    def end(self) -> list[str]:
        """End the clients within a second, and return the error of each failed client; later calls return none."""

class JobStage(TypedDict):
    ended: bool
    gate: int | None  # gate at which all clients of this process wait
    kind: str | None  # kind of the gate: begin, end or between

@final
class Job:
    """File levels that end when their work is done, running on their own threads."""

    @staticmethod
    def start(target: Target, job: str) -> Job:
        """Begin a job. `job` is JSON of `FileJob` (`crates/engine/src/job.rs`). Raises ValueError."""
    def wait(self, timeout_s: float) -> JobStage:
        """Wait until the job is at a gate or has ended. Releases the GIL."""
    def wait_for_end(self, timeout_s: float) -> bool:
        """Wait for the end of a stopped job. Return true once it has ended. Releases the GIL."""
    def open_gate(self, gate: int, begins_monotonic_ns: int) -> None:
        """Open a gate. Levels that begin at the gate start at the given time."""
    def stop(self, *, at_once: bool = False) -> None:
        """Stop the job after its current call, and let it remove its files.

        `at_once`: the server has ended, so no files are removed.
        """
    def tallies(self) -> bytes:
        """Return the counts of each level, for `merge_levels`. Raises ValueError or AnswerError.

        The last argument of the AnswerError is the number of the step.
        """

def merge_levels(tallies: list[bytes]) -> list[dict[str, Any] | None]:
    """Return the counts of all nodes for each level of a job, with the fields of `serverdyno.counted.Counted`.

    None stands for a level in which no node took part.
    """

def begin_journal(target: Target, spec: str, nonce: int) -> Journal:
    """Start clients that write a journal, in a separate thread. Raises ValueError.

    `spec` is JSON with seed, directory, clients, most_ns. `nonce` must differ each time.
    """

def read_journal(target: Target, spec: str, entries: str, nonce: int) -> list[LeftOfFile]:
    """Read the files of all `entries` (JSON) and return their states. Raises ValueError, AnswerError."""

@final
class Load:
    """A running level."""

    def snapshot(self) -> Snapshot: ...
    def go(self, start_monotonic_ns: int) -> None:
        """Start a level whose document contains `"start": "on_command"` at a time of CLOCK_MONOTONIC."""

    def stop(self) -> None:
        """End the level early. Its `result` is marked `stopped`."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the level. Return true once it has ended. Releases the GIL."""

    def result(self) -> dict[str, Any]:
        """Return the counts: the fields of `serverdyno.counted.Counted` that the kind of work has.

        Raises RuntimeError while the level runs.
        """

    def tally(self) -> bytes:
        """Return the counts in the encoding that `merge` takes."""

class Snapshot(TypedDict):
    elapsed_s: float  # 0 while clients are being prepared
    clients_prepared: int
    operations: int  # completed so far, ramps included
    bytes_in: int
    bytes_moved: int  # application bytes, read and written
    errors: int
    clients_active: int
    p99_ms: (
        float | None
    )  # p99 of the response times so far, at most an eighth too high; None if there are few

def counted_schema() -> str:
    """Return the JSON schema of a level's counts, with the description of each figure."""

@final
class PreparedLevel:
    """A checked level, ready to start."""

    def start(self) -> Load:
        """Start the level on its own threads. Raises OSError if this process may not open enough files."""

    def workspace_bytes(self) -> int | None:
        """Return the largest size of one client's files during a first pass; None if the work has no files.

        Servers need a little more space.
        """

    def preparation_s(self) -> float:
        """Return the approximate time to prepare all clients within the rate limit, in s; 0 without a limit."""

    def remove_workspaces(self, most_s: float) -> Removal | None:
        """Start to remove the clients' files, for at most `most_s`. Return None if the work leaves no files."""

def prepare(
    document: str, target: Target, workspaces: Workspaces | None = None, load_file: LoadFile | None = None
) -> PreparedLevel:
    """Return the level of a document (`LevelSpec` in `crates/engine/src/spec.rs`, as JSON) for an open target.

    Raises ValueError with every problem, one per line, with the path of its key.
    """

def merge(tallies: list[bytes], *, with_clients: bool = True) -> dict[str, Any]:
    """Return the counts of a level, as `Load.result` does, from the tallies of its parts in any order.

    `with_clients` includes the rows of single clients; otherwise `by_client` is empty. Raises ValueError if the
    tallies belong to different levels.
    """

@final
class Workspaces:
    """The contents of the clients' files, kept from level to level so that data of earlier levels can be checked."""

    DIRECTORY: str  # prefix of a load's directory in a share
    def __init__(self, name: int | None = None) -> None:
        """Create workspaces. `name` is a number of 32 bits, for processes that share a load; None: a new number."""

    def standing(self) -> list[int]:
        """Return the clients whose workspaces are on the server, in whole or in part."""

    def assume_standing(self, clients: list[int]) -> None:
        """Record clients that may have workspaces, although their process can no longer report them."""

    def begun(self) -> bool:
        """Return whether any workspace was ever begun, even if it has been removed."""

    def diskmix_files(
        self, client: int, *, seed: int, operations: int, workspace_bytes: int = 20971520
    ) -> dict[str, bytes] | None:
        """Return the files of a client's directory, by path, after this many successful operations of a first level.

        The files are computed in memory. Only the mark that distinguishes the contents of levels comes from the level.
        None: no level has left a workspace of this client.
        """

@final
class LoadFile:
    """A parsed dbench load file."""

    @staticmethod
    def read(path: str) -> LoadFile:
        """Read a file. Raises OSError, or ValueError with every problem and its line."""
    @staticmethod
    def parse(content: bytes) -> LoadFile:
        """Parse the content of a file. Raises ValueError as `read` does."""
    operations: int
    counts: dict[str, int]  # number of operations by their names in the file

class AcceptanceLine(TypedDict):
    name: str
    fact: float  # count per pass
    known: str  # how the fact is known: "seen", "derived" ...
    ours: float
    tolerance: float  # largest allowed difference from the fact; 0: exact
    within: bool

def diskmix_acceptance() -> list[AcceptanceLine]:
    """Compare the disk mix with the published counts, sizes and positions."""

class SessionError(Exception):
    """A file server granted no session. `args`: the reason, and a remedy."""

class ShareLook(TypedDict):
    share: str
    free_bytes: int | None  # free space for this user; None if not reported, or if the report can't be right
    is_used: bool  # whether clients of an earlier or a running load have a directory there
    keeps_versions: bool  # whether a bucket keeps deleted and replaced objects
    recycle_bin: str | None  # directory to which the server may move deleted files
    recycled_entries: int  # number of entries in the recycle bin
    why: str | None  # why the share can't be used
    fault: str | None  # kind of the failure in that case
    advice: str | None  # remedy in that case

class LeftOver(TypedDict):
    client: int
    share: str
    directory: str  # path from the root of the share
    why: str | None  # why it could not be removed; None if the removal ended before it

@final
class Removal:
    """A removal of files that the clients of levels created and did not remove themselves."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the removal. Return true once it has ended. Releases the GIL."""

    def stop(self) -> None:
        """Stop the removal early, within a moment."""

    def left(self) -> list[LeftOver]:
        """Return the directories that remain now."""

@final
class Histogram:
    """An HDR histogram of nanoseconds (3 significant digits, no clipped values)."""

    @staticmethod
    def from_bytes(data: bytes) -> Histogram: ...
    @staticmethod
    def merged(parts: list[bytes]) -> Histogram: ...
    def to_bytes(self) -> bytes: ...
    def value_at(self, quantile: float) -> int:
        """Return the value at `quantile` (0..1), in ns; 0 if the histogram is empty, so check `count` first."""
    def mean_and_deviation(self) -> tuple[float, float]:
        """Return the mean and the population standard deviation in ns; 0 without samples."""
    count: int
    max: int
    min: int

class AnswerError(Exception):
    """A server gave no readable answer. `args`: the fault's name, its side, a message, and a hint or None."""

class Answer(TypedDict):
    status: int
    server: str | None  # the header Server
    body: bytes  # the body or its beginning
    whole: bool  # whether `body` is complete

def identity_problem(certificate: str, key: str) -> str | None:
    """Return why a client can't use this certificate with this key, both in PEM; None if it can."""

def http_connect(target: Target, *, timeout_s: float) -> None:
    """Connect to the target's address without a request. Raises AnswerError."""

def http_get(target: Target, path: str, *, timeout_s: float, most_bytes: int) -> Answer:
    """Send a plain GET to the target's address, outside of load; read at most `most_bytes` of the body.

    Releases the GIL; a signal ends the call. Raises AnswerError.
    """

class Offer(TypedDict):
    dialect: str
    signing_required: bool
    directory_leases: bool
    server_guid: bytes
    max_read_bytes: int
    max_write_bytes: int

def smb_probe(address: str, *, timeout_s: float, network_namespace: str | None = None) -> Offer:
    """Send NEGOTIATE from the namespace to the SMB server at `address` ("127.0.0.1:445"), and return its offer.

    Releases the GIL; a signal ends the call. Raises AnswerError.
    """

def look_while_waiting(look: Callable[[], None]) -> None:
    """Call `look` a few times per second during each later wait for an answer, and once at its end.

    `look` runs in the waiting thread, and an exception in it ends the wait. `Load.wait` and `Removal.wait` are short
    and do not call it. Raises RuntimeError if called a second time.
    """

def names_loopback(host: str) -> bool:
    """Return whether a host, with or without a port, is written as loopback: an address, or `localhost`."""

def consent_document(authority: str, token: str) -> str:
    """Return the required content of `/.well-known/serverdyno/<token>` on `authority` ("host:port")."""

@final
class Authority:
    """An authority for the certificates of a run's servers. Only this object has its key."""

    def __init__(self) -> None: ...
    pem: str  # its own certificate, for clients to trust
    def certify(self, key: str, names: list[str], *, expired: bool = False) -> tuple[str, str]:
        """Return a certificate and its key as PEM. `key` is "ecdsa-p256" or "rsa-2048". Raises ValueError."""

def tls_problem(least: str, most: str, ciphers: list[str]) -> str | None:
    """Return why clients can't offer these cipher suites with these versions of TLS; None if they can."""

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
    requests: int  # number of answered requests so far

def page_path() -> str:
    """Return the path of the dynamic page."""

def page_bytes() -> int:
    """Return the size of a dynamic page."""

def page_check(page: bytes, script: str, query: str) -> bool:
    """Return whether a page is, byte for byte, the answer to a GET of `script` with `query`."""

def page_shown(page: bytes, name: str) -> str | None:
    """Return the value that a page shows for a CGI variable, or for CARRIER; None if it shows none."""

def reference_faults(protocol: str) -> list[tuple[str, str]]:
    """Return names and meanings of the faults of the reference server of a protocol: http, smb, nfs or s3."""

@final
class ReferenceSmbServer:
    """The reference SMB server, on threads of this process. Binds loopback only, unless `bind` says otherwise.

    In `requests`, each part of a compound counts once, under the name of its command in MS-SMB2 ("CREATE").
    """

    @staticmethod
    def start(options: str, files: dict[str, bytes]) -> ReferenceSmbServer:
        """Start with the JSON of `SmbProcess.document()`, and `files` in the root of each share.

        Raises ValueError or OSError.
        """
    def stop(self) -> None: ...
    def restart(self, *, outage_s: float = 0.0) -> int:
        """Close every connection, and refuse new ones for `outage_s`. Files and persistent handles stay. Return 0."""
    def cut_connections(self) -> None:
        """Close every connection."""
    def requests(self) -> dict[str, int]:
        """Return the requests so far by command."""
    port: int
    open_files: int  # number of open files in all shares

@final
class ReferenceNfsServer:
    """The reference NFS server, on threads of this process. Binds loopback only, unless `bind` says otherwise.

    `requests` does not include requests of MOUNT and the portmapper.
    """

    @staticmethod
    def start(options: str, files: dict[str, bytes]) -> ReferenceNfsServer:
        """Start with the JSON of `NfsProcess.document()`, and `files` in the root of each export.

        Raises ValueError or OSError.
        """
    def stop(self) -> None: ...
    def restart(self, *, outage_s: float = 0.0) -> int:
        """Restart: connections close, unstable writes are lost, the write verifier changes, files stay.

        Return the number of files that lost data, once the server is up again.
        """
    def requests(self) -> dict[str, int]:
        """Return the requests so far by procedure."""
    port: int
    restarts: int
    replies_given_again: int  # number of repeated replies, to calls that were sent again

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
        """Close every connection, and refuse new ones for `outage_s`. Return the number of lost objects.

        With `flush` ignore, all objects are lost except those given to `start`.
        """
    def requests(self) -> dict[str, int]:
        """Return the requests so far by operation ("PutObject" ...), including refused ones."""
    port: int

def build_info() -> dict[str, str]:
    """Return `version`, `profile` ("release" or "debug") and `target`."""
