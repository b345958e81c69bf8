//! Calls that are repeated because their reply was lost.

use super::raw::{server, Raw, OK};
use dyno_nfs::status::Status;
use dyno_nfs::wire::{How, Request, SetAttributes};

#[test]
fn a_repeated_call_gets_the_same_reply_also_on_another_connection() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let at = raw.root();
    let set = SetAttributes::default();
    raw.create(at, "there");
    raw.make_directory(at, "directory");
    for request in [
        Request::Create {
            at,
            name: b"new",
            how: How::Guarded(set),
        },
        Request::MakeDirectory {
            at,
            name: b"newer",
            set,
        },
        Request::Rename {
            from_at: at,
            from: b"new",
            to_at: at,
            to: b"old",
        },
        Request::Remove { at, name: b"old" },
        Request::RemoveDirectory {
            at,
            name: b"directory",
        },
    ] {
        let given = server.replies_given_again();
        let first = raw.ask(&request);
        assert_eq!(first.status, OK, "{request:?}");
        let mut other = Raw::connect(server.address());
        other.xid = raw.xid;
        for connection in [&mut raw, &mut other] {
            let again = connection.ask_again(&request);
            assert_eq!((again.status, &again.results), (OK, &first.results));
        }
        assert_eq!(server.replies_given_again(), given + 2);
        assert_ne!(raw.ask(&request).status, OK, "another call");
    }
}

#[test]
fn a_refusal_is_repeated_but_another_callers_call_is_a_new_one() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    let at = raw.root();
    let request = Request::Remove { at, name: b"x" };
    assert_eq!(raw.ask(&request).status, Status::NoEnt as u32);
    let refused = raw.xid;
    raw.create(at, "x");
    raw.xid = refused;
    assert_eq!(raw.ask_again(&request).status, Status::NoEnt as u32, "as before");
    raw.credential.uid = 1;
    assert_eq!(raw.ask_again(&request).status, OK);
    let read = Request::GetAttributes { file: at };
    raw.ask(&read);
    raw.ask_again(&read);
    assert_eq!(
        server.replies_given_again(),
        1,
        "what can be repeated is not kept"
    );
}
