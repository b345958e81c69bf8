//! Reads the beginning of one file to verify consent, outside of load.

use crate::call::{Access, Ask, Call, Disposition, Open, Reply};
use crate::client::{FileClient, Files};
use crate::uncached::Uncached;
use dyno_measure::Failure;

/// Reads the first bytes of a file and ends the session. None: the file does not exist.
pub async fn read_beginning<C: FileClient>(
    client: C,
    path: &str,
    most_bytes: u32,
) -> Result<Option<Vec<u8>>, Failure> {
    let mut client = Uncached::new(client);
    let read = read_first(&mut client, path, most_bytes).await;
    // The answer is known, so a failure to end the session does not matter.
    let _ = client.finish().await;
    read
}

async fn read_first(client: &mut impl Files, path: &str, bytes: u32) -> Result<Option<Vec<u8>>, Failure> {
    client.connect().await?;
    let open = Call::Open(Open {
        path,
        access: Access::Read,
        disposition: Disposition::Open,
        directory: false,
        delete_on_close: false,
        ask: Ask::Nothing,
    });
    let Reply::Opened { handle, .. } = client.call(&open, &mut |_: &[u8]| {}).await? else {
        return Ok(None);
    };
    let mut data = Vec::new();
    let read = Call::Read {
        handle,
        offset: 0,
        bytes,
    };
    client
        .call(&read, &mut |piece: &[u8]| data.extend_from_slice(piece))
        .await?;
    Ok(Some(data))
}
