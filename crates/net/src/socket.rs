//! TCP and Unix sockets: dial, send, receive, accept.

pub mod datagrams;
mod listener;
mod reserved;

pub use listener::Listener;

use crate::executor::Executor;
use crate::pace::Pace;
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

/// Maximum number of loopback source addresses per dialer. Each adds a range of local ports.
const MAX_SOURCE_ADDRESSES: u32 = 250;
/// Maximum number of source addresses tried per connection. If none has a free port, the failure is
/// [`Fault::NoPorts`].
const SOURCES_PER_DIAL: u32 = 4;

/// Maximum number of buffers per `sendmsg` call (`IOV_MAX` of Linux).
const MOST_PARTS: usize = 1024;

const READ: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);
const READ_WRITE: EventFlags = READ.union(EventFlags::OUT);

/// State of a connection without outstanding requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// Nothing happened. The connection can be reused.
    Quiet,
    /// The peer closed the connection, or its sending direction.
    Ended,
    /// The peer sent unsolicited bytes. One of them has been consumed.
    Spoke,
}

/// Address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    Tcp(SocketAddr),
    /// Unix socket of this machine.
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

/// Connected, non-blocking stream socket. Dropping it closes the connection normally. A task may use many
/// sockets, and two tasks may share one: one receives, the other sends.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    executor: Executor,
    registered: Cell<Option<Registered>>,
    /// Function that builds the preamble, and the peer's address that it needs; None for a Unix socket.
    preamble: Option<(Preamble, Option<SocketAddr>)>,
}

/// Builds the first bytes of a connection from its local address and the peer's address, in this order. The
/// argument is None for a Unix socket.
pub type Preamble = fn(Option<(SocketAddr, SocketAddr)>) -> Vec<u8>;

/// Registration with epoll: the key of the socket and the events of interest.
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

    /// Registers the socket edge-triggered, usually once in its life, so that no `epoll_ctl` is needed
    /// between requests.
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

    /// Waits until the kernel reports data, the end of the stream or an error. Returns at once if it has
    /// reported one of them since the last wait.
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

    /// Polls `readable` once. Only the task that polled last is woken.
    pub fn poll_readable(&self, context: &mut Context<'_>, late: Fault) -> Poll<Result<(), Failure>> {
        let key = self.register(READ).map_err(failure)?;
        self.poll_report(key, |readiness| &mut readiness.reading, context, late)
    }

    /// Polls whether the kernel has reported space in the send buffer. Call it only after `try_send` returned `None`.
    /// Only the task that polled last is woken.
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
        // Drop the previous waiter only after the registry is released: it may own a socket of this loop.
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

    /// Returns the state of a connection without outstanding requests. Makes a system call only if the kernel
    /// has reported an event since the last call or wait.
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

    /// Returns whether the kernel reported an arrival since the last call or wait. If true, the caller must
    /// receive until `try_receive` returns `None`. Always true for a socket that has never waited, because it
    /// is not registered.
    pub fn take_report(&self) -> bool {
        self.readiness(|readiness| readiness.reading.take())
            .unwrap_or(true)
    }

    /// Returns whether the kernel reported that the peer will send nothing more. Each arrival is reported
    /// once, so a caller that stops receiving before `None` or `Some(0)` must check this before it waits.
    pub fn end_reported(&self) -> bool {
        self.readiness(|readiness| readiness.ended).unwrap_or(false)
    }

    /// Calls `look` with the events that the kernel reported. Returns None if the socket has never waited.
    fn readiness<T>(&self, look: impl FnOnce(&mut Readiness) -> T) -> Option<T> {
        let registered = self.registered.get()?;
        Some(self.executor.with_readiness(registered.key, look))
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// The error of `getsockname`, or an error if the address is not an Internet address.
    pub fn local_address(&self) -> Result<SocketAddr, Errno> {
        SocketAddr::try_from(net::getsockname(&self.fd)?)
    }

    /// Sends all of `bytes`.
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

    /// Sends as many bytes as fit and returns their number, or `None` if the send buffer is full.
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

    /// Polls `send_all`: sends what fits and removes it from `bytes`. Ready once all is sent. Only the task
    /// that polled last is woken.
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

    /// Sends `first`, then `second`, in one call if the send buffer has space.
    pub async fn send_pair(&self, first: &[u8], second: &[u8], late: Fault) -> Result<(), Failure> {
        let mut parts = [IoSlice::new(first), IoSlice::new(second)];
        self.send_parts(&mut parts, late).await
    }

    /// Sends all `parts` in order, in as few calls as possible.
    pub async fn send_parts(&self, mut parts: &mut [IoSlice<'_>], late: Fault) -> Result<(), Failure> {
        IoSlice::advance_slices(&mut parts, 0); // Skips empty parts.
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

    /// Receives available bytes. `Some(0)`: end of the stream; `None`: nothing has arrived.
    pub fn try_receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, Failure> {
        loop {
            match net::recv(&self.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((received, _)) => return Ok(Some(received)),
                Err(Errno::AGAIN) => return Ok(None),
                // Do not return None: the arrival was already reported, so the caller would wait forever.
                Err(Errno::INTR) => {}
                Err(error) => return Err(connection_failure(error)),
            }
        }
    }

    /// Closes the sending direction.
    pub fn end_sending(&self) -> Result<(), Failure> {
        net::shutdown(&self.fd, Shutdown::Write).map_err(failure)
    }

    /// Disables Nagle's algorithm, for requests that do not wait for the previous response.
    pub fn send_at_once(&self) -> Result<(), Failure> {
        match sockopt::set_tcp_nodelay(&self.fd, true) {
            // Unix sockets send at once anyway.
            Err(Errno::OPNOTSUPP) => Ok(()),
            set => set.map_err(failure),
        }
    }

    /// Makes the next close send a reset (RST) instead of a FIN. This avoids `TIME_WAIT`, but ordinary
    /// clients do not do it.
    pub fn reset_on_close(&self) -> Result<(), Failure> {
        sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO)).map_err(failure)
    }

    /// Sends the preamble, if any, and `bytes` as the first bytes of a connection that may not be established
    /// yet. Returns the time at which the connection was established, in nanoseconds of the monotonic clock.
    /// A loopback connection is established when dialled, so it needs no wait.
    pub async fn send_first(&self, bytes: &[u8]) -> Result<u64, Failure> {
        match self.preamble {
            None => self.send_begin(bytes).await,
            Some((preamble, peer)) => {
                // The port is known before the connection is established: `connect` chose it.
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

    /// Sends a FIN on a connection that the peer has closed, and keeps the socket for another `dial`. Because
    /// the peer sent its FIN first, this side has no `TIME_WAIT`.
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

/// Connects to one peer. On loopback, if a source address has no free local port, it uses another one.
#[derive(Debug)]
pub struct Dialer {
    executor: Executor,
    target: Peer,
    /// Number of this dialer in the process. It selects the range of source addresses.
    number: u8,
    source: Cell<u32>,
    highest_source: Cell<u32>,
    reuse_sockets: bool,
    preamble: Option<Preamble>,
    pace: Option<Pace>,
    /// Next port below 1024 to dial from; None: the kernel chooses a port.
    reserved_port: Cell<Option<u16>>,
}

impl Dialer {
    /// Creates a dialer for `target`. Dialers of one process need different numbers.
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
            pace: None,
            reserved_port: Cell::new(None),
        }
    }

    /// Uses a new socket per connection, as most clients do. See `retire`.
    #[must_use]
    pub fn with_fresh_sockets(self) -> Self {
        Self {
            reuse_sockets: false,
            ..self
        }
    }

    /// Sends the bytes of `preamble` before the first bytes of each connection.
    #[must_use]
    pub fn with_preamble(self, preamble: Option<Preamble>) -> Self {
        Self { preamble, ..self }
    }

    /// Limits the rate of requests over the dialer's connections by `pace`.
    #[must_use]
    pub fn paced(self, pace: Option<Pace>) -> Self {
        Self { pace, ..self }
    }

    pub fn pace(&self) -> Option<&Pace> {
        self.pace.as_ref()
    }

    /// Waits until the rate limit, if any, permits a message with this number of requests, and counts them.
    /// Returns the time waited, in nanoseconds.
    pub async fn turn(&self, requests: usize) -> u64 {
        match &self.pace {
            Some(pace) => pace.turn(&self.executor, requests).await,
            None => 0,
        }
    }

    /// Returns the number of source addresses used.
    pub fn source_addresses(&self) -> u32 {
        self.highest_source.get() + 1
    }

    /// Starts a connection, on the socket `spare` if given (see `retire`). `Socket::send_first` completes it.
    ///
    /// # Errors
    /// The connection failed. `Fault::NoPorts` means that the other source addresses had no free port either.
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

    /// Closes a connection. On loopback, if the peer's FIN has arrived, returns the socket for reuse. Reuse
    /// sends the same packets, but does not create and register a socket, which is a sixth of the cost of a
    /// connection. Off loopback, the kernel needs the socket until the last acknowledgement.
    pub fn retire(&self, socket: Socket) -> Option<Socket> {
        let kept = self.reuse_sockets && socket.end_reported();
        (kept && socket.end_and_keep().is_ok()).then_some(socket)
    }

    fn try_dial(&self, kind: SocketType) -> Result<Socket, Errno> {
        let reserved = self.reserved_port.get();
        if let Some(dialed) = reserved.and_then(|first| self.try_reserved(kind, first)) {
            return dialed;
        }
        let fd = self.open_socket(kind)?;
        if let Some(source) = self.source_address() {
            // `connect` chooses the port, so only the 4-tuple of addresses and ports must be unique.
            setsockopt(&fd, IpBindAddressNoPort, &true)
                .map_err(|error| Errno::from_raw_os_error(error as i32))?;
            net::bind(&fd, &SocketAddr::new(IpAddr::V4(source), 0))?;
        }
        self.target.connect(&fd)?;
        Ok(self.dialed(fd))
    }

    fn open_socket(&self, kind: SocketType) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        net::socket_with(self.target.family(), kind, flags, None)
    }

    fn dialed(&self, fd: OwnedFd) -> Socket {
        let mut socket = Socket::new(fd, self.executor.clone());
        socket.preamble = self.preamble.map(|preamble| (preamble, self.target.address()));
        socket
    }

    /// Returns the source address to bind, or None to let the kernel choose one until its ports are
    /// exhausted.
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

/// Treats a connection in progress as a success.
fn connecting(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(()),
        result => result,
    }
}

/// Maps an error of an established connection to a failure. `TIMEDOUT` then means that the peer no longer
/// acknowledges data.
fn connection_failure(error: Errno) -> Failure {
    match error {
        Errno::TIMEDOUT => Failure {
            fault: Fault::ConnectionReset,
            detail: Detail::Errno(error.raw_os_error()),
        },
        _ => failure(error),
    }
}

fn failure(error: Errno) -> Failure {
    let fault = match error {
        // The last two come from Unix sockets: no such file, or a full accept queue.
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
