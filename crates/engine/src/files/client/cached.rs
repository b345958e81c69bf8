//! A session with or without the client cache.

use dyno_files::{Cache, Call, CallId, Counted, FileClient, Files, Handle, Reply};
use dyno_measure::{Detail, Failure, Fault, StatusTable};
use std::collections::BTreeMap;

/// Table for the message that the server's maximum transfer is too small. The code is that maximum in bytes.
static MOST_AT_ONCE: StatusTable = StatusTable {
    name: "bytes at once",
    write: |code, formatter| {
        write!(
            formatter,
            "the server allows reads and writes of at most {code} bytes, less than a block of the workload"
        )
    },
};

/// Returns a hint if a failure means that the server's maximum transfer is too small for the workload.
pub(super) fn advice_on_size(failure: &Failure) -> Option<&'static str> {
    match failure.detail {
        Detail::Refused { step, .. } if std::ptr::eq(step.table, &MOST_AT_ONCE) => Some(
            "Raise the server's limit (Samba: smb2 max read, smb2 max write; Ganesha: MaxRead, MaxWrite), or give the suite \
             smaller blocks (block_bytes). SMB 2.0.2 allows 65,536 bytes at most, NFS over UDP 32,768.",
        ),
        _ => None,
    }
}

/// A session with or without the client cache.
pub(crate) enum CachedClient<C> {
    Uncached(Box<dyno_files::Uncached<Counted<C>>>),
    Cached(Box<Cache<Counted<C>>>),
}

impl<C: FileClient> CachedClient<C> {
    /// Returns the number of requests so far, by the protocol's own names.
    pub(crate) fn requests(&self) -> BTreeMap<&'static str, u64> {
        self.counted().requests_by_name().into_iter().collect()
    }

    pub(in crate::files) fn counted(&self) -> &Counted<C> {
        match self {
            Self::Uncached(files) => files.client(),
            Self::Cached(cache) => cache.client(),
        }
    }

    /// Checks that the server accepts reads and writes of `bytes`.
    pub(in crate::files) fn takes_at_once(&self, bytes: u32) -> Result<(), Failure> {
        let client = self.counted();
        let most = client.max_read_bytes().min(client.max_write_bytes());
        match bytes <= most {
            true => Ok(()),
            false => Err(Failure {
                fault: Fault::WrongLength,
                detail: Detail::Refused {
                    step: MOST_AT_ONCE.status(most),
                    status: None,
                },
            }),
        }
    }

    /// Like [`dyno_files::Uncached::begin`], but fails with a cache, which performs one call at a time.
    pub(in crate::files) async fn begin(&mut self, call: &Call<'_>) -> Result<CallId, Failure> {
        match self {
            Self::Uncached(files) => files.begin(call).await,
            Self::Cached(_) => Err(Fault::OtherIo.into()),
        }
    }

    pub(in crate::files) async fn ended(
        &mut self,
        data: &mut impl FnMut(CallId, &[u8]),
    ) -> Result<(CallId, Result<Reply, Failure>), Failure> {
        match self {
            Self::Uncached(files) => files.ended(data).await,
            Self::Cached(_) => Err(Fault::OtherIo.into()),
        }
    }

    /// Cuts the connection, if there is no cache.
    pub(super) fn cut(&mut self) {
        if let Self::Uncached(files) = self {
            files.client_mut().cut();
        }
    }
}

impl<C: FileClient> Files for CachedClient<C> {
    async fn connect(&mut self) -> Result<(), Failure> {
        match self {
            Self::Uncached(files) => files.connect().await,
            Self::Cached(cache) => cache.connect().await,
        }
    }

    async fn call(&mut self, call: &Call<'_>, data: &mut impl FnMut(&[u8])) -> Result<Reply, Failure> {
        match self {
            Self::Uncached(files) => files.call(call, data).await,
            Self::Cached(cache) => cache.call(call, data).await,
        }
    }

    async fn read_into(&mut self, handle: Handle, offset: u64, into: &mut [u8]) -> Result<usize, Failure> {
        match self {
            Self::Uncached(files) => files.read_into(handle, offset, into).await,
            Self::Cached(cache) => cache.read_into(handle, offset, into).await,
        }
    }

    async fn idle_until(&mut self, due_ns: u64) -> Result<(), Failure> {
        match self {
            Self::Uncached(files) => files.idle_until(due_ns).await,
            Self::Cached(cache) => cache.idle_until(due_ns).await,
        }
    }

    async fn finish(&mut self) -> Result<(), Failure> {
        match self {
            Self::Uncached(files) => files.finish().await,
            Self::Cached(cache) => cache.finish().await,
        }
    }
}
