//! Location of a format error: the field, its byte offset, and the command of the response.

use super::command::Command;
use dyno_measure::{named_enum, Detail, Failure, Fault, StatusTable};

/// Table of error locations. The code of a location has 5 bits for the command, 6 for the field and 21 for
/// the offset.
static PLACES: StatusTable = StatusTable {
    name: "place in an SMB message",
    write: |code, formatter| {
        let (field, offset) = (
            Field::ALL.get((code >> OFFSET_BITS & 0x3f) as usize),
            code & MOST_OFFSET,
        );
        match Command::ALL
            .iter()
            .find(|command| u32::from(**command as u16) == code >> COMMAND_SHIFT)
        {
            Some(command) => write!(formatter, "{} response", command.name())?,
            None => formatter.write_str("header")?,
        }
        match field {
            Some(Field::End) | None => write!(formatter, ", which ends before byte {offset}"),
            Some(field) => write!(formatter, ", {} at byte {offset}", field.name()),
        }
    },
};
const OFFSET_BITS: u32 = 21;
const COMMAND_SHIFT: u32 = 27;
const MOST_OFFSET: u32 = (1 << OFFSET_BITS) - 1;
/// Command code of a location whose command is unknown or not used by this client.
const NO_COMMAND: u32 = 31;

named_enum! {
    /// Fields that can be wrong, by their names in MS-SMB2 and MS-FSCC.
    pub enum Field {
        End "the end"
        StreamLength "StreamProtocolLength"
        ProtocolId "ProtocolId"
        StructureSize "StructureSize"
        Flags "Flags"
        NextCommand "NextCommand"
        MessageId "MessageId"
        Command "Command"
        AsyncId "AsyncId"
        SessionId "SessionId"
        ByteCount "ByteCount"
        DialectRevision "DialectRevision"
        NegotiateContextCount "NegotiateContextCount"
        NegotiateContext "NegotiateContextList"
        MaxTransferSize "MaxReadSize or MaxWriteSize"
        SecurityBuffer "SecurityBufferOffset or SecurityBufferLength"
        OplockLevel "OplockLevel"
        CreateContexts "CreateContextsOffset or CreateContextsLength"
        NextContext "Next of a create context"
        ContextName "NameOffset or NameLength of a create context"
        ContextData "DataOffset or DataLength of a create context"
        LeaseKey "LeaseKey"
        ReadData "DataOffset or DataLength"
        Count "Count"
        OutputBuffer "OutputBufferOffset or OutputBufferLength"
        NextEntryOffset "NextEntryOffset"
        FileNameLength "FileNameLength"
        CtlCode "CtlCode"
        IoctlOutput "OutputOffset or OutputCount"
    }
}

/// A format error in a message or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    pub field: Field,
    /// Offset of the field from the message's header; for `Field::End`, the required length of the message.
    pub offset: usize,
}

impl Malformed {
    /// Returns the error for `field`, which begins at `offset`.
    pub fn at(field: Field, offset: usize) -> Self {
        Self { field, offset }
    }

    /// Returns the error with an offset that counts from a start `bytes` bytes earlier.
    #[must_use]
    pub fn behind(self, bytes: usize) -> Self {
        Self {
            offset: self.offset.saturating_add(bytes),
            ..self
        }
    }

    fn place(self, command: u32) -> Failure {
        let offset = u32::try_from(self.offset).unwrap_or(MOST_OFFSET).min(MOST_OFFSET);
        PLACES.failure(
            Fault::MalformedMessage,
            command << COMMAND_SHIFT | (self.field as u32) << OFFSET_BITS | offset,
        )
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        malformed.place(NO_COMMAND)
    }
}

/// Adds the command to a failure whose detail is the location of a format error without a command.
pub fn in_response_to(failure: Failure, command: u16) -> Failure {
    match failure.detail {
        Detail::Status(status)
            if status.table.name == PLACES.name && status.code >> COMMAND_SHIFT == NO_COMMAND =>
        {
            let code = status.code & !(NO_COMMAND << COMMAND_SHIFT);
            let command = u32::from(command).min(NO_COMMAND);
            PLACES.failure(failure.fault, code | command << COMMAND_SHIFT)
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_shown_as_command_field_and_byte() {
        let place = Failure::from(Malformed::at(Field::ReadData, 2).behind(64));
        assert_eq!(
            place.to_string(),
            "a message from the server violates the protocol: header, DataOffset or DataLength at byte 66"
        );
        let told = in_response_to(place, Command::Read as u16);
        let words =
            "a message from the server violates the protocol: READ response, DataOffset or DataLength at byte 66";
        assert_eq!(told.to_string(), words);
        assert_eq!(in_response_to(told, Command::Write as u16), told);
        let end = in_response_to(
            Malformed::at(Field::End, usize::MAX).into(),
            Command::OplockBreak as u16,
        );
        assert!(
            end.to_string()
                .ends_with("OPLOCK_BREAK response, which ends before byte 2097151"),
            "{end}"
        );
        let other = Failure::from(Fault::ClosedEarly);
        assert_eq!(in_response_to(other, 8), other);
    }

    #[test]
    fn every_field_and_command_fits_into_the_code() {
        assert!(Field::ALL.len() <= 64 && Command::CODES < NO_COMMAND as usize);
    }
}
