//! Interfaces of a file protocol's client, and of the layer that applications use.

use crate::call::{Caching, Call, Handle, Info, LeaseKey, Reply, Stability};
use crate::page_run::PageRun;
use dyno_measure::Failure;
use std::future::Future;

/// Identifies a call until its end has been reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId(pub u64);

/// The oplock or lease that a break concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grant {
    /// The oplock of one handle.
    Handle(Handle),
    /// A lease, and thus all handles with its key.
    Lease(LeaseKey),
}

/// A break: the server takes caching back, because another client wants the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Break {
    pub grant: Grant,
    /// The caching that remains.
    pub to: Caching,
    /// The server waits for `acknowledge`, up to 35 s, and the other client is blocked until then.
    pub acknowledge: bool,
}

/// Attributes that a reply contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Attributes at the time of the reply.
    pub info: Info,
    /// `Info::change` just before the call, if the reply contains it (RFC 1813, 2.6: weak cache consistency). If the
    /// value equals the known version, no other client changed the file in between.
    pub change_before: Option<u64>,
}

/// Identifies one start of the server. Unstable writes may be lost if a later reply has another verifier (RFC 1813,
/// 3.3.21).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Verifier(pub u64);

/// Durability of an answered write or flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// At least the requested stability.
    pub stability: Stability,
    /// Start of the server that answered.
    pub verifier: Verifier,
}

/// Additional information in a reply about file and server, if the protocol has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Piggyback {
    /// Attributes of the file that the call was about.
    pub attributes: Option<Attributes>,
    /// Durability of a write or flush. None: the server loses data only if it also loses the session.
    pub stored: Option<Stored>,
}

/// Next event of a client.
#[derive(Debug)]
pub enum Event<'a> {
    /// A call ended. `data` is the data of a read, otherwise empty. Valid until the client is used again.
    Ended {
        id: CallId,
        /// Result of the call. A failure concerns only this call: the session continues.
        result: Result<Reply, Failure>,
        data: &'a [u8],
        /// Additional information in the reply.
        piggyback: Piggyback,
    },
    /// A break arrived. Calls continue.
    Break(Break),
}

/// Counts of transferred data and requests, summed over all sessions of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes sent, framing included.
    pub bytes_out: u64,
    /// Bytes received, framing included.
    pub bytes_in: u64,
    /// Protocol requests. Each operation of a compound counts.
    pub requests: u64,
    /// Requests that were not executed, because an earlier part of their compound had failed. Included in `requests`.
    pub refused: u64,
    pub breaks: u64,
    pub connections: u64,
}

/// Counts of durable and persistent handles over all sessions of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeptHandles {
    /// Opens that requested a durable handle.
    pub asked: u64,
    /// Durable handles granted.
    pub granted: u64,
    /// Granted handles that also survive a server restart.
    pub persistent: u64,
    /// Handles restored on a new connection, per reconnection.
    pub regained: u64,
    /// Granted handles that the server did not keep, or that could not be restored.
    pub lost: u64,
    /// Unanswered calls of lost connections that were sent again.
    pub sent_again: u64,
    /// Number of connections that were lost while their session continued on others.
    pub channels_lost: u64,
}

impl KeptHandles {
    /// Returns the difference from `before`, an earlier value of the same client.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            asked: self.asked - before.asked,
            granted: self.granted - before.granted,
            persistent: self.persistent - before.persistent,
            regained: self.regained - before.regained,
            lost: self.lost - before.lost,
            sent_again: self.sent_again - before.sent_again,
            channels_lost: self.channels_lost - before.channels_lost,
        }
    }
}

/// One connection to a file server, used by one task: calls are started, and their results and the breaks arrive in
/// the order in which the server sends them.
///
/// A failure of a method itself (not of a call) means that the connection is gone, with every handle, lock and call;
/// `connect` may establish a new one. A protocol whose handles outlive a connection reconnects by itself, and fails
/// only when it gives up. The task's deadline (`Executor::set_deadline`) bounds every wait.
///
/// What differs between protocols:
///
/// | | SMB | NFSv3 | a mounted path |
/// |---|---|---|---|
/// | `Open` | a request; other clients' opens may conflict | a look-up or a creation; the server keeps no state | open(2) |
/// | `Close` | a request | nothing is sent; the call ends at once | close(2) |
/// | caching | requested by `Open::ask`, revoked by breaks | allowed by rules and `Piggyback::attributes` | only the kernel's |
/// | `Write` | as durable as the share; lost only with the session | UNSTABLE, DATA_SYNC, FILE_SYNC, with a verifier | write(2), with RWF_DSYNC or RWF_SYNC |
/// | `Flush` | FLUSH | COMMIT, with a verifier | fsync(2) |
///
/// `Open::ask` may be refused: a protocol without grants returns `Caching::NONE` and sends no breaks.
#[warn(missing_docs)]
pub trait FileClient {
    /// Connects and logs on. Does nothing if a connection exists.
    fn connect(&mut self) -> impl Future<Output = Result<(), Failure>>;

    /// Sends a call, or queues it until the server's flow control permits it.
    fn begin(&mut self, call: &Call<'_>) -> impl Future<Output = Result<CallId, Failure>>;

    /// Starts a write directly from pages if the client supports it. Returns None if the client does not: then use
    /// `begin`.
    fn begin_write(
        &mut self,
        _handle: Handle,
        _offset: u64,
        _data: &PageRun,
        _stability: Stability,
    ) -> impl Future<Output = Option<Result<CallId, Failure>>> {
        std::future::ready(None)
    }

    /// Performs a whole call if the client is synchronous, and passes read data to `data`. Returns None if the client
    /// is not: then use `begin`.
    fn call_at_once(
        &mut self,
        _call: &Call<'_>,
        _data: &mut impl FnMut(&[u8]),
    ) -> impl Future<Output = Option<Result<Reply, Failure>>> {
        std::future::ready(None)
    }

    /// Waits for the next event. Call it only if a call is outstanding or a break is possible.
    fn next(&mut self) -> impl Future<Output = Result<Event<'_>, Failure>>;

    /// Reads directly into `into` if the client is synchronous. Returns None if the client is not: then use `begin`.
    fn read_into(
        &mut self,
        _handle: Handle,
        _offset: u64,
        _into: &mut [u8],
    ) -> impl Future<Output = Option<Result<u32, Failure>>> {
        std::future::ready(None)
    }

    /// Waits for a break until `due_ns`. None: no break has arrived. If `due_ns` has passed, returns without waiting.
    /// Even then, repeated calls must return a break soon after its arrival.
    fn break_until(&mut self, due_ns: u64) -> impl Future<Output = Result<Option<Break>, Failure>>;

    /// Acknowledges a break. Waits for the server's answer only if flow control needs it. Not used by
    /// protocols without breaks.
    fn acknowledge(&mut self, _grant: Grant, _left: Caching) -> impl Future<Output = Result<(), Failure>> {
        std::future::ready(Ok(()))
    }

    /// Returns whether the server may lose unstable writes although the session continues. A different verifier shows
    /// such a loss. Writers must then keep data until a flush under the same verifier. No default, so that wrappers
    /// must forward the call.
    fn loses_unstable_writes(&self) -> bool;

    /// Returns whether the server also leases directories. Known after `connect`.
    fn leases_directories(&self) -> bool {
        false
    }

    /// Cuts the connection, to measure the cost of recovery. Does nothing if there is none.
    fn cut(&mut self) {}

    /// Ends the session as well as possible. Ignores failures.
    fn disconnect(&mut self) -> impl Future<Output = ()>;

    /// Returns the counts of data and requests so far.
    fn traffic(&self) -> Traffic;

    /// Returns the counts of durable handles; zeros if the protocol has none.
    fn kept_handles(&self) -> KeptHandles {
        KeptHandles::default()
    }

    /// Returns the number of requests by their protocol names ("CREATE").
    fn requests_by_name(&self) -> Vec<(&'static str, u64)>;

    /// Returns the maximum size of a `Read` in bytes. Known after `connect`.
    fn max_read_bytes(&self) -> u32;

    /// Returns the maximum size of a `Write` in bytes.
    fn max_write_bytes(&self) -> u32;
}

/// Implements the methods that a wrapper of a `FileClient` forwards unchanged to its field `client`.
#[macro_export]
macro_rules! forward_to_client {
    () => {
        $crate::forward_to_client! { @all
            loses_unstable_writes() -> bool;
            leases_directories() -> bool;
            traffic() -> $crate::Traffic;
            kept_handles() -> $crate::KeptHandles;
            requests_by_name() -> Vec<(&'static str, u64)>;
            max_read_bytes() -> u32;
            max_write_bytes() -> u32;
        }

        fn cut(&mut self) {
            self.client.cut();
        }
    };
    (@all $($name:ident() -> $result:ty;)*) => {
        $(fn $name(&self) -> $result {
            self.client.$name()
        })*
    };
}

/// Files as an application sees them: one complete call at a time.
#[warn(missing_docs)]
pub trait Files: Sized {
    /// Connects and logs on if needed.
    fn connect(&mut self) -> impl Future<Output = Result<(), Failure>>;

    /// Performs one call. Passes read data to `data` in order, in one or more parts.
    fn call(
        &mut self,
        call: &Call<'_>,
        data: &mut impl FnMut(&[u8]),
    ) -> impl Future<Output = Result<Reply, Failure>>;

    /// Fills `into` from `offset`, up to the end of the file. Returns the number of bytes read.
    fn read_into(
        &mut self,
        handle: Handle,
        offset: u64,
        into: &mut [u8],
    ) -> impl Future<Output = Result<usize, Failure>> {
        read_in_pieces(self, handle, offset, into)
    }

    /// Waits until `due_ns`. Handles breaks and due deferred closes meanwhile.
    fn idle_until(&mut self, due_ns: u64) -> impl Future<Output = Result<(), Failure>>;

    /// Writes back and closes everything, then ends the session, even after a failure. Returns the first failure.
    fn finish(&mut self) -> impl Future<Output = Result<(), Failure>>;
}

/// Reads into `into` with a single call, and copies the data. Returns the number of bytes read.
pub(crate) async fn read_in_pieces(
    files: &mut impl Files,
    handle: Handle,
    offset: u64,
    into: &mut [u8],
) -> Result<usize, Failure> {
    let call = Call::Read {
        handle,
        offset,
        bytes: u32::try_from(into.len()).unwrap_or(u32::MAX),
    };
    let mut filled = 0;
    let mut copy = |piece: &[u8]| {
        let room = &mut into[filled..];
        let bytes = piece.len().min(room.len());
        room[..bytes].copy_from_slice(&piece[..bytes]);
        filled += bytes;
    };
    files.call(&call, &mut copy).await?;
    Ok(filled)
}
