//! Refused sessions: each failure states the reason, whose fault it is, and a remedy.

use crate::client::{options, run, Client};
use crate::network::Namespace;
use crate::samba::Samba;
use dyno_measure::{Failure, Fault};
use dyno_net::Executor;
use dyno_smb::{advice, Dialect, Encryption, Options, Refusal, Signing, SmbTarget, TargetError};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

const ACCESS_DENIED: u32 = 0xC000_0022;
/// Address from a network reserved for examples (RFC 5737).
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 78);
const PORT: u16 = 4450;
/// Port of a server that only speaks SMB 1.
const OLD_PORT: u16 = 4452;
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn with(change: impl FnOnce(&mut Options)) -> Options {
    let mut asked = options();
    change(&mut asked);
    asked
}

async fn refusal(executor: &Executor, address: SocketAddr, asked: Options, share: &str) -> Failure {
    let mut client = Client::new(executor, address, asked, share);
    executor.set_deadline(dyno_measure::monotonic_ns() + 20_000_000_000);
    let connected = dyno_files::FileClient::connect(&mut client.session).await;
    connected.expect_err("it is refused")
}

/// Checks that a session is refused as `expected`, with a message and advice that contain all of `texts`.
async fn check(
    executor: &Executor,
    samba: &Samba,
    (asked, share): (Options, &str),
    expected: (Refusal, u32),
    texts: &[&str],
) {
    let failure = refusal(executor, samba.address, asked.clone(), share).await;
    let said = format!("{failure}. {}", advice(&failure, &asked).unwrap_or_default());
    assert_eq!(failure.fault, Fault::SessionRefused, "{said}");
    assert_eq!(failure.detail, expected.0.detail(expected.1), "{said}");
    for text in texts {
        assert!(said.contains(text), "{said:?} says {text:?}");
    }
}

#[test]
fn a_requested_feature_that_the_server_lacks_is_reported() {
    let denied = "[denied]\n  path = /\n  valid users = root\n";
    let Some(samba) = Samba::start("refusing", denied) else {
        return;
    };
    let cases = [
        (
            (with(|asked| asked.password = "wrong".to_owned()), "share"),
            (Refusal::LogOn, 0xC000_006D),
            ["STATUS_LOGON_FAILURE", "password is wrong"],
        ),
        (
            (options(), "nowhere"),
            (Refusal::Share, 0xC000_00CC),
            ["STATUS_BAD_NETWORK_NAME", "no share of this name"],
        ),
        (
            (options(), "denied"),
            (Refusal::Share, ACCESS_DENIED),
            ["STATUS_ACCESS_DENIED", "denies this user"],
        ),
        (
            (with(|asked| asked.encryption = Encryption::Off), "secret"),
            (Refusal::Share, ACCESS_DENIED),
            ["STATUS_ACCESS_DENIED", "encryption = \"auto\""],
        ),
        (
            (options(), "IPC$"),
            (Refusal::NoFiles, 0),
            ["printer or pipes", "Name a share with files"],
        ),
        (
            (
                with(|asked| (asked.guest, asked.signing) = (true, Signing::Required)),
                "share",
            ),
            (Refusal::GuestUnprotected, 0),
            ["guest", "Name a user (--user)"],
        ),
        (
            (with(|asked| asked.user = "somebody else".to_owned()), "share"),
            (Refusal::Guest, 0),
            ["no such user", "spelling of --user"],
        ),
        (
            (
                with(|asked| {
                    (asked.max_dialect, asked.encryption) = (Dialect::Smb210, Encryption::Required);
                }),
                "share",
            ),
            (Refusal::NoEncryption, 0),
            ["encryption was requested", "raise max_dialect"],
        ),
    ];
    run(|executor| async move {
        for (session, expected, texts) in cases {
            check(&executor, &samba, session, expected, &texts).await;
        }
    });
}

#[test]
fn an_account_that_may_not_log_on_is_reported_with_a_remedy() {
    let Some(samba) = Samba::start("accounts", "") else {
        return;
    };
    run(|executor| async move {
        for (letters, status, texts) in [
            ("D", 0xC000_0072, ["STATUS_ACCOUNT_DISABLED", "have it enabled"]),
            (
                "L",
                0xC000_0234,
                ["STATUS_ACCOUNT_LOCKED_OUT", "have it unlocked"],
            ),
        ] {
            samba.flag_account(letters);
            let expected = (Refusal::LogOn, status);
            check(&executor, &samba, (options(), "share"), expected, &texts).await;
        }
        samba.flag_account("");
        Client::connect(&executor, &samba).await;
    });
}

#[test]
fn a_server_that_requires_more_than_the_plan_allows_is_reported() {
    let cases = [
        (
            "signed",
            "  server signing = mandatory",
            with(|asked| asked.signing = Signing::Off),
            (Refusal::SigningWanted, 0),
            ["requires signatures", "signing = \"auto\""],
        ),
        (
            "encrypted",
            "  server smb encrypt = required",
            with(|asked| asked.encryption = Encryption::Off),
            (Refusal::LogOn, ACCESS_DENIED),
            ["STATUS_ACCESS_DENIED", "encryption = \"auto\""],
        ),
        (
            "newest",
            "  server min protocol = SMB3_11",
            with(|asked| asked.max_dialect = Dialect::Smb302),
            (Refusal::Dialect, 0xC000_00BB),
            ["none of the versions", "max_dialect"],
        ),
    ];
    for (name, settings, asked, expected, texts) in cases {
        let Some(samba) = Samba::start(name, settings) else {
            return;
        };
        run(move |executor| async move {
            check(&executor, &samba, (asked, "share"), expected, &texts).await;
        });
    }
}

#[test]
fn another_kind_of_server_is_distinguished_from_a_closed_port() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let thread = std::thread::spawn(move || {
        for answer in ["HTTP/1.1 400 Bad Request\r\n\r\n", ""] {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    run(move |executor| async move {
        for (fault, why, hint) in [
            (Fault::MalformedMessage, Refusal::NotSmb, "another kind of server"),
            (Fault::ClosedEarly, Refusal::HungUp, "max smbd processes"),
        ] {
            let failure = refusal(&executor, address, options(), "share").await;
            assert_eq!(failure.detail, why.detail(0), "{failure}");
            assert_eq!(failure.fault, fault);
            assert!(advice(&failure, &options()).is_some_and(|text| text.contains(hint)));
        }
        thread.join().expect("it answered");
        let failure = refusal(&executor, address, options(), "share").await;
        assert_eq!(failure.fault, Fault::ConnectionRefused);
        assert!(advice(&failure, &options()).is_some_and(|text| text.contains("nothing listens there")));
    });
}

#[test]
fn a_failed_request_for_consent_reports_its_reason() {
    let Some(namespace) = Namespace::make(ELSEWHERE) else {
        return;
    };
    let address = SocketAddr::from((ELSEWHERE, PORT));
    let Some(_samba) = Samba::start_at("questioned", "", address, Some(&namespace)) else {
        return;
    };
    let settings = "  server min protocol = NT1\n  server max protocol = NT1";
    let old = SocketAddr::from((ELSEWHERE, OLD_PORT));
    let Some(_old) = Samba::start_at("old", settings, old, Some(&namespace)) else {
        return;
    };
    let wrong = || with(|asked| asked.password = "wrong".to_owned());
    let cases = [
        (
            "share",
            PORT,
            wrong(),
            "STATUS_LOGON_FAILURE",
            "password is wrong",
        ),
        (
            "nowhere",
            PORT,
            options(),
            "STATUS_BAD_NETWORK_NAME",
            "compare shares",
        ),
        ("share", 4451, options(), "nothing accepted", "Start the server"),
        (
            "share",
            OLD_PORT,
            options(),
            "only speaks SMB 1",
            "server max protocol",
        ),
    ];
    for (share, port, asked, words, hint) in cases {
        let url = format!("smb://{ELSEWHERE}:{port}/{share}");
        let opened = SmbTarget::open(&url, vec![], asked, Some(&namespace.file()), Some(TOKEN));
        match opened {
            Err(TargetError::Session { why, advice }) => {
                assert!(why.contains(words) && why.contains(share), "{why}");
                assert!(advice.is_some_and(|advice| advice.contains(hint)), "{advice:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}
