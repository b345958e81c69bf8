//! Dialects, signing, encryption and log-ons: the negotiated properties match the options, and everything
//! works with them.

use crate::client::{fault, fresh_path, options, pattern, run, Client};
use crate::samba::Samba;
use dyno_files::{Call, FileClient, Reply, Stability};
use dyno_measure::Fault;
use dyno_net::Executor;
use dyno_smb::{Cipher, Dialect, Encryption, NegotiatedSession, Options, Signing, SigningAlgorithm};

fn only(dialect: Dialect) -> Options {
    Options {
        min_dialect: dialect,
        max_dialect: dialect,
        ..options()
    }
}

/// Starts a session, uses it in every way that affects framing, and returns the negotiated properties.
async fn exercise(executor: &Executor, samba: &Samba, options: Options, share: &str) -> NegotiatedSession {
    let printed = format!("{options:?}");
    let client = Client::try_connect_to(executor, samba, options, share).await;
    let mut client = client.unwrap_or_else(|failure| panic!("{failure}: {printed}"));
    let (path, renamed) = (fresh_path(), fresh_path());
    let data = pattern(200_000, 3);
    let handle = client.create(&path).await;
    let chunk = client.session.max_write_bytes().min(65_536) as usize;
    let mut begun = Vec::new();
    for (index, part) in data.chunks(chunk).enumerate() {
        let offset = (index * chunk) as u64;
        begun.push((
            client
                .begin(&Call::Write {
                    handle,
                    offset,
                    data: part,
                    stability: Stability::Unstable,
                })
                .await,
            part.len(),
        ));
    }
    for (id, length) in begun {
        let bytes = u32::try_from(length).expect("small");
        assert_eq!(client.end(id).await, Ok(Reply::Written { bytes }), "{printed}");
    }
    for (index, part) in data.chunks(chunk).enumerate() {
        let (offset, bytes) = ((index * chunk) as u64, chunk as u32);
        let read = client
            .call(&Call::Read {
                handle,
                offset,
                bytes,
            })
            .await;
        assert_eq!(
            read,
            Ok(Reply::Read {
                bytes: part.len() as u32
            }),
            "{printed}"
        );
        assert!(client.data == part, "{printed}");
    }
    client.close(handle).await;
    let rename = Call::Rename {
        from: &path,
        to: &renamed,
    };
    assert_eq!(client.call(&rename).await, Ok(Reply::Done), "{printed}");
    let find = Call::Find {
        directory: "",
        pattern: &renamed,
    };
    assert_eq!(
        client.call(&find).await,
        Ok(Reply::Found { entries: 1 }),
        "{printed}"
    );
    assert_eq!(
        client.call(&Call::Delete { path: &renamed }).await,
        Ok(Reply::Done),
        "{printed}"
    );
    let agreed = *client.session.agreed().expect("a session");
    client.session.disconnect().await;
    agreed
}

#[test]
fn every_dialect_works_signed_and_unsigned() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        for dialect in Dialect::ALL {
            for signing in [Signing::Off, Signing::WhenRequired, Signing::Required] {
                let asked = Options {
                    signing,
                    ..only(dialect)
                };
                let agreed = exercise(&executor, &samba, asked, "share").await;
                let expected = match dialect {
                    Dialect::Smb202 | Dialect::Smb210 => SigningAlgorithm::HmacSha256,
                    Dialect::Smb300 | Dialect::Smb302 => SigningAlgorithm::Aes128Cmac,
                    Dialect::Smb311 => SigningAlgorithm::Aes128Gmac,
                };
                let signs = signing == Signing::Required;
                assert_eq!(agreed.dialect, dialect);
                assert_eq!(agreed.signing, signs.then_some(expected), "{dialect:?}");
                assert_eq!((agreed.cipher, agreed.guest), (None, false));
                assert_eq!(agreed.leases, dialect > Dialect::Smb202);
            }
        }
    });
}

#[test]
fn every_signing_algorithm_of_3_1_1_works() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        for algorithm in SigningAlgorithm::ALL {
            let asked = Options {
                signing: Signing::Required,
                signing_algorithms: vec![algorithm],
                ..only(Dialect::Smb311)
            };
            let agreed = exercise(&executor, &samba, asked, "share").await;
            assert_eq!(agreed.signing, Some(algorithm));
        }
    });
}

#[test]
fn every_cipher_works_even_if_the_share_requires_encryption() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        for (dialect, cipher) in [
            (Dialect::Smb300, Cipher::Aes128Ccm),
            (Dialect::Smb302, Cipher::Aes128Ccm),
            (Dialect::Smb311, Cipher::Aes128Ccm),
            (Dialect::Smb311, Cipher::Aes128Gcm),
            (Dialect::Smb311, Cipher::Aes256Ccm),
            (Dialect::Smb311, Cipher::Aes256Gcm),
        ] {
            for share in ["share", "secret"] {
                let asked = Options {
                    encryption: Encryption::Required,
                    ciphers: vec![cipher],
                    ..only(dialect)
                };
                let agreed = exercise(&executor, &samba, asked, share).await;
                assert_eq!(
                    (agreed.cipher, agreed.signing),
                    (Some(cipher), None),
                    "{dialect:?}"
                );
            }
        }
    });
}

#[test]
fn encryption_required_by_a_server_or_share_is_enabled_automatically() {
    let Some(samba) = Samba::shared() else { return };
    let Some(strict) = Samba::start("encrypting", "  server smb encrypt = required") else {
        return;
    };
    run(|executor| async move {
        for dialect in [Dialect::Smb300, Dialect::Smb302, Dialect::Smb311] {
            for (server, share, encrypts) in [
                (&*samba, "share", false),
                (&*samba, "secret", true),
                (&strict, "share", true),
            ] {
                let agreed = exercise(&executor, server, only(dialect), share).await;
                assert_eq!(agreed.cipher.is_some(), encrypts, "{dialect:?} {share}");
                assert_eq!(agreed.signing, None);
            }
        }
    });
}

#[test]
fn a_guest_works_unsigned_on_request() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        for dialect in Dialect::ALL {
            let asked = Options {
                guest: true,
                ..only(dialect)
            };
            let agreed = exercise(&executor, &samba, asked, "share").await;
            assert!(agreed.guest && agreed.signing.is_none(), "{dialect:?}");
        }
    });
}

#[test]
fn a_server_that_requires_signatures_gets_them_or_is_refused() {
    let Some(samba) = Samba::start("mandatory", "  server signing = mandatory") else {
        return;
    };
    run(|executor| async move {
        for dialect in Dialect::ALL {
            let agreed = exercise(&executor, &samba, only(dialect), "share").await;
            assert!(agreed.signing.is_some(), "{dialect:?}");
            let unsigned = Options {
                signing: Signing::Off,
                ..only(dialect)
            };
            let refused = Client::try_connect(&executor, &samba, unsigned).await;
            assert_eq!(fault(refused.map(|_| ())), Some(Fault::SessionRefused));
        }
    });
}
