//! Files without a cache: every call goes to the server at once and is waited for, as the clients of a test with
//! oplocks off do it.

use crate::call::{Caching, Call, Handle, Reply, Stability};
use crate::client::{read_in_pieces, Event, FileClient, Files};
use dyno_measure::Failure;

/// A client used call by call.
#[derive(Debug)]
pub struct Uncached<C> {
    client: C,
    as_sent: bool,
}

impl<C> Uncached<C> {
    /// Uses `client` as it is.
    pub fn new(client: C) -> Self {
        Self {
            client,
            as_sent: false,
        }
    }

    /// The same, whose writes stay as unstable as they are asked for: the caller flushes, and tells who loses them.
    pub fn as_sent(client: C) -> Self {
        Self {
            client,
            as_sent: true,
        }
    }

    /// The client itself.
    pub fn client(&self) -> &C {
        &self.client
    }

    /// The client itself, for several calls at once; none may be under way when `Files` is used again.
    pub fn client_mut(&mut self) -> &mut C {
        &mut self.client
    }
}

impl<C: FileClient> Files for Uncached<C> {
    async fn connect(&mut self) -> Result<(), Failure> {
        self.client.connect().await
    }

    async fn call(&mut self, call: &Call<'_>, data: &mut impl FnMut(&[u8])) -> Result<Reply, Failure> {
        let mut call = *call;
        if let Call::Write { stability, .. } = &mut call {
            // Nothing is kept here that could be sent again.
            if self.client.loses_unstable_writes() && !self.as_sent {
                *stability = Stability::File;
            }
        }
        let id = self.client.begin(&call).await?;
        loop {
            let broken = match self.client.next().await? {
                Event::Ended {
                    id: ended,
                    result,
                    data: read,
                    ..
                } if ended == id => {
                    if !read.is_empty() {
                        data(read);
                    }
                    return result;
                }
                Event::Ended { .. } => continue,
                Event::Break(broken) => broken,
            };
            // Nothing is kept, so there is nothing to do before the server is answered.
            if broken.acknowledge {
                self.client.acknowledge(broken.grant, Caching::NONE).await?;
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
