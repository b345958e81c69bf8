//! The loop of one thread: its connections, its letter box, and for the first thread the listener.
//!
//! Not the reactor's: there a task is called by its own socket and its own timer alone, and here what one client does
//! calls others, of other threads too. There are no futures: a request is carried out when it is read.

use super::connection::{Connection, Ended, Wants};
use super::host::{Host, Letter};
use super::volume::{ConnectionId, Mail, Moment};
use crate::server::ACCEPT_PAUSE_NS;
use dyno_measure::NS_PER_S;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{accept_with, sockopt, SocketFlags};
use rustix::time::Timespec;
use slab::Slab;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

const EVENTS_AT_ONCE: usize = 256;
const BELL: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

pub(super) struct Worker {
    host: Arc<Host>,
    number: usize,
    epoll: OwnedFd,
    listener: Option<OwnedFd>,
    accepts_again_ns: Option<u64>,
    connections: Slab<ConnectionSlot>,
    /// The thread that the next newcomer is given to.
    next_thread: usize,
    /// Mail between connections of this thread.
    own_mail: Vec<(ConnectionId, Mail)>,
    /// Not later than the next time that something is due; None: nothing is.
    due_ns: Option<u64>,
}

struct ConnectionSlot {
    connection: Connection,
    registered: EventFlags,
}

impl Worker {
    /// With a listener for the first thread.
    pub(super) fn new(host: Arc<Host>, number: usize, listener: Option<OwnedFd>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = epoll::EventData::new_u64(BELL);
        epoll::add(&epoll, &host.boxes[number].bell, bell, EventFlags::IN)?;
        if let Some(listener) = &listener {
            let data = epoll::EventData::new_u64(LISTENER);
            epoll::add(&epoll, listener, data, EventFlags::IN)?;
        }
        Ok(Self {
            host,
            number,
            epoll,
            listener,
            accepts_again_ns: None,
            connections: Slab::new(),
            next_thread: 0,
            own_mail: Vec::new(),
            due_ns: None,
        })
    }

    /// Until the server stops.
    pub(super) fn run(mut self, stopping: &AtomicBool) {
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        while !stopping.load(Ordering::Relaxed) {
            let timeout = self.timeout();
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => panic!("waiting on a valid epoll instance does not fail: {error}"),
            }
            for event in &events {
                let (data, flags) = (event.data, event.flags);
                match data.u64() {
                    BELL => self.open_letters(),
                    LISTENER => self.accept(),
                    slot => self.called(slot as usize, flags),
                }
                self.deliver();
            }
            if self.due_ns.is_some() {
                self.keep_time();
                self.deliver();
            }
        }
    }

    fn timeout(&self) -> Option<Timespec> {
        let wait_ns = self.due_ns?.saturating_sub(Host::moment().ns);
        Some(Timespec {
            tv_sec: (wait_ns / NS_PER_S) as _,
            tv_nsec: (wait_ns % NS_PER_S) as _,
        })
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else {
            return;
        };
        loop {
            match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    let thread = self.next_thread;
                    self.next_thread = (thread + 1) % self.host.boxes.len();
                    if thread == self.number {
                        self.seat(socket);
                        return;
                    }
                    self.host.boxes[thread].post(Letter::Newcomer(socket));
                    return;
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(_) => {
                    let _ = epoll::delete(&self.epoll, listener);
                    let again_ns = Host::moment().ns + ACCEPT_PAUSE_NS;
                    self.accepts_again_ns = Some(again_ns);
                    self.remember(Some(again_ns));
                    return;
                }
            }
        }
    }

    fn seat(&mut self, socket: OwnedFd) {
        // Where it fails the socket is gone already.
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let entry = self.connections.vacant_entry();
        let id = ConnectionId {
            thread: self.number,
            slot: entry.key(),
            serial: self.host.next_connection(),
        };
        let data = epoll::EventData::new_u64(entry.key() as u64);
        if epoll::add(&self.epoll, &socket, data, EventFlags::IN).is_ok() {
            entry.insert(ConnectionSlot {
                connection: Connection::new(socket, id, self.host.clone()),
                registered: EventFlags::IN,
            });
        }
    }

    fn called(&mut self, slot: usize, flags: EventFlags) {
        let Some(seat) = self.connections.get_mut(slot) else {
            return;
        };
        let outcome = if flags.intersects(EventFlags::OUT) {
            seat.connection.go_on(Host::moment())
        } else {
            seat.connection.receive()
        };
        self.settle(slot, outcome);
    }

    /// Goes on with what a connection came to: waits for what it wants, or ends it.
    fn settle(&mut self, slot: usize, outcome: Result<Wants, Ended>) {
        let seat = &mut self.connections[slot];
        self.own_mail.append(&mut seat.connection.dialogue.mail);
        let wanted = match outcome {
            Ok(Wants::Requests) => EventFlags::IN,
            Ok(Wants::Room) => EventFlags::OUT,
            Ok(Wants::Time(_)) => EventFlags::empty(),
            Err(Ended) => return self.end(slot),
        };
        if wanted != seat.registered {
            let data = epoll::EventData::new_u64(slot as u64);
            if epoll::modify(&self.epoll, &seat.connection.socket, data, wanted).is_err() {
                return self.end(slot);
            }
            seat.registered = wanted;
        }
        let due_ns = seat.connection.due_ns();
        self.remember(due_ns);
    }

    fn remember(&mut self, due_ns: Option<u64>) {
        if let Some(due_ns) = due_ns {
            self.due_ns = Some(self.due_ns.map_or(due_ns, |known| known.min(due_ns)));
        }
    }

    fn end(&mut self, slot: usize) {
        let mut seat = self.connections.remove(slot);
        seat.connection.dialogue.end(Host::moment());
        self.own_mail.append(&mut seat.connection.dialogue.mail);
        let _ = epoll::delete(&self.epoll, &seat.connection.socket);
    }

    fn open_letters(&mut self) {
        for letter in self.host.boxes[self.number].empty() {
            match letter {
                Letter::Newcomer(socket) => self.seat(socket),
                Letter::Mail(id, mail) => self.own_mail.push((id, mail)),
                Letter::HangUp(done) => {
                    let slots: Vec<usize> = self.connections.iter().map(|(slot, _)| slot).collect();
                    slots.into_iter().for_each(|slot| self.end(slot));
                    // Who waits may have given up.
                    let _ = done.send(());
                }
            }
        }
    }

    /// Carries mail until there is no more: what is delivered may make more.
    fn deliver(&mut self) {
        while !self.own_mail.is_empty() {
            let moment = Host::moment();
            for (id, mail) in std::mem::take(&mut self.own_mail) {
                if id.thread == self.number {
                    self.hand_over(id, mail, moment);
                } else {
                    self.host.boxes[id.thread].post(Letter::Mail(id, mail));
                }
            }
        }
    }

    fn hand_over(&mut self, id: ConnectionId, mail: Mail, moment: Moment) {
        let seat = self.connections.get_mut(id.slot);
        // The connection may have gone meanwhile, and its place been taken by another.
        let Some(seat) = seat.filter(|seat| seat.connection.dialogue.id == id) else {
            return;
        };
        let outcome = seat.connection.take_mail(mail, moment);
        self.settle(id.slot, outcome);
    }

    fn keep_time(&mut self) {
        let moment = Host::moment();
        if self.due_ns.is_none_or(|due_ns| due_ns > moment.ns) {
            return;
        }
        self.due_ns = None;
        if let Some(again_ns) = self.accepts_again_ns {
            if again_ns <= moment.ns {
                self.accepts_again_ns = None;
                if let Some(listener) = &self.listener {
                    let data = epoll::EventData::new_u64(LISTENER);
                    let _ = epoll::add(&self.epoll, listener, data, EventFlags::IN);
                }
            }
            self.remember(self.accepts_again_ns);
        }
        let slots: Vec<usize> = self.connections.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            match self.connections[slot].connection.due_ns() {
                Some(due_ns) if due_ns <= moment.ns => {
                    let outcome = self.connections[slot].connection.keep_time(moment);
                    self.settle(slot, outcome);
                }
                due_ns => self.remember(due_ns),
            }
        }
    }
}
