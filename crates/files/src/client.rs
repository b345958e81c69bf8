//! The contract of a file protocol's client, and of what an application uses above it.

use crate::call::{Caching, Call, Handle, Info, LeaseKey, Reply, Stability};
use crate::page_run::PageRun;
use dyno_measure::Failure;
use std::future::Future;

/// Names a call that was begun, until its end has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId(pub u64);

/// What a break takes caching back from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grant {
    /// The oplock of one handle.
    Handle(Handle),
    /// A lease, and so all handles under its key.
    Lease(LeaseKey),
}

/// The server takes caching back, because somebody else wants the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Break {
    pub grant: Grant,
    /// What is left of it.
    pub to: Caching,
    /// The server waits for `acknowledge` (up to 35 s, during which the other client stands still).
    pub acknowledge: bool,
}

/// A file's attributes as a reply brought them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// As of the reply.
    pub info: Info,
    /// `Info::change` just before the call, where the reply says it (RFC 1813, 2.6: weak cache consistency). Who knew
    /// this one knows that nobody else changed the file in between.
    pub change_before: Option<u64>,
}

/// Names one run of the server. What it answered as unstable under another one may be lost (RFC 1813, 3.3.21).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Verifier(pub u64);

/// What the server has made of a write or a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// How durable it is: at least what was asked for.
    pub stability: Stability,
    /// By which run of the server.
    pub verifier: Verifier,
}

/// What a reply says of the file and the server, besides what was asked for; each part where the protocol has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Piggyback {
    /// Of the file that the call was about.
    pub attributes: Option<Attributes>,
    /// To a write or a flush. None: what the server loses of it, it loses together with the session.
    pub stored: Option<Stored>,
}

/// What a client that has calls outstanding is told next.
#[derive(Debug)]
pub enum Event<'a> {
    /// A call ended. `data` is that of a read, else empty; it is valid until the client is used again.
    Ended {
        id: CallId,
        /// What it came to. A failure of this kind is the call's alone: the session goes on.
        result: Result<Reply, Failure>,
        data: &'a [u8],
        /// What came along with it.
        piggyback: Piggyback,
    },
    /// A break arrived. Calls go on.
    Break(Break),
}

/// Figures from the beginning of a session on, or rather of all sessions that a client has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes sent, framing included.
    pub bytes_out: u64,
    /// Bytes that came.
    pub bytes_in: u64,
    /// Requests of the protocol (each part of a compound is one).
    pub requests: u64,
    /// Requests among them that the server answered without carrying them out, as parts of a compound that had failed.
    pub refused: u64,
    pub breaks: u64,
    pub connections: u64,
}

/// Handles that the server was asked to keep over the loss of a connection, of all sessions of a client so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeptHandles {
    /// Opens that asked for it.
    pub asked: u64,
    /// Of them, those that the server granted.
    pub granted: u64,
    /// Of those, how many also over a restart of the server.
    pub persistent: u64,
    /// Handles that were opened again on the next connection, each time it was.
    pub regained: u64,
    /// Granted handles that the server had not kept, or that nobody could ask for any more.
    pub lost: u64,
    /// Calls that were not answered on a lost connection, and were sent once more on the next.
    pub sent_again: u64,
    /// Connections of a session that were lost while it had others, and went on with them.
    pub channels_lost: u64,
}

impl KeptHandles {
    /// What has come since `before`, which was taken of the same client.
    #[must_use]
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

/// One connection to a file server, used by one task: calls are begun, and their ends and breaks come in whatever
/// order the server sends them.
///
/// A failure of a method itself (not of a call) means that the connection is gone, with every handle, lock and call;
/// `connect` may make another. A protocol whose handles outlive a connection makes another one by itself, and fails only
/// when it gives up. The task's deadline (`Executor::set_deadline`) bounds every wait.
///
/// What differs between protocols:
///
/// | | SMB | NFSv3 | a mounted path |
/// |---|---|---|---|
/// | `Open` | a request; others' opens may conflict | a look-up or a creation; the server keeps nothing of it | open(2) |
/// | `Close` | a request | nothing is sent; it ends at once | close(2) |
/// | caching | asked for by `Open::ask`, taken back by breaks | allowed by rules and `Piggyback::attributes` | none above the kernel's |
/// | `Write` | as durable as the share; lost only with the session | UNSTABLE, DATA_SYNC, FILE_SYNC, with a verifier | write(2), with RWF_DSYNC or RWF_SYNC |
/// | `Flush` | FLUSH | COMMIT, with a verifier | fsync(2) |
///
/// `Open::ask` is a wish: a protocol without grants grants `Caching::NONE` and sends no breaks.
#[warn(missing_docs)]
pub trait FileClient {
    /// Connects and logs on. Does nothing where that has been done.
    fn connect(&mut self) -> impl Future<Output = Result<(), Failure>>;

    /// Sends a call, or keeps it until the server's flow control lets it go.
    fn begin(&mut self, call: &Call<'_>) -> impl Future<Output = Result<CallId, Failure>>;

    /// Begins a write of bytes that lie in pages, where the client sends them from there; else None, and nothing was done:
    /// `begin` is the way then.
    fn begin_write(
        &mut self,
        _handle: Handle,
        _offset: u64,
        _data: &PageRun,
        _stability: Stability,
    ) -> impl Future<Output = Option<Result<CallId, Failure>>> {
        std::future::ready(None)
    }

    /// Carries a call out from its beginning to its end, where the client does so as soon as it is begun; what was read is
    /// handed to `data`. Else None, and nothing was done: `begin` is the way then.
    fn call_at_once(
        &mut self,
        _call: &Call<'_>,
        _data: &mut impl FnMut(&[u8]),
    ) -> impl Future<Output = Option<Result<Reply, Failure>>> {
        std::future::ready(None)
    }

    /// Waits for the next event. Only to be used while a call is outstanding or a break may come.
    fn next(&mut self) -> impl Future<Output = Result<Event<'_>, Failure>>;

    /// Reads straight into `into` where the client carries calls out at once; else None, and nothing was done: `begin` is
    /// the way then.
    fn read_into(
        &mut self,
        _handle: Handle,
        _offset: u64,
        _into: &mut [u8],
    ) -> impl Future<Output = Option<Result<u32, Failure>>> {
        std::future::ready(None)
    }

    /// Waits until `due_ns` for a break; None once it is due. Who asks again and again for a moment that has passed, and
    /// so never waits, is told of a break all the same, soon after it has come.
    fn break_until(&mut self, due_ns: u64) -> impl Future<Output = Result<Option<Break>, Failure>>;

    /// Tells the server that a break was obeyed. Its own answer is waited for only as far as flow control needs. Never
    /// used where no break comes.
    fn acknowledge(&mut self, _grant: Grant, _left: Caching) -> impl Future<Output = Result<(), Failure>> {
        std::future::ready(Ok(()))
    }

    /// Whether the server may lose a write that was unstable and keep the session, and tells by another verifier only:
    /// who writes so has to keep the data until a flush under the same one. Without a default: who stands in front of
    /// another client must not forget to ask it.
    fn loses_unstable_writes(&self) -> bool;

    /// Whether the server leases directories, too; known after `connect`.
    fn leases_directories(&self) -> bool {
        false
    }

    /// Has the connection end as if it had been cut, so that what follows shows what that costs. Nothing where there is none.
    fn cut(&mut self) {}

    /// Ends the session in order, as far as it still stands. Never fails: what can't be ended is dropped.
    fn disconnect(&mut self) -> impl Future<Output = ()>;

    /// Return what this client has sent and received so far.
    fn traffic(&self) -> Traffic;

    /// Handles that the server was asked to keep, so far; none where the protocol keeps none.
    fn kept_handles(&self) -> KeptHandles {
        KeptHandles::default()
    }

    /// Protocol requests so far by the protocol's own names ("CREATE"), for the record.
    fn requests_by_name(&self) -> Vec<(&'static str, u64)>;

    /// The most that one `Read` may ask for, in bytes; known after `connect`.
    fn max_read_bytes(&self) -> u32;

    /// The most that one `Write` may carry.
    fn max_write_bytes(&self) -> u32;
}

/// Files as an application sees them: one call at a time, from its beginning to its end.
#[warn(missing_docs)]
pub trait Files: Sized {
    /// Connects and logs on, where that has not been done.
    fn connect(&mut self) -> impl Future<Output = Result<(), Failure>>;

    /// Carries out one call; what was read is handed to `data`, in order, in one or more pieces.
    fn call(
        &mut self,
        call: &Call<'_>,
        data: &mut impl FnMut(&[u8]),
    ) -> impl Future<Output = Result<Reply, Failure>>;

    /// Reads as much into `into` as the file has from `offset` on, and returns the bytes.
    fn read_into(
        &mut self,
        handle: Handle,
        offset: u64,
        into: &mut [u8],
    ) -> impl Future<Output = Result<usize, Failure>> {
        read_in_pieces(self, handle, offset, into)
    }

    /// Waits until `due_ns`, obeying breaks that come meanwhile and doing what a cache does by the clock.
    fn idle_until(&mut self, due_ns: u64) -> impl Future<Output = Result<(), Failure>>;

    /// Sends and closes everything that is kept back, then ends the session. Failures are returned, and the session is
    /// over all the same.
    fn finish(&mut self) -> impl Future<Output = Result<(), Failure>>;
}

/// Copies what a read hands over.
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
