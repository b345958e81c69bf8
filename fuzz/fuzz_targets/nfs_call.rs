//! Client input of the reference NFS server: fragments, calls and the arguments of all procedures.
//!
//! File handles are secrets of the server, so eight zero bytes in an input stand for the export's root.
#![no_main]

use dyno_nfs::wire::{mount, parse_mount, Body, Credential, FileHandle, Message, Records, RECORD_MARK_BYTES};
use dyno_testserver::nfs::{After, Dialogue, Options};
use libfuzzer_sys::fuzz_target;

const EXPORT: &str = "/e";
const PLACE_OF_ROOT: &[u8] = &[0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0];
const HANDLE_BYTES: usize = 24;

fn root(dialogue: &mut Dialogue) -> Option<FileHandle> {
    let credential = Credential {
        machine: String::new(),
        uid: 0,
        gid: 0,
    };
    let (mut message, mut out) = (Message::default(), Vec::new());
    mount(&mut message, 1, EXPORT, &credential);
    dialogue
        .answer(&message.bytes()[RECORD_MARK_BYTES..], &mut out)
        .ok()?;
    let record = &out[RECORD_MARK_BYTES..];
    match Body::parse(record) {
        Ok((_, Body::Accepted(at))) => Some(parse_mount(&record[at..]).ok()?.ok()?.root),
        _ => None,
    }
}

fuzz_target!(|data: &[u8]| {
    let options = Options {
        capacity_bytes: 1 << 18,
        files: vec![("a".to_owned(), vec![7; 5000])],
        ..Options::on_loopback(EXPORT)
    };
    let mut dialogue = Dialogue::alone(&options).expect("nothing contradicts itself");
    let root = root(&mut dialogue).expect("it is exported");
    let mut records = Records::new(1 << 16);
    for piece in data.chunks(64) {
        let room = records.room();
        let count = room.len().min(piece.len());
        room[..count].copy_from_slice(&piece[..count]);
        records.filled(count);
        loop {
            let mut record = match records.next_record() {
                Ok(Some(range)) => records.bytes()[range].to_vec(),
                Ok(None) => break,
                Err(_) => return,
            };
            while let Some(at) = record
                .windows(PLACE_OF_ROOT.len())
                .position(|window| window == PLACE_OF_ROOT)
                .filter(|at| at + 4 + HANDLE_BYTES <= record.len())
            {
                record[at + 4..at + 4 + HANDLE_BYTES].copy_from_slice(root.as_bytes());
            }
            let mut out = Vec::new();
            let Ok(after) = dialogue.answer(&record, &mut out) else {
                return;
            };
            assert_eq!(after, After::GoOn, "without a fault");
            let mark = u32::from_be_bytes(out[..RECORD_MARK_BYTES].try_into().expect("a mark"));
            assert_eq!(
                mark as usize,
                (1 << 31) + out.len() - RECORD_MARK_BYTES,
                "one whole record"
            );
            let (xid, _) = Body::parse(&out[RECORD_MARK_BYTES..]).expect("a reply");
            assert_eq!(xid.to_be_bytes(), record[..4]);
        }
    }
});
