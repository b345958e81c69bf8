//! Maps rustls's errors to faults.

use crate::tls::trust::Unsupported;
use dyno_measure::{Detail, Failure, Fault, KeptTexts, StatusTable};
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, OtherError, PeerMisbehaved};
use std::fmt;
use time::OffsetDateTime;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Handshake,
    Session,
}

impl Moment {
    pub(crate) fn of(handshaking: bool) -> Self {
        if handshaking {
            Self::Handshake
        } else {
            Self::Session
        }
    }
}

static ALERTS: StatusTable = StatusTable {
    name: "TLS alert",
    write: |code, formatter| {
        let known = u8::try_from(code).map(AlertDescription::from);
        match known {
            Ok(alert) => write!(formatter, "alert {alert:?}"),
            Err(_) => write!(formatter, "alert {code}"),
        }
    },
};

pub(crate) fn failure_of(error: &Error, moment: Moment) -> Failure {
    match error {
        Error::AlertReceived(alert) => {
            ALERTS.failure(fault_of_alert(*alert, moment), u32::from(u8::from(*alert)))
        }
        Error::InvalidCertificate(error) => failure_of_certificate(error),
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Fault::NothingInCommon.into(),
        Error::PeerMisbehaved(PeerMisbehaved::TooManyRenegotiationRequests) => Fault::Renegotiation.into(),
        // Only HTTP/2 is ever offered. Apache without HTTP/2 still selects http/1.1.
        Error::PeerMisbehaved(PeerMisbehaved::SelectedUnofferedApplicationProtocol) => Fault::NotHttp2.into(),
        Error::NoCertificatesPresented | Error::UnsupportedNameType => Fault::CertificateInvalid.into(),
        _ => Fault::MalformedRecord.into(),
    }
}

fn fault_of_alert(alert: AlertDescription, moment: Moment) -> Fault {
    match (moment, alert) {
        (Moment::Session, _) => Fault::TlsAlert,
        (
            Moment::Handshake,
            AlertDescription::HandshakeFailure
            | AlertDescription::ProtocolVersion
            | AlertDescription::InsufficientSecurity
            | AlertDescription::NoApplicationProtocol,
        ) => Fault::NothingInCommon,
        (Moment::Handshake, _) => Fault::HandshakeRefused,
    }
}

/// Start of a certificate's validity, in seconds since 1970 (at most 2^32 - 1, in the year 2106).
static NOT_BEFORE: StatusTable = StatusTable {
    name: "certificate begins",
    write: |code, formatter| write_moment("it is valid from", code, formatter),
};
static NOT_AFTER: StatusTable = StatusTable {
    name: "certificate ended",
    write: |code, formatter| write_moment("it was valid until", code, formatter),
};
static PURPOSE: StatusTable = StatusTable {
    name: "certificate purpose",
    write: |_, formatter| formatter.write_str("it is not for servers (extendedKeyUsage lacks serverAuth)"),
};

/// Name of the table in the failure of a certificate of X.509 version 1.
pub const CERTIFICATE_VERSION: &str = "certificate version";
static VERSION: StatusTable = StatusTable {
    name: CERTIFICATE_VERSION,
    write: |_, formatter| formatter.write_str("it has X.509 version 1"),
};
/// Name of the table in the failure of a certificate whose key is not supported.
pub const CERTIFICATE_KEY: &str = "certificate key";
static KEY: StatusTable = StatusTable {
    name: CERTIFICATE_KEY,
    write: |code, formatter| write!(formatter, "its RSA key has {code} bits"),
};

static NAMES: StatusTable = StatusTable {
    name: "certificate names",
    write: |_, formatter| formatter.write_str("it has no subjectAltName"),
};

/// Names in certificates for other hosts. A status is an index into `OTHER_NAMES`.
static FOR_NAMES: StatusTable = StatusTable {
    name: "certificate for names",
    write: |code, formatter| match OTHER_NAMES.get(code) {
        Some(names) => write!(formatter, "it is for {names}"),
        None => formatter.write_str("its names are not shown"),
    },
};
static OTHER_NAMES: KeptTexts = KeptTexts::new();
/// Maximum number of names that a failure shows.
const MOST_NAMES: usize = 5;
const MOST_NAME_BYTES: usize = 100;

/// Stores the names of a certificate as one text for a failure. Returns its index.
fn keep_names(presented: &[String]) -> u32 {
    let mut names: Vec<String> = presented
        .iter()
        .take(MOST_NAMES)
        .map(|name| plain_name(name))
        .collect();
    if presented.len() > MOST_NAMES {
        names.push(format!("{} more", presented.len() - MOST_NAMES));
    }
    OTHER_NAMES.keep(names.join(", "))
}

/// Extracts the name from webpki's notation, such as `DnsName("server.test")`.
fn plain_name(told: &str) -> String {
    let inner = told.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    let inner = inner.unwrap_or(told).trim_matches('"');
    let is_plain = |letter: &char| letter.is_ascii_graphic();
    inner.chars().filter(is_plain).take(MOST_NAME_BYTES).collect()
}

/// What the server sent instead of TLS.
static NOT_TLS: StatusTable = StatusTable {
    name: IN_PLAIN_HTTP,
    write: |_, formatter| formatter.write_str("it answers in plain HTTP"),
};
/// Name of the table in a failure's detail if the server answered a handshake in plain HTTP.
pub const IN_PLAIN_HTTP: &str = "plain HTTP";

/// Returns the failure of a handshake in which rustls returned `error` for these first bytes.
pub(crate) fn failure_of_first(error: &Error, first: &[u8]) -> Failure {
    let failure = failure_of(error, Moment::Handshake);
    if failure.fault != Fault::MalformedRecord || !first.starts_with(b"HTTP/") {
        return failure;
    }
    let detail = Detail::Status(NOT_TLS.status(0));
    Failure { detail, ..failure }
}

fn write_moment(words: &str, code: u32, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (moment, now) = (utc(code.into()), utc(UnixTime::now().as_secs()));
    write!(formatter, "{words} {moment}; this machine's clock says {now}")
}

/// Formats a time, given in seconds since 1970, as date, hour and minute in UTC.
fn utc(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let Ok(at) = OffsetDateTime::from_unix_timestamp(seconds) else {
        return format!("{seconds} s after 1970");
    };
    let (month, day, hour, minute) = (u8::from(at.month()), at.day(), at.hour(), at.minute());
    format!("{}-{month:02}-{day:02} {hour:02}:{minute:02} UTC", at.year())
}

fn failure_of_certificate(error: &CertificateError) -> Failure {
    let of = |seconds: &UnixTime| u32::try_from(seconds.as_secs()).unwrap_or(u32::MAX);
    let (code, table) = match error {
        CertificateError::NotValidYetContext { not_before, .. } => (of(not_before), &NOT_BEFORE),
        CertificateError::ExpiredContext { not_after, .. } => (of(not_after), &NOT_AFTER),
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => (0, &NAMES),
        CertificateError::NotValidForNameContext { presented, .. } => (keep_names(presented), &FOR_NAMES),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => (0, &PURPOSE),
        CertificateError::Other(OtherError(why)) => match why.downcast_ref() {
            Some(Unsupported::Version) => (0, &VERSION),
            Some(Unsupported::Key(bits)) => (*bits, &KEY),
            None => return fault_of_certificate(error).into(),
        },
        _ => return fault_of_certificate(error).into(),
    };
    table.failure(fault_of_certificate(error), code)
}

fn fault_of_certificate(error: &CertificateError) -> Fault {
    match error {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => Fault::CertificateExpired,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Fault::WrongCertificateName
        }
        CertificateError::UnknownIssuer => Fault::UntrustedCertificate,
        _ => Fault::CertificateInvalid,
    }
}

#[cfg(test)]
mod tests {
    use super::{plain_name, utc};

    #[test]
    fn a_certificates_name_is_shown_without_its_type() {
        for (told, name) in [
            (r#"DnsName("server.test")"#, "server.test"),
            ("IpAddress(127.0.0.1)", "127.0.0.1"),
            ("DnsName(\"a\u{1b}[2Jb\")", "a[2Jb"),
        ] {
            assert_eq!(plain_name(told), name);
        }
    }

    #[test]
    fn a_time_is_written_in_utc() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
            (u64::from(u32::MAX), "2106-02-07 06:28 UTC"),
        ] {
            assert_eq!(utc(seconds), expected);
        }
    }
}
