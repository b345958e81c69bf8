//! Failures of responses, with details for their hints.

use dyno_measure::{Detail, Failure, Fault, StatusTable, NS_PER_S};

/// Detail of a late response: the bytes of the body that arrived, at most 4 GiB.
static BEGUN: StatusTable = StatusTable {
    name: "HTTP begun",
    write: |code, formatter| write!(formatter, "the head and {code} bytes of the body arrived"),
};

/// Returns the failure of a response that began but did not end before the deadline. `declared`: length of the
/// body, if it is known.
pub(crate) fn begun_and_late(body_bytes: u64, declared: Option<u64>) -> Failure {
    let fault = Fault::ResponseTimeout;
    match declared.filter(|declared| *declared > body_bytes) {
        Some(expected) => Failure {
            fault,
            detail: Detail::Length {
                expected,
                got: body_bytes,
            },
        },
        None => BEGUN.failure(fault, u32::try_from(body_bytes).unwrap_or(u32::MAX)),
    }
}

/// Detail of bytes after a response without a body: the status of that response; 0 if it answers HEAD.
static NO_BODY: StatusTable = StatusTable {
    name: BODILESS,
    write: |code, formatter| match code {
        0 => formatter.write_str("a response to HEAD has no body, but bytes followed (RFC 9110, 9.3.2)"),
        status => write!(
            formatter,
            "a response with status {status} has no body, but bytes followed (RFC 9110, 6.4.1)"
        ),
    },
};

pub(crate) const BODILESS: &str = "HTTP no body";

/// Returns the failure of a body that follows the head of a response without one; None if the response may have a
/// body.
pub(crate) fn unexpected_body(status: u16, answers_head: bool) -> Option<Failure> {
    match status {
        _ if answers_head => Some(NO_BODY.failure(Fault::ExcessData, 0)),
        204 | 304 => Some(NO_BODY.failure(Fault::ExcessData, status.into())),
        _ => None,
    }
}

/// Detail of a connection that was closed without a response.
static SILENT: StatusTable = StatusTable {
    name: SILENCE,
    write: |_, formatter| formatter.write_str("no byte of it arrived"),
};
pub(crate) const SILENCE: &str = "HTTP silence";

/// Adds to a failure that no byte of the response arrived, if the connection ended without one.
pub(crate) fn silent(failure: Failure, received_bytes: u64) -> Failure {
    let ended = matches!(failure.fault, Fault::ClosedEarly | Fault::Truncated);
    if !ended || received_bytes > 0 || failure.detail != Detail::None {
        return failure;
    }
    let detail = Detail::Status(SILENT.status(0));
    Failure { detail, ..failure }
}

/// Detail of a chunked body that did not end: the number of bytes received.
static CHUNKS: StatusTable = StatusTable {
    name: CHUNKED,
    write: |code, formatter| {
        write!(
            formatter,
            "received {code} bytes of a chunked body without its end"
        )
    },
};
pub(crate) const CHUNKED: &str = "HTTP chunks";

/// Returns the failure of a chunked body that did not end with the connection.
pub(crate) fn chunks_without_end(body_bytes: u64) -> Failure {
    let received = u32::try_from(body_bytes).unwrap_or(u32::MAX);
    CHUNKS.failure(Fault::ClosedEarly, received)
}

/// Detail of a kept connection that the server closed: how long it had been idle, in milliseconds.
static IDLE: StatusTable = StatusTable {
    name: "HTTP idle",
    write: |code, formatter| {
        write!(
            formatter,
            "it had been idle for {:.1} s",
            f64::from(code) / 1000.0
        )
    },
};

/// Returns the failure of a request on a connection that the server closed after this idle time.
pub(crate) fn idle_close(idle_ns: u64) -> Failure {
    IDLE.failure(
        Fault::IdleClose,
        u32::try_from(idle_ns / (NS_PER_S / 1000)).unwrap_or(u32::MAX),
    )
}
