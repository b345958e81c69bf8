//! Files without a cache: every call goes to the server at once and is waited for, as the clients of a test with
//! oplocks off do it.

use crate::call::{Caching, Call, Handle, Reply, Stability};
use crate::client::{read_in_pieces, CallId, Event, FileClient, Files, Verifier};
use dyno_measure::{Failure, Fault};

/// A client used call by call, or for several calls at once.
#[derive(Debug)]
pub struct Uncached<C> {
    client: C,
    as_sent: bool,
    /// The run of the server that answered the writes of this session.
    verifier: Option<Verifier>,
}

impl<C> Uncached<C> {
    /// Uses `client` as it is.
    pub fn new(client: C) -> Self {
        Self {
            client,
            as_sent: false,
            verifier: None,
        }
    }

    /// The same, whose writes stay as unstable as they are asked for, until the caller flushes. A server that was started
    /// anew in between may have lost them: the call that shows it fails with [`Fault::SessionLost`].
    pub fn as_sent(client: C) -> Self {
        Self {
            as_sent: true,
            ..Self::new(client)
        }
    }

    pub fn client(&self) -> &C {
        &self.client
    }

    /// The same, to do something with it that is no call.
    pub fn client_mut(&mut self) -> &mut C {
        &mut self.client
    }
}

impl<C: FileClient> Uncached<C> {
    /// Begins one of several calls that are under way at once.
    ///
    /// # Errors
    /// As [`FileClient::begin`].
    pub async fn begin(&mut self, call: &Call<'_>) -> Result<CallId, Failure> {
        let mut call = *call;
        if let Call::Write { stability, .. } = &mut call {
            // Nothing is kept here that could be sent again.
            if self.client.loses_unstable_writes() && !self.as_sent {
                *stability = Stability::File;
            }
        }
        self.client.begin(&call).await
    }

    /// Waits until the next of them ends: which, and what it came to. What was read is handed to `data`.
    ///
    /// # Errors
    /// As [`FileClient::next`].
    pub async fn ended(
        &mut self,
        data: &mut impl FnMut(CallId, &[u8]),
    ) -> Result<(CallId, Result<Reply, Failure>), Failure> {
        loop {
            let broken = match self.client.next().await? {
                Event::Ended {
                    id,
                    result,
                    data: read,
                    piggyback,
                } => {
                    if !read.is_empty() {
                        data(id, read);
                    }
                    let stored = piggyback.stored.map(|stored| stored.verifier);
                    return Ok((id, result.and_then(|reply| self.same_server(stored, reply))));
                }
                Event::Break(broken) => broken,
            };
            // Nothing is kept, so there is nothing to do before the server is answered.
            if broken.acknowledge {
                self.client.acknowledge(broken.grant, Caching::NONE).await?;
            }
        }
    }

    /// A server that was started anew may have lost what it had not flushed (RFC 1813, 3.3.7).
    fn same_server(&mut self, now: Option<Verifier>, reply: Reply) -> Result<Reply, Failure> {
        match (self.verifier, now) {
            (Some(first), Some(now)) if self.as_sent && first != now => Err(Fault::SessionLost.into()),
            _ => {
                self.verifier = self.verifier.or(now);
                Ok(reply)
            }
        }
    }
}

impl<C: FileClient> Files for Uncached<C> {
    async fn connect(&mut self) -> Result<(), Failure> {
        self.verifier = None;
        self.client.connect().await
    }

    async fn call(&mut self, call: &Call<'_>, data: &mut impl FnMut(&[u8])) -> Result<Reply, Failure> {
        if let Some(ended) = self.client.call_at_once(call, data).await {
            return ended;
        }
        let begun = self.begin(call).await?;
        loop {
            let mut of_this = |id, read: &[u8]| {
                if id == begun {
                    data(read);
                }
            };
            let (id, result) = self.ended(&mut of_this).await?;
            if id == begun {
                return result;
            }
        }
    }

    async fn read_into(&mut self, handle: Handle, offset: u64, into: &mut [u8]) -> Result<usize, Failure> {
        match self.client.read_into(handle, offset, into).await {
            Some(read) => read.map(|bytes| bytes as usize),
            None => read_in_pieces(self, handle, offset, into).await,
        }
    }

    async fn idle_until(&mut self, due_ns: u64) -> Result<(), Failure> {
        while let Some(broken) = self.client.break_until(due_ns).await? {
            if broken.acknowledge {
                self.client.acknowledge(broken.grant, Caching::NONE).await?;
            }
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Failure> {
        self.client.disconnect().await;
        Ok(())
    }
}
