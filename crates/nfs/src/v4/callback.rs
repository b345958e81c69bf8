//! Calls from the server over the back channel of a session (RFC 8881, 20): parses CB_COMPOUND within
//! bounds, manages the single slot of the channel, and writes the replies. `session/delegations.rs` handles
//! recalls.
//!
//! CB_GETATTR concerns write delegations, which this client never has; all other operations except CB_RECALL,
//! CB_RECALL_ANY and CB_RECALL_SLOT concern features that the client never requests. Every call gets a reply. Any
//! record that is not a call ends the connection.

use super::state::{Agreed4, Back};
use crate::status::{Status, Status4, Unaccepted};
use crate::wire::{
    begin_reply, end_reply, reject, FileHandle, Header, Malformed, Program, Reader, Rejection, Stateid,
    Writer, MAX_HANDLE4_BYTES,
};

/// Program number under which the server calls the client.
pub(crate) const CALLBACK_PROGRAM: u32 = 0x4000_0000;
const CALLBACK_VERSION: u32 = 1;
const CB_NULL: u32 = 0;
const CB_COMPOUND: u32 = 1;

const CB_GETATTR: u32 = 3;
const CB_RECALL: u32 = 4;
const CB_RECALL_ANY: u32 = 8;
const CB_RECALL_SLOT: u32 = 10;
const CB_SEQUENCE: u32 = 11;
const CB_OFFLOAD: u32 = 15;
const CB_ILLEGAL: u32 = 10_044;

const SEQUENCE_POSITION: u32 = 10_064;
const BAD_HIGH_SLOT: u32 = 10_077;

/// Maximum number of operations in a compound. The client offers the server two.
const MOST_OPERATIONS: u32 = 8;
const MOST_TAG_BYTES: usize = 1024;
const MOST_REFERRING: u32 = 64;
const MOST_WORDS: u32 = 8;
/// `RCA4_TYPE_MASK_RDATA_DLG`.
const READ_DELEGATIONS: u32 = 1;

/// A request by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Return this delegation of this file.
    Recall(Stateid, FileHandle),
    /// Return all read delegations except this many.
    RecallAllBut(u32),
}

/// Answers a call: appends the reply, as a record, to `out`. `obey` returns the status of each wish.
/// Returns whether the call was refused.
///
/// # Errors
/// The record is not a call: the connection can't continue.
pub(crate) fn answer(
    record: &[u8],
    (back, agreed): (&mut Back, &Agreed4),
    out: &mut Vec<u8>,
    obey: impl FnMut(Wish) -> u32,
) -> Result<bool, Malformed> {
    let (xid, header) = Header::parse(record)?;
    let rejection = match header {
        Err(rejection) => rejection,
        Ok(header) => match (header.program, header.procedure) {
            (Program(CALLBACK_PROGRAM, CALLBACK_VERSION), CB_NULL) => {
                let begin = begin_reply(out, xid);
                end_reply(out, begin);
                return Ok(false);
            }
            (Program(CALLBACK_PROGRAM, CALLBACK_VERSION), CB_COMPOUND) => {
                let begin = begin_reply(out, xid);
                let arguments = &record[header.arguments..];
                match carry_out(arguments, back, agreed, out, obey) {
                    Ok(status) => {
                        end_reply(out, begin);
                        return Ok(status != 0);
                    }
                    Err(Malformed) => out.truncate(begin),
                }
                Rejection::Unaccepted(Unaccepted::GarbageArgs)
            }
            (Program(CALLBACK_PROGRAM, CALLBACK_VERSION), _) => {
                Rejection::Unaccepted(Unaccepted::ProcUnavail)
            }
            (Program(CALLBACK_PROGRAM, _), _) => {
                Rejection::ProgramVersions(CALLBACK_VERSION, CALLBACK_VERSION)
            }
            _ => Rejection::Unaccepted(Unaccepted::ProgUnavail),
        },
    };
    reject(out, xid, rejection);
    Ok(true)
}

/// Executes a compound, appends its results, and returns its status.
fn carry_out(
    arguments: &[u8],
    back: &mut Back,
    agreed: &Agreed4,
    out: &mut Vec<u8>,
    mut obey: impl FnMut(Wish) -> u32,
) -> Result<u32, Malformed> {
    let mut reader = Reader::new(arguments);
    let tag = reader.opaque(MOST_TAG_BYTES)?;
    let minor = reader.u32()?;
    reader.u32()?; // callback_ident, used only by NFSv4.0
    let operations = reader.u32()?;
    let start = out.len();
    Writer(out).u32(0).opaque(tag);
    let count_at = out.len();
    Writer(out).u32(0);
    let (mut status, mut done) = (0, 0_u32);
    if minor != agreed.minor {
        status = Status4::MinorVersionMismatch as u32;
    }
    while status == 0 && done < operations {
        let operation = match reader.u32()? {
            known @ CB_GETATTR..=CB_OFFLOAD => known,
            _ => CB_ILLEGAL,
        };
        Writer(out).u32(operation);
        let status_at = out.len();
        Writer(out).u32(0);
        status = match (operation, done) {
            (CB_SEQUENCE, 0) => match back.sequence(&mut reader, agreed, operations, out)? {
                Sequenced::New => 0,
                Sequenced::Refused(status) => status,
                // A repetition of a call that could not be parsed can't be parsed either.
                Sequenced::Repeated if back.answer.is_empty() => return Err(Malformed),
                Sequenced::Repeated => {
                    out.truncate(start);
                    out.extend_from_slice(&back.answer);
                    return Ok(0);
                }
            },
            (CB_SEQUENCE, _) => SEQUENCE_POSITION,
            (_, 0) => Status4::OperationNotInSession as u32,
            (CB_ILLEGAL, _) => Status4::OperationIllegal as u32,
            _ => wanted(operation, &mut reader, &mut obey)?,
        };
        if status != 0 {
            out.truncate(status_at);
            Writer(out).u32(status);
        }
        done += 1;
    }
    out[start..start + 4].copy_from_slice(&status.to_be_bytes());
    out[count_at..count_at + 4].copy_from_slice(&done.to_be_bytes());
    if back.is_under_way() {
        back.answer = out[start..].to_vec();
    }
    Ok(status)
}

/// Executes an operation after CB_SEQUENCE and returns its status.
fn wanted(
    operation: u32,
    reader: &mut Reader<'_>,
    obey: &mut impl FnMut(Wish) -> u32,
) -> Result<u32, Malformed> {
    Ok(match operation {
        CB_RECALL => {
            let stateid = Stateid::parse(reader)?;
            reader.bool()?; // truncate: cached data is dropped in any case
            let file = FileHandle::of(reader.opaque(MAX_HANDLE4_BYTES)?);
            match file {
                Some(file) => obey(Wish::Recall(stateid, file)),
                None => Status::BadHandle as u32,
            }
        }
        CB_RECALL_ANY => {
            let kept = reader.u32()?;
            let words = reader.u32()?;
            if words > MOST_WORDS {
                return Err(Malformed);
            }
            let mut kinds = 0;
            for place in 0..words {
                let word = reader.u32()?;
                kinds |= if place == 0 { word } else { 0 };
            }
            match kinds & READ_DELEGATIONS {
                0 => 0,
                _ => obey(Wish::RecallAllBut(kept)),
            }
        }
        // The replies to SEQUENCE determine the number of slots.
        CB_RECALL_SLOT => reader.u32().map(|_| 0)?,
        // Only applies to write delegations (RFC 8881, 20.1.3).
        CB_GETATTR => Status::BadHandle as u32,
        _ => Status::NotSupp as u32,
    })
}

enum Sequenced {
    New,
    Repeated,
    Refused(u32),
}

impl Back {
    fn is_under_way(&self) -> bool {
        self.answer.is_empty() && self.number > 0
    }

    /// Executes CB_SEQUENCE (RFC 8881, 20.9) and appends its results.
    fn sequence(
        &mut self,
        reader: &mut Reader<'_>,
        agreed: &Agreed4,
        operations: u32,
        out: &mut Vec<u8>,
    ) -> Result<Sequenced, Malformed> {
        let session = reader.bytes(16)?;
        let (number, slot, highest) = (reader.u32()?, reader.u32()?, reader.u32()?);
        reader.bool()?;
        let lists = reader.u32()?;
        if lists > MOST_REFERRING {
            return Err(Malformed);
        }
        for _ in 0..lists {
            reader.bytes(16)?;
            let calls = reader.u32()?;
            if calls > MOST_REFERRING {
                return Err(Malformed);
            }
            reader.bytes(calls as usize * 8)?;
        }
        let refused = match () {
            () if session != agreed.session => Status4::BadSession as u32,
            () if slot > 0 => Status4::BadSlot as u32,
            () if highest > 0 => BAD_HIGH_SLOT,
            () if operations > MOST_OPERATIONS => Status4::TooManyOperations as u32,
            () if number == self.number && number > 0 => return Ok(Sequenced::Repeated),
            () if number != self.number.wrapping_add(1) => Status4::SequenceMisordered as u32,
            () => {
                self.number = number;
                self.answer.clear();
                Writer(out).bytes(session).u32(number).u32(0).u32(0).u32(0);
                return Ok(Sequenced::New);
            }
        };
        Ok(Sequenced::Refused(refused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Body, Message, Xdr, RECORD_MARK_BYTES};

    const AGREED: Agreed4 = Agreed4 {
        minor: 1,
        client_id: 1,
        session: [7; 16],
        slots: 1,
        kept_reply_bytes: 0,
        lease_s: 60,
        is_called: true,
    };

    fn file() -> FileHandle {
        FileHandle::of(b"file").expect("short")
    }

    fn sequence(session: u8, number: u32, slot: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        Writer(&mut bytes)
            .u32(CB_SEQUENCE)
            .bytes(&[session; 16])
            .u32(number)
            .u32(slot);
        Writer(&mut bytes).u32(0).u32(0).u32(0);
        bytes
    }

    fn recall() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer(&mut bytes);
        writer.u32(CB_RECALL).u32(1).bytes(&[9; 12]).u32(0);
        file().write(&mut writer);
        bytes
    }

    /// Returns a call as a record without the record mark.
    fn call(program: Program, procedure: u32, operations: &[Vec<u8>]) -> Vec<u8> {
        let mut message = Message::default();
        let mut writer = message.begin(5, program, procedure, None);
        writer.u32(0).u32(1).u32(0).u32(operations.len() as u32);
        for operation in operations {
            writer.bytes(operation);
        }
        message.end();
        message.bytes()[RECORD_MARK_BYTES..].to_vec()
    }

    /// Returns the reply to a call, and the wishes passed to `obey`.
    fn answered(back: &mut Back, record: &[u8]) -> (Body, Vec<u8>, Vec<Wish>) {
        let (mut out, mut wishes) = (Vec::new(), Vec::new());
        answer(record, (back, &AGREED), &mut out, |wish| {
            wishes.push(wish);
            0
        })
        .expect("a call");
        let record = &out[RECORD_MARK_BYTES..];
        let (xid, body) = Body::parse(record).expect("a reply");
        assert_eq!(xid, 5);
        let results = match body {
            Body::Accepted(at) => record[at..].to_vec(),
            _ => Vec::new(),
        };
        (body, results, wishes)
    }

    fn compound(back: &mut Back, operations: &[Vec<u8>]) -> (u32, u32, Vec<Wish>) {
        let program = Program(CALLBACK_PROGRAM, CALLBACK_VERSION);
        let (_, results, wishes) = answered(back, &call(program, CB_COMPOUND, operations));
        let mut reader = Reader::new(&results);
        let status = reader.u32().expect("a status");
        reader.opaque(8).expect("a tag");
        (status, reader.u32().expect("a count"), wishes)
    }

    #[test]
    fn a_recall_is_obeyed_once_however_often_it_is_sent() {
        let mut back = Back::default();
        let wish = Wish::Recall(
            Stateid {
                version: 1,
                other: [9; 12],
            },
            file(),
        );
        let both = [sequence(7, 1, 0), recall()];
        assert_eq!(compound(&mut back, &both), (0, 2, vec![wish]));
        assert_eq!(compound(&mut back, &both), (0, 2, vec![]));
        assert_eq!(
            compound(&mut back, &[sequence(7, 2, 0), recall()]),
            (0, 2, vec![wish])
        );
    }

    #[test]
    fn a_call_out_of_order_is_refused_and_changes_nothing() {
        let mut back = Back::default();
        let misordered = Status4::SequenceMisordered as u32;
        for (operations, status) in [
            (vec![sequence(7, 2, 0), recall()], misordered),
            (vec![sequence(7, 0, 0), recall()], misordered),
            (vec![sequence(8, 1, 0), recall()], Status4::BadSession as u32),
            (vec![sequence(7, 1, 1), recall()], Status4::BadSlot as u32),
            (vec![recall()], Status4::OperationNotInSession as u32),
            (
                [vec![sequence(7, 1, 0)], vec![recall(); 100]].concat(),
                Status4::TooManyOperations as u32,
            ),
        ] {
            assert_eq!(compound(&mut back, &operations), (status, 1, vec![]), "{status}");
        }
        let twice = [sequence(7, 1, 0), sequence(7, 2, 0)];
        assert_eq!(compound(&mut back, &twice), (SEQUENCE_POSITION, 2, vec![]));
    }

    #[test]
    fn operations_for_unrequested_features_are_refused_with_their_own_status() {
        for (number, operation, status) in [
            (1, vec![0, 0, 0, 3], Status::BadHandle as u32),
            (2, vec![0, 0, 0, 5], Status::NotSupp as u32),
            (3, vec![0, 0, 0, 99], Status4::OperationIllegal as u32),
            (4, vec![0, 0, 0, 10, 0, 0, 0, 1], 0),
            (5, vec![0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2], 0),
        ] {
            let mut back = Back {
                number: number - 1,
                answer: vec![0],
            };
            let operations = [sequence(7, number, 0), operation];
            assert_eq!(compound(&mut back, &operations), (status, 2, vec![]));
        }
        let all = [
            sequence(7, 1, 0),
            vec![0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1],
        ];
        assert_eq!(
            compound(&mut Back::default(), &all),
            (0, 2, vec![Wish::RecallAllBut(9)])
        );
    }

    #[test]
    fn calls_to_other_programs_and_truncated_calls_get_an_error_reply() {
        let mut back = Back::default();
        let ours = Program(CALLBACK_PROGRAM, CALLBACK_VERSION);
        for (program, procedure, reason) in [
            (Program(100_003, 4), 1, Unaccepted::ProgUnavail),
            (Program(CALLBACK_PROGRAM, 4), 1, Unaccepted::ProgMismatch),
            (ours, 2, Unaccepted::ProcUnavail),
            (ours, 1, Unaccepted::GarbageArgs),
        ] {
            let mut record = call(program, procedure, &[sequence(7, 1, 0)]);
            record.truncate(record.len() - 4);
            let body = answered(&mut back, &record).0;
            assert_eq!(body, Body::Unaccepted(reason as u32));
        }
        assert_eq!(answered(&mut back, &call(ours, 0, &[])).0, Body::Accepted(24));
        let reply = [0, 0, 0, 5, 0, 0, 0, 1];
        let nothing = |_| 0;
        assert_eq!(
            answer(&reply, (&mut back, &AGREED), &mut Vec::new(), nothing),
            Err(Malformed)
        );
    }
}
