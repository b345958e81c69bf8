"""The data plane as Python sees it. Everything that happens while a mix runs is in Rust, without the GIL."""

from collections.abc import Callable
from typing import Any, Literal, NotRequired, TypedDict, final

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
    """Writes the WebBench document tree below `directory`, which must exist. Raises OSError."""

def tree_check(directory: str) -> list[str]:
    """Problems of a tree written earlier (missing, wrong size or content), at most 20; empty when whole."""

def workload_paths(seed: int, client: int, thread: int, count: int) -> list[str]:
    """The first `count` request paths of one client thread of `webbench-static`."""

def session_problems(steps: str) -> list[str]:
    """What is wrong with the steps of a session (JSON, as in the section `workload` of a document), a sentence each."""

def header_problems(headers: list[tuple[str, str]]) -> list[str]:
    """What is wrong with headers of a request, each a name and a value; a sentence each."""

@final
class Target:
    """A destination that load may go to. `open` is the only way to get one, and `prepare` takes nothing else."""

    @staticmethod
    def open(
        protocol: str,
        section: str,
        *,
        consent_token: str | None = None,
        password: str | None = None,
        ticket: str | None = None,
    ) -> Target:
        """Resolves the URL of the section `target` of a document (JSON) once, and proves consent where it is not
        loopback. What is in the section is in `crates/engine/src/kinds/`.

        Raises ValueError (not a usable section or URL; every problem, a line each), OSError (does not resolve or
        connect), AnswerError (was asked for its consent and did not answer), PermissionError (no consent; the message
        says how to give it), SessionError (a file server gives no session to look for it).
        """
    protocol: str
    section: dict[str, Any]  # as it was opened
    url: str
    address: str  # "127.0.0.1:8080", the one that was checked and is used
    loopback: bool
    facts: dict[str, Any]  # of HTTP `host` (the Host header) and `path`, of SMB `shares`
    def look(self, nonce: int) -> list[ShareLook]:
        """Logs on to every share and asks what room there is; within ten seconds, and nothing is written. None of a
        target without shares. `nonce`: another each time, so that the server meets clients that it does not know.
        """

class JournalEntry(TypedDict):
    """A file of a journal, and what the server acknowledged of it; bytes count from its beginning."""

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
        """What was acknowledged until now."""

    def end(self) -> list[str]:
        """Lets the clients come to an end, within a second. Why each ended that did not by itself; the first time."""

def bonnie(target: Target, spec: str, nonce: int) -> list[BonniePhase]:
    """Carries out Bonnie's phases on a target of this machine, and removes the files. `spec`: JSON of clients, file,
    bytes, chunk_bytes, stdio_bytes, seeks, seekers, seed, most_ns. Raises ValueError, AnswerError.
    """

def scenario_step(target: Target, spec: str, nonce: int) -> list[StepPass]:
    """Carries one step of a scenario out, in a session of its own, on a target of this machine. `spec`: JSON of action,
    base, passes, block_bytes, seed, most_ns. Raises ValueError, AnswerError.
    """

def begin_journal(target: Target, spec: str, nonce: int) -> Journal:
    """Begins to write, on a thread of its own. `spec`: JSON of seed, directory, clients, most_ns. `nonce`: another each
    time. Raises ValueError.
    """

def read_journal(target: Target, spec: str, entries: str, nonce: int) -> list[LeftOfFile]:
    """Reads what is left of all `entries` (JSON). Raises ValueError, AnswerError."""

@final
class Load:
    """A mix under way."""

    def snapshot(self) -> Snapshot: ...
    def go(self, start_monotonic_ns: int) -> None:
        """Starts a mix whose document says `"start": "on_command"`, at that moment of CLOCK_MONOTONIC."""

    def stop(self) -> None:
        """Ends the mix early; `result` still comes, marked `stopped`."""

    def wait(self, timeout_s: float) -> bool:
        """True once the mix has ended. Releases the GIL."""

    def result(self) -> MixResult:
        """Raises RuntimeError while the mix runs."""

    def tally(self) -> bytes:
        """The same as the part of a mix, for `merge`."""

class Snapshot(TypedDict):
    elapsed_s: float  # 0 while clients are being prepared
    clients_prepared: int
    operations: int  # completed so far, ramps included
    bytes_in: int
    bytes_moved: int  # application bytes, read and written
    errors: int
    clients_active: int
    p99_ms: float | None  # of the response times so far, at most an eighth too high; None of few

Side = Literal["server", "network", "client", "check"]

class OperationResult(TypedDict):
    operation: str  # "GET 223.gif", "read"
    count: int  # successes that completed in the window
    bytes_read: int
    bytes_written: int
    errors: int  # in the window
    response_time_hdr: bytes  # HDR V2, nanoseconds, successes in the window

class ClientResult(TypedDict):
    client: int
    operations: int  # in the window
    bytes_in: int
    bytes_read: int
    bytes_written: int
    errors: int  # from start to end
    left_at_s: float | None  # since the start of the mix

class SecondResult(TypedDict):
    second: int  # since the start of the mix
    operations: int
    bytes_in: int
    errors: int

class ErrorResult(TypedDict):
    side: Side
    fault: str  # "timeout", "connection_refused", "wrong_length" ...
    count: int  # from start to end
    in_window: int
    example: str  # the first one in words
    advice: str | None  # what to try, where a file server gave no session
    first_at_s: float  # since the start of the mix

class GeneratorResult(TypedDict):
    cpu_user_s: float  # of the engine threads, in the window
    cpu_system_s: float
    busiest_cpu_s: float  # of the thread that used most
    threads: int
    processes: int
    loop_lag_hdr: bytes  # HDR V2, nanoseconds from the kernel's readiness report to the end of its batch
    ready_work_s: (
        float | None
    )  # connections x seconds in the window in which their next step was the generator's
    # In which engine threads were ready and had no CPU; None: the kernel does not tell.
    run_delay_s: float | None
    stalled_s: float
    connections: int  # opened from start to end; of files from the first log-on to the last leaving
    reconnects: int  # an idle kept-alive connection was closed, the request sent again; of files: sessions after a loss
    source_addresses: int  # local addresses used

class CallResult(TypedDict):
    call: str  # "open"
    done: int
    not_there: int
    failed: int
    bytes: int

class RequestResult(TypedDict):
    request: str  # "CREATE"
    count: int

class SessionResult(TypedDict):
    """What sessions of one kind agreed on with the server; those alone that came up."""

    dialect: str  # "3.1.1"
    signing: str | None  # "AES-128-GMAC", of every message; None: unsigned, also where encrypted instead
    encryption: str | None  # "AES-128-GCM", of every message
    guest: bool
    authentication: NotRequired[str | None]  # of SMB: "NTLMv2" or "Kerberos"; None: of a guest
    max_read_bytes: int  # the most of one read below the client cache
    max_write_bytes: int
    leases: bool  # the server gives them, whether they are asked for or not
    directory_leases: NotRequired[bool]  # of directories, too; SMB alone
    transport: NotRequired[str]  # "udp" of NFSv3; absent: TCP
    channels: NotRequired[int]  # of SMB, where a session has several connections
    slots: NotRequired[int]  # of NFSv4.1: requests that may be under way
    lease_s: NotRequired[int]  # of NFSv4.1: after so long without a request the server forgets the client
    clients: int  # that had such a session

class BonniePhase(TypedDict):
    """What one phase of Bonnie came to, all clients together."""

    phase: str  # "putc", "rewrite", "write", "getc", "read", "seeks"
    bytes: int
    calls: int  # reads and writes of the program
    elapsed_s: float
    user_s: float  # CPU time of the threads that did it
    system_s: float
    p50_us: float
    p99_us: float
    max_us: float
    requests: dict[str, int]  # to the server, or system calls

class StepPass(TypedDict):
    """What one pass, or one phase, of a scenario's step came to."""

    phase: str | None  # "create", "stat", "read", "remove"; "write", "read" of streams
    elapsed_s: float
    user_s: float  # CPU time of the thread that did it
    system_s: float
    entries: int  # files and directories
    bytes: int  # read or written by the application
    p50_us: float | None  # of a read or write, of streams
    p99_us: float | None
    requests: dict[str, int]  # to the server, or system calls

class HandshakeResult(TypedDict):
    """TLS handshakes that led to sessions on the same terms."""

    version: str  # "TLS 1.3"
    cipher: str  # IANA's name
    key_exchange: str | None  # "X25519"; None: an earlier session's secret was used alone
    key: str  # of the certificate: "ECDSA P-256"
    resumed: bool  # an earlier session was taken up again
    count: int  # from start to end of the mix
    in_window: int

class ClientCache(TypedDict):
    """The cache that each client had."""

    asks_for: (
        Literal["oplocks", "leases", "leases of files and directories"] | None
    )  # None: nothing is kept, but the redirector's calls are made
    redirector: Literal["xp", "plain"]
    most_bytes: int  # of data
    page_bytes: int
    read_run_bytes: int  # the most of one read below the cache, as far as the session allows
    write_run_bytes: int
    read_ahead_bytes: int  # fetched in addition where an application reads on
    most_deferred: int  # closed files that are kept open
    deferred_age_s: float

class OpenResult(TypedDict):
    """Of operations that come at a rate of their own: each is done, failed, dropped or overdue in the end."""

    arrivals: int  # from start to end
    arrivals_in_window: int
    dropped: int  # as many waited as may, from start to end
    dropped_in_window: int  # came in the window
    waited: int  # ended in the window, and had found no connection free
    waiting_s: float  # for how long they waited, all together
    scheduling_error_hdr: (
        bytes  # of those that ended in the window: how late they began by the generator's own fault
    )

class BreakResult(TypedDict):
    """Breaks, by which a file server takes caching back, from start to end of the mix."""

    came: int
    to_answer: int  # the server waits for the answer, and another client with it
    answered: int  # the others were answered by the close of the last handle
    answer_time_hdr: bytes  # from a break's arrival until its answer was sent

class OutageResult(TypedDict):
    """An outage of one client, since the start of the mix."""

    client: int
    last_s: float  # the end of the last operation that succeeded before it
    back_s: float  # the end of the first that succeeded after it
    session_lost: bool  # what the client had open was lost

class FailoverResult(TypedDict):
    """What outlived the loss of connections, from start to end of the mix, and after it."""

    outages: list[OutageResult]
    handles_asked: int
    handles_granted: int
    handles_persistent: int  # of those granted
    handles_regained: int
    handles_lost: int
    calls_sent_again: int
    blocks_read_back: int
    blocks_lost: int  # older than what had been acknowledged and flushed
    blocks_wrong: int  # no version as a whole
    unflushed_lost: int  # acknowledged and not flushed

class MixResult(TypedDict):
    version: int
    stopped: bool
    started_unix_s: float | None  # None: it was stopped before
    start_late_s: (
        float | None
    )  # of the first operation of the engine thread that was latest; None where none began
    window_s: float
    clients_planned: int
    clients_participating: int  # still in the mix at its end
    operations: int  # successes in the window
    operations_total: int  # successes from start to end, drain included: what the server should have counted
    bytes_read: int  # application bytes, in the window
    bytes_written: int
    bytes_in: int  # all bytes that came, in the window
    bytes_out: int
    response_time_hdr: bytes  # successes in the window
    connect_time_hdr: bytes  # connections opened in the window
    handshake_time_hdr: bytes  # of TLS, from the connection to the first request, in the window
    handshakes: list[HandshakeResult]  # of TLS, by what was agreed; none without TLS
    under_way_at_close: int  # operations that the window's figures don't have, because they ended after it
    under_way_longest_s: float  # the longest that one of them took in the end
    outstanding_s: float  # operations that were under way x seconds, in the window
    overdue_at_end: (
        int  # operations that were due before the end and never began; of paced clients or open load
    )
    open: OpenResult | None  # None: clients have a pace of their own
    digests: dict[int, int]  # of each client's first operations, where the document asks for it
    by_operation: list[OperationResult]
    by_client: list[ClientResult]
    by_second: list[SecondResult]
    errors: list[ErrorResult]
    pass_operations: int | None  # operations of one pass of one client
    passes: int | None  # through the whole workload, by all clients; None of a workload that has no end
    bytes_checked: int | None  # application bytes whose content was compared; None for HTTP
    protocol_requests: int | None  # of all sessions, workspaces included: what the server should have counted
    breaks: BreakResult | None  # of work on files
    failover: (
        FailoverResult | None
    )  # where handles were to outlive connections, or clients went on over an outage
    calls: list[CallResult]  # below the client cache, from start to end of the mix
    requests: list[RequestResult]  # of the protocol, from start to end of the mix
    sessions: list[SessionResult]  # of all clients, one entry a kind; empty for HTTP
    client_cache: ClientCache | None  # None: every operation went through, or HTTP
    generator: GeneratorResult

@final
class PreparedMix:
    """A mix that was checked, ready to start."""

    def start(self) -> Load:
        """Starts it, on threads of its own. Raises OSError where this process may not have enough files."""

    def workspace_bytes(self) -> int | None:
        """The most bytes that the files of one client have at one time, in a first pass; servers need a little more.
        None of work that makes none.
        """

    def remove_workspaces(self, most_s: float) -> Removal | None:
        """Begins to take away what clients have left; ends by itself after `most_s`. None: the work leaves nothing."""

def prepare(
    document: str, target: Target, workspaces: Workspaces | None = None, load_file: LoadFile | None = None
) -> PreparedMix:
    """The mix of a document (`MixSpec` in `crates/engine/src/spec.rs`, as JSON), for a target that was opened.

    Raises ValueError that lists every problem, one a line, with its key's path.
    """

def merge(tallies: list[bytes], *, with_clients: bool = True) -> MixResult:
    """One mix from the tallies of its parts, in any order. Raises ValueError where they are not of one mix.

    `with_clients`: the rows of single clients, too; else `by_client` is empty.
    """

@final
class Workspaces:
    """What the clients' files contain, kept from mix to mix so that what an earlier one wrote can be checked."""

    DIRECTORY: str  # how the name of a load's directory in a share begins
    def __init__(self, name: int | None = None) -> None:
        """`name`: 32 bits, for processes that share a load; None: one of its own."""

    def standing(self) -> list[int]:
        """Clients whose workspaces stand on the server, whole or in part."""

    def assume_standing(self, clients: list[int]) -> None:
        """Clients of the load may have workspaces that the process which carried them can't tell of any more."""

    def begun(self) -> bool:
        """Whether any was ever begun, also where it is gone by now."""

    def diskmix_files(
        self, client: int, *, seed: int, operations: int, workspace_bytes: int = 20971520
    ) -> dict[str, bytes] | None:
        """What lies in a client's directory, by path, after one mix from nothing in which so many operations succeeded.

        Played on files in memory: nothing that the mix did comes in but the mark by which contents differ from mix
        to mix. None: no mix has left a workspace of this client.
        """

@final
class LoadFile:
    """A dbench load file, parsed whole."""

    @staticmethod
    def read(path: str) -> LoadFile:
        """Raises OSError, or ValueError that lists what can't be understood, each with its line."""
    @staticmethod
    def parse(content: bytes) -> LoadFile:
        """Raises ValueError as `read` does."""
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
    """The disk mix held against the published counts, sizes and positions."""

class SessionError(Exception):
    """A file server gave no session. `args`: why, and what to try."""

class ShareLook(TypedDict):
    share: str
    free_bytes: int | None  # for us; None: the server does not say, or says what can't be
    is_used: bool  # clients of an earlier load, or of one that goes on, have a directory there
    why: str | None  # it can't be used
    advice: str | None  # what to try then

class LeftOver(TypedDict):
    client: int
    share: str
    directory: str  # from the root of the share
    why: str | None  # it could not be removed; None: nobody came to it

@final
class Removal:
    """Takes away what the clients of mixes have made and not taken away themselves."""

    def wait(self, timeout_s: float) -> bool:
        """True once it has ended. Releases the GIL."""

    def stop(self) -> None:
        """Gives up within a moment."""

    def left(self) -> list[LeftOver]:
        """What stands now."""

@final
class Histogram:
    """An HDR histogram of nanoseconds (3 significant digits, nothing clipped)."""

    @staticmethod
    def from_bytes(data: bytes) -> Histogram: ...
    @staticmethod
    def merged(parts: list[bytes]) -> Histogram: ...
    def to_bytes(self) -> bytes: ...
    def value_at(self, quantile: float) -> int:
        """The value at `quantile` (0..1), ns; 0 of an empty histogram: ask `count` first."""
    count: int
    mean: float
    deviation: float  # about the mean, divided by the count
    max: int
    min: int

class AnswerError(Exception):
    """A server gave no answer that can be read. `args`: the fault's name, its side, words, and what to try or None."""

class Answer(TypedDict):
    status: int
    server: str | None  # the header
    body: bytes  # or its beginning
    whole: bool  # whether it is all of the body

def http_get(target: Target, path: str, *, timeout_s: float, most_bytes: int) -> Answer:
    """One plain GET to the target's address, outside of load; reads no further than `most_bytes` of the body.

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
    """What the SMB server at "127.0.0.1:445" offers, by one NEGOTIATE from inside the namespace of that file.

    Releases the GIL; a signal ends it. Raises AnswerError.
    """

def look_while_waiting(look: Callable[[], None]) -> None:
    """From now on each wait of this module for an answer calls `look` a few times per second, in the thread that waits,
    and once at its end. What `look` raises ends the wait. `Load.wait` and `Removal.wait` are short and call nothing.

    KeyboardInterrupt lets a job remove its files first; anything else abandons it. Raises RuntimeError the second time.
    """

def names_loopback(host: str) -> bool:
    """Whether a host, with or without a port, is loopback by how it is written: an address, or `localhost`."""

def consent_document(authority: str, token: str) -> str:
    """What `/.well-known/serverdyno/<token>` must contain on `authority` ("host:port")."""

@final
class Authority:
    """Makes certificates for the servers of a run. Its key is nowhere else."""

    def __init__(self) -> None: ...
    pem: str  # its own certificate, to be trusted
    def certify(self, key: str, names: list[str], *, expired: bool = False) -> tuple[str, str]:
        """A certificate and its key as PEM. `key`: "ecdsa-p256" or "rsa-2048". Raises ValueError."""

def tls_problem(least: str, most: str, ciphers: list[str]) -> str | None:
    """What keeps clients from offering these cipher suites with these versions of TLS."""

@final
class ReferenceServer:
    """The reference HTTP server, on threads of this process. Binds loopback only, unless `bind` says otherwise."""

    @staticmethod
    def start(options: str, documents: dict[str, bytes]) -> ReferenceServer:
        """`options`: the JSON of `HttpProcess.document()`. `documents`: further ones by path, which no fault touches.

        Raises ValueError or OSError.
        """
    def stop(self) -> None: ...
    port: int
    secure_port: int | None
    requests: int  # answered so far

def page_path() -> str:
    """Where servers have the dynamic page."""

def page_bytes() -> int:
    """The size of a dynamic page."""

def page_check(page: bytes, script: str, query: str) -> bool:
    """Whether a page is, byte for byte, the one that answers a GET of `script` with `query`."""

def page_shown(page: bytes, name: str) -> str | None:
    """The value that a page shows for a CGI variable, or for CARRIER; None: it shows none."""

def reference_faults() -> list[tuple[str, str]]:
    """Names and meanings of the faults that the reference server can commit."""

@final
class ReferenceSmbServer:
    """The reference SMB server, on threads of this process. Binds loopback only, unless `bind` says otherwise.

    In its `requests`, each part of a compound counts once, under the name that MS-SMB2 gives its command ("CREATE").
    """

    @staticmethod
    def start(options: str, files: dict[str, bytes]) -> ReferenceSmbServer:
        """`options`: the JSON of `SmbProcess.document()`. `files`: in the root of each share.

        Raises ValueError or OSError.
        """
    def stop(self) -> None: ...
    def restart(self, *, outage_s: float = 0.0) -> None:
        """Close every connection and be away for a while. Files and persistent handles stay."""
    def cut_connections(self) -> None:
        """Close every connection."""
    def requests(self) -> dict[str, int]:
        """Requests so far by command."""
    port: int
    open_files: int  # now, in all shares

def reference_smb_faults() -> list[tuple[str, str]]:
    """Names and meanings of the faults that the reference SMB server can commit."""

@final
class ReferenceNfsServer:
    """The reference NFS server, on threads of this process. Binds loopback only, unless `bind` says otherwise.

    In its `requests`, those of MOUNT and the portmapper don't count.
    """

    @staticmethod
    def start(options: str, files: dict[str, bytes]) -> ReferenceNfsServer:
        """`options`: the JSON of `NfsProcess.document()`. `files`: in the root of each export.

        Raises ValueError or OSError.
        """
    def stop(self) -> None: ...
    def restart(self, *, outage_s: float = 0.0) -> int:
        """Start anew: connections close, unstable writes are lost, the write verifier changes, files stay.

        Returns how many files lost something, once the server is up again.
        """
    def requests(self) -> dict[str, int]:
        """Requests so far by procedure."""
    port: int
    restarts: int
    replies_given_again: int  # to calls that were sent once more

def reference_nfs_faults() -> list[tuple[str, str]]:
    """Names and meanings of the faults that the reference NFS server can commit."""

def build_info() -> dict[str, str]:
    """`version`, `profile` ("release" or "debug"), `target`."""
