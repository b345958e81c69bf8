//! Protocol errors of HTTP/2 servers, each with its text, its fault and the error code to send.

use super::frame::ErrorCode;
use dyno_measure::{named_enum, Failure, Fault, StatusTable};

named_enum! {
    /// Rule that a server broke. Section numbers refer to RFC 9113, or to RFC 7541 for header compression.
    pub enum Violation {
        NoPreface "the first frame is not SETTINGS (3.4)"
        FrameTooLarge "a frame is larger than 16,384 bytes (4.2)"
        FrameSize "a frame has the wrong size for its type (4.2)"
        StreamZero "a frame of a stream is on stream 0 (5.1.1)"
        NotStreamZero "a frame of the connection is on a stream (6)"
        IdleStream "a frame is on a stream that was never opened (5.1)"
        ClosedStream "a frame is on a stream that has ended (5.1)"
        Push "the server pushes a stream, although the client disabled push (6.6)"
        Interrupted "a frame other than CONTINUATION follows an open header block (6.10)"
        LoneContinuation "a CONTINUATION frame arrives without an open header block (6.10)"
        Padding "the padding is longer than the frame (6.1)"
        SettingValue "a setting has an invalid value (6.5.2)"
        UnaskedAcknowledgement "the server acknowledges SETTINGS that the client did not send (6.5.3)"
        ZeroIncrement "a window update has an increment of 0 (6.9)"
        DataFirst "DATA arrives before the response headers (8.1)"
        SecondHead "a header block after the final response headers does not end the stream (8.1)"
        BodyLength "the length of the body differs from content-length (8.1.1)"
        GoawayGrew "a later GOAWAY names a higher stream than an earlier one (6.8)"
        SelfDependency "a stream depends on itself (5.3.1 of RFC 7540)"
        WindowOverflow "a window grows beyond 2,147,483,647 bytes (6.9.1)"
        InitialWindow "the initial window is beyond 2,147,483,647 bytes (6.5.2)"
        ConnectionWindow "more data arrived than the connection's window allows (6.9.1)"
        StreamWindow "more data arrived than the stream's window allows (6.9.1)"
        IndexZero "a header field has the index 0, which is not allowed (6.1 of RFC 7541)"
        IndexBeyond "a header field has an index beyond both tables (2.3.3 of RFC 7541)"
        HugeInteger "an integer in a header block is too large (5.1 of RFC 7541)"
        CutOff "a header block ends within a field (5 of RFC 7541)"
        HuffmanPadding "a Huffman-coded string has the wrong padding (5.2 of RFC 7541)"
        HuffmanEnd "a Huffman-coded string contains the end symbol (5.2 of RFC 7541)"
        TableSize "the size of the dynamic table exceeds the limit (6.3 of RFC 7541)"
        LateTableSize "the size of the dynamic table changes within a header block (4.2 of RFC 7541)"
        FieldName "a field has an invalid name (8.2.1)"
        FieldValue "a field has an invalid value (8.2.1)"
        PseudoField "a pseudo-header field is unknown, repeated or after a regular field (8.3)"
        StatusField ":status is missing, or is not a number of three digits (8.3.2)"
        ConnectionField "a field is connection-specific, which HTTP/2 does not allow (8.2.2)"
        ContentLength "content-length is not a number, or its values differ (8.1.1)"
        InterimEnd "an interim response ends the stream (8.1)"
        SwitchingProtocols "a response switches protocols (8.6)"
        InterimResponses "the interim responses together exceed the limit for the header fields of a response"
        HeaderList "the fields of a response exceed the announced SETTINGS_MAX_HEADER_LIST_SIZE (6.5.2)"
        Continuations "a header block has too many CONTINUATION frames"
        IdleFrames "too many consecutive frames carry no part of a response"
        Unread "frames that need an answer arrive faster than answers can be sent"
    }
}

static VIOLATIONS: StatusTable = StatusTable {
    name: "HTTP/2 rules",
    write: Violation::write_rule,
};

impl Violation {
    /// Returns the fault under which the violation is counted.
    pub fn fault(self) -> Fault {
        match self {
            Self::WindowOverflow | Self::InitialWindow | Self::ConnectionWindow | Self::StreamWindow => {
                Fault::WindowExceeded
            }
            Self::IndexZero
            | Self::IndexBeyond
            | Self::HugeInteger
            | Self::CutOff
            | Self::HuffmanPadding
            | Self::HuffmanEnd
            | Self::TableSize
            | Self::LateTableSize => Fault::BrokenCompression,
            Self::FieldName
            | Self::FieldValue
            | Self::PseudoField
            | Self::StatusField
            | Self::ConnectionField
            | Self::ContentLength
            | Self::InterimEnd
            | Self::SwitchingProtocols => Fault::MalformedHead,
            Self::HeaderList | Self::Continuations | Self::InterimResponses => Fault::HeadTooLarge,
            Self::IdleFrames | Self::Unread => Fault::FrameFlood,
            _ => Fault::MalformedFrame,
        }
    }

    /// Returns the error code for the server (RFC 9113, section 7).
    pub(super) fn code(self) -> ErrorCode {
        match self {
            Self::FrameTooLarge | Self::FrameSize => ErrorCode::FrameSizeError,
            Self::ClosedStream => ErrorCode::StreamClosed,
            Self::HeaderList
            | Self::Continuations
            | Self::InterimResponses
            | Self::IdleFrames
            | Self::Unread => ErrorCode::EnhanceYourCalm,
            _ => match self.fault() {
                Fault::WindowExceeded => ErrorCode::FlowControlError,
                Fault::BrokenCompression => ErrorCode::CompressionError,
                _ => ErrorCode::ProtocolError,
            },
        }
    }
}

impl From<Violation> for Failure {
    fn from(violation: Violation) -> Self {
        VIOLATIONS.failure(violation.fault(), violation as u32)
    }
}
