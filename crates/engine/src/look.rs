//! What a file server says before any load: whether each share lets its clients in, what room there is, and whether
//! something of an earlier load stands there. Nothing is written. Not for: consent (`dyno_smb::SmbTarget`).

use crate::files::{as_new_clients, DIRECTORY};
use dyno_files::{Call, Files, Reply, Uncached};
use dyno_measure::{monotonic_ns, Failure, Fault, NS_PER_S};
use dyno_reactor::{Dialer, Executor};
use dyno_smb::{Session, SmbTarget};
use std::cell::RefCell;
use std::rc::Rc;

/// For all shares together; they are asked at the same time.
const TIMEOUT_NS: u64 = 10 * NS_PER_S;
/// Of the sessions that ask, counted down from the last client but one, who asks for consent.
const FIRST_ASKING_CLIENT: u32 = u32::MAX - 1;

/// One share as it is before its load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareLook {
    /// Its name.
    pub share: String,
    /// Room for us, where the server says so in a way that can be believed.
    pub free_bytes: Option<u64>,
    /// There are directories of the clients of earlier loads, or of some that go on.
    pub is_used: bool,
    /// Why it can't be used.
    pub failure: Option<Failure>,
}

/// Asks about every share of `target`.
#[must_use]
pub fn look(target: &SmbTarget) -> Vec<ShareLook> {
    // On a thread of its own: who has entered a namespace doesn't come back.
    let here = target.clone();
    let looking = std::thread::spawn(move || look_from_here(&here));
    looking.join().unwrap_or_else(|_| {
        let shares = target.shares().iter();
        shares.map(|share| failed(share, Fault::OtherIo)).collect()
    })
}

fn failed(share: &str, fault: Fault) -> ShareLook {
    ShareLook {
        share: share.to_owned(),
        free_bytes: None,
        is_used: false,
        failure: Some(fault.into()),
    }
}

fn look_from_here(target: &SmbTarget) -> Vec<ShareLook> {
    let unanswered = target
        .shares()
        .iter()
        .map(|share| failed(share, Fault::ResponseTimeout));
    let looks = Rc::new(RefCell::new(unanswered.collect::<Vec<_>>()));
    let prepared = target.enter().and_then(|()| Executor::new());
    let Ok(executor) = prepared else {
        let shares = target.shares().iter();
        return shares.map(|share| failed(share, Fault::OtherIo)).collect();
    };
    let dialer = Rc::new(Dialer::new(executor.clone(), target.address(), 0));
    let until_ns = monotonic_ns().saturating_add(TIMEOUT_NS);
    for (place, share) in target.shares().iter().enumerate() {
        let session = Session::new(
            executor.clone(),
            dialer.clone(),
            Rc::new(as_new_clients(target.options())),
            FIRST_ASKING_CLIENT - u32::try_from(place).unwrap_or(0),
            share,
        );
        let (looks, handle) = (looks.clone(), executor.clone());
        executor.spawn(async move {
            handle.set_deadline(until_ns);
            let mut client = Uncached::new(session);
            let asked = ask(&mut client).await;
            // What was asked for is known; how the session ends is of no use to anybody.
            let _ = client.finish().await;
            let look = &mut looks.borrow_mut()[place];
            look.failure = asked.err();
            if let Ok((free_bytes, is_used)) = asked {
                (look.free_bytes, look.is_used) = (free_bytes, is_used);
            }
        });
    }
    // Where waiting for events fails, what has come until then is told; the rest is unanswered.
    let _ = executor.run(|| false);
    looks.take()
}

async fn ask(client: &mut impl Files) -> Result<(Option<u64>, bool), Failure> {
    client.connect().await?;
    let mut ignored = |_: &[u8]| {};
    let (directory, pattern) = ("", &format!("{DIRECTORY}*"));
    let used = client
        .call(&Call::Find { directory, pattern }, &mut ignored)
        .await?;
    let space = client
        .call(&Call::QuerySpace { directory: "" }, &mut ignored)
        .await;
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
