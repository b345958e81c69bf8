//! Delegations without a socket: results of opens, effects of the server's calls, and invalid calls.

use super::rig::*;
use dyno_files::{Access, Ask, Break, Caching, Call, Disposition, Grant, Handle, LeaseKey, Open, Reply};
use dyno_measure::Fault;
use dyno_nfs::wire::{Message, Program, Reader, Writer, Xdr};

const KEY: LeaseKey = LeaseKey(5);
const CALLBACKS: Program = Program(0x4000_0000, 1);
const DELEGRETURN: u32 = 8;
const CLOSE: u32 = 4;
const BAD_STATEID: u32 = 10_025;
const DELEGATED: [u8; 12] = [8; 12];

fn open_to_keep() -> Call<'static> {
    Call::Open(Open {
        path: "file",
        access: Access::Read,
        disposition: Disposition::Open,
        directory: false,
        delete_on_close: false,
        ask: Ask::Lease(KEY, Caching::READ_HANDLE),
    })
}

fn lost(acknowledge: bool) -> Option<Break> {
    Some(Break {
        grant: Grant::Lease(KEY),
        to: Caching::NONE,
        acknowledge,
    })
}

/// Returns a recall of a state ID of the file, as a record.
fn recall(number: u32, other: [u8; 12]) -> Vec<u8> {
    let mut message = Message::default();
    let mut writer = message.begin(99, CALLBACKS, 1, None);
    writer.u32(0).u32(1).u32(0).u32(2);
    writer
        .u32(11)
        .bytes(&SESSION)
        .u32(number)
        .u32(0)
        .u32(0)
        .u32(0)
        .u32(0);
    writer.u32(4).u32(1).bytes(&other).u32(0);
    handle(1).write(&mut writer);
    message.end();
    message.bytes()[4..].to_vec()
}

/// Returns the status of the reply to the server's call.
fn called(rig: &mut Rig, record: &[u8]) -> u32 {
    rig.take(record);
    assert!(rig.receive().expect("a call").is_none());
    let mut answers = Vec::new();
    rig.conversation.take_answers(&mut answers);
    Reader::new(&answers[4 + 24..]).u32().expect("a status")
}

fn held(rig: &mut Rig) -> Handle {
    rig.begin(&open_to_keep());
    let asked = rig.only();
    assert_eq!(
        Reader::new(&asked.arguments[4..]).u32(),
        Ok(0x101),
        "to read, with a delegation"
    );
    let ended = rig.answer(&asked, 0, &opened(1)).expect("well formed");
    match ended.expect("it is open").result {
        Ok(Reply::Opened { handle, granted, .. }) => {
            assert_eq!(granted, Caching::READ_HANDLE);
            handle
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_recall_becomes_one_break_and_its_acknowledgement_a_return() {
    let mut rig = Rig::holding();
    held(&mut rig);
    assert!(rig.conversation.holds_any());
    assert_eq!(called(&mut rig, &recall(1, DELEGATED)), 0);
    assert_eq!(called(&mut rig, &recall(2, DELEGATED)), 0, "twice does no harm");
    assert_eq!(rig.conversation.next_break(), lost(true));
    assert_eq!(rig.conversation.next_break(), None);
    rig.conversation.give_back(Grant::Lease(KEY));
    assert_eq!(rig.only().operation, DELEGRETURN);
    assert!(!rig.conversation.holds_any());
    assert_eq!(called(&mut rig, &recall(3, DELEGATED)), BAD_STATEID);
    assert_eq!(rig.conversation.counts().refused_calls, 1);
}

#[test]
fn a_delegation_is_returned_with_the_last_handle() {
    let mut rig = Rig::holding();
    let handle = held(&mut rig);
    rig.begin(&Call::Close { handle });
    let close = rig.only();
    assert_eq!(close.operation, CLOSE);
    assert!(rig
        .answer(&close, 0, &right(&close))
        .expect("well formed")
        .is_none());
    let back = rig.only();
    assert_eq!(back.operation, DELEGRETURN);
    let ended = rig.answer(&back, BAD_STATEID, &[]).expect("well formed");
    assert_eq!(ended.expect("it is closed").result, Ok(Reply::Done));
    assert_eq!(rig.conversation.next_break(), None);
}

#[test]
fn a_recall_during_an_open_must_be_repeated() {
    let mut rig = Rig::holding();
    assert_eq!(called(&mut rig, &recall(1, DELEGATED)), BAD_STATEID);
    rig.begin(&open_to_keep());
    rig.only();
    assert_eq!(called(&mut rig, &recall(2, DELEGATED)), DELAY);
}

#[test]
fn another_session_has_no_delegations_and_drops_waiting_replies() {
    let mut rig = Rig::holding();
    held(&mut rig);
    rig.conversation.go_on_in(state(ANOTHER, 4));
    assert_eq!(rig.conversation.next_break(), lost(false));
    assert!(!rig.conversation.holds_any());
    rig.conversation.give_back(Grant::Lease(KEY));
    assert!(rig.sent().is_empty(), "there is nothing to give back");
}

#[test]
fn an_unrequested_delegation_is_a_violation() {
    for delegation in [1, 2] {
        let mut rig = Rig::holding();
        let ask = if delegation == 1 {
            open("file", Disposition::Open)
        } else {
            open_to_keep()
        };
        rig.begin(&ask);
        let asked = rig.only();
        let refused = rig
            .answer(&asked, 0, &opened(delegation))
            .expect_err("not asked for");
        assert_eq!(refused, Fault::MalformedMessage);
    }
    let mut rig = Rig::new(4);
    let mut uncalled = Vec::new();
    Writer(&mut uncalled).u32(7).u32(0).u32(2).u32(1);
    rig.take(&uncalled);
    assert_eq!(
        rig.receive().map(|_| ()),
        Err(Fault::MalformedMessage),
        "it is no call"
    );
}
