//! The client side of the in-memory server.

use crate::clock::{is_due, note_event};
use crate::request::Request;
use crate::server::{Message, Server};
use dyno_files::{Break, Caching, Call, CallId, Event, FileClient, Grant, Traffic};
use dyno_measure::{Failure, Fault};
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// Connection of one client.
pub struct Connection {
    server: Rc<RefCell<Server>>,
    client: usize,
    read: Vec<u8>,
}

impl Connection {
    pub fn new(server: &Rc<RefCell<Server>>, client: usize) -> Self {
        Self {
            server: server.clone(),
            client,
            read: Vec::new(),
        }
    }

    fn gone(&self) -> bool {
        !self.server.borrow().sides[self.client].connected
    }
}

fn request(call: &Call<'_>) -> Request {
    match *call {
        Call::Open(open) => Request::Open {
            path: open.path.to_owned(),
            access: open.access,
            disposition: open.disposition,
            delete_on_close: open.delete_on_close,
            directory: open.directory,
            ask: open.ask,
        },
        Call::Close { handle } => Request::Close(handle),
        Call::Read {
            handle,
            offset,
            bytes,
        } => Request::Read(handle, offset, bytes),
        Call::Write {
            handle,
            offset,
            data,
            stability,
        } => Request::Write(handle, offset, data.to_vec(), stability),
        Call::Flush { handle } => Request::Flush(handle),
        Call::Lock {
            handle,
            offset,
            bytes,
        } => Request::Lock(handle, offset, bytes),
        Call::Unlock {
            handle,
            offset,
            bytes,
        } => Request::Unlock(handle, offset, bytes),
        Call::QueryHandle { handle } | Call::QueryTimes { handle } => Request::QueryHandle(handle),
        Call::SetEnd { handle, bytes } => Request::SetEnd(handle, bytes),
        Call::SetTimes { handle } => Request::SetTimes(handle),
        Call::QueryPath { path } => Request::QueryPath(path.to_owned()),
        Call::QuerySpace { .. } => Request::QuerySpace,
        Call::Find { directory, pattern } => Request::Find(directory.to_owned(), pattern.to_owned()),
        Call::Rename { from, to } => Request::Rename(from.to_owned(), to.to_owned()),
        Call::Delete { path } => Request::Delete(path.to_owned()),
        Call::MakeDirectory { path } => Request::MakeDirectory(path.to_owned()),
        Call::RemoveDirectory { path } => Request::RemoveDirectory(path.to_owned()),
    }
}

impl FileClient for Connection {
    async fn connect(&mut self) -> Result<(), Failure> {
        self.server.borrow_mut().sides[self.client].connected = true;
        note_event();
        Ok(())
    }

    async fn begin(&mut self, call: &Call<'_>) -> Result<CallId, Failure> {
        if self.gone() {
            return Err(Fault::SessionLost.into());
        }
        Ok(self.server.borrow_mut().submit(self.client, request(call)))
    }

    async fn next(&mut self) -> Result<Event<'_>, Failure> {
        let message = poll_fn(|_| {
            if self.gone() {
                return Poll::Ready(None);
            }
            match self.server.borrow_mut().sides[self.client].inbox.pop_front() {
                Some(message) => Poll::Ready(Some(message)),
                None => Poll::Pending,
            }
        });
        match message.await.ok_or(Fault::SessionLost)? {
            Message::Break(broken) => Ok(Event::Break(broken)),
            Message::Ended(id, result, data, piggyback) => {
                self.read = data;
                Ok(Event::Ended {
                    id,
                    result,
                    data: &self.read,
                    piggyback,
                })
            }
        }
    }

    async fn break_until(&mut self, due_ns: u64) -> Result<Option<Break>, Failure> {
        poll_fn(|_| {
            if self.gone() {
                return Poll::Ready(Err(Fault::SessionLost.into()));
            }
            let inbox = &mut self.server.borrow_mut().sides[self.client].inbox;
            let is_break = |message: &Message| matches!(message, Message::Break(_));
            match inbox
                .iter()
                .position(is_break)
                .and_then(|place| inbox.remove(place))
            {
                Some(Message::Break(broken)) => {
                    note_event();
                    Poll::Ready(Ok(Some(broken)))
                }
                _ if is_due(due_ns) => Poll::Ready(Ok(None)),
                _ => Poll::Pending,
            }
        })
        .await
    }

    async fn acknowledge(&mut self, grant: Grant, left: Caching) -> Result<(), Failure> {
        if self.gone() {
            return Err(Fault::SessionLost.into());
        }
        self.server.borrow_mut().answer(self.client, grant, left);
        Ok(())
    }

    async fn disconnect(&mut self) {
        self.server.borrow_mut().cut(self.client);
    }

    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    fn requests_by_name(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    fn loses_unstable_writes(&self) -> bool {
        self.server.borrow().stateless.is_some()
    }

    fn max_read_bytes(&self) -> u32 {
        1 << 20
    }

    fn max_write_bytes(&self) -> u32 {
        1 << 20
    }
}
