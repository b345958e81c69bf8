//! Handles the server's messages: checks each against the outstanding requests, and ends calls, reports
//! breaks, or ends the session if a message violates the protocol.

use super::calls::{Kind, LISTING_BYTES};
use super::conversation::{Conversation, Incoming, Outstanding, Owner, Running};
use super::durable::Durability;
use super::handles::{caching_of_level, caching_of_state, Handles, OpenFile};
use super::inbox::Inbox;
use crate::status;
use crate::wire::{
    flags, in_response_to, oplock, parse_break, parse_create, parse_data, parse_durable, parse_entries,
    parse_error, parse_file_info, parse_space_info, parse_structure, parse_write, BreakNotice, Command,
    Created, Field, Header, Link, Malformed, Parsed, HEADER_BYTES,
};
use dyno_files::{Break, Caching, Grant, Info, LeaseKey, Reply, SpaceInfo};
use dyno_measure::Failure;
use std::ops::Range;

/// Maximum number of interim responses to one request. The first one is enough, because further ones carry no
/// information.
const MAX_INTERIMS: u32 = 8;

impl Conversation {
    /// Processes received data up to the next event. Returns None if more data must arrive first.
    pub fn receive(&mut self, inbox: &mut Inbox) -> Result<Option<Incoming>, Failure> {
        if let Some((id, result)) = self.ended_at_once.pop_front() {
            return Ok(Some(Incoming::Ended(id, result, 0..0)));
        }
        loop {
            match inbox.next_part()? {
                Some((header, range)) => {
                    let told = self.part_came(&header, range, inbox.bytes());
                    if let Some(told) = told.map_err(|failure| in_response_to(failure, header.command))? {
                        return Ok(Some(told));
                    }
                }
                None if inbox.next_message()? => self.protection.open(inbox, self.link.session_id)?,
                None => return Ok(None),
            }
        }
    }

    fn part_came(
        &mut self,
        header: &Header,
        range: Range<usize>,
        bytes: &[u8],
    ) -> Result<Option<Incoming>, Failure> {
        let part = &bytes[range.clone()];
        if header.answers_nothing() {
            return Ok(self.break_came(header, part)?.map(Incoming::Break));
        }
        let is_it = |request: &Outstanding| request.message_id == header.message_id;
        let position = self.outstanding.iter().position(is_it);
        let position = position.ok_or(Malformed::at(Field::MessageId, 24))?;
        if self.outstanding[position].command as u16 != header.command {
            return Err(Malformed::at(Field::Command, 12).into());
        }
        if header.status == status::PENDING {
            self.interim_came(position, header)?;
            return Ok(None);
        }
        self.protection.verify(header, part)?;
        self.check_identity(position, header)?;
        let request = self.settle(position);
        self.earn(header.credits);
        match request.owner {
            Owner::Session => {
                let link = Link {
                    session_id: header.session_id,
                    tree_id: header.tree_id,
                };
                Ok(Some(Incoming::Answer(header.status, link, range)))
            }
            Owner::Acknowledgement => check_session(header.status).map(|()| None),
            Owner::Call(index) => {
                if header.status == status::FILE_NOT_AVAILABLE && self.is_outrun(index, &request) {
                    let outrun = self.finish(index);
                    let again = outrun.and_then(|call| Some(Incoming::Outrun(call.id, call.again?)));
                    return Ok(again);
                }
                self.call_went_on(index, request.command, header.status, part, range.start)
            }
        }
    }

    /// Returns whether the request can be repeated and the server may have refused it because of its channel sequence
    /// (MS-SMB2 3.3.5.2.10). Either a request with a later sequence overtook it, or the request is a repetition and the
    /// server is still processing requests of an earlier connection.
    fn is_outrun(&self, index: usize, request: &Outstanding) -> bool {
        let running = self.running.get(index).and_then(Option::as_ref);
        let is_older = request.channel_sequence != self.durability.channel_sequence;
        running.is_some_and(|call| call.again.is_some() && (is_older || call.repeated))
    }

    /// Records an interim response to the request at `position`. Interim responses are not signed (MS-SMB2
    /// 3.2.5.1.3).
    fn interim_came(&mut self, position: usize, header: &Header) -> Parsed<()> {
        let request = &mut self.outstanding[position];
        let is_first = request.interims == 0;
        if !header.has(flags::ASYNC)
            || request.interims == MAX_INTERIMS
            || !(is_first || request.async_id == header.async_id)
        {
            return Err(Malformed::at(Field::AsyncId, 32));
        }
        request.interims += 1;
        request.async_id = header.async_id;
        self.earn(header.credits);
        Ok(())
    }

    /// Checks the session ID, tree ID and async ID of a response. An error response may lack them: a server
    /// that has lost the session does not know its ID.
    fn check_identity(&self, position: usize, header: &Header) -> Parsed<()> {
        let request = &self.outstanding[position];
        let is_async = header.has(flags::ASYNC);
        if is_async && request.interims > 0 && request.async_id != header.async_id {
            return Err(Malformed::at(Field::AsyncId, 32));
        }
        if request.owner == Owner::Session || status::is_error(header.status) {
            return Ok(());
        }
        let right_tree = is_async || header.tree_id == self.link.tree_id;
        if header.session_id == self.link.session_id && right_tree {
            Ok(())
        } else {
            Err(Malformed::at(Field::SessionId, 40))
        }
    }

    fn break_came(&mut self, header: &Header, part: &[u8]) -> Parsed<Option<Break>> {
        if header.command != Command::OplockBreak as u16 {
            return Err(Malformed::at(Field::Command, 12));
        }
        self.counts.breaks += 1;
        match parse_break(part)? {
            BreakNotice::Oplock { file, level } => {
                if level > oplock::LEVEL_II {
                    return Err(Malformed::at(Field::OplockLevel, HEADER_BYTES + 2));
                }
                let Some(handle) = self.handles.of_file(file) else {
                    return Ok(None);
                };
                let Some(open) = self
                    .handles
                    .get(handle)
                    .filter(|open| open.oplock != Caching::NONE)
                else {
                    return Ok(None);
                };
                let to = caching_of_level(level);
                // A break to level II needs no acknowledgement (MS-SMB2 3.2.5.19.1).
                let acknowledge = open.oplock != Caching::READ;
                if !acknowledge {
                    open.oplock = to;
                }
                Ok(Some(Break {
                    grant: Grant::Handle(handle),
                    to,
                    acknowledge,
                }))
            }
            BreakNotice::Lease {
                key,
                state,
                acknowledge,
            } => {
                let key = LeaseKey(key);
                Ok(self.handles.has_lease(key).then_some(Break {
                    grant: Grant::Lease(key),
                    to: caching_of_state(state),
                    acknowledge,
                }))
            }
        }
    }

    fn call_went_on(
        &mut self,
        index: usize,
        command: Command,
        status: u32,
        part: &[u8],
        start: usize,
    ) -> Result<Option<Incoming>, Failure> {
        check_session(status)?;
        let running = self
            .running
            .get_mut(index)
            .and_then(Option::as_mut)
            .ok_or(Malformed::at(Field::MessageId, 24))?;
        running.parts_left = running.parts_left.saturating_sub(1);
        if running.failed.is_some() && status::is_error(status) {
            self.counts.refused += 1;
        }
        let books = &mut (&mut self.handles, &mut self.durability);
        running.take_part(books, command, status, part, start)?;
        if self.next_part(index) {
            return Ok(None);
        }
        let running = self
            .running
            .get_mut(index)
            .and_then(Option::as_mut)
            .ok_or(Malformed::at(Field::MessageId, 24))?;
        if running.parts_left > 0 {
            return Ok(None);
        }
        if let (true, None, Some(file)) = (running.more, running.failed, running.file) {
            (running.parts_left, running.more) = (1, false);
            // By MS-SMB2, the pattern of the first request applies; Samba uses the pattern of each request.
            let pattern = std::mem::take(&mut self.patterns[index]);
            self.follow_up(index, |message| {
                message.query_directory(file, &pattern, LISTING_BYTES, false)
            });
            self.patterns[index] = pattern;
            return Ok(None);
        }
        if let (Some(file), false) = (running.file.take(), running.kind.keeps_file()) {
            running.parts_left = 1;
            self.follow_up(index, |message| message.close(file));
            return Ok(None);
        }
        Ok(self.finish(index).map(Running::end))
    }
}

fn check_session(status: u32) -> Result<(), Failure> {
    if status::ends_session(status) {
        return Err(status::failure(status));
    }
    Ok(())
}

/// State that responses change: open files and durable handles.
type Books<'a> = (&'a mut Handles, &'a mut Durability);

impl Running {
    /// Processes the response to one of the call's requests. `part` begins at offset `start` of the inbox.
    fn take_part(
        &mut self,
        books: &mut Books<'_>,
        command: Command,
        status: u32,
        part: &[u8],
        start: usize,
    ) -> Parsed<()> {
        if status::is_error(status) {
            parse_error(part)?;
        }
        if let (Command::Close, Kind::Close(handle)) = (command, self.kind) {
            // The handle can't be used any more, whatever status the server returns.
            books.0.remove(handle);
        }
        match (command, status) {
            (Command::QueryDirectory, status::NO_MORE_FILES | status::NO_SUCH_FILE) => self.more = false,
            (Command::Read, status::END_OF_FILE) => self.reply = Reply::Read { bytes: 0 },
            (_, status::SUCCESS) => self.take_success(books, command, part, start)?,
            _ => {
                self.failed.get_or_insert(status);
            }
        }
        Ok(())
    }

    fn take_success(
        &mut self,
        books: &mut Books<'_>,
        command: Command,
        part: &[u8],
        start: usize,
    ) -> Parsed<()> {
        match command {
            Command::Create => self.take_create(books, part)?,
            Command::Close => {
                parse_structure(part, 60)?;
                self.file = None;
            }
            Command::Read => {
                let Kind::Read(most) = self.kind else {
                    return Err(Malformed::at(Field::Command, 12));
                };
                let data = parse_data(part, most)?;
                let bytes = u32::try_from(data.len()).unwrap_or(most);
                self.data = start + data.start..start + data.end;
                self.reply = Reply::Read { bytes };
            }
            Command::Write => {
                let Kind::Write(sent) = self.kind else {
                    return Err(Malformed::at(Field::Command, 12));
                };
                let bytes = parse_write(part, sent)?;
                self.reply = Reply::Written { bytes };
            }
            Command::QueryInfo if self.kind == Kind::Space => {
                let (total_bytes, free_bytes) = parse_space_info(part)?;
                self.reply = Reply::Space(SpaceInfo {
                    total_bytes,
                    free_bytes,
                });
            }
            Command::QueryInfo => {
                let (bytes, allocated_bytes, directory, read_only) = parse_file_info(part)?;
                self.reply = Reply::Info(Info {
                    bytes,
                    allocated_bytes,
                    directory,
                    read_only,
                    ..Info::default()
                });
            }
            Command::QueryDirectory => {
                let found = parse_entries(part, LISTING_BYTES)?;
                if let Reply::Found { entries } = &mut self.reply {
                    *entries = entries.saturating_add(found);
                }
                self.more = true;
            }
            Command::SetInfo => parse_structure(part, 2)?,
            _ => parse_structure(part, 4)?,
        }
        Ok(())
    }

    fn take_create(&mut self, (handles, durability): &mut Books<'_>, part: &[u8]) -> Parsed<()> {
        let lease = match self.kind {
            Kind::Open { lease, .. } => lease,
            Kind::Change(lease) => {
                self.file = Some(parse_create(part, lease.map(|key| key.0))?.file);
                return Ok(());
            }
            _ => {
                self.file = Some(parse_create(part, None)?.file);
                return Ok(());
            }
        };
        let created = parse_create(part, lease.map(|key| key.0))?;
        let is_lease = created.oplock == oplock::LEASE;
        let level = caching_of_level(created.oplock);
        let granted = if is_lease {
            caching_of_state(created.lease_state)
        } else {
            level
        };
        let durable = match self.durable.take() {
            Some(asked) => durability.answered(asked, parse_durable(part)?, granted),
            None => None,
        };
        let handle = handles.insert(OpenFile {
            file: created.file,
            oplock: level,
            lease: lease.filter(|_| is_lease),
            directory: self.directory.take().filter(|_| is_lease),
            closing: false,
            durable,
            reopened: false,
        });
        self.reply = Reply::Opened {
            handle,
            granted,
            created: created.created,
            info: info(&created),
        };
        Ok(())
    }

    fn end(self) -> Incoming {
        let result = match self.failed {
            // The server closed the file, but its first response was lost with the connection.
            Some(status::FILE_CLOSED) if self.repeated && matches!(self.kind, Kind::Close(_)) => {
                Ok(Reply::Done)
            }
            Some(status) if self.kind.may_be_absent() && status::is_not_there(status) => Ok(Reply::NotThere),
            Some(status) => Err(status::failure(status)),
            None => Ok(self.reply),
        };
        Incoming::Ended(self.id, result, self.data)
    }
}

fn info(created: &Created) -> Info {
    Info {
        bytes: created.bytes,
        allocated_bytes: created.allocated_bytes,
        directory: created.directory,
        read_only: created.read_only,
        ..Info::default()
    }
}
