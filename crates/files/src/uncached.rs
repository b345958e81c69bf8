//! Files without a cache: every call goes to the server at once, as in a client with oplocks switched off.

use crate::call::{Caching, Call, Handle, Reply, Stability};
use crate::client::{read_in_pieces, CallId, Event, FileClient, Files, Verifier};
use dyno_measure::{Failure, Fault};

/// A client for single or concurrent calls without a cache.
#[derive(Debug)]
pub struct Uncached<C> {
    client: C,
    as_sent: bool,
    /// Verifier in the first answer to a write or flush of this session.
    verifier: Option<Verifier>,
}

impl<C> Uncached<C> {
    pub fn new(client: C) -> Self {
        Self {
            client,
            as_sent: false,
            verifier: None,
        }
    }

    /// Like `new`, but unstable writes stay unstable until the caller flushes. If the server may have lost some of them
    /// in a restart, the call that detects the restart fails with [`Fault::SessionLost`].
    pub fn as_sent(client: C) -> Self {
        Self {
            as_sent: true,
            ..Self::new(client)
        }
    }

    pub fn client(&self) -> &C {
        &self.client
    }

    pub fn client_mut(&mut self) -> &mut C {
        &mut self.client
    }
}

impl<C: FileClient> Uncached<C> {
    /// Starts one of several concurrent calls.
    pub async fn begin(&mut self, call: &Call<'_>) -> Result<CallId, Failure> {
        let mut call = *call;
        if let Call::Write { stability, .. } = &mut call {
            // Request durable writes: no copy of the data is kept that could be sent again.
            if self.client.loses_unstable_writes() && !self.as_sent {
                *stability = Stability::File;
            }
        }
        self.client.begin(&call).await
    }

    /// Waits for the next call to end and returns its result. Passes read data to `data`.
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
            // Nothing is cached, so the break can be acknowledged at once.
            if broken.acknowledge {
                self.client.acknowledge(broken.grant, Caching::NONE).await?;
            }
        }
    }

    /// Checks the verifier for a server restart, which may have lost unflushed data (RFC 1813, 3.3.7).
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
