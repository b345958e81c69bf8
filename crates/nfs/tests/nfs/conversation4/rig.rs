//! An NFSv4.1 client without a socket, and the server side: parsed requests, and correct answers to them.

use dyno_files::{Access, Ask, Call, Disposition, Handle, Open, Reply};
use dyno_measure::Fault;
use dyno_nfs::session::{Conversation, Ended, Options, TransferSizes, Version};
use dyno_nfs::v4::{Agreed4, State};
use dyno_nfs::wire::{FileHandle, Reader, Records, Writer};
use std::rc::Rc;

pub const MOST_RECORD_BYTES: usize = 1 << 16;
pub const SESSION: [u8; 16] = [7; 16];
pub const ANOTHER: [u8; 16] = [8; 16];
pub const NO_TARGET: u32 = u32::MAX;

pub const NOENT: u32 = 2;
pub const DELAY: u32 = 10_008;
pub const DENIED: u32 = 10_010;
pub const OLD_STATEID: u32 = 10_024;
pub const BAD_STATEID: u32 = 10_025;
pub const BAD_SESSION: u32 = 10_052;
pub const RETRY_UNCACHED: u32 = 10_068;

pub const CLOSE: u32 = 4;
pub const COMMIT: u32 = 5;
pub const CREATE: u32 = 6;
pub const GETATTR: u32 = 9;
pub const GETFH: u32 = 10;
pub const LOCK: u32 = 12;
pub const LOCKU: u32 = 14;
pub const LOOKUP: u32 = 15;
pub const OPEN: u32 = 18;
pub const PUTFH: u32 = 22;
pub const READ: u32 = 25;
pub const READDIR: u32 = 26;
pub const REMOVE: u32 = 28;
pub const SAVEFH: u32 = 32;
pub const SETATTR: u32 = 34;
pub const WRITE: u32 = 38;
pub const SEQUENCE: u32 = 53;

/// A request as the server sees it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub xid: u32,
    pub session: [u8; 16],
    pub number: u32,
    pub slot: u32,
    pub highest: u32,
    /// The main operation; 0 for a compound with only SEQUENCE.
    pub operation: u32,
    /// Arguments of the main operation and all following bytes.
    pub arguments: Vec<u8>,
}

impl Seen {
    /// Returns whether CLOSE follows a LOCKU, whose arguments are a type, a sequence number, a state ID, an
    /// offset and a length.
    fn closes(&self) -> bool {
        const LOCKU_BYTES: usize = 4 + 4 + 16 + 8 + 8;
        self.operation == LOCKU && self.arguments.len() > LOCKU_BYTES
    }
}

pub struct Rig {
    pub conversation: Conversation,
    pub records: Records,
    pub now_ns: u64,
    pub target: u32,
}

pub fn state(session: [u8; 16], slots: u32) -> State {
    State::new(Agreed4 {
        minor: 1,
        client_id: 1,
        session,
        slots,
        kept_reply_bytes: 4096,
        lease_s: 60,
        is_called: true,
    })
}

impl Rig {
    pub fn new(slots: u32) -> Self {
        let options = Options {
            version: Version::V4_1,
            ..Options::default()
        };
        Self::with(options, slots)
    }

    fn with(options: Options, slots: u32) -> Self {
        let mut conversation = Conversation::new(Rc::new(options), 7);
        let agreed = TransferSizes {
            max_read_bytes: 4096,
            max_write_bytes: 4096,
            listing_bytes: 4096,
        };
        conversation.establish4(handle(0), agreed, state(SESSION, slots));
        Self {
            conversation,
            records: Records::new(MOST_RECORD_BYTES),
            now_ns: 0,
            target: NO_TARGET - 1,
        }
    }

    /// Creates a client that requests delegations.
    pub fn holding() -> Self {
        let options = Options {
            version: Version::V4_1,
            delegations: true,
            ..Options::default()
        };
        Self::with(options, 4)
    }

    pub fn begin(&mut self, call: &Call<'_>) {
        self.conversation.begin(call, self.now_ns).expect("a session");
    }

    /// Returns the requests that are sent now.
    pub fn sent(&mut self) -> Vec<Seen> {
        let mut sent = Vec::new();
        while let Some((message, _)) = self.conversation.next_departure(self.now_ns) {
            sent.push(seen(&message.bytes()[4..]).expect("a compound"));
        }
        sent
    }

    /// Returns the only request that is sent now.
    pub fn only(&mut self) -> Seen {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    pub fn take(&mut self, record: &[u8]) {
        let mark = (1 << 31) | u32::try_from(record.len()).expect("short");
        let bytes = [&mark.to_be_bytes()[..], record].concat();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let room = self.records.room();
            let count = room.len().min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            self.records.filled(count);
            rest = &rest[count..];
        }
    }

    pub fn receive(&mut self) -> Result<Option<Ended>, Fault> {
        self.conversation
            .receive(&mut self.records, self.now_ns)
            .map_err(|failure| failure.fault)
    }

    pub fn answer(&mut self, asked: &Seen, status: u32, results: &[u8]) -> Result<Option<Ended>, Fault> {
        self.take(&reply(asked, status, self.target, results));
        self.receive()
    }

    /// Answers the requests of the only running call with success until it ends, and returns its result.
    pub fn ends(&mut self) -> Ended {
        loop {
            let asked = self.only();
            let results = right(&asked);
            if let Some(ended) = self.answer(&asked, 0, &results).expect("well formed") {
                return ended;
            }
        }
    }

    pub fn open(&mut self, path: &str) -> Handle {
        self.begin(&open(path, Disposition::Open));
        match self.ends().result {
            Ok(Reply::Opened { handle, .. }) => handle,
            other => panic!("{other:?}"),
        }
    }
}

pub fn seen(record: &[u8]) -> Option<Seen> {
    let mut reader = Reader::new(record);
    let numbers: Vec<u32> = (0..6).map(|_| reader.u32()).collect::<Result<_, _>>().ok()?;
    assert_eq!(numbers[1..6], [0, 2, 100_003, 4, 1]);
    for _ in 0..2 {
        reader.u32().ok()?;
        reader.opaque(400).ok()?;
    }
    assert_eq!(reader.opaque(0), Ok(&b""[..]));
    assert_eq!(reader.u32(), Ok(1), "the minor version");
    let operations = reader.u32().ok()?;
    assert_eq!(reader.u32(), Ok(SEQUENCE));
    let session = reader.bytes(16).ok()?.try_into().ok()?;
    let (number, slot, highest) = (reader.u32().ok()?, reader.u32().ok()?, reader.u32().ok()?);
    reader.bool().ok()?;
    let mut operation = 0;
    if operations > 1 {
        assert_eq!(reader.u32(), Ok(PUTFH));
        reader.opaque(128).ok()?;
        operation = reader.u32().ok()?;
    }
    Some(Seen {
        xid: numbers[0],
        session,
        number,
        slot,
        highest,
        operation,
        arguments: record[reader.position()..].to_vec(),
    })
}

pub fn reply(asked: &Seen, status: u32, target: u32, results: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    let mut writer = Writer(&mut record);
    writer.u32(asked.xid).u32(1).u32(0).u32(0).u32(0).u32(0);
    writer.u32(status).opaque(b"").u32(5);
    writer.u32(SEQUENCE).u32(0).bytes(&asked.session);
    writer.u32(asked.number).u32(asked.slot).u32(asked.highest);
    writer.u32(target).u32(0);
    record.extend_from_slice(results);
    record
}

/// Returns a reply in which SEQUENCE is refused.
pub fn refused(asked: &Seen, status: u32) -> Vec<u8> {
    let mut record = Vec::new();
    let mut writer = Writer(&mut record);
    writer.u32(asked.xid).u32(1).u32(0).u32(0).u32(0).u32(0);
    writer.u32(status).opaque(b"").u32(1);
    writer.u32(SEQUENCE).u32(status);
    record
}

pub fn handle(number: u8) -> FileHandle {
    FileHandle::of(&[number; 8]).expect("short")
}

pub fn open(path: &str, disposition: Disposition) -> Call<'_> {
    Call::Open(Open {
        path,
        access: Access::ReadWrite,
        disposition,
        directory: false,
        delete_on_close: false,
        ask: Ask::Nothing,
    })
}

/// Writes GETATTR results: type, change, size, file ID, mode and space used.
pub fn attributes(writer: &mut Writer<'_>, kind: u32) {
    let mut values = Vec::new();
    let mut of_values = Writer(&mut values);
    of_values.u32(kind).u64(77).u64(10_000).u64(99);
    of_values.u32(0o644).u64(12_288);
    writer.u32(GETATTR).u32(0).u32(2);
    writer.u32(1 << 1 | 1 << 3 | 1 << 4 | 1 << 20);
    writer.u32(1 << 1 | 1 << 13).opaque(&values);
}

pub fn stateid(writer: &mut Writer<'_>) {
    writer.u32(1).bytes(&[9; 12]);
}

/// Returns the results of an open, with a delegation.
pub fn opened(delegation: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer(&mut bytes);
    writer.u32(PUTFH).u32(0).u32(OPEN).u32(0);
    stateid(&mut writer);
    writer.u32(1).u64(1).u64(2).u32(0); // the directory changed
    writer.u32(2).u32(0).u32(1 << 1); // the mode was set
    writer.u32(delegation);
    match delegation {
        1 => {
            writer.u32(1).bytes(&[8; 12]).u32(0);
            writer.u32(0).u32(0).u32(1).opaque(b"EVERYONE@");
        }
        3 => {
            writer.u32(0);
        }
        _ => {}
    }
    writer.u32(GETFH).u32(0).opaque(handle(1).as_bytes());
    attributes(&mut writer, 1);
    bytes
}

/// Returns the results of a successful request.
pub fn right(asked: &Seen) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer(&mut bytes);
    writer.u32(PUTFH).u32(0).u32(asked.operation).u32(0);
    match asked.operation {
        OPEN => return opened(3),
        LOOKUP => {
            writer.u32(GETFH).u32(0).opaque(handle(2).as_bytes());
            attributes(&mut writer, 2);
        }
        CREATE => {
            writer.u32(1).u64(1).u64(2).u32(0);
            writer.u32(GETFH).u32(0).opaque(handle(3).as_bytes());
            attributes(&mut writer, 2);
        }
        CLOSE | LOCK | LOCKU => {
            stateid(&mut writer);
            if asked.closes() {
                stateid(writer.u32(CLOSE).u32(0));
            }
        }
        READ => {
            writer.u32(1).opaque(b"abcd");
        }
        WRITE => {
            writer.u32(4).u32(2).u64(5);
            attributes(&mut writer, 1);
        }
        COMMIT => {
            writer.u64(5);
        }
        SETATTR => {
            writer.u32(0);
            attributes(&mut writer, 1);
        }
        READDIR => {
            writer.u64(1).u32(1).u64(3).opaque(b"abc").u32(0).opaque(b"");
            writer.u32(0).u32(1);
        }
        REMOVE | SAVEFH => {
            writer.u32(1).u64(1).u64(2);
        }
        GETATTR => {
            bytes.truncate(8);
            attributes(&mut Writer(&mut bytes), 1);
        }
        _ => {}
    }
    bytes
}
