//! The session between calls: it renews the client's lease and, if files are delegated, handles the
//! server's calls.

use super::{Data, Session, IDLE_NS};
use crate::status::Status4;
use crate::v4::{self, Asked, Procedure4};
use crate::wire::{Body, Message};
use dyno_files::Break;
use dyno_measure::{monotonic_ns, Failure, Fault};

/// Minimum interval between polls for the server's calls by a task that never waits: other clients may wait
/// for a recall.
const LOOK_NS: u64 = 1_000_000;

impl Session {
    /// Waits until `due_ns`, or until a break arrives.
    pub(super) async fn idle(&mut self, due_ns: u64) -> Result<Option<Break>, Failure> {
        loop {
            let now_ns = monotonic_ns();
            self.keep_ends(now_ns)?;
            self.send_answers().await?;
            let holds = self.conversation.holds_any();
            if holds {
                self.conversation.doubt_delegations(now_ns);
            }
            if let Some(broken) = self.conversation.next_break() {
                return Ok(Some(broken));
            }
            if now_ns >= due_ns {
                match holds && self.look(now_ns).await? {
                    true => continue,
                    false => return Ok(None),
                }
            }
            if !self.conversation.is_quiet() {
                self.go_on(Some(due_ns)).await?;
                continue;
            }
            if due_ns - now_ns >= IDLE_NS && self.kept.is_empty() {
                self.records.release();
                self.conversation.release();
                (self.outbox, self.told_data) = (Vec::new(), Vec::new());
            }
            // The lease must be renewed meanwhile, so that the server does not forget the client.
            let renewal_ns = self
                .conversation
                .renewal_ns()
                .filter(|renewal_ns| *renewal_ns < due_ns);
            let until_ns = renewal_ns.unwrap_or(due_ns);
            match holds {
                true => self.go_on(Some(until_ns)).await?,
                false => self.executor.sleep_until(until_ns).await,
            }
            match renewal_ns {
                None if !holds => return Ok(None),
                Some(renewal_ns) if monotonic_ns() >= renewal_ns => {
                    self.conversation.renew();
                    self.go_on(Some(due_ns)).await?;
                }
                _ => {}
            }
        }
    }

    /// Processes received data and stores finished calls until the caller asks for them.
    fn keep_ends(&mut self, now_ns: u64) -> Result<(), Failure> {
        while let Some(mut ended) = self.conversation.receive(&mut self.records, now_ns)? {
            if let Data::Received(range) = ended.data {
                ended.data = Data::Joined(self.records.bytes()[range].to_vec());
            }
            self.kept.push_back(ended);
        }
        Ok(())
    }

    /// Sends the replies to the server's calls. Must run before breaks are handled, which may take a while.
    pub(super) async fn send_answers(&mut self) -> Result<(), Failure> {
        match self.conversation.owes_answers() {
            true => {
                let sent = self.send_due().await;
                self.replace_if_lost(sent).await
            }
            false => Ok(()),
        }
    }

    /// Polls the socket, at most once per `LOOK_NS`, and renews the lease if necessary. Returns whether a
    /// record has arrived.
    async fn look(&mut self, now_ns: u64) -> Result<bool, Failure> {
        if now_ns < self.looked_ns.saturating_add(LOOK_NS) {
            return Ok(false);
        }
        self.looked_ns = now_ns;
        let renewal_ns = self.conversation.renewal_ns();
        if self.conversation.is_quiet() && renewal_ns.is_some_and(|renewal_ns| renewal_ns <= now_ns) {
            self.conversation.renew();
        }
        self.executor.give_way().await;
        let looked = match self.send_due().await {
            Ok(()) => self.take(),
            failed => failed,
        };
        self.replace_if_lost(looked).await?;
        Ok(self.records.has_next())
    }

    /// Binds the connection to the back channel of an existing session. If the server refuses, all
    /// delegations are given up.
    pub(super) async fn bind(&mut self) -> Result<(), Failure> {
        let Some(agreed) = self
            .conversation
            .agreed4()
            .filter(|_| self.conversation.is_unbound)
        else {
            return Ok(());
        };
        let xid = self.conversation.number();
        let mut message = Message::default();
        let asked = Asked {
            xid,
            credential: &self.options.credential,
            minor: agreed.minor,
        };
        v4::bind_connection(&mut message, asked, &agreed.session);
        self.conversation.count(Procedure4::Bind as usize);
        self.dialer.turn(1).await;
        let socket = self.socket.as_ref().ok_or(Fault::ConnectionReset)?;
        socket.send_first(message.bytes()).await?;
        self.traffic.bytes_out += message.bytes().len() as u64;
        loop {
            while let Some(range) = self.records.next_record()? {
                let record = &self.records.bytes()[range];
                // A recall may arrive before the answer.
                if self.conversation.take_call(record)? {
                    continue;
                }
                let (answered, body) = Body::parse(record)?;
                if answered != xid {
                    return Err(Fault::MalformedMessage.into());
                }
                let bound = match body {
                    Body::Accepted(at) => v4::parse_bind_connection(&record[at..])?,
                    _ => Ok(false),
                };
                self.conversation.bound(bound);
                return Ok(());
            }
            let socket = self.socket.as_ref().ok_or(Fault::ConnectionReset)?;
            socket.readable(Fault::ResponseTimeout).await?;
            self.take()?;
        }
    }

    /// Gives back all delegations before the session ends. If this fails, the server drops the remaining ones with the
    /// client.
    pub(super) async fn give_back_all(&mut self) -> Result<(), Failure> {
        self.conversation.give_back_all();
        while !self.conversation.is_quiet() {
            self.keep_ends(monotonic_ns())?;
            match self.send_due().await {
                Ok(()) => self.wait(None).await?,
                failed => failed?,
            }
        }
        Ok(())
    }
}

impl super::Conversation {
    /// Handles the answer to BIND_CONN_TO_SESSION. `bound`: whether the connection carries the server's
    /// calls, or the status of a refusal.
    fn bound(&mut self, bound: Result<bool, u32>) {
        self.is_unbound = false;
        let is_unknown = |status: &u32| {
            [Status4::BadSession, Status4::DeadSession]
                .iter()
                .any(|known| *known as u32 == *status)
        };
        let Some(state) = &mut self.four else { return };
        match bound {
            Ok(true) => {}
            // The new session will have no delegations.
            Err(status) if is_unknown(&status) => state.is_gone = true,
            _ => {
                state.set_uncalled();
                self.give_up_all_but(0, true);
            }
        }
    }
}
