//! TCP sockets and Unix sockets: dial, send, receive, accept.

pub mod datagrams;
mod listener;

pub use listener::Listener;

use crate::executor::Executor;
use crate::readiness::{Direction, Key, Readiness};
use dyno_measure::{monotonic_ns, Detail, Failure, Fault};
use nix::sys::socket::{setsockopt, sockopt::IpBindAddressNoPort};
use rustix::event::epoll::EventFlags;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    self, sockopt, AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

/// Loopback source addresses that one dialer may fall back on: each brings another range of local ports.
const MAX_SOURCE_ADDRESSES: u32 = 250;
/// Addresses tried for one connection before it counts as our own fault.
const SOURCES_PER_DIAL: u32 = 4;

/// What one call takes (`IOV_MAX` of Linux).
const MOST_PARTS: usize = 1024;

const READ: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);
const READ_WRITE: EventFlags = READ.union(EventFlags::OUT);

/// What the peer did while nothing was asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// Nothing: the connection can be used again.
    Quiet,
    /// It ended the connection, at least its own direction.
    Ended,
    /// It sent bytes that nobody had asked for. One of them has been taken.
    Spoke,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    Tcp(SocketAddr),
    /// At a socket in the file system of this machine.
    Unix(SocketAddrUnix),
}

impl Peer {
    fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    fn is_loopback(&self) -> bool {
        matches!(self, Self::Tcp(address) if address.ip().is_loopback())
    }

    fn family(&self) -> AddressFamily {
        match self {
            Self::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Self::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
            Self::Unix(_) => AddressFamily::UNIX,
        }
    }

    fn connect(&self, fd: &OwnedFd) -> Result<(), Errno> {
        connecting(match self {
            Self::Tcp(address) => net::connect(fd, address),
            Self::Unix(address) => net::connect(fd, address),
        })
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "{address}"),
            Self::Unix(address) => {
                let path = address.path_bytes().unwrap_or_default();
                write!(formatter, "unix:{}", String::from_utf8_lossy(path))
            }
        }
    }
}

/// A connected, non-blocking socket of a stream. Dropping it is an ordinary close. A task may use many, and two tasks one: one
/// that receives and one that sends.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    executor: Executor,
    registered: Cell<Option<Registered>>,
    /// What goes before the first bytes, and the peer that it names.
    preamble: Option<(Preamble, Option<SocketAddr>)>,
}

/// Makes the bytes that go before all others on a connection, from its own address and the peer's; None: those of a Unix
/// socket.
pub type Preamble = fn(Option<(SocketAddr, SocketAddr)>) -> Vec<u8>;

/// The key under which the kernel reports a socket, and what it is to report.
#[derive(Debug, Clone, Copy)]
struct Registered {
    key: Key,
    flags: EventFlags,
}

impl Socket {
    fn new(fd: OwnedFd, executor: Executor) -> Self {
        Self {
            fd,
            executor,
            registered: Cell::new(None),
            preamble: None,
        }
    }

    /// Edge-triggered, and registered once for the life of most sockets: no `epoll_ctl` between two requests.
    fn register(&self, flags: EventFlags) -> Result<Key, Errno> {
        let key = match self.registered.get() {
            Some(registered) if registered.flags.contains(flags) => return Ok(registered.key),
            Some(Registered { key, .. }) => {
                self.executor.change_registration(&self.fd, key, flags)?;
                key
            }
            None => self.executor.register(&self.fd, flags)?,
        };
        self.registered.set(Some(Registered { key, flags }));
        Ok(key)
    }

    /// Waits until the kernel reports that something has arrived. What it has reported since the last wait, while the
    /// task was at something else, ends the wait at once.
    ///
    /// # Errors
    /// `late` once the task's deadline has passed.
    pub async fn readable(&self, late: Fault) -> Result<(), Failure> {
        self.in_time(late)?;
        poll_fn(|context| self.poll_readable(context, late)).await
    }

    async fn writable(&self, late: Fault) -> Result<(), Failure> {
        self.in_time(late)?;
        poll_fn(|context| self.poll_writable(context, late)).await
    }

    /// `readable`, for futures that are written by hand: one poll. One waits at a time, the last who asked.
    ///
    /// # Errors
    /// As `readable`.
    pub fn poll_readable(&self, context: &mut Context<'_>, late: Fault) -> Poll<Result<(), Failure>> {
        let key = self.register(READ).map_err(failure)?;
        self.poll_report(key, |readiness| &mut readiness.reading, context, late)
    }

    /// Waits until the kernel reports that there is room to send; for futures that are written by hand, after
    /// `try_send` had none. One waits at a time, the last who asked.
    ///
    /// # Errors
    /// As `readable`.
    pub fn poll_writable(&self, context: &mut Context<'_>, late: Fault) -> Poll<Result<(), Failure>> {
        let key = self.register(READ_WRITE).map_err(failure)?;
        self.poll_report(key, |readiness| &mut readiness.writing, context, late)
    }

    fn poll_report(
        &self,
        key: Key,
        direction: fn(&mut Readiness) -> &mut Direction,
        context: &Context<'_>,
        late: Fault,
    ) -> Poll<Result<(), Failure>> {
        let in_time = self.in_time(late);
        let (reported, earlier) = self.executor.with_readiness(key, |readiness| {
            let direction = direction(readiness);
            let reported = direction.take();
            let waits = !reported && in_time.is_ok();
            (
                reported,
                waits.then(|| direction.await_report(self.executor.waiter(context))),
            )
        });
        // Who waited is forgotten only after the registry is free again.
        drop(earlier);
        match (reported, in_time) {
            (true, _) => Poll::Ready(Ok(())),
            (false, Err(failure)) => Poll::Ready(Err(failure)),
            (false, Ok(())) => Poll::Pending,
        }
    }

    fn in_time(&self, late: Fault) -> Result<(), Failure> {
        if self.executor.deadline_passed() {
            return Err(late.into());
        }
        Ok(())
    }

    /// What a connection on which nothing was outstanding has come to. Costs a system call only where the kernel has
    /// reported something meanwhile.
    pub fn after_idling(&self) -> Idle {
        let reported = self.take_report();
        if self.end_reported() {
            return Idle::Ended;
        }
        match reported.then(|| self.try_receive(&mut [0])) {
            None | Some(Ok(None)) => Idle::Quiet,
            Some(Ok(Some(0)) | Err(_)) => Idle::Ended,
            Some(Ok(Some(_))) => Idle::Spoke,
        }
    }

    /// Whether anything was reported of arrivals since this was last asked, or since the last wait. Who gets true has to
    /// receive until nothing is left. True of a socket that never waited: of it nothing is reported.
    #[must_use]
    pub fn take_report(&self) -> bool {
        self.readiness(|readiness| readiness.reading.take())
            .unwrap_or(true)
    }

    /// Whether the kernel has reported that the peer will send nothing more. It reports each arrival once: who stops
    /// receiving before `None` or `Some(0)`, to spare a call, must ask this before waiting again.
    #[must_use]
    pub fn end_reported(&self) -> bool {
        self.readiness(|readiness| readiness.ended).unwrap_or(false)
    }

    /// Looks at what was reported; None of a socket that never waited.
    fn readiness<T>(&self, look: impl FnOnce(&mut Readiness) -> T) -> Option<T> {
        let registered = self.registered.get()?;
        Some(self.executor.with_readiness(registered.key, look))
    }

    /// Return the address of this side.
    ///
    /// # Errors
    /// Where the socket is gone, or has no address of the Internet.
    pub fn local_address(&self) -> Result<SocketAddr, Errno> {
        SocketAddr::try_from(net::getsockname(&self.fd)?)
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// What the connection came to, or `late` once the task's deadline has passed.
    pub async fn send_all(&self, bytes: &[u8], late: Fault) -> Result<(), Failure> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.try_send(rest)? {
                Some(sent) => rest = &rest[sent..],
                None => self.writable(late).await?,
            }
        }
        Ok(())
    }

    /// Sends as much of `bytes` as there is room for: how much that was, `None` where there is none.
    ///
    /// # Errors
    /// What the connection came to.
    pub fn try_send(&self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        loop {
            match net::send(&self.fd, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => return Ok(Some(sent)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(connection_failure(error)),
            }
        }
    }

    /// `send_all`, for futures that are written by hand: sends what there is room for and takes it off `bytes`. Ready
    /// once all of it is sent. One waits at a time, the last who asked.
    ///
    /// # Errors
    /// As `send_all`.
    pub fn poll_send_all(
        &self,
        bytes: &mut Vec<u8>,
        context: &mut Context<'_>,
        late: Fault,
    ) -> Poll<Result<(), Failure>> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.try_send(&bytes[sent..])? {
                Some(more) => sent += more,
                None => match self.poll_writable(context, late) {
                    Poll::Ready(Ok(())) => {}
                    waiting => {
                        bytes.drain(..sent);
                        return waiting;
                    }
                },
            }
        }
        bytes.clear();
        Poll::Ready(Ok(()))
    }

    /// Sends all of `first` and then `second`, in one call where the kernel has room for both.
    ///
    /// # Errors
    /// As `send_all`.
    pub async fn send_pair(&self, first: &[u8], second: &[u8], late: Fault) -> Result<(), Failure> {
        let mut parts = [IoSlice::new(first), IoSlice::new(second)];
        self.send_parts(&mut parts, late).await
    }

    /// Sends all of `parts`, one behind the other, in as few calls as the kernel has room for.
    ///
    /// # Errors
    /// As `send_all`.
    pub async fn send_parts(&self, mut parts: &mut [IoSlice<'_>], late: Fault) -> Result<(), Failure> {
        IoSlice::advance_slices(&mut parts, 0); // those without a byte
        while !parts.is_empty() {
            let at_once = &parts[..parts.len().min(MOST_PARTS)];
            let control = &mut SendAncillaryBuffer::default();
            match net::sendmsg(&self.fd, at_once, control, SendFlags::NOSIGNAL) {
                Ok(sent) => IoSlice::advance_slices(&mut parts, sent),
                Err(Errno::AGAIN) => self.writable(late).await?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(connection_failure(error)),
            }
        }
        Ok(())
    }

    /// What has arrived: `Some(0)` at the end of the stream, `None` where nothing is there yet.
    ///
    /// # Errors
    /// What the connection came to.
    pub fn try_receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, Failure> {
        loop {
            match net::recv(&self.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((received, _)) => return Ok(Some(received)),
                Err(Errno::AGAIN) => return Ok(None),
                // Not the same as nothing there: who waits now would wait for an arrival that was reported already.
                Err(Errno::INTR) => {}
                Err(error) => return Err(connection_failure(error)),
            }
        }
    }

    /// Tells the peer that nothing more will be sent; receiving goes on.
    ///
    /// # Errors
    /// Where the connection is gone.
    pub fn end_sending(&self) -> Result<(), Failure> {
        net::shutdown(&self.fd, Shutdown::Write).map_err(failure)
    }

    /// Sends small messages at once, even while others are not acknowledged: for requests that don't wait for the
    /// response to the one before.
    ///
    /// # Errors
    /// Where the socket is gone.
    pub fn send_at_once(&self) -> Result<(), Failure> {
        match sockopt::set_tcp_nodelay(&self.fd, true) {
            // A Unix socket never waits.
            Err(Errno::OPNOTSUPP) => Ok(()),
            set => set.map_err(failure),
        }
    }

    /// Makes the coming close a reset: no `TIME_WAIT`, and not what an ordinary client does.
    ///
    /// # Errors
    /// Where the socket is gone.
    pub fn reset_on_close(&self) -> Result<(), Failure> {
        sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO)).map_err(failure)
    }

    /// Sends `bytes` as the first on a connection that may still be under way, and says when it stood, in nanoseconds
    /// of the monotonic clock. On loopback it stands by the time it was dialled, and trying costs no waiting.
    ///
    /// # Errors
    /// Why there is no connection, or what it came to.
    pub async fn send_first(&self, bytes: &[u8]) -> Result<u64, Failure> {
        match self.preamble {
            None => self.send_begin(bytes).await,
            Some((preamble, peer)) => {
                // Known before the connection stands: the port was chosen at `connect`.
                let own = net::getsockname(&self.fd)
                    .ok()
                    .and_then(|own| SocketAddr::try_from(own).ok());
                let first = [preamble(own.zip(peer)).as_slice(), bytes].concat();
                self.send_begin(&first).await
            }
        }
    }

    async fn send_begin(&self, bytes: &[u8]) -> Result<u64, Failure> {
        let mut stood_ns = monotonic_ns();
        loop {
            match net::send(&self.fd, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    self.send_all(&bytes[sent..], Fault::ResponseTimeout).await?;
                    return Ok(stood_ns);
                }
                Err(Errno::AGAIN) => self.writable(Fault::ConnectTimeout).await?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(failure(error)),
            }
            stood_ns = monotonic_ns();
        }
    }

    /// Ends a connection that the peer has ended, as an ordinary close does, and leaves a socket that can be dialled
    /// again: a FIN is sent, and since the peer's was there already, no `TIME_WAIT` is ours.
    fn end_and_keep(&self) -> Result<(), Errno> {
        net::shutdown(&self.fd, Shutdown::Write)?;
        net::connect_unspec(&self.fd)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(registered) = self.registered.get() {
            self.executor.unregister(registered.key);
        }
    }
}

/// Makes connections to one peer; on loopback from further source addresses when the local ports of one run out.
#[derive(Debug)]
pub struct Dialer {
    executor: Executor,
    target: Peer,
    /// Which dialer of the process this is: dialers take their source addresses from different ranges.
    number: u8,
    source: Cell<u32>,
    highest_source: Cell<u32>,
    reuse_sockets: bool,
    preamble: Option<Preamble>,
}

impl Dialer {
    /// One for `target`; `number` differs between the dialers of a process.
    #[must_use]
    pub fn new(executor: Executor, target: impl Into<Peer>, number: u8) -> Self {
        let target = target.into();
        Self {
            executor,
            number,
            source: Cell::new(0),
            highest_source: Cell::new(0),
            reuse_sockets: target.is_loopback(),
            target,
            preamble: None,
        }
    }

    /// Makes a new socket for every connection, as most clients do; see `retire`.
    #[must_use]
    pub fn with_fresh_sockets(self) -> Self {
        Self {
            reuse_sockets: false,
            ..self
        }
    }

    /// Sends what `preamble` makes before the first bytes of each connection.
    #[must_use]
    pub fn with_preamble(self, preamble: Option<Preamble>) -> Self {
        Self { preamble, ..self }
    }

    /// How many local addresses were used.
    #[must_use]
    pub fn source_addresses(&self) -> u32 {
        self.highest_source.get() + 1
    }

    /// Begins a connection, from `spare` where there is one (see `retire`); `Socket::send_first` sees its end.
    ///
    /// # Errors
    /// What became of it; `Fault::NoPorts` only when further source addresses have not helped.
    pub fn dial(&self, spare: Option<Socket>) -> Result<Socket, Failure> {
        if let Some(socket) = spare {
            socket.readiness(Readiness::forget);
            if self.target.connect(&socket.fd) == Ok(()) {
                return Ok(socket);
            }
        }
        for _ in 0..SOURCES_PER_DIAL {
            match self.try_dial(SocketType::STREAM) {
                Err(error) if failure(error).fault == Fault::NoPorts && self.next_source() => {}
                result => return result.map_err(failure),
            }
        }
        Err(Fault::NoPorts.into())
    }

    /// Closes a connection that is not needed any more. On loopback, where the peer's FIN is there already, the socket
    /// is kept to be dialled again: the same packets, without making and unmaking a socket, a file and a registration,
    /// which is a sixth of what a connection costs. Elsewhere it is closed: there the kernel must keep the socket until
    /// the last acknowledgement.
    #[must_use]
    pub fn retire(&self, socket: Socket) -> Option<Socket> {
        let kept = self.reuse_sockets && socket.end_reported();
        (kept && socket.end_and_keep().is_ok()).then_some(socket)
    }

    fn try_dial(&self, kind: SocketType) -> Result<Socket, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = net::socket_with(self.target.family(), kind, flags, None)?;
        if let Some(source) = self.source_address() {
            // The port is chosen at `connect`, where only the four addresses together must be free.
            setsockopt(&fd, IpBindAddressNoPort, &true)
                .map_err(|error| Errno::from_raw_os_error(error as i32))?;
            net::bind(&fd, &SocketAddr::new(IpAddr::V4(source), 0))?;
        }
        self.target.connect(&fd)?;
        let mut socket = Socket::new(fd, self.executor.clone());
        socket.preamble = self.preamble.map(|preamble| (preamble, self.target.address()));
        Ok(socket)
    }

    /// None for the kernel's own choice, which is enough until its ports run out.
    fn source_address(&self) -> Option<Ipv4Addr> {
        let source = u8::try_from(self.source.get())
            .ok()
            .filter(|source| *source > 0)?;
        Some(Ipv4Addr::new(127, 77, self.number, source))
    }

    fn next_source(&self) -> bool {
        let more = self.target.is_loopback() && self.target.family() == AddressFamily::INET;
        if more {
            self.source.set((self.source.get() + 1) % MAX_SOURCE_ADDRESSES);
            self.highest_source
                .set(self.highest_source.get().max(self.source.get()));
        }
        more
    }
}

/// A connection under way is none that failed.
fn connecting(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(()),
        result => result,
    }
}

/// Which fault an error on an established connection is. There, a time-out is the kernel's: the peer has stopped to
/// acknowledge, and the connection is gone.
fn connection_failure(error: Errno) -> Failure {
    match error {
        Errno::TIMEDOUT => Failure {
            fault: Fault::ConnectionReset,
            detail: Detail::Errno(error.raw_os_error()),
        },
        _ => failure(error),
    }
}

/// Which fault an error of a socket call is.
fn failure(error: Errno) -> Failure {
    let fault = match error {
        // The last two are those of a Unix socket: there is none, or too many wait to be accepted.
        Errno::CONNREFUSED | Errno::NOENT | Errno::AGAIN => Fault::ConnectionRefused,
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Fault::ConnectionReset,
        Errno::TIMEDOUT => Fault::ConnectTimeout,
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::HOSTDOWN => Fault::Unreachable,
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Fault::NoPorts,
        Errno::MFILE | Errno::NFILE => Fault::NoFiles,
        Errno::NOBUFS | Errno::NOMEM => Fault::NoMemory,
        _ => Fault::OtherIo,
    };
    Failure {
        fault,
        detail: Detail::Errno(error.raw_os_error()),
    }
}
