//! Table of remedies for errors: whose fault it is, and which setting to change or which side to check. The first row
//! that applies is used.
//!
//! The texts call settings by their names in plans and in the Python module: `user`, `shares`, `signing`,
//! `encryption`, `min_dialect` and `max_dialect`.

use crate::auth::{EXPIRED, MODIFIED, NOT_US, NOT_YET_VALID, NO_KEY, OLD_KEY, REPEATED, SKEW};
use crate::ntstatus::*;
use crate::session::{Encryption, Options};
use crate::Refusal;
use dyno_files::{Hint, WRONG_CONTENT};
use dyno_measure::{Failure, Fault};
use dyno_net::{NO_CONNECTION, NO_FILES};

/// Returns a suggested remedy for a failure, or None if there is nothing to add to its message.
#[must_use]
pub fn advice(failure: &Failure, options: &Options) -> Option<&'static str> {
    Hint::first(HINTS, failure, Refusal::of, options)
}

type Row = Hint<Refusal, Options>;

fn as_guest(options: &Options) -> bool {
    options.guest
}

fn unencrypted(options: &Options) -> bool {
    options.encryption == Encryption::Off || options.max_dialect < crate::Dialect::Smb300
}

fn below_the_share(options: &Options) -> bool {
    !options.base_path.is_empty()
}

fn empty_password(options: &Options) -> bool {
    options.password.is_empty()
}

fn padded_password(options: &Options) -> bool {
    options.password != options.password.trim()
}

fn quoted_password(options: &Options) -> bool {
    let password = options.password.as_bytes();
    password.len() > 1 && matches!(password[0], b'"' | b'\'') && password.last() == password.first()
}

fn password_with_user(options: &Options) -> bool {
    options.user.contains(['%', ':'])
}

const WRONG_USER: &str =
    "The user's name or password is wrong (the password comes from DYNO_SMB_PASSWORD, or the variable in \
     `password_variable` of the plan): check both with smbclient //HOST/SHARE -U USER. Samba has its own \
     passwords: smbpasswd -a USER sets one. Write a domain's user as DOMAIN\\user.";
const EXPIRED_TICKET: &str = "Get a new ticket with kinit. It must last until the end of the run.";
const CLOCKS: &str =
    "The clocks of this machine, the KDC and the server differ by more than the 5 minutes that Kerberos allows: correct them.";
const NO_MORE_SESSIONS: &str =
    "The server accepts no more sessions: its limit, or that of its licence, is reached.";
const TICKET_OF_ANOTHER: &str =
    "The server can't read the ticket: the server's key has changed since the ticket was issued (run kinit again), or the \
     URL's host is registered to another machine (setspn -Q cifs/HOST).";
const KEPT_OUT: &str =
    "The server's policies refuse this user, for example because of log-on hours, an empty password or a ban on \
     network log-on. Change the policy or use another user.";

#[rustfmt::skip]
const HINTS: &[Row] = &[
    Row::failed(Fault::NoFiles, &[], NO_FILES),
    Row::failed(Fault::ConnectionRefused, &[], "Start the server, or check the port: nothing listens there. The usual port is 445."),
    Row::failed(
        Fault::ConnectTimeout,
        &[],
        NO_CONNECTION,
    ),
    Row::failed(Fault::Unreachable, &[], "The host does not answer: check the address, and that no firewall blocks the connection."),
    Row::failed(Fault::ResponseTimeout, &[], "The server accepts connections, but does not answer in time: look at its log. A sleeping disk may delay the first access: open the share once, and start again, or raise timeout_s of the suite. The program that listens there may also not be a file server."),
    Row::failed(Fault::ClosedEarly, &[], "The server closed the connection: check the port, whether the server still runs, and its log."),
    Row::failed(Fault::ConnectionReset, &[], "The server closed the connection: check the port, whether the server still runs, and its log."),
    Row::failed(Fault::WrongSignature, &[], "Server and client have different keys: a device between them may have changed messages, or the server is faulty. Try another max_dialect."),
    Row::failed(Fault::NoCredit, &[], "The server violates the protocol. Try another max_dialect, and report this with the server's version."),
    Row::failed(Fault::MalformedMessage, &[], "The server violates the protocol. Try another max_dialect, and report this with the server's version."),

    Row::failed(Fault::SessionLost, &[NETWORK_NAME_DELETED], "The server closed the share. Most often, the user can't enter its directory: on the server, chmod o+x the directory and all above it. Otherwise, somebody closed the share."),
    Row::failed(Fault::SessionLost, &[], "The server ended the session: check its log, and whether it still runs."),
    Row::failed(Fault::AccessDenied, &[], "The server does not let the user create, write or delete files there: the share may be read-only (Samba: read only, write list), or the directory's permissions or masks (create mask, directory mask) may forbid it. If files were created, and only changes are refused, the share may be write-once or have a retention time (Samba: vfs objects = worm)."),
    Row::failed(Fault::NotFound, &[], "A file disappeared right after it was created, or the directory does not exist: create the directory of the URL, and look for a program or setting that hides or removes files (Samba: veto files; a virus scanner).").when(below_the_share),
    Row::failed(Fault::NotFound, &[], "A file disappeared right after it was created: the server hides or removes it (Samba: veto files; a virus scanner), stores its name in another case (Samba: preserve case, default case, case sensitive), or somebody removed the directory."),
    Row::failed(Fault::ErrorStatus, &[PATH_NOT_COVERED], "The directory is a DFS link to another server. dyno does not follow such links: use the URL of the target server and share."),
    Row::failed(Fault::ErrorStatus, &[NOT_A_DIRECTORY], "The URL names a file: name its directory.").when(below_the_share),
    Row::failed(Fault::SharingViolation, &[], "Another program has a file of the load open: a virus scanner, an indexer or a backup on the server. Exclude the load's files there (serverdyno-*, Bonnie.*). If every file fails at its first open, the server can't get the kernel's share mode: set kernel share modes = no (Samba)."),
    Row::failed(Fault::WrongContent, &[], WRONG_CONTENT),
    Row::failed(Fault::NoSpace, &[QUOTA_EXCEEDED], "The user's quota is used up: raise it, or write less: a suite with fewer clients, a smaller -s (Bonnie) or --scale (scenarios)."),
    Row::failed(Fault::NoSpace, &[], "The share is full: free space on the server, or write less: a suite with fewer clients, a smaller -s (Bonnie) or --scale (scenarios). If df -h shows free space there, look at df -i (no inodes left) and at quotas."),

    Row::refused(Refusal::NotSmb, &[], "Check the port: it belongs to another kind of server, or to one that only speaks SMB 1, which is not supported."),
    Row::refused(Refusal::HungUp, &[], "Check the port. If a file server listens there, it may accept no more connections (Samba: max smbd processes): look at its log."),
    Row::refused(Refusal::Smb1Alone, &[], "On the server, enable SMB 2.0.2 or newer (Samba: server max protocol)."),
    Row::refused(Refusal::TurnedAway, &[], "On the server, allow this machine's address (Samba: hosts allow, hosts deny)."),
    Row::refused(Refusal::Dialect, &[NOT_SUPPORTED], "The server supports no version of SMB from min_dialect to max_dialect: widen the range. A server that only speaks SMB 1 (Samba: server max protocol) is not supported."),
    Row::refused(Refusal::Dialect, &[], "Widen the range from min_dialect to max_dialect, or enable one of these versions on the server."),
    Row::refused(Refusal::NoEncryption, &[], "The server can't encrypt, or not with the allowed versions (encryption needs SMB 3.0 or newer). Enable its encryption, raise max_dialect, or set encryption = \"auto\"."),
    Row::refused(Refusal::SigningWanted, &[], "In [smb] of the suite, set signing = \"auto\" or \"required\"."),
    Row::refused(Refusal::EncryptionWanted, &[], "In [smb] of the suite, set encryption = \"auto\", with max_dialect 3.0 or newer. The server may also have no cipher in common with this client."),
    Row::refused(Refusal::ShareEncryption, &[], "In [smb] of the suite, set encryption = \"auto\", with max_dialect 3.0 or newer. The server may also have no cipher in common with this client."),
    Row::refused(Refusal::Guest, &[], "The server logged the user on as a guest: check the spelling of --user, or leave it out to measure as a guest on purpose."),
    Row::refused(Refusal::GuestUnprotected, &[], "Name a user (--user), or set signing and encryption to \"auto\" in [smb] of the suite."),
    Row::refused(Refusal::NoChannels, &[], "Set channels = 1, or enable multichannel: it needs `server multi channel support = yes` in Samba, SMB 3.0 or later, and a user instead of a guest."),
    Row::refused(Refusal::Binding, &[], "All connections must reach the same server and use the same dialect: check load balancers in between and the server's limits, or set channels = 1."),
    Row::refused(Refusal::Changed, &[], "Something between client and server changes messages, such as a proxy or an attacker, or the server is faulty. Connect to it directly."),
    Row::refused(Refusal::NoFiles, &[], "Name a share with files: IPC$ and printers have none."),

    Row::refused(Refusal::LogOn, &[LOGON_FAILURE, WRONG_PASSWORD, NO_SUCH_USER, ACCESS_DENIED, ACCOUNT_DISABLED, ACCOUNT_RESTRICTION], "The server accepts no guests: name a user (--user), or allow guests on the server (Samba: map to guest = Bad User, and guest ok = yes for the share).").when(as_guest),
    Row::refused(Refusal::LogOn, &[LOGON_FAILURE, WRONG_PASSWORD, NO_SUCH_USER], "The user's name contains a % or a colon, as in user%password of smbclient. Give only the user's name (--user), and the password in DYNO_SMB_PASSWORD.").when(password_with_user),
    Row::refused(Refusal::LogOn, &[LOGON_FAILURE, WRONG_PASSWORD, NO_SUCH_USER, ACCOUNT_RESTRICTION], "The password is empty: export DYNO_SMB_PASSWORD (or the variable in `password_variable` of the plan) with the user's password.").when(empty_password),
    Row::refused(Refusal::LogOn, &[LOGON_FAILURE, WRONG_PASSWORD, NO_SUCH_USER], "The password begins or ends with a blank or a line end, as the content of a file often does: export DYNO_SMB_PASSWORD=\"$(cat FILE)\" removes line ends. If the blank is part of the password, the user's name or the password is wrong.").when(padded_password),
    Row::refused(Refusal::LogOn, &[LOGON_FAILURE, WRONG_PASSWORD, NO_SUCH_USER], "The variable has quotation marks around the password, and a file of variables (docker --env-file) does not remove them: leave them out of DYNO_SMB_PASSWORD.").when(quoted_password),
    Row::refused(Refusal::LogOn, &[LOGON_FAILURE, WRONG_PASSWORD, NO_SUCH_USER], WRONG_USER),
    Row::refused(Refusal::LogOn, &[ACCOUNT_LOCKED_OUT], "The account is locked after too many wrong passwords: have it unlocked on the server."),
    Row::refused(Refusal::LogOn, &[ACCOUNT_DISABLED], "The account is disabled: have it enabled on the server, or name another user."),
    Row::refused(Refusal::LogOn, &[ACCOUNT_EXPIRED], "The account has expired: have it extended on the server, or name another user."),
    Row::refused(Refusal::LogOn, &[PASSWORD_EXPIRED, PASSWORD_MUST_CHANGE], "The password has expired: set a new one, on the server or with smbpasswd -r HOST -U USER (Samba)."),
    Row::refused(Refusal::LogOn, &[ACCOUNT_RESTRICTION, INVALID_LOGON_HOURS, LOGON_TYPE_NOT_GRANTED], KEPT_OUT),
    Row::refused(Refusal::LogOn, &[NTLM_BLOCKED], "The server accepts only Kerberos, not NTLM: get a ticket with kinit, and use the server's full name in the URL. Then give --authentication kerberos."),
    Row::refused(Refusal::LogOn, &[NO_LOGON_SERVERS], "The server can't reach its domain controller: correct this on the server."),
    Row::refused(Refusal::LogOn, &[REQUEST_NOT_ACCEPTED, INSUFF_SERVER_RESOURCES], NO_MORE_SESSIONS),
    Row::refused(Refusal::LogOn, &[ACCESS_DENIED], "The server denies this user the log-on, or requires encryption: name another user, or set encryption = \"auto\" with max_dialect 3.0 or newer."),
    Row::refused(Refusal::LogOn, &[], "The server's log may show why it refused this user."),

    Row::refused(Refusal::Ticket, &[SKEW, NOT_YET_VALID, TIME_DIFFERENCE_AT_DC], CLOCKS),
    Row::refused(Refusal::Ticket, &[EXPIRED, NETWORK_SESSION_EXPIRED], EXPIRED_TICKET),
    Row::refused(Refusal::Ticket, &[MODIFIED, NOT_US, OLD_KEY, NO_KEY], TICKET_OF_ANOTHER),
    Row::refused(Refusal::Ticket, &[REPEATED], "The server has seen this log-on before: something between client and server repeats messages."),
    Row::refused(Refusal::Ticket, &[NO_SUCH_USER, INVALID_TOKEN], "The server can read the ticket, but has no account for its user: let it map the domain's users (Samba: winbind, idmap config, username map, min domain uid)."),
    Row::refused(Refusal::Ticket, &[LOGON_FAILURE], "The server does not accept the ticket: the server's key has changed since the ticket was issued (run kinit again), the URL's host is registered to another machine, clocks differ by more than 5 minutes, the server has no account for the user, or it does not accept Kerberos. Its log says which."),
    Row::refused(Refusal::Ticket, &[ACCOUNT_LOCKED_OUT, ACCOUNT_DISABLED, ACCOUNT_EXPIRED, PASSWORD_EXPIRED, PASSWORD_MUST_CHANGE], "The user's account or password is locked or has expired: have it changed on the server, or name another user."),
    Row::refused(Refusal::Ticket, &[ACCOUNT_RESTRICTION, INVALID_LOGON_HOURS, LOGON_TYPE_NOT_GRANTED], KEPT_OUT),
    Row::refused(Refusal::Ticket, &[REQUEST_NOT_ACCEPTED, INSUFF_SERVER_RESOURCES], NO_MORE_SESSIONS),
    Row::refused(Refusal::Ticket, &[ACCESS_DENIED], "The server denies this user the log-on, or requires encryption: name another user, or set encryption = \"auto\" with max_dialect 3.0 or newer."),
    Row::refused(Refusal::Ticket, &[], "The server's log may show why it refused this user."),
    Row::refused(Refusal::TicketExpired, &[], EXPIRED_TICKET),
    Row::refused(Refusal::Unproven, &[], "Another server, or something between it and this client, answers at this address. Check which host the name in the URL resolves to."),

    Row::refused(Refusal::Share, &[BAD_NETWORK_NAME], "The server has no share of this name: compare shares with `smbclient -L //HOST`. If it is listed, the server can't serve it: its directory may have been removed, or it is a DFS link to another server; look at its log."),
    Row::refused(Refusal::Share, &[ACCESS_DENIED], "The share accepts no guests: name a user (--user), or allow guests on the server (Samba: guest ok = yes).").when(as_guest),
    Row::refused(Refusal::Share, &[ACCESS_DENIED], "The share denies this user, or requires encryption: give the user access to it on the server, or set encryption = \"auto\" with max_dialect 3.0 or newer. Otherwise, the server's log says why.").when(unencrypted),
    Row::refused(Refusal::Share, &[ACCESS_DENIED], "The share denies this user, or this machine: give access to it on the server (Samba: valid users, invalid users, hosts allow, hosts deny). Otherwise, the server's log says why: a command that it runs first may have failed (Samba: root preexec, preexec)."),
    Row::refused(Refusal::Share, &[REQUEST_NOT_ACCEPTED, INSUFF_SERVER_RESOURCES, INSUFFICIENT_RESOURCES], "The share accepts no more connections: its limit is reached (Samba: max connections). Each client needs one, in Bonnie each seeker: raise the limit, or use fewer clients (-c) or seekers (--seekers)."),
    Row::refused(Refusal::ReadOnly, &[], "Let the user write there: on Samba, read only = no, or the user in write list; on Windows, the share's permissions."),
    Row::refused(Refusal::Share, &[], "The server's log may show why it refused the share."),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(failure: Failure, change: impl FnOnce(&mut Options)) -> Option<&'static str> {
        let mut options = Options::default();
        change(&mut options);
        advice(&failure, &options)
    }

    #[test]
    fn every_refusal_and_every_lost_connection_has_advice() {
        for refusal in Refusal::ALL {
            for status in [0, ACCESS_DENIED, 0xC000_0BAD] {
                let text = of(refusal.failure(status), |_| ());
                assert!(text.is_some_and(|text| text.ends_with('.')), "{refusal:?}");
            }
        }
        for fault in [
            Fault::NoFiles,
            Fault::ConnectionRefused,
            Fault::Unreachable,
            Fault::ResponseTimeout,
            Fault::ClosedEarly,
        ] {
            assert!(of(fault.into(), |_| ()).is_some());
        }
        assert_eq!(of(Fault::LockConflict.into(), |_| ()), None);
    }

    #[test]
    fn the_meaning_of_a_status_depends_on_the_step_and_the_client() {
        let denied = |refusal: Refusal, guest| of(refusal.failure(ACCESS_DENIED), |to| to.guest = guest);
        assert_ne!(denied(Refusal::LogOn, false), denied(Refusal::Share, false));
        assert_ne!(denied(Refusal::Share, true), denied(Refusal::Share, false));
    }
}
