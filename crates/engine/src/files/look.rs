//! What a file server says before any load: whether each share lets its clients in, what room there is, and whether
//! something of an earlier load stands there. Nothing is written. Not for: consent, which opens the target.

use super::alone::{apart, each_client};
use super::program::Program;
use super::sessions::Sessions;
use crate::kind::Look;
use crate::Workspaces;
use dyno_files::{Call, Files, Reply, Uncached};
use dyno_measure::{monotonic_ns, Failure, Fault, NS_PER_S};
use std::cell::RefCell;
use std::rc::Rc;

/// For all shares together; they are asked at the same time.
const TIMEOUT_NS: u64 = 10 * NS_PER_S;

/// Asks about every share, as clients of that identity.
pub(crate) fn look<S: Sessions>(sessions: &S, identity: u64) -> Vec<Look> {
    apart(|| look_from_here(sessions, identity)).unwrap_or_else(|failure| all_failed(sessions, &failure))
}

fn failed<S: Sessions>(share: &str, failure: &Failure) -> Look {
    Look {
        share: share.to_owned(),
        free_bytes: None,
        is_used: false,
        why: Some(failure.to_string()),
        advice: S::advice(failure).map(str::to_owned),
    }
}

fn all_failed<S: Sessions>(sessions: &S, failure: &Failure) -> Vec<Look> {
    let shares = sessions.shares().iter();
    shares.map(|share| failed::<S>(share, failure)).collect()
}

fn look_from_here<S: Sessions>(sessions: &S, identity: u64) -> Result<Vec<Look>, Failure> {
    let looks = Rc::new(RefCell::new(all_failed(sessions, &Fault::ResponseTimeout.into())));
    let until_ns = monotonic_ns().saturating_add(TIMEOUT_NS);
    let shares = 0..sessions.shares().len();
    let clients = (0..).zip(shares);
    each_client(
        sessions,
        identity,
        clients,
        || false,
        |client, session, executor| {
            let number = client as usize;
            let (looks, handle) = (looks.clone(), executor.clone());
            let share = sessions.shares()[number].clone();
            executor.spawn(async move {
                handle.set_deadline(until_ns);
                let mut client = Uncached::new(session);
                let asked = ask(&mut client).await;
                // What was asked for is known; how the session ends is of no use to anybody.
                let _ = client.finish().await;
                looks.borrow_mut()[number] = match asked {
                    Ok((free_bytes, is_used)) => Look {
                        share,
                        free_bytes,
                        is_used,
                        why: None,
                        advice: None,
                    },
                    Err(failure) => failed::<S>(&share, &failure),
                };
            });
        },
    )?;
    Ok(looks.take())
}

async fn ask(client: &mut impl Files) -> Result<(Option<u64>, bool), Failure> {
    client.connect().await?;
    let (directory, pattern) = ("", &format!("{}*", Workspaces::DIRECTORY));
    let used = client.ask(&Call::Find { directory, pattern }).await?;
    let space = client.ask(&Call::QuerySpace { directory: "" }).await;
    let free_bytes = match space {
        Ok(Reply::Space(space)) => believable(space.total_bytes, space.free_bytes),
        // The directory that the URL names below the share.
        Err(failure) if failure.fault == Fault::NotFound => return Err(failure),
        // That this one question is refused keeps nobody from working there.
        _ => None,
    };
    let is_used = matches!(used, Reply::Found { entries } if entries > 0);
    Ok((free_bytes, is_used))
}

/// What Samba says, total and free, where its `dfree command` gives it nothing (`source3/smbd/dfree.c`).
const SAMBA_KNOWS_NOTHING: (u64, u64) = (2 << 20, 1 << 20);
/// More than any volume has, an exbibyte: a number without a sign or without a meaning.
const MOST_BYTES: u64 = 1 << 60;

/// Some servers that keep no count of room say that they have none at all, others that more is free than there is.
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
