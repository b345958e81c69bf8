//! What to try where no session came about: whose the fault is, and which setting or which side to look at.
//!
//! The settings are called as in plans and in the Python module: `user`, `shares`, `signing`, `encryption`,
//! `min_dialect` and `max_dialect`. Not for failures of single calls under load: those are counted.

use crate::auth::{EXPIRED, MODIFIED, NOT_US, NOT_YET_VALID, NO_KEY, OLD_KEY, REPEATED, SKEW};
use crate::ntstatus::*;
use crate::Refusal;
use dyno_measure::{Detail, Failure, Fault};

/// What to try about a session that was not made; None where there is nothing to be said beyond the failure's words.
#[must_use]
pub fn advice(failure: &Failure) -> Option<&'static str> {
    match (failure.fault, failure.detail) {
        (_, Detail::Refused { step, status }) => {
            Refusal::of(step).map(|refusal| of_refusal(refusal, status.map_or(0, |status| status.code)))
        }
        (Fault::ConnectionRefused, _) => {
            Some("Start the server, or check the port: nothing listens there. The usual one is 445.")
        }
        (Fault::ConnectTimeout | Fault::Unreachable, _) => {
            Some("Check the address, and that no firewall lies between: the host does not answer.")
        }
        (Fault::ResponseTimeout, _) => Some(
            "Look at the server's log: it accepts connections and does not answer. It may also be no file server.",
        ),
        (Fault::WrongSignature, _) => Some(
            "Server and client don't have the same keys: somebody between them may have changed messages, or the \
             server is broken. Try another max_dialect.",
        ),
        (Fault::NoCredit | Fault::MalformedMessage, _) => {
            Some("The server breaks the protocol. Try another max_dialect, and tell us of the server's version.")
        }
        _ => None,
    }
}

fn of_refusal(refusal: Refusal, status: u32) -> &'static str {
    match refusal {
        Refusal::NotSmb => {
            "Check the port: it is another kind of server, or one that speaks SMB 1 alone, which is not supported."
        }
        Refusal::HungUp => {
            "The server's side, if it is a file server: it takes no more connections (Samba: max smbd processes). Look at \
             its log. Check the port, too."
        }
        Refusal::Smb1Alone => {
            "The server's side: let it have SMB 2.0.2 or newer (Samba: server max protocol)."
        }
        Refusal::TurnedAway => {
            "The server's side: allow this machine's address on it (Samba: hosts allow, hosts deny)."
        }
        Refusal::Dialect if status == NOT_SUPPORTED => {
            "The server has none of SMB 2.0.2 to 3.1.1 as far as min_dialect and max_dialect allow: widen them. A server \
             that speaks SMB 1 alone (Samba: server max protocol) is not supported."
        }
        Refusal::Dialect => "Widen min_dialect and max_dialect, or let the server have one of those versions.",
        Refusal::NoEncryption => {
            "The server's side: it can't encrypt, or not with the versions that are allowed (SMB 3.0 on). Turn its \
             encryption on, raise max_dialect, or set encryption = \"auto\"."
        }
        Refusal::SigningWanted => "The plan's side: set signing = \"auto\" or \"required\".",
        Refusal::EncryptionWanted | Refusal::ShareEncryption => {
            "The plan's side: set encryption = \"auto\", with max_dialect 3.0 or newer. The server may also have no \
             cipher in common with us."
        }
        Refusal::Guest => {
            "The plan's side: check the spelling of user, or leave user out to be measured as a guest on purpose."
        }
        Refusal::GuestUnprotected => {
            "The plan's side: name a user, or set signing and encryption to \"auto\"."
        }
        Refusal::LogOn => of_log_on(status),
        Refusal::Ticket => of_ticket(status),
        Refusal::TicketExpired => EXPIRED_TICKET,
        Refusal::Unproven => {
            "Another server answers at this address, or somebody between it and us. Check which host the name in the URL \
             leads to."
        }
        Refusal::Share => of_share(status),
        Refusal::NoFiles => "The plan's side: name a share of files in shares; IPC$ and printers are none.",
        Refusal::NoChannels => {
            "Set channels = 1, or let the server offer it: `server multi channel support = yes` in Samba, SMB 3.0 or \
             later, and a user instead of a guest."
        }
        Refusal::Binding => {
            "All connections must come to the same server and speak the same dialect: look at load balancers between \
             here and there, and at what the server limits; or set channels = 1."
        }
        Refusal::Changed => {
            "Something between client and server changes messages, a proxy or an attacker; or the server is broken. \
             Connect to it directly."
        }
    }
}

fn of_log_on(status: u32) -> &'static str {
    match status {
        LOGON_FAILURE | WRONG_PASSWORD | NO_SUCH_USER => {
            "The user's name or password is wrong: check both; a domain's user is written DOMAIN\\user."
        }
        ACCOUNT_LOCKED_OUT => "The account is locked after too many wrong passwords: have it unlocked on the server.",
        ACCOUNT_DISABLED => "The account is disabled: have it enabled on the server, or name another user.",
        ACCOUNT_EXPIRED => "The account has expired: have it prolonged on the server, or name another user.",
        PASSWORD_EXPIRED | PASSWORD_MUST_CHANGE => {
            "The password has expired: set a new one on the server, which can't be done from here."
        }
        ACCOUNT_RESTRICTION | INVALID_LOGON_HOURS | LOGON_TYPE_NOT_GRANTED => {
            "The server's rules keep this user out (no log-on over the network, an empty password, the hour): change \
             them, or name another user."
        }
        NTLM_BLOCKED => {
            "The server takes no NTLM, only Kerberos: get a ticket by kinit, and give the server's full name in the URL. Set \
             authentication = \"kerberos\" for the server in a plan, or --authentication kerberos on the command line."
        }
        NO_LOGON_SERVERS => "The server can't reach its domain controller, which is the server's side to mend.",
        REQUEST_NOT_ACCEPTED | INSUFF_SERVER_RESOURCES => {
            "The server takes no more sessions: its limit, or that of its licence, is reached."
        }
        ACCESS_DENIED => {
            "The server denies this user the log-on, or requires encryption: name another user, or set encryption = \
             \"auto\" with max_dialect 3.0 or newer."
        }
        _ => "Look at the server's log for why it refused this user.",
    }
}

const EXPIRED_TICKET: &str = "Get a new ticket by kinit. It must last until the end of the run.";

fn of_ticket(status: u32) -> &'static str {
    match status {
        SKEW | NOT_YET_VALID | TIME_DIFFERENCE_AT_DC => {
            "The clocks of this machine, the KDC and the server differ by more than Kerberos allows, which is 5 minutes: \
             set them."
        }
        EXPIRED | NETWORK_SESSION_EXPIRED => EXPIRED_TICKET,
        MODIFIED | NOT_US | OLD_KEY | NO_KEY => {
            "The server can't read the ticket. Its key has changed since (run kinit again), or the URL's host is \
             registered to another machine (setspn -Q cifs/HOST)."
        }
        REPEATED => "The server has seen this log-on before: somebody repeats messages between it and us.",
        NO_SUCH_USER | INVALID_TOKEN => {
            "The server reads the ticket, and has no account for its user: let it map the domain's users (Samba: winbind, \
             idmap config, username map, min domain uid)."
        }
        LOGON_FAILURE => {
            "The server does not accept the ticket: its key has changed since (run kinit again), the URL's host is \
             registered to another machine, clocks differ by more than 5 minutes, it has no account for the user, or it \
             does not take Kerberos. Its log says which."
        }
        _ => of_log_on(status),
    }
}

fn of_share(status: u32) -> &'static str {
    match status {
        BAD_NETWORK_NAME => "The server has no share of this name: check shares.",
        ACCESS_DENIED => {
            "The share denies this user, or requires encryption: give the user access to it on the server, or set \
             encryption = \"auto\" with max_dialect 3.0 or newer."
        }
        REQUEST_NOT_ACCEPTED | INSUFF_SERVER_RESOURCES => "The share takes no more users: its limit is reached.",
        _ => "Look at the server's log for why it refused the share.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_and_every_lost_connection_has_advice() {
        for refusal in Refusal::ALL {
            for status in [0, ACCESS_DENIED, 0xC000_0BAD] {
                assert!(advice(&refusal.failure(status)).is_some_and(|text| text.ends_with('.')));
            }
        }
        for fault in [
            Fault::ConnectionRefused,
            Fault::Unreachable,
            Fault::ResponseTimeout,
        ] {
            assert!(advice(&fault.into()).is_some());
        }
        assert_eq!(advice(&Fault::NotFound.into()), None);
    }

    #[test]
    fn one_status_means_different_things_at_different_steps() {
        let of = |refusal: Refusal| advice(&refusal.failure(ACCESS_DENIED));
        assert_ne!(of(Refusal::LogOn), of(Refusal::Share));
    }
}
