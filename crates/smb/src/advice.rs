//! What to try where no session came about: whose the fault is, and which setting or which side to look at.
//!
//! The settings are called as in plans and in the Python module: `user`, `shares`, `signing`, `encryption`,
//! `min_dialect` and `max_dialect`. Not for failures of single calls under load: those are counted.

use dyno_measure::{Detail, Failure, Fault, Refusal};

const ACCESS_DENIED: u32 = 0xC000_0022;
const BAD_NETWORK_NAME: u32 = 0xC000_00CC;
const LOGON_FAILURE: u32 = 0xC000_006D;
const WRONG_PASSWORD: u32 = 0xC000_006A;
const NO_SUCH_USER: u32 = 0xC000_0064;
const ACCOUNT_RESTRICTION: u32 = 0xC000_006E;
const LOGON_HOURS: u32 = 0xC000_006F;
const PASSWORD_EXPIRED: u32 = 0xC000_0071;
const ACCOUNT_DISABLED: u32 = 0xC000_0072;
const ACCOUNT_EXPIRED: u32 = 0xC000_0193;
const LOGON_TYPE: u32 = 0xC000_015B;
const MUST_CHANGE: u32 = 0xC000_0224;
const LOCKED_OUT: u32 = 0xC000_0234;
const NO_LOGON_SERVERS: u32 = 0xC000_005E;
const REQUEST_NOT_ACCEPTED: u32 = 0xC000_00D0;
const INSUFFICIENT: u32 = 0xC000_0205;

/// What to try about a session that was not made; None where there is nothing to be said beyond the failure's words.
#[must_use]
pub fn advice(failure: &Failure) -> Option<&'static str> {
    match (failure.fault, failure.detail) {
        (_, Detail::Refused(refusal, status)) => Some(of_refusal(refusal, status)),
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
        Refusal::Dialect => "Widen min_dialect and max_dialect, or let the server have one of those versions.",
        Refusal::NoEncryption => {
            "The server's side: it can't encrypt, or not with the versions that are allowed (SMB 3.0 on). Turn its \
             encryption on, raise max_dialect, or set encryption = \"off\"."
        }
        Refusal::SigningWanted => "The plan's side: set signing = \"auto\" or \"required\".",
        Refusal::EncryptionWanted | Refusal::ShareEncryption => {
            "The plan's side: set encryption = \"required\", with max_dialect 3.0 or newer."
        }
        Refusal::Guest => {
            "The plan's side: check the spelling of user, or leave user out to be measured as a guest on purpose."
        }
        Refusal::GuestUnprotected => {
            "The plan's side: name a user, or set signing = \"auto\" and encryption = \"off\"."
        }
        Refusal::LogOn => of_log_on(status),
        Refusal::Share => of_share(status),
        Refusal::NoFiles => "The plan's side: name a share of files in shares; IPC$ and printers are none.",
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
        LOCKED_OUT => "The account is locked after too many wrong passwords: have it unlocked on the server.",
        ACCOUNT_DISABLED => "The account is disabled: have it enabled on the server, or name another user.",
        ACCOUNT_EXPIRED => "The account has expired: have it prolonged on the server, or name another user.",
        PASSWORD_EXPIRED | MUST_CHANGE => {
            "The password has expired: set a new one on the server, which can't be done from here."
        }
        ACCOUNT_RESTRICTION | LOGON_HOURS | LOGON_TYPE => {
            "The server's rules keep this user out (no log-on over the network, an empty password, the hour): change \
             them, or name another user."
        }
        NO_LOGON_SERVERS => "The server can't reach its domain controller, which is the server's side to mend.",
        REQUEST_NOT_ACCEPTED | INSUFFICIENT => {
            "The server takes no more sessions: its limit, or that of its licence, is reached."
        }
        ACCESS_DENIED => {
            "The server denies this user the log-on, or requires encryption: name another user, or set encryption = \
             \"required\"."
        }
        _ => "Look at the server's log for why it refused this user; it may want Kerberos, which is not supported.",
    }
}

fn of_share(status: u32) -> &'static str {
    match status {
        BAD_NETWORK_NAME => "The server has no share of this name: check shares.",
        ACCESS_DENIED => {
            "The share denies this user, or requires encryption: give the user access to it on the server, or set \
             encryption = \"required\"."
        }
        REQUEST_NOT_ACCEPTED | INSUFFICIENT => "The share takes no more users: its limit is reached.",
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
                let failure = Failure {
                    fault: Fault::SessionRefused,
                    detail: Detail::Refused(*refusal, status),
                };
                assert!(advice(&failure).is_some_and(|text| text.ends_with('.')));
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
        let of = |refusal| {
            advice(&Failure {
                fault: Fault::SessionRefused,
                detail: Detail::Refused(refusal, ACCESS_DENIED),
            })
        };
        assert_ne!(of(Refusal::LogOn), of(Refusal::Share));
    }
}
