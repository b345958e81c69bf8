//! Connections shared by the threads of a client.
//!
//! A `SharedConnection` is one connection at a time. Its driver task connects, receives, and sends what the
//! threads have queued. A thread opens a stream and waits for its end. Responses that arrive in one segment
//! are therefore followed by requests in one segment.

use crate::connection::{Connecting, Exchange};
use crate::conversation::{Conversation, Ended};
use crate::failures::silent;
use crate::head::Head;
use crate::response::{Limits, Progress};
use crate::room::RoomQueue;
use crate::stream::{Handshake, Received, Stream, Transport};
use dyno_measure::{Failure, Fault};
use dyno_net::Executor;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Number of receive calls after which a driver yields although more bytes are available.
const RECEIVES_IN_A_TURN: u32 = 16;
/// Maximum repetitions of a request that the server declared unprocessed (RFC 9113, section 8.7). Repetitions
/// on connections on which it took other requests do not count.
const MOST_REPEATS: u32 = 10;
const NO_DEADLINE: u64 = u64::MAX;

/// One connection at a time, shared by several threads.
pub struct SharedConnection<T: Transport, C> {
    executor: Executor,
    connecting: Connecting,
    limits: Limits,
    /// Receive buffer, shared by all clients of the loop. It is filled and emptied without an await in
    /// between.
    buffer: Rc<RefCell<Box<[u8]>>>,
    /// None while a connection is being established.
    transport: Cell<Option<T>>,
    current: RefCell<Option<Rc<Shared<C>>>>,
    /// The last connection that stopped taking requests and may have left some unprocessed.
    last: RefCell<Option<Rc<Shared<C>>>>,
    users: Cell<usize>,
    /// Whether the last connection ended without outstanding requests.
    ended_idle: Cell<bool>,
    /// Failure that the server caused while no request was outstanding. It is counted for the next request.
    owed: Cell<Option<Failure>>,
    /// Number of concurrent exchanges that the last connection allowed.
    room: Cell<Option<u32>>,
    /// Number of threads created so far.
    threads: Cell<usize>,
}

impl<T: Transport, C> std::fmt::Debug for SharedConnection<T, C> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SharedConnection({} threads)", self.users.get())
    }
}

/// State shared by the driver and the threads of a connection.
#[derive(Debug)]
struct Shared<C> {
    session: RefCell<C>,
    /// Threads that wait for the end of their streams, by slot.
    waiters: RefCell<Vec<Option<Waker>>>,
    /// Threads that wait for room to open a stream.
    queue: RoomQueue,
    driver: RefCell<Option<Waker>>,
    /// Streams ended by the last input. The list is kept to reuse its capacity.
    finished: RefCell<Vec<usize>>,
    /// True once the connection opens no more streams. It closes after the last stream.
    retired: Cell<bool>,
    /// Time at which the connection was established, and its TLS handshake.
    opened: Cell<Option<(u64, Option<Handshake>)>>,
    receives: Cell<u64>,
}

impl<T: Transport + 'static, C: Conversation + 'static> SharedConnection<T, C> {
    /// Creates a shared connection without connecting.
    pub fn new(
        transport: T,
        executor: Executor,
        connecting: Connecting,
        buffer: Rc<RefCell<Box<[u8]>>>,
        limits: Limits,
    ) -> Rc<Self> {
        Rc::new(Self {
            executor,
            connecting,
            limits,
            buffer,
            transport: Cell::new(Some(transport)),
            current: RefCell::new(None),
            last: RefCell::new(None),
            users: Cell::new(0),
            ended_idle: Cell::new(false),
            owed: Cell::new(None),
            room: Cell::new(None),
            threads: Cell::new(0),
        })
    }

    /// Adds a client thread.
    pub fn client(self: &Rc<Self>) -> StreamClient<T, C> {
        self.users.set(self.users.get() + 1);
        self.threads.set(self.threads.get() + 1);
        StreamClient {
            repeat: self.connecting.repeat,
            shared_connection: self.clone(),
            thread: self.threads.get(),
        }
    }

    /// Returns the current connection, or starts one. Also returns whether it is new.
    fn connection(self: &Rc<Self>, start_ns: u64) -> (Rc<Shared<C>>, bool) {
        if let Some(shared) = &*self.current.borrow() {
            return (shared.clone(), false);
        }
        let mut session = C::new(self.limits);
        self.room.get().inspect(|room| session.expect_room(*room));
        let shared = Rc::new(Shared {
            session: RefCell::new(session),
            waiters: RefCell::default(),
            queue: RoomQueue::default(),
            driver: RefCell::default(),
            finished: RefCell::default(),
            retired: Cell::new(false),
            opened: Cell::new(None),
            receives: Cell::new(0),
        });
        self.current.replace(Some(shared.clone()));
        let deadline_ns = start_ns.saturating_add(self.connecting.timeout_ns);
        let (shared_connection, driven) = (self.clone(), shared.clone());
        self.executor.spawn(async move {
            shared_connection.executor.set_deadline(deadline_ns);
            let failure = shared_connection.drive(&driven).await;
            shared_connection.end(&driven, failure);
        });
        (shared, true)
    }

    /// Establishes the connection and drives it to its end. Returns None if it ended normally.
    async fn drive(&self, shared: &Rc<Shared<C>>) -> Option<Failure> {
        let Some(mut transport) = self.transport.take() else {
            return Some(Fault::OtherIo.into());
        };
        let first = std::mem::take(shared.session.borrow_mut().outgoing());
        let opened = transport.open(&first).await;
        self.transport.set(Some(transport));
        let mut stream = match opened {
            Ok(opened) => {
                shared.opened.set(Some((opened.stood_ns, opened.handshake)));
                opened.stream
            }
            Err(failure) => return Some(failure),
        };
        self.executor.set_deadline(NO_DEADLINE);
        if let Err(failure) = stream.send_at_once() {
            return Some(failure);
        }
        let mut driving = Driving::default();
        let ended = poll_fn(|context| self.poll_drive(shared, &mut stream, &mut driving, context)).await;
        let failure = ended.err();
        // Send a final error or GOAWAY if the socket has room.
        let mut last_words = std::mem::take(shared.session.borrow_mut().outgoing());
        let told =
            poll_fn(|context| Poll::Ready(stream.poll_send(&mut last_words, context).is_ready())).await;
        if let (true, Some(mut transport)) = (told, self.transport.take()) {
            transport.close(stream);
            self.transport.set(Some(transport));
        }
        failure
    }

    fn poll_drive(
        &self,
        shared: &Rc<Shared<C>>,
        stream: &mut T::Stream,
        driving: &mut Driving,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        if shared.driver.borrow().is_none() {
            shared.driver.replace(Some(context.waker().clone()));
        }
        let mut receives = 0;
        loop {
            let mut session = shared.session.borrow_mut();
            if shared.retired.get() && session.active() == 0 {
                session.say_goodbye();
                return Poll::Ready(Ok(()));
            }
            let more = driving.send(&mut *session, stream, context)?;
            drop(session);
            if !driving.unread {
                match stream.poll_readable(context) {
                    Poll::Ready(Ok(())) => {}
                    other => {
                        if more {
                            context.waker().wake_by_ref();
                        }
                        return other;
                    }
                }
            }
            // The kernel reports each arrival once, so receive until nothing is left.
            driving.unread = true;
            receives += 1;
            if receives > RECEIVES_IN_A_TURN {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            match self.receive(shared, stream) {
                Ok(Received::Some(_)) => {}
                Ok(Received::Nothing) => driving.unread = false,
                Ok(Received::End) => {
                    shared.session.borrow_mut().end();
                    return Poll::Ready(Err(Fault::ClosedEarly.into()));
                }
                Err(failure) => return Poll::Ready(Err(failure)),
            }
        }
    }

    fn receive(&self, shared: &Rc<Shared<C>>, stream: &mut T::Stream) -> Result<Received, Failure> {
        let mut session = shared.session.borrow_mut();
        let arrival = stream.receive(&mut self.buffer.borrow_mut(), &mut |data| {
            session.feed(data).map(|()| Progress::More)
        });
        shared.receives.set(shared.receives.get() + 1);
        self.room.set(session.announced_room());
        if !session.is_open() && !shared.retired.get() {
            self.ended_idle.set(session.active() == 0);
            self.retire(shared);
        }
        drop(session);
        let ended = shared.wake_finished();
        self.executor.add_answers(ended.saturating_sub(1));
        arrival
    }

    /// Stops opening streams on a connection.
    fn retire(&self, shared: &Rc<Shared<C>>) {
        shared.retired.set(true);
        let is_current = self
            .current
            .borrow()
            .as_ref()
            .is_some_and(|current| Rc::ptr_eq(current, shared));
        if is_current {
            self.last.replace(self.current.take());
        }
        // Threads that wait for room continue on the next connection.
        shared.queue.call_all();
        shared.wake_driver();
    }

    /// Returns whether requests that the last connection left unprocessed must still be sent again. They
    /// precede new ones; otherwise a server that takes few requests per connection may never take them.
    fn owes_repeats(&self) -> bool {
        let mut last = self.last.borrow_mut();
        let owes = last
            .as_ref()
            .is_some_and(|shared| shared.session.borrow().has_unprocessed());
        if !owes {
            *last = None;
        }
        owes
    }

    /// Handles the end of the connection: fails its open streams, or stores the failure for the next request.
    fn end(&self, shared: &Rc<Shared<C>>, failure: Option<Failure>) {
        let was_retired = shared.retired.get();
        self.retire(shared);
        let active = shared.session.borrow().active();
        match failure {
            Some(failure) if active > 0 => shared.session.borrow_mut().fail_all(failure),
            // A server may close a connection that is idle, or whose end it announced.
            Some(failure) if ends_idly(&failure) => self.ended_idle.set(!was_retired),
            Some(failure) => self.owed.set(Some(failure)),
            None => {}
        }
        shared.wake_finished();
    }
}

/// State of a driver between polls.
#[derive(Debug, Default)]
struct Driving {
    /// Output is pending because the socket had no room.
    blocked: bool,
    /// Input was reported and not fully received.
    unread: bool,
}

impl Driving {
    /// Sends as many bytes as fit. Returns whether more can be sent at once.
    fn send(
        &mut self,
        session: &mut impl Conversation,
        stream: &mut impl Stream,
        context: &mut Context<'_>,
    ) -> Result<bool, Failure> {
        if !self.blocked && session.outgoing().is_empty() {
            session.all_sent();
        }
        if self.blocked || !session.outgoing().is_empty() {
            self.blocked = match stream.poll_send(session.outgoing(), context) {
                Poll::Ready(sent) => sent.map(|()| false)?,
                Poll::Pending => true,
            };
        }
        if self.blocked {
            return Ok(false);
        }
        session.all_sent();
        Ok(!session.outgoing().is_empty())
    }
}

fn ends_idly(failure: &Failure) -> bool {
    matches!(
        failure.fault,
        Fault::ClosedEarly | Fault::ConnectionReset | Fault::Truncated
    )
}

impl<C: Conversation> Shared<C> {
    fn wake_driver(&self) {
        if let Some(driver) = &*self.driver.borrow() {
            driver.wake_by_ref();
        }
    }

    /// Wakes the threads whose streams have ended, and the first thread that waits for room. Returns how many
    /// streams ended.
    fn wake_finished(&self) -> usize {
        let mut finished = self.finished.borrow_mut();
        self.session.borrow_mut().take_finished(&mut finished);
        let mut waiters = self.waiters.borrow_mut();
        for place in &*finished {
            if let Some(waker) = waiters.get_mut(*place).and_then(Option::take) {
                waker.wake();
            }
        }
        if self.session.borrow().has_room() {
            self.queue.call_first();
        }
        finished.len()
    }

    /// Removes `thread` from the queue, and wakes the next one if there is room.
    fn leave_queue(&self, thread: usize) {
        self.queue.leave(thread);
        if self.session.borrow().has_room() {
            self.queue.call_first();
        }
    }

    fn wait(&self, place: usize, context: &Context<'_>) {
        let mut waiters = self.waiters.borrow_mut();
        if waiters.len() <= place {
            waiters.resize(place + 1, None);
        }
        waiters[place] = Some(context.waker().clone());
    }
}

/// Client thread on a shared connection: one request at a time.
#[derive(Debug)]
pub struct StreamClient<T: Transport + 'static, C: Conversation + 'static> {
    shared_connection: Rc<SharedConnection<T, C>>,
    repeat: bool,
    /// The thread's number in the shared connection.
    thread: usize,
}

impl<T: Transport + 'static, C: Conversation + 'static> StreamClient<T, C> {
    pub fn may_repeat(&mut self, repeat: bool) {
        self.repeat = repeat;
    }

    /// Sends `request` and waits for the whole response; passes its body to `body`.
    pub async fn exchange(
        &mut self,
        request: &C::Request,
        start_ns: u64,
        body: &mut C::Body,
        cost: &mut Exchange,
    ) -> Result<Head, Failure>
    where
        C::Body: Default,
    {
        self.shared_connection
            .executor
            .set_deadline(start_ns.saturating_add(self.shared_connection.connecting.timeout_ns));
        if let Some(failure) = self.shared_connection.owed.take() {
            return Err(failure);
        }
        let (mut repeats, mut is_new) = (0, true);
        loop {
            let before = cost.connections;
            let (result, again) = self.attempt(request, (start_ns, is_new), body, cost).await;
            cost.reconnected |= !is_new && cost.connections > before;
            is_new = false;
            let most = match again {
                Again::Never => 0,
                Again::Once => 1,
                Again::Unprocessed => MOST_REPEATS,
                // Each such connection serves a request, so the loop ends, at the latest at the deadline.
                Again::PassedOver => continue,
            };
            if repeats >= most {
                return result;
            }
            repeats += 1;
        }
    }

    /// Sends the request once. Also returns whether it may be sent again.
    async fn attempt(
        &mut self,
        request: &C::Request,
        (start_ns, mut is_new): (u64, bool),
        body: &mut C::Body,
        cost: &mut Exchange,
    ) -> (Result<Head, Failure>, Again)
    where
        C::Body: Default,
    {
        let begun = poll_fn(|context| {
            // The threads that send their requests again were also woken.
            if std::mem::take(&mut is_new) && self.shared_connection.owes_repeats() {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.poll_begin(request, start_ns, body, context)
        });
        let begun = begun.await;
        let Begun {
            shared,
            place,
            made,
            reused,
        } = match begun {
            Ok(begun) => begun,
            Err(failure) => return (Err(failure), Again::Never),
        };
        let ended = poll_fn(|context| self.poll_end(&shared, place, context)).await;
        *body = ended.body;
        cost.streams.opened += u32::from(C::HAS_STREAMS);
        cost.received_bytes += ended.received_bytes;
        cost.sent_bytes += ended.sent_bytes;
        cost.body_bytes = ended.body_bytes;
        if let (true, Some((stood_ns, handshake))) = (made, shared.opened.get()) {
            cost.connections += 1;
            cost.connect_ns = Some(stood_ns.saturating_sub(start_ns));
            cost.handshake = handshake;
            cost.reconnected |= self.shared_connection.ended_idle.take();
        }
        let closed_idly =
            reused && self.repeat && ended.received_bytes == 0 && ended.result.as_ref().is_err_and(ends_idly);
        let again = match &ended.result {
            Err(failure) if ended.unprocessed => {
                cost.streams.count_unprocessed(failure.fault);
                let is_refused = matches!(failure.fault, Fault::StreamRefused | Fault::StreamsOverLimit);
                if !is_refused && shared.session.borrow().has_taken_some() {
                    Again::PassedOver
                } else {
                    Again::Unprocessed
                }
            }
            // The server was closing an idle connection.
            _ if closed_idly => Again::Once,
            _ => Again::Never,
        };
        let result = ended
            .result
            .map_err(|failure| silent(failure, ended.received_bytes));
        (result.map(Head::of_status), again)
    }

    fn poll_begin(
        &mut self,
        request: &C::Request,
        start_ns: u64,
        body: &mut C::Body,
        context: &mut Context<'_>,
    ) -> Poll<Result<Begun<C>, Failure>>
    where
        C::Body: Default,
    {
        loop {
            if self.shared_connection.executor.deadline_passed() {
                let current = self.shared_connection.current.borrow().clone();
                current.inspect(|shared| shared.leave_queue(self.thread));
                return Poll::Ready(Err(Fault::ResponseTimeout.into()));
            }
            let (shared, made) = self.shared_connection.connection(start_ns);
            let mut session = shared.session.borrow_mut();
            if session.has_room() && shared.queue.is_first(self.thread) {
                let reused = session.opened() > 0 && shared.receives.get() > 0;
                let place = session.open(request, std::mem::take(body));
                drop(session);
                shared.leave_queue(self.thread);
                shared.wake_driver();
                return Poll::Ready(Ok(Begun {
                    shared,
                    place,
                    made,
                    reused,
                }));
            }
            if session.is_open() {
                shared.queue.join(self.thread, context);
                return Poll::Pending;
            }
            drop(session);
            self.shared_connection.retire(&shared);
        }
    }

    fn poll_end(
        &mut self,
        shared: &Rc<Shared<C>>,
        place: usize,
        context: &mut Context<'_>,
    ) -> Poll<Ended<C::Body>> {
        let mut session = shared.session.borrow_mut();
        // While the connection is being established, the driver reports a failure, within the deadline of the
        // thread that started it.
        if self.shared_connection.executor.deadline_passed()
            && shared.opened.get().is_some()
            && !session.has_ended(place)
        {
            session.cancel(place, Fault::ResponseTimeout.into());
            let mut cancelled = Vec::new();
            session.take_finished(&mut cancelled);
            shared.wake_driver();
            if shared.receives.get() == 0 {
                drop(session);
                // A connection that has never answered is useless to the other threads too.
                self.shared_connection.retire(shared);
                session = shared.session.borrow_mut();
            }
        }
        match session.take(place) {
            Some(ended) => Poll::Ready(ended),
            None => {
                shared.wait(place, context);
                Poll::Pending
            }
        }
    }
}

impl<T: Transport + 'static, C: Conversation + 'static> Drop for StreamClient<T, C> {
    fn drop(&mut self) {
        let left = self.shared_connection.users.get() - 1;
        self.shared_connection.users.set(left);
        let current = self.shared_connection.current.borrow().clone();
        if let (0, Some(shared)) = (left, current) {
            self.shared_connection.retire(&shared);
        }
    }
}

/// Whether a request may be sent again.
enum Again {
    Never,
    Once,
    /// The server declared that it did not process the request.
    Unprocessed,
    /// The server did not process the request, but took others on this connection.
    PassedOver,
}

/// A stream that was opened.
struct Begun<C> {
    shared: Rc<Shared<C>>,
    place: usize,
    /// Whether the connection was established for this stream.
    made: bool,
    /// Whether the connection has answered before.
    reused: bool,
}
