//! An idle session uses little memory, and still works afterwards.

use crate::client::{fresh_path, options, pattern, run, Client};
use crate::samba::Samba;
use dyno_files::{Call, FileClient, Handle, Reply};
use dyno_measure::monotonic_ns;
use dyno_smb::{Encryption, Options, Signing};

const BYTES: u32 = 1 << 20;
/// Longer than the idle time of a session.
const REST_NS: u64 = 110_000_000;
const LOOK_NS: u64 = 2_000_000;

async fn read(client: &mut Client, handle: Handle, expected: &[u8]) {
    let call = Call::Read {
        handle,
        offset: 0,
        bytes: BYTES,
    };
    assert_eq!(client.call(&call).await, Ok(Reply::Read { bytes: BYTES }));
    assert!(client.data == expected);
}

async fn idle(client: &mut Client, length_ns: u64) {
    let broken = client.session.break_until(monotonic_ns() + length_ns).await;
    assert!(matches!(broken, Ok(None)));
}

#[test]
fn an_idle_session_releases_the_memory_of_a_large_message() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let signed = Options {
            signing: Signing::Required,
            ..options()
        };
        let encrypted = Options {
            encryption: Encryption::Required,
            ..options()
        };
        for asked in [options(), signed, encrypted] {
            let client = Client::try_connect(&executor, &samba, asked).await;
            let mut client = client.expect("a session");
            let (path, data) = (fresh_path(), pattern(BYTES as usize, 5));
            client.write_file(&path, &data).await;
            let handle = client.create(&path).await;
            for idles_at_once in [true, false] {
                read(&mut client, handle, &data).await;
                assert!(client.session.held_bytes() > BYTES as usize);
                // A short pause between two calls does not count as idle.
                idle(&mut client, LOOK_NS).await;
                assert!(client.session.held_bytes() > BYTES as usize);
                if idles_at_once {
                    idle(&mut client, REST_NS).await;
                } else {
                    for _ in 0..REST_NS / LOOK_NS {
                        idle(&mut client, LOOK_NS).await;
                    }
                }
                assert_eq!(client.session.held_bytes(), 0);
            }
            read(&mut client, handle, &data).await;
            client.close(handle).await;
        }
    });
}
