//! A response before it is sent: status, header fields and body.

use bytes::Bytes;
use std::fmt::Write as _;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Header fields, each with its line end.
    pub(super) fields: String,
    /// The declared length, which differs from that of `body` for HEAD.
    pub(super) length: u64,
    pub(super) body: Vec<Bytes>,
}

impl Answer {
    pub(super) fn new(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    pub(super) fn xml(document: Vec<u8>) -> Self {
        let mut answer = Self::new(200);
        answer.field("Content-Type", "application/xml");
        answer.length = document.len() as u64;
        answer.body = vec![document.into()];
        answer
    }

    pub(super) fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a header field. Characters that would end a line are left out.
    pub(super) fn field(&mut self, name: &str, value: &str) {
        if value.contains(['\r', '\n', '\0']) {
            return;
        }
        let _ = write!(self.fields, "{name}: {value}\r\n");
    }

    pub(super) fn is_xml(&self) -> bool {
        self.fields.starts_with("Content-Type: application/xml\r\n")
    }

    pub(super) fn reason(&self) -> &'static str {
        let usual = http::StatusCode::from_u16(self.status).ok();
        match self.status {
            503 => "Slow Down",
            _ => usual
                .and_then(|status| status.canonical_reason())
                .unwrap_or("Unknown"),
        }
    }
}
