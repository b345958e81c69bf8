//! Clients and sessions on the wire (RFC 8881, 18.34 to 18.37, 18.50, 18.51).

use super::compound::{parse_session, Compound};
use crate::nfs::state4::back::Back;
use crate::nfs::state4::clients::{Creation, MOST_SLOTS};
use crate::nfs::state4::status::Outcome;
use dyno_nfs::status::Status;
use dyno_nfs::wire::{Channel, Credential, Malformed, Reader, Writer};

const MOST_OWNER_BYTES: usize = 1024;
const MOST_AUTH_BYTES: usize = 400;
const MOST_GROUPS: u32 = 16;
const MOST_CALLBACK_FLAVORS: u32 = 16;
/// Flags that a client may set in EXCHANGE_ID; all other bits must be 0.
const CLIENT_FLAGS: u32 = 0x4007_0103;
const UPDATE: u32 = 0x4000_0000;
const CONFIRMED: u32 = 0x8000_0000;
/// `EXCHGID4_FLAG_USE_NON_PNFS`: the server has no layouts.
const NO_PNFS: u32 = 0x0001_0000;
const MOST_OPERATIONS: u32 = 64;
const MOST_KEPT_BYTES: u32 = 8192;
/// Minimum size of a request and of a reply. A session with a smaller maximum is refused.
const LEAST_BYTES: u32 = 1024;
/// Upper bound on the size of a READ or WRITE message without its data.
const AROUND_BYTES: u32 = 8192;
// Directions of a connection (`channel_dir_from_server4`): the fore channel only, or both channels.
const FORE: u32 = 1;
const BOTH: u32 = 3;
/// Flag of CREATE_SESSION: the connection also carries the back channel.
const CALLS: u32 = 2;

/// Parses the credentials that the client accepts in callbacks. Returns the first with a supported flavor.
fn parse_callback_security(reader: &mut Reader<'_>) -> Result<Option<Credential>, Malformed> {
    let count = reader.u32()?;
    if count > MOST_CALLBACK_FLAVORS {
        return Err(Malformed);
    }
    let mut chosen = None;
    for _ in 0..count {
        match reader.u32()? {
            0 => {
                chosen.get_or_insert(None);
            }
            1 => {
                reader.u32()?;
                let machine = reader.opaque(MOST_AUTH_BYTES)?;
                let credential = Credential {
                    machine: String::from_utf8_lossy(machine).into_owned(),
                    uid: reader.u32()?,
                    gid: reader.u32()?,
                };
                chosen.get_or_insert(Some(credential));
                let groups = reader.u32()?;
                if groups > MOST_GROUPS {
                    return Err(Malformed);
                }
                reader.bytes(groups as usize * 4)?;
            }
            6 => {
                reader.u32()?;
                reader.opaque(MOST_AUTH_BYTES)?;
                reader.opaque(MOST_AUTH_BYTES)?;
            }
            _ => return Err(Malformed),
        }
    }
    Ok(chosen.flatten())
}

impl Compound<'_> {
    pub(super) fn exchange_id(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let verifier = reader.u64()?;
        let owner = reader.opaque(MOST_OWNER_BYTES)?;
        let flags = reader.u32()?;
        let protection = reader.u32()?;
        // Every state protection other than SP4_NONE needs Kerberos.
        if flags & !CLIENT_FLAGS != 0 || protection != 0 || owner.is_empty() {
            return Err(Status::Inval.into());
        }
        match reader.u32()? {
            0 => {}
            1 => {
                reader.opaque(MOST_OWNER_BYTES)?;
                reader.opaque(MOST_OWNER_BYTES)?;
                reader.bytes(12)?;
            }
            _ => return Err(Malformed.into()),
        }
        let who = (owner, verifier, self.asked.caller.uid);
        let known = self
            .host
            .clients()
            .exchange(who, flags & UPDATE != 0, self.now_ns)?;
        writer.u64(known.client).u32(known.next);
        writer.u32(NO_PNFS | if known.confirmed { CONFIRMED } else { 0 });
        writer.u32(0); // no protection
                       // The server's own name is its owner and scope, because no other server has the same
                       // files.
        let name = format!("serverdyno {:016x}", self.host.server);
        writer
            .u64(0)
            .opaque(name.as_bytes())
            .opaque(name.as_bytes())
            .u32(0);
        Ok(())
    }

    pub(super) fn create_session(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let (client, number) = (reader.u64()?, reader.u32()?);
        let flags = reader.u32()?; // persistent sessions and RDMA are not offered
        let (fore, back) = (Channel::parse(reader)?, Channel::parse(reader)?);
        let program = reader.u32()?;
        let credential = parse_callback_security(reader)?;
        let mut clients = self.host.clients();
        match clients.begin_session(client, number, self.asked.caller.uid)? {
            Creation::Repeated(reply) => {
                writer.bytes(&reply);
                return Ok(());
            }
            Creation::New => {}
        }
        let most_bytes = self.asked.max_transfer_bytes + AROUND_BYTES;
        let granted = Channel {
            request_bytes: fore.request_bytes.min(most_bytes),
            reply_bytes: fore.reply_bytes.min(most_bytes),
            kept_reply_bytes: fore.kept_reply_bytes.min(MOST_KEPT_BYTES),
            operations: fore.operations.min(MOST_OPERATIONS),
            slots: fore.slots.min(MOST_SLOTS),
        };
        if granted.request_bytes.min(granted.reply_bytes) < LEAST_BYTES {
            return Err(Status::TooSmall.into());
        }
        if granted.operations == 0 || granted.slots == 0 {
            return Err(Status::Inval.into());
        }
        let delegates = self.host.options.delegations.is_some();
        let called = delegates.then(|| Back::new(program, credential));
        let session = clients.make_session(client, granted, called, self.now_ns)?;
        let is_bound = flags & CALLS != 0 && clients.bind(&session, self.connection);
        let mut reply = Vec::new();
        let mut own = Writer(&mut reply);
        own.bytes(&session)
            .u32(number)
            .u32(if is_bound { CALLS } else { 0 });
        granted.write(&mut own);
        back.write(&mut own);
        clients.keep_created(client, &reply);
        writer.bytes(&reply);
        Ok(())
    }

    /// Handles BIND_CONN_TO_SESSION. Only the back channel needs it, because requests of a session may use any
    /// connection.
    pub(super) fn bind_connection(&mut self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Outcome {
        let session = parse_session(reader)?;
        let direction = reader.u32()?;
        reader.bool()?;
        let mut clients = self.host.clients();
        clients.client_of(&session)?;
        let is_bound = direction != FORE && clients.bind(&session, self.connection);
        writer
            .bytes(&session)
            .u32(if is_bound { BOTH } else { FORE })
            .u32(0);
        Ok(())
    }

    pub(super) fn destroy_session(&mut self, reader: &mut Reader<'_>) -> Outcome {
        let session = parse_session(reader)?;
        self.host.clients().destroy_session(&session)
    }

    pub(super) fn destroy_client(&mut self, reader: &mut Reader<'_>) -> Outcome {
        let client = reader.u64()?;
        self.host.clients().destroy_client(client)
    }

    pub(super) fn reclaim_complete(&mut self, reader: &mut Reader<'_>) -> Outcome {
        let of_one_file_system = reader.bool()?;
        let client = self.client()?;
        match of_one_file_system {
            // Nothing to do: file systems never move here.
            true => self.file().map(|_| ()),
            false => self.host.clients().complete(client),
        }
    }
}
