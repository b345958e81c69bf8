//! What the server has declared: its settings, its window, that it goes; and how our heads are written by them.

use super::frame::{self, flag, kind, setting, FIRST_WINDOW, LARGEST_WINDOW, PAYLOAD_BYTES};
use super::hpack::{write_integer, TABLE_BYTES};
use super::request::Request;
use super::violation::Violation;

/// Fewest streams that servers are advised to allow (RFC 9113, section 6.5.2).
const FIRST_STREAMS: u32 = 100;

/// The server's end of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    /// Its settings have come, which is how it begins.
    pub(super) has_spoken: bool,
    /// The most streams that we open before its settings have come.
    pub(super) first_streams: u32,
    /// As announced.
    max_streams: u32,
    pub(super) initial_window: i64,
    pub(super) frame_bytes: usize,
    /// Room for the data of all streams.
    pub(super) window: i64,
    /// Our settings have been acknowledged.
    pub(super) acknowledged: bool,
    /// The last stream that it will answer, once it goes.
    pub(super) goaway: Option<u32>,
    table: Table,
}

/// What its decoder's table has.
#[derive(Debug, Clone, Copy)]
struct Table {
    /// The common fields were sent.
    filled: bool,
    most_bytes: usize,
    /// A size that it must be told before the next head (RFC 7541, section 4.2).
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
            table: Table {
                filled: false,
                most_bytes: TABLE_BYTES,
                untold: None,
            },
        }
    }
}

impl Peer {
    /// Return how many streams may be open at the same time, if that is known.
    pub(super) fn stream_limit(&self) -> u32 {
        if self.has_spoken {
            self.max_streams
        } else {
            self.first_streams
        }
    }

    /// Takes one setting; gives by how much the windows of all streams grow.
    pub(super) fn set(&mut self, name: u16, value: u32) -> Result<i64, Violation> {
        match name {
            setting::HEADER_TABLE_SIZE => {
                let bytes = TABLE_BYTES.min(value as usize);
                if bytes != self.table.most_bytes {
                    // A table that was emptied in between would have to be filled anew: none is used from here on.
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

    /// Appends the head of a request in the form that its table is ready for.
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
