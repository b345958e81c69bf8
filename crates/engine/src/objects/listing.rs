//! Lists objects, to compare them page by page with a ledger or to remove everything below a prefix.

use super::names::Names;
use dyno_http::Transport;
use dyno_measure::{monotonic_ns, Detail, Failure, Fault};
use dyno_s3::{Call, Client, MOST_KEYS_PER_DELETE, MOST_KEYS_PER_PAGE};
use dyno_workload::{ObjectFault, ObjectLedger};

/// Returns the failure for a difference from the ledger.
pub(crate) fn fault_of(found: ObjectFault) -> Failure {
    match found {
        ObjectFault::Stale => Fault::StaleObject.into(),
        ObjectFault::Length { expected, got } => Failure {
            fault: Fault::WrongLength,
            detail: Detail::Length { expected, got },
        },
        ObjectFault::Tag => Fault::WrongEtag.into(),
        ObjectFault::Missing => Fault::ListMissing.into(),
        ObjectFault::Unexpected => Fault::ListUnexpected.into(),
        ObjectFault::Listed => Fault::ListWrong.into(),
    }
}

/// Lists the prefix with number `part` completely and compares it with the ledger.
pub(crate) async fn compare<T: Transport>(
    client: &mut Client<T>,
    names: &Names,
    part: u32,
    ledger: &mut ObjectLedger,
    key: &mut String,
    call: &mut Call,
) -> Result<(), Failure> {
    names.write_part(part, key);
    let (first, end) = names.objects_of(part);
    let mut check = ledger.begin_list(first, end);
    let mut from: Option<String> = None;
    loop {
        let page = client
            .list(key, from.as_deref(), MOST_KEYS_PER_PAGE, call)
            .await?;
        for entry in &page.entries {
            let object = names.object(&entry.key).ok_or(Fault::ListUnexpected)?;
            let tag = entry.tag.map(|tag| tag.0);
            check.entry(ledger, object, entry.bytes, tag).map_err(fault_of)?;
        }
        match page.next {
            Some(next) => from = Some(next),
            None => return check.end(ledger).map_err(fault_of),
        }
    }
}

/// Deletes all objects below `prefix`, and aborts all multipart uploads there if `uploads` is set. Never
/// touches another key, whatever the server lists. Adds its requests to `sum`.
pub(crate) async fn remove_all<T: Transport>(
    client: &mut Client<T>,
    prefix: &str,
    uploads: bool,
    until_ns: u64,
    sum: &mut Call,
) -> Result<(), Failure> {
    let (mut from, mut is_clean): (Option<String>, _) = (None, true);
    loop {
        let call = &mut Call::new(monotonic_ns());
        let listed = client
            .list(prefix, from.as_deref(), MOST_KEYS_PER_PAGE, call)
            .await;
        sum.merge(call);
        let page = listed?;
        let keys: Vec<&str> = page.entries.iter().map(|entry| entry.key.as_str()).collect();
        if !keys.iter().all(|key| key.starts_with(prefix)) {
            return Err(Fault::MalformedMessage.into());
        }
        delete_all(client, &keys, sum).await?;
        is_clean &= keys.is_empty();
        from = page.next;
        if from.is_none() {
            // Keys may follow after a page that claims to be the last.
            if is_clean {
                break;
            }
            is_clean = true;
        }
        in_time(until_ns)?;
    }
    if uploads {
        end_uploads(client, prefix, until_ns, sum).await?;
    }
    Ok(())
}

/// Deletes these objects: many per request, or one by one if the server does not support that. Adds its
/// requests to `sum`.
pub(crate) async fn delete_all<T: Transport>(
    client: &mut Client<T>,
    keys: &[impl AsRef<str>],
    sum: &mut Call,
) -> Result<(), Failure> {
    let mut one_by_one = false;
    for some in keys.chunks(MOST_KEYS_PER_DELETE) {
        if !one_by_one {
            let call = &mut Call::new(monotonic_ns());
            let deleted = client.delete_many(some, call).await;
            sum.merge(call);
            one_by_one = deleted.is_err() && client.lacks_request();
            if !one_by_one {
                deleted?;
                continue;
            }
        }
        for key in some {
            let call = &mut Call::new(monotonic_ns());
            let deleted = client.delete(key.as_ref(), call).await;
            sum.merge(call);
            deleted?;
        }
    }
    Ok(())
}

async fn end_uploads<T: Transport>(
    client: &mut Client<T>,
    prefix: &str,
    until_ns: u64,
    sum: &mut Call,
) -> Result<(), Failure> {
    let (mut from, mut is_clean) = (None, true);
    loop {
        let call = &mut Call::new(monotonic_ns());
        let listed = client.list_uploads(prefix, from.as_ref(), call).await;
        sum.merge(call);
        let page = listed?;
        if !page.uploads.iter().all(|(key, _)| key.starts_with(prefix)) {
            return Err(Fault::MalformedMessage.into());
        }
        for (key, upload) in &page.uploads {
            let call = &mut Call::new(monotonic_ns());
            let ended = client.abort_upload(key, upload, call).await;
            sum.merge(call);
            ended?;
        }
        is_clean &= page.uploads.is_empty();
        from = page.next;
        if from.is_none() {
            if is_clean {
                return Ok(());
            }
            is_clean = true;
        }
        in_time(until_ns)?;
    }
}

fn in_time(until_ns: u64) -> Result<(), Failure> {
    if monotonic_ns() >= until_ns {
        return Err(Fault::ResponseTimeout.into());
    }
    Ok(())
}
