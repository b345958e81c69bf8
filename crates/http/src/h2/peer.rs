//! The server's settings, window and GOAWAY, and the encoding of request headers for this server.

use super::frame::{self, flag, kind, setting, FIRST_WINDOW, LARGEST_WINDOW, PAYLOAD_BYTES};
use super::hpack::{write_integer, TABLE_BYTES};
use super::request::Request;
use super::violation::Violation;
use dyno_measure::Failure;

/// Recommended minimum of SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113, section 6.5.2).
const FIRST_STREAMS: u32 = 100;

/// The server's end of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    /// Whether the server's first SETTINGS frame has arrived.
    pub(super) has_spoken: bool,
    /// Maximum number of streams before the server's settings arrive.
    pub(super) first_streams: u32,
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    max_streams: u32,
    pub(super) initial_window: i64,
    pub(super) frame_bytes: usize,
    /// Connection window for sending data.
    pub(super) window: i64,
    /// Whether the server has acknowledged our settings.
    pub(super) acknowledged: bool,
    /// Last stream that the server will process, from its GOAWAY.
    pub(super) goaway: Option<u32>,
    /// Failure that the GOAWAY declares; None if it has no error code.
    pub(super) declared: Option<Failure>,
    table: Table,
}

/// State of the dynamic table of the server's decoder.
#[derive(Debug, Clone, Copy)]
struct Table {
    /// Whether the common fields are in the table.
    filled: bool,
    most_bytes: usize,
    /// New size to announce in the next header block (RFC 7541, section 4.2).
    untold: Option<usize>,
}

impl Default for Peer {
    fn default() -> Self {
        Self {
            has_spoken: false,
            first_streams: FIRST_STREAMS,
            max_streams: u32::MAX,
            initial_window: FIRST_WINDOW,
            frame_bytes: PAYLOAD_BYTES,
            window: FIRST_WINDOW,
            acknowledged: false,
            goaway: None,
            declared: None,
            table: Table {
                filled: false,
                most_bytes: TABLE_BYTES,
                untold: None,
            },
        }
    }
}

impl Peer {
    /// Returns how many streams may be open at the same time. Before the server's settings arrive, this is an
    /// assumption.
    pub(super) fn stream_limit(&self) -> u32 {
        if self.has_spoken {
            self.max_streams
        } else {
            self.first_streams
        }
    }

    /// Applies one setting. Returns by how much the send windows of all streams grow.
    pub(super) fn set(&mut self, name: u16, value: u32) -> Result<i64, Violation> {
        match name {
            setting::HEADER_TABLE_SIZE => {
                let bytes = TABLE_BYTES.min(value as usize);
                if bytes != self.table.most_bytes {
                    // A new size may empty the table. Do not refill it: stop using it on this connection.
                    self.table = Table {
                        filled: false,
                        most_bytes: 0,
                        untold: Some(0),
                    };
                }
            }
            setting::ENABLE_PUSH if value != 0 => return Err(Violation::SettingValue),
            setting::MAX_CONCURRENT_STREAMS => self.max_streams = value,
            setting::INITIAL_WINDOW_SIZE => {
                let window = i64::from(value);
                if window > LARGEST_WINDOW {
                    return Err(Violation::InitialWindow);
                }
                return Ok(window - std::mem::replace(&mut self.initial_window, window));
            }
            setting::MAX_FRAME_SIZE => {
                if !(1 << 14..1 << 24).contains(&value) {
                    return Err(Violation::SettingValue);
                }
                self.frame_bytes = value as usize;
            }
            _ => {}
        }
        Ok(0)
    }

    /// Appends the request's header block, encoded for the current state of the server's table.
    pub(super) fn write_head(&mut self, out: &mut Vec<u8>, stream: u32, request: &Request) {
        let table = &mut self.table;
        let block = match &request.tabled {
            Some(tabled) if tabled.table_bytes <= table.most_bytes => {
                if std::mem::replace(&mut table.filled, true) {
                    &tabled.later
                } else {
                    &tabled.first
                }
            }
            _ => &request.plain,
        };
        let end = if request.body.is_none() {
            flag::END_STREAM
        } else {
            0
        };
        if let Some(bytes) = table.untold.take() {
            let mut told = Vec::new();
            write_integer(&mut told, 0x20, 5, bytes);
            told.extend_from_slice(block);
            return write_block(out, stream, end, &told);
        }
        write_block(out, stream, end, block);
    }
}

fn write_block(out: &mut Vec<u8>, stream: u32, end: u8, block: &[u8]) {
    if block.len() <= PAYLOAD_BYTES {
        return frame::write(out, kind::HEADERS, end | flag::END_HEADERS, stream, block);
    }
    let parts = block.chunks(PAYLOAD_BYTES);
    let last = parts.len() - 1;
    for (number, part) in parts.enumerate() {
        let (kind, begin) = if number == 0 {
            (kind::HEADERS, end)
        } else {
            (kind::CONTINUATION, 0)
        };
        let flags = begin | if number == last { flag::END_HEADERS } else { 0 };
        frame::write(out, kind, flags, stream, part);
    }
}
