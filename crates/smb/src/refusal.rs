//! The step at which a session was refused, and why. The status by itself does not distinguish a share that
//! denies a user from a server that denies the log-on.
//!
//! `advice.rs` has the remedies, which depend on the protocol's options.

use crate::status;
use dyno_measure::{named_enum, Detail, Failure, Fault, ProtocolStatus, StatusTable};

/// Table with the texts of the refusals below.
static STEPS: StatusTable = StatusTable {
    name: "SMB session",
    write: |code, formatter| match Refusal::of_code(code) {
        Some(refusal) => write!(formatter, "{}", refusal.words()),
        None => write!(formatter, "{}", Fault::SessionRefused.words()),
    },
};

named_enum! {
    /// Why a session with a file server was not established.
    pub enum Refusal {
        NotSmb "not_smb" "the answer to the first message is not SMB 2 or 3"
        HungUp "hung_up" "the server ended the connection after the first message"
        Smb1Alone "smb1_alone" "the server only speaks SMB 1, which is not supported"
        TurnedAway "turned_away" "the server accepts no connections from this address"
        Dialect "dialect" "the server supports none of the versions that were offered"
        NoEncryption "no_encryption" "encryption was requested, but the server has no cipher in common with this client"
        SigningWanted "signing_wanted" "the server requires signatures, which were turned off"
        LogOn "log_on" "the log-on was refused"
        Ticket "ticket" "the log-on by Kerberos was refused"
        TicketExpired "ticket_expired" "the Kerberos ticket has expired"
        Unproven "unproven" "the server did not prove that the Kerberos ticket is for it"
        EncryptionWanted "encryption_wanted" "the server requires encryption, which was not requested"
        Guest "guest" "the server has no such user, and accepted the log-on as a guest"
        GuestUnprotected "guest_unprotected" "a guest's session can't be signed or encrypted as requested"
        Share "share" "the share was refused"
        ReadOnly "read_only" "the share is read-only for this user"
        NoFiles "no_files" "the share is not for files, but for a printer or pipes"
        ShareEncryption "share_encryption" "the share requires encryption, which was not requested"
        NoChannels "no_channels" "several connections per session were requested, but only one is possible: \
            more require SMB 3, a user, and a server with multichannel"
        Binding "binding" "the server refused another connection of the session"
        Changed "changed" "something between client and server changed the negotiation"
    }
}

impl Refusal {
    fn of_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }

    /// Returns the refusal in a failure's `Detail::Refused`, if SMB set it.
    pub fn of(step: ProtocolStatus) -> Option<Self> {
        Self::of_code(step.code).filter(|_| step.table.name == STEPS.name)
    }

    /// Returns the failure of a refusal whose status is not an NTSTATUS.
    pub fn because(self, status: ProtocolStatus) -> Failure {
        STEPS.refusal(self as u32, Some(status))
    }

    /// Returns the failure of a refused session. `status`: the NTSTATUS, or 0 if there is none.
    pub fn failure(self, status: u32) -> Failure {
        let status = (status != status::SUCCESS).then(|| status::of(status));
        STEPS.refusal(self as u32, status)
    }

    pub fn detail(self, status: u32) -> Detail {
        self.failure(status).detail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_shown_with_its_status_and_found_in_the_failure() {
        for refusal in Refusal::ALL {
            let failure = refusal.failure(0);
            assert_eq!(failure.to_string(), refusal.words());
            let Detail::Refused { step, status: None } = failure.detail else {
                panic!("{failure:?}");
            };
            assert_eq!(Refusal::of(step), Some(refusal));
        }
        assert_eq!(
            Refusal::LogOn.failure(0xC000_006D).to_string(),
            "the log-on was refused: STATUS_LOGON_FAILURE (0xc000006d)"
        );
        assert_eq!(Refusal::of(status::of(0)), None);
    }
}
