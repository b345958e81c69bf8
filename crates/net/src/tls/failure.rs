//! Maps rustls's errors to faults.

use dyno_measure::{Detail, Failure, Fault, ProtocolStatus, StatusTable};
use rustls::{AlertDescription, CertificateError, Error, PeerMisbehaved};

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
        Error::AlertReceived(alert) => Failure {
            fault: fault_of_alert(*alert, moment),
            detail: Detail::Status(ProtocolStatus {
                code: u32::from(u8::from(*alert)),
                table: &ALERTS,
            }),
        },
        Error::InvalidCertificate(error) => fault_of_certificate(error).into(),
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
