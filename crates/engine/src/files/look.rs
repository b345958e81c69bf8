//! Checks a file server before load: access to each share, free space, and remains of an earlier load. Writes
//! nothing.

use super::alone::{apart, each_client};
use super::program::Program;
use super::sessions::Sessions;
use crate::kind::Look;
use crate::Workspaces;
use dyno_files::{Call, Files, Reply, Uncached};
use dyno_measure::{monotonic_ns, Failure, Fault, NS_PER_S};
use dyno_net::Executor;
use std::cell::{Cell, RefCell};
use std::iter;
use std::rc::Rc;

/// Default recycle bins of Samba (`vfs_recycle`) and of two appliance makers.
const RECYCLE_BINS: [&str; 4] = [".recycle", "#recycle", "@Recycle", ".deleted"];

/// Results of the queries on one share.
#[derive(Debug, Default)]
struct Answer {
    free_bytes: Option<u64>,
    is_used: bool,
    recycle_bin: Option<(&'static str, u32)>,
}

/// Interval at which other clients check whether the first one has logged on.
const FIRST_WAIT_NS: u64 = NS_PER_S / 1000;

/// Time limit for ending the sessions after all were open.
const LEAVING_NS: u64 = NS_PER_S;

/// Checks every share, as clients with `identity`. Opens at least `together` sessions at the same time: one
/// per share, and any others on the first share. `timeout_ns` is the limit for all shares, which are checked
/// concurrently.
pub(crate) fn look<S: Sessions>(sessions: &S, identity: u64, together: u32, timeout_ns: u64) -> Vec<Look> {
    let until_ns = monotonic_ns().saturating_add(timeout_ns);
    let answers = apart(|| {
        let mut answers = look_from_here(sessions, identity, together, until_ns)?;
        // The bin is in the root of the share, above the clients' directory.
        if let Some(roots) = sessions.at_roots().filter(|_| answers.iter().any(Result::is_ok)) {
            // The rate limit may have delayed the first requests until now.
            let until_ns = match sessions.pace() {
                Some(_) => monotonic_ns().saturating_add(timeout_ns),
                None => until_ns,
            };
            for (answer, root) in answers
                .iter_mut()
                .zip(look_from_here(&roots, identity, 0, until_ns)?)
            {
                if let (Ok(answer), Ok(root)) = (answer, root) {
                    answer.recycle_bin = answer.recycle_bin.or(root.recycle_bin);
                }
            }
        }
        Ok(answers)
    });
    let shares = sessions.shares().iter();
    match answers {
        Ok(answers) => shares
            .zip(answers)
            .map(|(share, answer)| told(sessions, share, answer))
            .collect(),
        Err(failure) => shares.map(|share| told(sessions, share, Err(failure))).collect(),
    }
}

fn told<S: Sessions>(sessions: &S, share: &str, answer: Result<Answer, Failure>) -> Look {
    let failure = answer.as_ref().err().copied();
    let answer = answer.unwrap_or_default();
    Look {
        share: share.to_owned(),
        free_bytes: answer.free_bytes,
        is_used: answer.is_used,
        keeps_versions: false,
        recycle_bin: answer.recycle_bin.map(|(name, _)| name.to_owned()),
        recycled_entries: answer.recycle_bin.map_or(0, |(_, entries)| entries),
        why: failure.map(|failure| failure.to_string()),
        fault: failure.map(|failure| failure.fault.name()),
        advice: failure
            .and_then(|failure| sessions.advice(&failure))
            .map(str::to_owned),
    }
}

fn look_from_here<S: Sessions>(
    sessions: &S,
    identity: u64,
    together: u32,
    until_ns: u64,
) -> Result<Vec<Result<Answer, Failure>>, Failure> {
    let silent = sessions
        .shares()
        .iter()
        .map(|_| Err(Fault::ResponseTimeout.into()));
    let answers = Rc::new(RefCell::new(silent.collect::<Vec<_>>()));
    let shares = sessions.shares().len();
    let all = shares.max(together as usize);
    let clients = (0..).zip((0..shares).chain(iter::repeat(0)).take(all));
    let (open, refused) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(None)));
    // Result of the first client's log-on. The others wait for it, and do not try if the user was refused.
    let first = Rc::new(Cell::new(None));
    each_client(
        sessions,
        identity,
        clients,
        || false,
        |client, session, executor| {
            let (answers, open) = (answers.clone(), open.clone());
            let (refused, first, handle) = (refused.clone(), first.clone(), executor.clone());
            executor.spawn(async move {
                handle.set_deadline(until_ns);
                let mut files = Uncached::new(session);
                let connected = match client {
                    0 => {
                        let connected = files.connect().await;
                        first.set(Some(connected));
                        connected
                    }
                    _ => match first_of(&first, &handle).await {
                        Err(failure) if S::refuses_user(&failure) => Err(failure),
                        _ => files.connect().await,
                    },
                };
                if (client as usize) < shares {
                    let asked = match connected {
                        Ok(()) => ask(&mut files).await,
                        Err(failure) => Err(failure),
                    };
                    answers.borrow_mut()[client as usize] = asked;
                } else if let Err(failure) = connected {
                    refused.borrow_mut().get_or_insert(failure);
                }
                open.borrow_mut().push(files);
                if open.borrow().len() == all {
                    leave(&handle, open.take());
                }
            });
        },
    )?;
    let mut answers = answers.take();
    if let (Some(failure), Some(first @ Ok(_))) = (refused.take(), answers.first_mut()) {
        *first = Err(failure);
    }
    Ok(answers)
}

/// Waits until the first client has tried to log on, and returns the outcome.
async fn first_of(first: &Cell<Option<Result<(), Failure>>>, executor: &Executor) -> Result<(), Failure> {
    loop {
        if let Some(outcome) = first.get() {
            return outcome;
        }
        executor.sleep_until(monotonic_ns() + FIRST_WAIT_NS).await;
    }
}

/// Ends the sessions. Ignores failures, because the answers are already known.
fn leave<F: Files + 'static>(executor: &Executor, open: Vec<F>) {
    for mut files in open {
        let handle = executor.clone();
        executor.spawn(async move {
            handle.set_deadline(monotonic_ns().saturating_add(LEAVING_NS));
            let _ = files.finish().await;
        });
    }
}

async fn ask(client: &mut impl Files) -> Result<Answer, Failure> {
    let pattern = format!("{}*", Workspaces::DIRECTORY);
    let used = count(client, "", &pattern).await?;
    let space = client.ask(&Call::QuerySpace { directory: "" }).await;
    let free_bytes = match space {
        Ok(Reply::Space(space)) => believable(space.total_bytes, space.free_bytes),
        // The directory that the URL names below the share does not exist.
        Err(failure) if failure.fault == Fault::NotFound => return Err(failure),
        // Clients can work even if this query is refused.
        _ => None,
    };
    let mut recycle_bin = None;
    for name in RECYCLE_BINS {
        if matches!(count(client, "", name).await, Ok(1..)) {
            recycle_bin = count(client, name, "*").await.ok().map(|entries| (name, entries));
            break;
        }
    }
    Ok(Answer {
        free_bytes,
        is_used: used > 0,
        recycle_bin,
    })
}

async fn count(client: &mut impl Files, directory: &str, pattern: &str) -> Result<u32, Failure> {
    match client.ask(&Call::Find { directory, pattern }).await? {
        Reply::Found { entries } => Ok(entries),
        _ => Ok(0),
    }
}

/// Total and free space that Samba reports if its `dfree command` returns nothing (`source3/smbd/dfree.c`).
const SAMBA_KNOWS_NOTHING: (u64, u64) = (2 << 20, 1 << 20);
/// Upper bound of a plausible size (an exbibyte): larger values are negative or meaningless.
const MOST_BYTES: u64 = 1 << 60;

/// Returns the free space if it is plausible, or None. Some servers report a total of zero, or more free
/// space than total space.
fn believable(total_bytes: u64, free_bytes: u64) -> Option<u64> {
    let can_be = (1..MOST_BYTES).contains(&total_bytes) && free_bytes <= total_bytes;
    (can_be && (total_bytes, free_bytes) != SAMBA_KNOWS_NOTHING).then_some(free_bytes)
}

#[cfg(test)]
mod tests {
    use super::believable;

    #[test]
    fn room_is_believed_only_where_it_can_be_so() {
        assert_eq!(believable(100, 0), Some(0));
        assert_eq!(believable(100, 100), Some(100));
        assert_eq!(believable(0, 0), None);
        assert_eq!(believable(100, 101), None);
        assert_eq!(believable(0, u64::MAX), None);
        assert_eq!(believable(u64::MAX, 1 << 20), None);
        assert_eq!(believable(2 << 20, 1 << 20), None);
        assert_eq!(believable(2 << 20, 1), Some(1));
    }
}
