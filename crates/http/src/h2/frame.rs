//! Frame layout (RFC 9113, sections 4 and 6) and the frames that a client sends.

use dyno_measure::{named_enum, plain_text, Failure, Fault, KeptTexts, StatusTable};

/// Client connection preface (section 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Size of a frame header.
pub(super) const HEAD_BYTES: usize = 9;

/// Default maximum payload of a frame (section 6.5.2).
pub(super) const PAYLOAD_BYTES: usize = 16_384;

/// Initial window size (section 6.9.2).
pub(super) const FIRST_WINDOW: i64 = 65_535;

/// Maximum window size (section 6.9.1).
pub(super) const LARGEST_WINDOW: i64 = (1 << 31) - 1;

pub(super) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

pub(super) mod flag {
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

pub(super) mod setting {
    pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
    pub(crate) const ENABLE_PUSH: u16 = 2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 5;
    pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 6;
}

named_enum! {
    /// Error codes by number (section 7).
    pub(super) enum ErrorCode {
        NoError "NO_ERROR"
        ProtocolError "PROTOCOL_ERROR"
        InternalError "INTERNAL_ERROR"
        FlowControlError "FLOW_CONTROL_ERROR"
        SettingsTimeout "SETTINGS_TIMEOUT"
        StreamClosed "STREAM_CLOSED"
        FrameSizeError "FRAME_SIZE_ERROR"
        RefusedStream "REFUSED_STREAM"
        Cancel "CANCEL"
        CompressionError "COMPRESSION_ERROR"
        ConnectError "CONNECT_ERROR"
        EnhanceYourCalm "ENHANCE_YOUR_CALM"
        InadequateSecurity "INADEQUATE_SECURITY"
        Http11Required "HTTP_1_1_REQUIRED"
    }
}

static ERROR_CODES: StatusTable = StatusTable {
    name: "HTTP/2",
    write: |code, formatter| {
        let (place, code) = (code >> TEXT_SHIFT, error_code(code));
        match ErrorCode::ALL.get(code as usize) {
            Some(known) => formatter.write_str(known.name())?,
            None => write!(formatter, "error code {code}")?,
        }
        match place.checked_sub(1).and_then(|place| DEBUG_TEXTS.get(place)) {
            Some(text) => write!(formatter, ", {text:?}"),
            None => Ok(()),
        }
    },
};
/// Bit position, in a failure, of the index of a GOAWAY's text, counted from 1. The error code is below it.
const TEXT_SHIFT: u32 = 16;
/// Debug data of GOAWAY frames (section 6.8).
static DEBUG_TEXTS: KeptTexts = KeptTexts::new();
const MOST_TEXT_BYTES: usize = 100;

/// Returns the error code in a failure of `ERROR_CODES`.
pub(crate) fn error_code(code: u32) -> u32 {
    code & ((1 << TEXT_SHIFT) - 1)
}

/// Builds the failure for a GOAWAY with this code and debug data.
pub(super) fn goaway(code: u32, debug: &[u8]) -> Failure {
    let text = plain_text(debug, MOST_TEXT_BYTES);
    let place = match text.trim().is_empty() {
        true => 0,
        false => DEBUG_TEXTS.keep(text).saturating_add(1).min(0xffff),
    };
    declared(Fault::GoingAway, place << TEXT_SHIFT | code.min(0xffff))
}

/// How a connection on which the server spoke HTTP/2 ended. 1: after a GOAWAY with NO_ERROR.
static ENDINGS: StatusTable = StatusTable {
    name: ENDED,
    write: |code, formatter| {
        formatter.write_str(match code {
            0 => "the server sent no GOAWAY (HTTP/2)",
            _ => "the server had sent GOAWAY with NO_ERROR (HTTP/2)",
        })
    },
};
pub(crate) const ENDED: &str = "HTTP/2 end";

/// Adds to a failure how the server ended the connection.
pub(super) fn ended(failure: Failure, said_goaway: bool) -> Failure {
    ENDINGS.failure(failure.fault, said_goaway.into())
}

/// Builds the failure for an error code that the server sent.
pub(super) fn declared(fault: Fault, code: u32) -> Failure {
    ERROR_CODES.failure(fault, code)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Head {
    pub(super) fn read(bytes: [u8; HEAD_BYTES]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        }
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame. The payload must be within the limit.
pub(super) fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    debug_assert!(payload.len() <= PAYLOAD_BYTES);
    let length = (payload.len() as u32).to_be_bytes();
    let id = stream.to_be_bytes();
    out.extend_from_slice(&[
        length[1], length[2], length[3], kind, flags, id[0], id[1], id[2], id[3],
    ]);
    out.extend_from_slice(payload);
}

pub(super) fn write_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    let payload: Vec<u8> = settings
        .iter()
        .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    write(out, kind::SETTINGS, 0, 0, &payload);
}

pub(super) fn write_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    write(out, kind::RST_STREAM, 0, stream, &(code as u32).to_be_bytes());
}

/// Appends a GOAWAY. The last processed stream is 0, because push is disabled and the server opens no
/// streams.
pub(super) fn write_goaway(out: &mut Vec<u8>, code: ErrorCode) {
    let payload = (code as u64).to_be_bytes();
    write(out, kind::GOAWAY, 0, 0, &payload);
}

pub(super) fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    write(out, kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
}
