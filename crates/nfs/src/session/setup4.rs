//! Start of an NFSv4.1 session, its recovery after a restart of the server, and its end: single requests on
//! the connection that later carries the calls.

use super::options::{TransferSizes, Version, LISTING_BYTES};
use super::setup::{exchange, Answer};
use super::Session;
use crate::refusal::Refusal;
use crate::status::{self, Status, Status4, Unaccepted};
use crate::v4::{self, Asked, Attributes4, Claim, Identity, KnownAs, Procedure4, Reply4, State};
use crate::wire::{Body, Channel, FileHandle, Message};
use dyno_measure::{monotonic_ns, Failure, Fault};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Upper bound on the size of a request or reply without its data: headers, file handles and attributes.
const AROUND_BYTES: u32 = 4096;
/// Minimum transfer size that a server must allow.
const LEAST_BYTES: u32 = 512;
/// Pause after the first delay by the server; each further pause is twice as long.
const PAUSE_LEAST_NS: u64 = 20_000_000;
const PAUSE_MOST_NS: u64 = 1_000_000_000;
/// Lease time until the server reports its own.
const SHORT_LEASE_S: u32 = 10;

/// Answer to a set-up request.
struct Told {
    status: u32,
    record: Vec<u8>,
    /// Start of the results: after SEQUENCE for a request within a session, otherwise at the status.
    at: usize,
}

impl Told {
    fn results(&self) -> &[u8] {
        &self.record[self.at..]
    }

    fn is(&self, status: Status4) -> bool {
        self.status == status as u32
    }
}

/// Returns the identity of a client, which differs between processes on all machines. Process IDs would not
/// suffice: processes on two machines often have the same ID, and a server would take the second client for
/// a restart of the first.
pub(super) fn identity(client: u64) -> Identity {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    let process = PROCESS.get_or_init(|| RandomState::new().build_hasher().finish());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Identity {
        owner: format!("serverdyno {process:016x} {client:016x}").into_bytes(),
        verifier: now.as_nanos() as u64,
    }
}

impl Session {
    /// Connects, creates a session, finds the export and negotiates the sizes.
    pub(super) async fn establish4(&mut self) -> Result<(), Failure> {
        self.dial()?;
        let (mut state, channel) = self.make_session().await?;
        self.complete(&mut state).await?;
        let (root, attributes) = self.find_export(&mut state).await?;
        state.set_lease(attributes.lease_s.unwrap_or(SHORT_LEASE_S));
        let agreed =
            sizes(&self.options, &channel, &attributes).ok_or_else(|| Refusal::Sizes.failure(None))?;
        self.conversation.establish4(root, agreed, state);
        self.records
            .set_max_record_bytes((agreed.max_read_bytes.max(agreed.listing_bytes) + AROUND_BYTES) as usize);
        Ok(())
    }

    /// Creates another session on another connection, reclaims the open files, and queues all unanswered
    /// requests again.
    pub(super) async fn establish_again(&mut self) -> Result<(), Failure> {
        self.reconnect(Fault::ConnectionReset.into()).await?;
        let Some((opens, lease_s)) = self.conversation.opens_and_lease() else {
            return Err(Fault::SessionLost.into());
        };
        let (mut state, _) = self.make_session().await?;
        state.set_lease(lease_s);
        state.take_opens(opens);
        let lost = self.reclaim(&mut state, Claim::Previous, None).await?;
        self.complete(&mut state).await?;
        // Before RECLAIM_COMPLETE, a server may refuse anything but a reclaim (RFC 8881, 18.51.3).
        self.reclaim(&mut state, Claim::Anew, Some(lost)).await?;
        self.conversation.go_on_in(state);
        Ok(())
    }

    async fn make_session(&mut self) -> Result<(State, Channel), Failure> {
        let known = self.make_known().await?;
        let minor = self.spoken.minor();
        // For a client that the server already knows, the sequence number of the next session continues
        // (RFC 8881, 18.35.3).
        let number = match self.next_session {
            Some((client_id, next)) if known.is_confirmed && client_id == known.client_id => next,
            _ => known.number,
        };
        let options = &self.options;
        let is_called = options.delegations;
        let wanted = Channel::asked(options.max_write_bytes, options.max_read_bytes, AROUND_BYTES);
        let told = self
            .ask(Procedure4::CreateSession, |message, asked| {
                v4::create_session(message, asked, (known.client_id, number), &wanted, is_called);
            })
            .await?;
        let (agreed, channel) = v4::parse_create_session(told.results(), &wanted, (known.client_id, minor))?
            .map_err(|refused| Refusal::Session.failure(Some(status::of4(refused))))?;
        self.next_session = Some((known.client_id, number.wrapping_add(1)));
        let is_usable = channel.operations >= v4::MOST_OPERATIONS
            && channel.slots > 0
            && channel.request_bytes.min(channel.reply_bytes) >= AROUND_BYTES / 2 + LEAST_BYTES;
        if !is_usable {
            return Err(Refusal::Sizes.failure(None));
        }
        let mut state = State::new(agreed);
        state.set_lease(SHORT_LEASE_S);
        state.heard(monotonic_ns());
        Ok((state, channel))
    }

    /// Registers the client with the server in the newest common minor version.
    async fn make_known(&mut self) -> Result<KnownAs, Failure> {
        let identity = self.identity.clone();
        loop {
            let told = self
                .ask(Procedure4::ExchangeId, |message, asked| {
                    v4::exchange_id(message, asked, &identity);
                })
                .await?;
            match v4::parse_exchange_id(told.results())? {
                Ok(known) => return Ok(known),
                Err(_) if told.is(Status4::MinorVersionMismatch) && self.spoken == Version::V4_2 => {
                    self.spoken = Version::V4_1;
                }
                Err(refused) if told.is(Status4::MinorVersionMismatch) => {
                    return Err(Refusal::NotNfs4.failure(Some(status::of4(refused))));
                }
                Err(refused) => return Err(Refusal::ClientId.failure(Some(status::of4(refused)))),
            }
        }
    }

    /// Announces that the client will reclaim no more state from before a restart. Without this announcement,
    /// a server may refuse every open.
    async fn complete(&mut self, state: &mut State) -> Result<(), Failure> {
        let told = self
            .ask_in(
                state,
                Procedure4::ReclaimComplete,
                |message, asked, state, slot| {
                    v4::reclaim_complete(message, asked, state, slot);
                },
            )
            .await?;
        match told.status {
            0 | COMPLETE_ALREADY => Ok(()),
            refused => Err(Refusal::Session.failure(Some(status::of4(refused)))),
        }
    }

    async fn find_export(&mut self, state: &mut State) -> Result<(FileHandle, Attributes4), Failure> {
        let export = self.export.clone();
        let mut found = self.step_to(state, None).await?;
        for name in export.split('/').filter(|name| !name.is_empty()) {
            found = self.step_to(state, Some((found.0, name))).await?;
        }
        match found.1.is_directory() {
            true => Ok(found),
            false => Err(Refusal::Export.failure(Some(status::of4(Status::NotDir as u32)))),
        }
    }

    /// Looks up the server's root, or a name in a directory.
    async fn step_to(
        &mut self,
        state: &mut State,
        step: Option<(FileHandle, &str)>,
    ) -> Result<(FileHandle, Attributes4), Failure> {
        let procedure = match step {
            Some(_) => Procedure4::Lookup,
            None => Procedure4::Root,
        };
        let told = self
            .ask_in(state, procedure, |message, asked, state, slot| {
                let step = step.as_ref().map(|(at, name)| (at, name.as_bytes()));
                v4::root(message, asked, state, slot, step);
            })
            .await?;
        match told.status {
            0 => Ok(v4::parse_root(told.results(), step.is_some())?),
            refused if told.is(Status4::WrongSecurity) => {
                Err(Refusal::Flavor.failure(Some(status::of4(refused))))
            }
            refused => Err(Refusal::Export.failure(Some(status::of4(refused)))),
        }
    }

    /// Reopens files and locks their ranges again, as reclaims or as new opens. Returns the files whose open
    /// or locks are lost. They keep their old state IDs, so that the server refuses requests for them.
    async fn reclaim(
        &mut self,
        state: &mut State,
        claim: Claim,
        files: Option<Vec<FileHandle>>,
    ) -> Result<Vec<FileHandle>, Failure> {
        let mut lost = Vec::new();
        for file in files.unwrap_or_else(|| state.opens().keys().copied().collect()) {
            let Some(open) = state.opens().get(&file).cloned() else {
                continue;
            };
            let owner = self.conversation.client;
            let told = self
                .ask_in(state, Procedure4::Open, |message, asked, state, slot| {
                    v4::reclaim(message, asked, state, slot, (&file, open.access, owner, claim));
                })
                .await?;
            if told.status != Status::Ok as u32 {
                lost.push(file);
                continue;
            }
            state.reopened(&file, v4::parse_open(told.results(), false)?.stateid);
            let mut is_lost = false;
            for range in &open.locked {
                is_lost |= !self.reclaim_lock(state, &file, range, claim).await?;
            }
            if is_lost {
                state.lost_locks(&file, open.lock.unwrap_or(open.stateid));
                lost.push(file);
            }
        }
        Ok(lost)
    }

    /// Locks a range again. Returns false if another client has locked the range, or the server refuses the
    /// claim.
    async fn reclaim_lock(
        &mut self,
        state: &mut State,
        file: &FileHandle,
        range: &Range<u64>,
        claim: Claim,
    ) -> Result<bool, Failure> {
        let owner = self.conversation.client;
        let told = self
            .ask_in(state, Procedure4::Lock, |message, asked, state, slot| {
                v4::reclaim_lock(message, asked, state, slot, (file, range, owner, claim));
            })
            .await?;
        let is_had = told.status == Status::Ok as u32;
        if is_had {
            state.locked(file, v4::parse_lock(told.results(), false)?);
        }
        Ok(is_had)
    }

    /// Destroys the session and the client ID on the server.
    pub(super) async fn leave4(&mut self) -> Result<(), Failure> {
        let Some(agreed) = self.conversation.agreed4() else {
            return Ok(());
        };
        self.ask(Procedure4::DestroySession, |message, asked| {
            v4::destroy_session(message, asked, &agreed.session);
        })
        .await?;
        self.ask(Procedure4::DestroyClientId, |message, asked| {
            v4::destroy_client(message, asked, agreed.client_id);
        })
        .await
        .map(|_| ())
    }

    /// Sends a request outside of a session, and repeats it while the server asks for a delay.
    async fn ask(
        &mut self,
        procedure: Procedure4,
        write: impl Fn(&mut Message, Asked<'_>),
    ) -> Result<Told, Failure> {
        let mut pause_ns = PAUSE_LEAST_NS;
        loop {
            let (record, at) = self.ask_once(procedure, &write).await?;
            let status = v4::parse_status(&record[at..])?;
            if !is_later(status) {
                return Ok(Told { status, record, at });
            }
            self.conversation.note_postponed(status == Status4::Grace as u32);
            self.pause(&mut pause_ns).await?;
        }
    }

    /// Sends a request in the first free slot of a session, and repeats it while the server asks for a delay.
    async fn ask_in(
        &mut self,
        state: &mut State,
        procedure: Procedure4,
        write: impl Fn(&mut Message, Asked<'_>, &State, u32),
    ) -> Result<Told, Failure> {
        let mut pause_ns = PAUSE_LEAST_NS;
        loop {
            let slot = state.take_slot().ok_or(Fault::MalformedMessage)?;
            let asked = {
                let state = &*state;
                self.ask_once(procedure, &|message: &mut Message, asked: Asked<'_>| {
                    write(message, asked, state, slot);
                })
                .await
            };
            let (record, begin) = asked?;
            match state.read_reply(&record[begin..], slot)? {
                Reply4::Done(status, at) => {
                    let at = begin + at;
                    return Ok(Told { status, record, at });
                }
                Reply4::Later { in_grace } => {
                    self.conversation.note_postponed(in_grace);
                    self.pause(&mut pause_ns).await?;
                }
                Reply4::Anew => self.pause(&mut pause_ns).await?,
                // The session was just created, so there is nothing to recover.
                Reply4::NoSession => return Err(Refusal::Session.failure(None)),
            }
        }
    }

    async fn pause(&mut self, pause_ns: &mut u64) -> Result<(), Failure> {
        if self.executor.deadline_passed() {
            return Err(Fault::ResponseTimeout.into());
        }
        self.executor
            .sleep_until(monotonic_ns().saturating_add(*pause_ns))
            .await;
        *pause_ns = (*pause_ns * 2).min(PAUSE_MOST_NS);
        Ok(())
    }

    /// Sends a request once; returns the received record and the start of its results.
    async fn ask_once(
        &mut self,
        procedure: Procedure4,
        write: &impl Fn(&mut Message, Asked<'_>),
    ) -> Result<(Vec<u8>, usize), Failure> {
        let xid = self.conversation.number();
        let mut message = Message::default();
        let credential = &self.options.credential;
        let minor = self.spoken.minor();
        write(
            &mut message,
            Asked {
                xid,
                credential,
                minor,
            },
        );
        self.conversation.count(procedure as usize);
        let socket = self.socket.as_ref().ok_or(Fault::SessionLost)?;
        let Answer { record, body } =
            exchange((&*self.dialer, socket), &message, xid, &mut self.traffic).await?;
        match body {
            Body::Accepted(at) => Ok((record, at)),
            Body::Unaccepted(reason) => {
                let refusal = match reason == Unaccepted::ProgMismatch as u32 {
                    true => Refusal::NotNfs4,
                    false => Refusal::NotNfs,
                };
                Err(refusal.failure(Some(status::of_rpc(reason))))
            }
            Body::Denied(reason) => Err(Refusal::denied(reason)),
        }
    }
}

/// `NFS4ERR_COMPLETE_ALREADY`.
const COMPLETE_ALREADY: u32 = 10_054;

fn is_later(status: u32) -> bool {
    status == Status::JukeBox as u32 || status == Status4::Grace as u32
}

/// Negotiates the sizes; returns None if they are too small.
fn sizes(options: &super::Options, channel: &Channel, attributes: &Attributes4) -> Option<TransferSizes> {
    let least = |ours: u32, message_bytes: u32, theirs: Option<u64>| {
        let room = message_bytes.saturating_sub(AROUND_BYTES / 2).min(ours);
        let theirs = theirs.map_or(u32::MAX, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        room.min(theirs)
    };
    let max_read_bytes = least(
        options.max_read_bytes,
        channel.reply_bytes,
        attributes.max_read_bytes,
    );
    let max_write_bytes = least(
        options.max_write_bytes,
        channel.request_bytes,
        attributes.max_write_bytes,
    );
    let agreed = TransferSizes {
        max_read_bytes,
        max_write_bytes,
        listing_bytes: LISTING_BYTES.min(channel.reply_bytes - AROUND_BYTES / 2),
    };
    (max_read_bytes.min(max_write_bytes) >= LEAST_BYTES).then_some(agreed)
}
