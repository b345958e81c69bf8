//! Calls that programs make on files, with checks of the answers.

use dyno_files::{Access, Ask, Call, Disposition, Files, Handle, Info, Open, Reply, Stability};
use dyno_measure::{Detail, Failure, Fault};
use dyno_workload::{content_of, Writing};

/// Calls that programs make, with checks of the answers.
pub(super) trait Program: Files {
    /// Performs a call that returns no data.
    async fn ask(&mut self, call: &Call<'_>) -> Result<Reply, Failure> {
        self.call(call, &mut |_: &[u8]| {}).await
    }

    async fn open(
        &mut self,
        path: &str,
        access: Access,
        disposition: Disposition,
    ) -> Result<Handle, Failure> {
        let open = Open {
            path,
            access,
            disposition,
            directory: false,
            delete_on_close: false,
            ask: Ask::Nothing,
        };
        match self.ask(&Call::Open(open)).await? {
            Reply::Opened { handle, .. } => Ok(handle),
            _ => Err(Fault::NotFound.into()),
        }
    }

    async fn close(&mut self, handle: Handle) -> Result<(), Failure> {
        self.ask(&Call::Close { handle }).await.map(|_| ())
    }

    async fn delete(&mut self, path: &str) -> Result<(), Failure> {
        self.ask(&Call::Delete { path }).await.map(|_| ())
    }

    async fn make_directory(&mut self, path: &str) -> Result<(), Failure> {
        self.ask(&Call::MakeDirectory { path }).await.map(|_| ())
    }

    async fn remove_directory(&mut self, path: &str) -> Result<(), Failure> {
        self.ask(&Call::RemoveDirectory { path }).await.map(|_| ())
    }

    async fn write(&mut self, handle: Handle, offset: u64, data: &[u8]) -> Result<(), Failure> {
        let write = Call::Write {
            handle,
            offset,
            data,
            stability: Stability::Unstable,
        };
        match self.ask(&write).await? {
            Reply::Written { bytes } if bytes as usize == data.len() => Ok(()),
            _ => Err(Fault::NoSpace.into()),
        }
    }

    /// Writes a file in pieces. `data` returns the content for an offset and a length.
    async fn write_whole<'a>(
        &mut self,
        handle: Handle,
        bytes: u64,
        piece_bytes: u32,
        data: impl Fn(u64, usize) -> &'a [u8],
    ) -> Result<(), Failure> {
        let mut offset = 0;
        while offset < bytes {
            let piece = (bytes - offset).min(piece_bytes.into());
            self.write(handle, offset, data(offset, piece as usize)).await?;
            offset += piece;
        }
        Ok(())
    }

    /// Reads a file in pieces until a read returns no data, and compares every byte.
    async fn read_whole(
        &mut self,
        path: &str,
        bytes: u64,
        piece_bytes: u32,
        writing: Writing,
    ) -> Result<(), Failure> {
        let handle = self.open(path, Access::Read, Disposition::Open).await?;
        let mut offset = 0;
        let mut wrong = false;
        loop {
            let read = Call::Read {
                handle,
                offset,
                bytes: piece_bytes,
            };
            let mut came = 0;
            let mut compare = |piece: &[u8]| {
                wrong |= content_of(writing, offset + came, piece.len()) != piece;
                came += piece.len() as u64;
            };
            self.call(&read, &mut compare).await?;
            if came == 0 {
                break;
            }
            offset += came;
        }
        self.close(handle).await?;
        same_length(bytes, offset)?;
        match wrong {
            true => Err(Fault::WrongContent.into()),
            false => Ok(()),
        }
    }

    async fn query(&mut self, path: &str) -> Result<Info, Failure> {
        match self.ask(&Call::QueryPath { path }).await? {
            Reply::Info(info) => Ok(info),
            _ => Err(Fault::NotFound.into()),
        }
    }

    /// Fails unless the file has this size. None: fails unless the file is missing.
    async fn expect(&mut self, path: &str, bytes: Option<u64>) -> Result<(), Failure> {
        match (self.ask(&Call::QueryPath { path }).await?, bytes) {
            (Reply::NotThere, None) => Ok(()),
            (Reply::Info(info), Some(expected)) => same_length(expected, info.bytes),
            (Reply::Info(_), None) => Err(Fault::AlreadyThere.into()),
            _ => Err(Fault::NotFound.into()),
        }
    }

    /// Fails unless exactly `expected` names in the directory match the pattern.
    async fn expect_entries(&mut self, directory: &str, pattern: &str, expected: u64) -> Result<(), Failure> {
        match self.ask(&Call::Find { directory, pattern }).await? {
            Reply::Found { entries } => same_length(expected, entries.into()),
            Reply::NotThere if expected == 0 => Ok(()),
            _ => Err(Fault::NotFound.into()),
        }
    }
}

impl<F: Files> Program for F {}

pub(super) fn same_length(expected: u64, got: u64) -> Result<(), Failure> {
    match expected == got {
        true => Ok(()),
        false => Err(Failure {
            fault: Fault::WrongLength,
            detail: Detail::Length { expected, got },
        }),
    }
}
