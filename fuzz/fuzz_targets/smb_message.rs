//! SMB client with arbitrary server input: no panic, the same result however the input is divided, every call ends
//! once, and all reported data lies within the input.
//!
//! First byte: the meaning of the rest. 0: answers to a log-on. 1: a raw stream including frames. Otherwise: answers to
//! outstanding requests, whose headers are added so that the bodies are parsed; the byte is also the size of the
//! pieces. Each message is processed before the next.
#![no_main]

use dyno_files::{Access, Ask, Caching, Call, CallId, Disposition, Handle, LeaseKey, Open, Stability};
use dyno_measure::Fault;
use dyno_smb::auth::Logon;
use dyno_smb::session::{Conversation, Inbox, Incoming};
use dyno_smb::wire::{
    parse_negotiated_again, parse_session_setup, parse_tree_connect, Command, Link, NegotiateResponse,
    FRAME_BYTES, HEADER_BYTES,
};
use dyno_smb::{Dialect, NegotiatedSession};
use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;

const LINK: Link = Link {
    session_id: 7,
    tree_id: 5,
};
const MAX_MESSAGE_BYTES: usize = 200_000;
/// The buffer grows to the page after a message and its slack.
const MAX_INBOX_BYTES: usize = MAX_MESSAGE_BYTES + 3 * 4096;
const STATUSES: [u32; 10] = [
    0,
    0x103,
    0x8000_0006,
    0xC000_000F,
    0xC000_0011,
    0xC000_0034,
    0xC000_0022,
    0xC000_0203,
    0x8000_0005,
    0xC000_1234,
];

#[derive(Debug, Clone, Copy)]
struct Request {
    command: u16,
    message_id: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    told: Vec<String>,
    end: Option<Fault>,
}

struct Client {
    conversation: Conversation,
    inbox: Inbox,
    requests: Vec<Request>,
    calls: HashSet<CallId>,
}

impl Client {
    /// Creates a client with credits, an open file and one outstanding call of each kind.
    fn new() -> Self {
        let mut client = Self {
            conversation: Conversation::new(""),
            inbox: Inbox::new(MAX_MESSAGE_BYTES),
            requests: Vec::new(),
            calls: HashSet::new(),
        };
        client
            .conversation
            .begin_own(false, |message| message.empty(Command::Logoff))
            .expect("the first credit");
        client.note_requests();
        let mut credits = client.answer(0, 0, &[4, 0, 0, 0]);
        credits[FRAME_BYTES + 14..FRAME_BYTES + 16].copy_from_slice(&1000u16.to_le_bytes());
        client.feed(&credits);
        assert!(matches!(
            client.conversation.receive(&mut client.inbox),
            Ok(Some(Incoming::Answer(..)))
        ));
        client.conversation.establish(LINK, agreed());
        client.requests.clear();
        client.open_a_file();
        for call in calls() {
            client.begin(&call);
        }
        client
    }

    fn open_a_file(&mut self) {
        self.begin(&open(Ask::Oplock(Caching::ALL)));
        let mut body = vec![0; 88];
        (body[0], body[2], body[4]) = (89, 9, 1);
        let opened = self.answer(0, 0, &body);
        self.feed(&opened);
        assert!(matches!(
            self.conversation.receive(&mut self.inbox),
            Ok(Some(Incoming::Ended(..)))
        ));
        self.requests.clear();
        self.calls.clear();
    }

    fn begin(&mut self, call: &Call<'_>) {
        let (id, now) = self.conversation.begin(call).expect("a session");
        assert!(now, "there are credits");
        self.calls.insert(id);
        self.note_requests();
    }

    fn note_requests(&mut self) {
        let message = self.conversation.message();
        for part in message.parts() {
            let header = &message.bytes()[part.start..];
            let message_id = u64::from_le_bytes(header[24..32].try_into().expect("eight bytes"));
            let command = part.command as u16;
            self.requests.push(Request { command, message_id });
        }
    }

    /// Returns the request at `index`. From 128 on, it is one that follows from an answer.
    fn request(&self, index: usize) -> Request {
        match index.checked_sub(128) {
            None => self.requests[index % self.requests.len()],
            Some(later) => Request {
                command: if later % 2 == 0 {
                    Command::QueryDirectory
                } else {
                    Command::Close
                } as u16,
                message_id: self.requests.last().map_or(0, |last| last.message_id) + 1 + later as u64 / 2,
            },
        }
    }

    /// Builds a framed answer to a request.
    fn answer(&self, index: usize, status: u32, body: &[u8]) -> Vec<u8> {
        let request = self.request(index);
        let length = u32::try_from(HEADER_BYTES + body.len()).expect("short");
        let mut bytes = length.to_be_bytes().to_vec();
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(b"\xfeSMB");
        header[4] = 64;
        header[8..12].copy_from_slice(&status.to_le_bytes());
        header[12..14].copy_from_slice(&request.command.to_le_bytes());
        header[14] = 1;
        header[16] = if status == STATUSES[1] { 3 } else { 1 };
        header[24..32].copy_from_slice(&request.message_id.to_le_bytes());
        header[36..40].copy_from_slice(&LINK.tree_id.to_le_bytes());
        header[40..48].copy_from_slice(&LINK.session_id.to_le_bytes());
        bytes.extend(header);
        bytes.extend(body);
        bytes
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.inbox.room();
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            self.inbox.filled(count);
            bytes = &bytes[count..];
        }
        assert!(self.inbox.bytes().len() <= MAX_INBOX_BYTES + self.inbox.waiting_bytes());
    }

    /// Processes `pieces`. Sends requests that follow from answers, and then identifies them by command.
    fn read<'a>(mut self, pieces: impl Iterator<Item = &'a [u8]>) -> Outcome {
        let mut told = Vec::new();
        for piece in pieces {
            self.feed(piece);
            loop {
                match self.conversation.receive(&mut self.inbox) {
                    Ok(Some(one)) => told.push(self.look_at(one)),
                    Ok(None) => break,
                    Err(failure) => {
                        return Outcome {
                            told,
                            end: Some(failure.fault),
                        }
                    }
                }
            }
            while self.conversation.next_departure().expect("nothing is encrypted") {
                self.note_requests();
            }
        }
        Outcome { told, end: None }
    }

    fn look_at(&mut self, told: Incoming) -> String {
        match told {
            Incoming::Ended(id, result, range) => {
                assert!(self.calls.remove(&id), "{id:?} was begun and ends once");
                let data = &self.inbox.bytes()[range];
                format!("{id:?} {result:?} {data:?}")
            }
            Incoming::Break(broken) => format!("{broken:?}"),
            Incoming::Answer(..) => panic!("nothing of the session's own is outstanding"),
            Incoming::Outrun(id, _) => {
                assert!(
                    self.calls.remove(&id),
                    "{id:?} was begun and is to be sent again once"
                );
                format!("{id:?} outrun")
            }
        }
    }
}

fn agreed() -> NegotiatedSession {
    NegotiatedSession {
        dialect: Dialect::Smb311,
        channels: 1,
        signing: None,
        cipher: None,
        guest: true,
        authentication: None,
        capabilities: 0,
        leases: true,
        directory_leases: true,
        continuously_available: false,
        max_transact_bytes: 1 << 20,
        max_read_bytes: 1 << 20,
        max_write_bytes: 1 << 20,
    }
}

fn open(ask: Ask) -> Call<'static> {
    Call::Open(Open {
        path: "a",
        access: Access::Read,
        disposition: Disposition::Open,
        directory: false,
        delete_on_close: false,
        ask,
    })
}

fn calls() -> Vec<Call<'static>> {
    let handle = Handle(0);
    vec![
        open(Ask::Nothing),
        open(Ask::Lease(LeaseKey(1), Caching::ALL)),
        Call::Read {
            handle,
            offset: 0,
            bytes: 100,
        },
        Call::Write {
            handle,
            offset: 0,
            data: b"data",
            stability: Stability::Unstable,
        },
        Call::Flush { handle },
        Call::QueryHandle { handle },
        Call::SetEnd { handle, bytes: 1 },
        Call::QueryPath { path: "a" },
        Call::QuerySpace { directory: "" },
        Call::Find {
            directory: "",
            pattern: "*",
        },
        Call::Rename { from: "a", to: "b" },
        Call::Close { handle },
    ]
}

/// Converts records (request number, status, 16-bit length, body) to framed answers.
fn answers(client: &Client, mut records: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(([index, status, low, high], rest)) = records.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let status = STATUSES[usize::from(*status) % STATUSES.len()];
        bytes.extend(client.answer(usize::from(*index), status, &rest[..length]));
        records = &rest[length..];
    }
    bytes
}

/// Divides a stream at the ends of its frames. An incomplete frame comes last.
fn frames(mut stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let declared = stream
            .first_chunk()
            .map_or(0, |frame| u32::from_be_bytes(*frame) as usize);
        let (frame, rest) = stream.split_at(stream.len().min(FRAME_BYTES + declared));
        stream = rest;
        (!frame.is_empty()).then_some(frame)
    })
}

fn read_log_on(bytes: &[u8]) {
    let _ = NegotiateResponse::parse(bytes);
    let _ = parse_tree_connect(bytes);
    let _ = parse_negotiated_again(bytes);
    if let Ok(setup) = parse_session_setup(bytes) {
        let _ = Logon::default().second_token(&bytes[setup.token], [1; 8], [2; 16], 3);
    }
    let logon = Logon {
        user: "user".to_owned(),
        ..Logon::default()
    };
    let _ = logon.second_token(bytes, [1; 8], [2; 16], 3);
}

fuzz_target!(|input: &[u8]| {
    let Some((&kind, bytes)) = input.split_first() else {
        return;
    };
    if kind == 0 {
        return read_log_on(bytes);
    }
    let client = Client::new();
    let stream = if kind == 1 {
        bytes.to_vec()
    } else {
        answers(&client, bytes)
    };
    let in_one_piece = client.read(frames(&stream));
    let in_pieces = Client::new().read(frames(&stream).flat_map(|frame| frame.chunks(usize::from(kind))));
    assert_eq!(in_one_piece.end, in_pieces.end);
    assert_eq!(in_one_piece.told, in_pieces.told);
});
