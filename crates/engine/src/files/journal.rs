//! The journal of a power cut: writes files until the server is gone, then reads the remains.
//!
//! Writes are unstable if the protocol allows it, because the flush is under test. `crate::journal` defines the
//! journal.

use super::alone::{alone, apart, each_client};
use super::bounded::Limits;
use super::program::Program;
use super::sessions::Sessions;
use crate::job::JobControl;
use crate::journal::{Entry, Journal, JournalSpec, LeftOfFile, Page, PIECE_BYTES};
use dyno_files::{Access, Call, Disposition, FileClient, Files, Reply, Stability, Uncached};
use dyno_measure::{monotonic_ns, Failure, Fault};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

type Failures = Rc<RefCell<Vec<Failure>>>;

pub(crate) fn begin<S: Sessions + Clone>(sessions: &S, identity: u64, spec: JournalSpec) -> Journal {
    let sessions = sessions.clone();
    Journal::start(move |page| {
        let failures = Failures::default();
        let clients = (0..spec.clients).zip(0..);
        let ran = each_client(
            &sessions,
            identity,
            clients,
            || page.is_over(),
            |client, session, executor| {
                let (page, failures, spec) = (page.clone(), failures.clone(), spec.clone());
                let handle = executor.clone();
                executor.spawn(async move {
                    let mut files = Uncached::as_sent(session);
                    let until_ns = monotonic_ns().saturating_add(spec.most_ns);
                    handle.set_deadline(until_ns);
                    if let Err(failure) = write(&mut files, &spec, client, &page, until_ns).await {
                        failures.borrow_mut().push(failure);
                    }
                    let _ = files.finish().await;
                });
            },
        );
        if let Err(failure) = ran {
            failures.borrow_mut().push(failure);
        }
        failures.take()
    })
}

/// Reads back every file of a journal.
pub(crate) fn read_back<S: Sessions + Clone>(
    sessions: &S,
    identity: u64,
    spec: &JournalSpec,
    entries: &[Entry],
) -> Result<Vec<LeftOfFile>, Failure> {
    apart(|| read_all(sessions, identity, spec, entries))
}

fn read_all<S: Sessions + Clone>(
    sessions: &S,
    identity: u64,
    spec: &JournalSpec,
    entries: &[Entry],
) -> Result<Vec<LeftOfFile>, Failure> {
    let limits = Limits {
        most_ns: spec.most_ns,
        timeout_ns: spec.most_ns,
    };
    let end = JobControl::default();
    alone(sessions, identity, 0, limits, &end, |session| {
        let (spec, entries) = (spec.clone(), entries.to_vec());
        async move {
            let mut files = Uncached::new(session);
            let found = read(&mut files, &spec, &entries).await;
            let _ = files.finish().await;
            found
        }
    })
}

async fn write<C: FileClient>(
    files: &mut Uncached<C>,
    spec: &JournalSpec,
    client: u32,
    page: &Arc<Page>,
    until_ns: u64,
) -> Result<(), Failure> {
    files.connect().await?;
    // Another client of this journal may have created the parent.
    let _ = files.make_directory(&spec.directory).await;
    files.make_directory(&spec.client_directory(client)).await?;
    let mut file = 0;
    while !page.stopped() && monotonic_ns() < until_ns {
        let place = page.begin(client, file);
        let path = spec.path(client, file);
        let handle = files.open(&path, Access::ReadWrite, Disposition::Create).await?;
        let mut offset = 0;
        for data in spec.content(client, file).chunks(PIECE_BYTES) {
            let call = Call::Write {
                handle,
                offset,
                data,
                stability: Stability::Unstable,
            };
            match files.ask(&call).await? {
                Reply::Written { bytes } if bytes as usize == data.len() => page.written(place, bytes.into()),
                _ => return Err(Fault::WrongLength.into()),
            }
            offset += data.len() as u64;
        }
        if spec.flushes(file) {
            files.ask(&Call::Flush { handle }).await?;
            page.flushed(place);
        }
        files.close(handle).await?;
        file += 1;
    }
    Ok(())
}

async fn read<C: FileClient>(
    files: &mut Uncached<C>,
    spec: &JournalSpec,
    entries: &[Entry],
) -> Result<Vec<LeftOfFile>, Failure> {
    files.connect().await?;
    let mut left = Vec::with_capacity(entries.len());
    for entry in entries {
        let path = spec.path(entry.client, entry.file);
        let wanted = spec.content(entry.client, entry.file);
        let mut seen = Vec::with_capacity(wanted.len());
        let why = match read_one(files, &path, wanted.len(), &mut seen).await {
            Ok(()) => None,
            // A missing file or directory means that the data was lost, not that reading failed.
            Err(failure) if failure.fault == Fault::NotFound => None,
            Err(failure) => Some(failure.to_string()),
        };
        let intact = wanted
            .iter()
            .zip(&seen)
            .take_while(|(wanted, seen)| wanted == seen);
        left.push(LeftOfFile {
            client: entry.client,
            file: entry.file,
            intact_bytes: intact.count() as u64,
            why,
        });
    }
    Ok(left)
}

async fn read_one<C: FileClient>(
    files: &mut Uncached<C>,
    path: &str,
    most_bytes: usize,
    seen: &mut Vec<u8>,
) -> Result<(), Failure> {
    let handle = files.open(path, Access::Read, Disposition::Open).await?;
    while seen.len() < most_bytes {
        let call = Call::Read {
            handle,
            offset: seen.len() as u64,
            bytes: PIECE_BYTES as u32,
        };
        let before = seen.len();
        files
            .call(&call, &mut |data: &[u8]| seen.extend_from_slice(data))
            .await?;
        if seen.len() == before {
            break;
        }
    }
    files.close(handle).await
}
