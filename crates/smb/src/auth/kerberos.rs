//! Log-on by Kerberos 5 (RFC 4120, RFC 4121) with one token per side: the client's AP-REQ, made from a service ticket,
//! and the server's AP-REP, which proves that the server can read the ticket.
//!
//! Pure, like all of `auth`. picky-krb provides the cipher. Each log-on has its own authenticator and key,
//! so one ticket serves all clients. The client always requests mutual authentication.

use super::der::{
    application, element, field, integer, octets, optional, take, BITS, INTEGER, OBJECT, OCTETS, SEQUENCE,
    TIME,
};
use super::spnego::{self, Mechanism};
use super::ticket::ServiceTicket;
use super::AuthError;
use dyno_measure::StatusTable;
use time::OffsetDateTime;

const VERSION: u32 = 5;

/// Key usage numbers (RFC 4120, 7.5.1).
const AUTHENTICATOR_USAGE: i32 = 11;
const PROOF_USAGE: i32 = 12;

/// Token identifiers of GSS-API (RFC 4121, 4.1).
const AP_REQ: [u8; 2] = [1, 0];
const AP_REP: [u8; 2] = [2, 0];
const KRB_ERROR: [u8; 2] = [3, 0];

/// AP-REQ option "mutual-required", bit 2 of 32. The first byte is the number of unused bits.
const MUTUAL_REQUIRED: [u8; 5] = [0, 0x20, 0, 0, 0];
/// Type of the authenticator's checksum under GSS-API (RFC 4121, 4.1.1).
const GSS_CHECKSUM: u32 = 0x8003;
/// Mutual authentication, replay detection, sequence detection, confidentiality and integrity.
const GSS_FLAGS: u32 = 2 | 4 | 8 | 16 | 32;

/// Inputs of a log-on besides the ticket: random bytes and the current time.
#[derive(Debug, Clone, Copy)]
pub struct Fresh {
    /// Random key that the client proposes.
    pub key: [u8; 32],
    pub sequence: [u8; 4],
    /// Unix time in µs by this machine's clock.
    pub now_us: u64,
}

/// A log-on that awaits the server's proof.
#[derive(Debug)]
pub struct Request<'a> {
    ticket: &'a ServiceTicket,
    key: Vec<u8>,
    time: Vec<u8>,
    microseconds: Vec<u8>,
    token: Vec<u8>,
}

impl ServiceTicket {
    /// Creates the AP-REQ of a log-on with this ticket.
    ///
    /// # Errors
    /// `TicketExpired` or `NotEncrypted`.
    pub fn request(&self, fresh: &Fresh) -> Result<Request<'_>, AuthError> {
        // Use the KDC's time: the server compares it with its own clock, which should agree with the KDC's.
        let now_us = fresh.now_us.saturating_add_signed(self.clock_offset_us);
        let (now_s, microseconds) = (now_us / 1_000_000, (now_us % 1_000_000) as u32);
        if now_s >= self.ends_s {
            return Err(AuthError::TicketExpired);
        }
        let cipher = self.cipher();
        let mut request = Request {
            ticket: self,
            key: fresh.key[..cipher.key_size()].to_vec(),
            time: element(TIME, &[kerberos_time(now_s).as_bytes()]),
            microseconds: integer(microseconds),
            token: Vec::new(),
        };
        let authenticator = cipher
            .encrypt(
                &self.key,
                AUTHENTICATOR_USAGE,
                &request.authenticator(fresh.sequence),
            )
            .map_err(|_| AuthError::NotEncrypted)?;
        let message = self.ap_req(&authenticator);
        let token = element(application(0), &[&oid(), &AP_REQ, &message]);
        request.token = spnego::write_init(Mechanism::Kerberos, Some(&token));
        Ok(request)
    }

    /// Returns the AP-REQ (RFC 4120, 5.5.1).
    fn ap_req(&self, authenticator: &[u8]) -> Vec<u8> {
        let encrypted = element(
            SEQUENCE,
            &[
                &element(field(0), &[&integer(u32::from(&self.suite))]),
                &element(field(2), &[&element(OCTETS, &[authenticator])]),
            ],
        );
        let fields = element(
            SEQUENCE,
            &[
                &element(field(0), &[&integer(VERSION)]),
                &element(field(1), &[&integer(14)]),
                &element(field(2), &[&element(BITS, &[&MUTUAL_REQUIRED])]),
                &element(field(3), &[&self.ticket]),
                &element(field(4), &[&encrypted]),
            ],
        );
        element(application(14), &[&fields])
    }
}

impl Request<'_> {
    /// Returns the token for SESSION_SETUP.
    pub fn token(&self) -> &[u8] {
        &self.token
    }

    /// Returns the unencrypted authenticator (RFC 4120, 5.5.1).
    fn authenticator(&self, sequence: [u8; 4]) -> Vec<u8> {
        let bindings = [&16u32.to_le_bytes()[..], &[0; 16], &GSS_FLAGS.to_le_bytes()].concat();
        let checksum = element(
            SEQUENCE,
            &[
                &element(field(0), &[&integer(GSS_CHECKSUM)]),
                &element(field(1), &[&element(OCTETS, &[&bindings])]),
            ],
        );
        let key = element(
            SEQUENCE,
            &[
                &element(field(0), &[&integer(u32::from(&self.ticket.suite))]),
                &element(field(1), &[&element(OCTETS, &[&self.key])]),
            ],
        );
        // Old servers interpret a sequence number with the highest bit set as negative.
        let sequence = u32::from_be_bytes(sequence) >> 2;
        let fields = element(
            SEQUENCE,
            &[
                &element(field(0), &[&integer(VERSION)]),
                &element(field(1), &[&self.ticket.client.realm]),
                &element(field(2), &[&self.ticket.client.name]),
                &element(field(3), &[&checksum]),
                &element(field(4), &[&self.microseconds]),
                &element(field(5), &[&self.time]),
                &element(field(6), &[&key]),
                &element(field(7), &[&integer(sequence)]),
            ],
        );
        element(application(2), &[&fields])
    }

    /// Verifies the server's proof; returns the session key.
    ///
    /// # Errors
    /// `Kerberos` if the server sent a Kerberos error; `Unproven` if the server does not prove that
    /// it can read the ticket; another error if the token is invalid.
    pub fn session_key(self, answer: &[u8]) -> Result<Vec<u8>, AuthError> {
        let response = spnego::parse_response(answer, Mechanism::Kerberos)?;
        if response.state == Some(spnego::State::Rejected) && response.token.is_none() {
            return Err(AuthError::Rejected);
        }
        let mut token = response.token.ok_or(AuthError::Unproven)?;
        let mut content = take(&mut token, application(0))?;
        if take(&mut content, OBJECT)? != Mechanism::Kerberos.oid() {
            return Err(AuthError::Unsupported);
        }
        let (kind, message) = content.split_first_chunk().ok_or(AuthError::Malformed)?;
        match *kind {
            AP_REP => self.proven(message),
            KRB_ERROR => Err(AuthError::Kerberos(error_code(message)?)),
            _ => Err(AuthError::Malformed),
        }
    }

    /// Verifies the AP-REP (RFC 4120, 5.5.2).
    fn proven(self, mut message: &[u8]) -> Result<Vec<u8>, AuthError> {
        let mut reply = take(&mut message, application(15))?;
        let mut fields = take(&mut reply, SEQUENCE)?;
        take(&mut fields, field(0))?;
        take(&mut fields, field(1))?;
        let mut part = take(&mut fields, field(2))?;
        let mut encrypted = take(&mut part, SEQUENCE)?;
        take(&mut encrypted, field(0))?;
        optional(&mut encrypted, field(1))?;
        let encrypted = octets(optional(&mut encrypted, field(2))?)?.ok_or(AuthError::Malformed)?;
        let cipher = self.ticket.cipher();
        let plain = cipher
            .decrypt(&self.ticket.key, PROOF_USAGE, encrypted)
            .map_err(|_| AuthError::Unproven)?;

        let mut part = take(&mut &plain[..], application(27))?;
        let mut fields = take(&mut part, SEQUENCE)?;
        let time = take(&mut fields, field(0))?;
        let microseconds = take(&mut fields, field(1))?;
        if time != self.time || number(microseconds)? != number(&self.microseconds)? {
            return Err(AuthError::Unproven);
        }
        match optional(&mut fields, field(2))? {
            None => Ok(self.key),
            Some(mut key) => {
                let mut key = take(&mut key, SEQUENCE)?;
                take(&mut key, field(0))?;
                let key = octets(optional(&mut key, field(1))?)?.ok_or(AuthError::Malformed)?;
                (key.len() >= 16)
                    .then(|| key.to_vec())
                    .ok_or(AuthError::Unsupported)
            }
        }
    }
}

fn oid() -> Vec<u8> {
    element(OBJECT, &[Mechanism::Kerberos.oid()])
}

/// Returns the error code of a KRB-ERROR (RFC 4120, 5.9.1).
fn error_code(mut message: &[u8]) -> Result<u32, AuthError> {
    let mut error = take(&mut message, application(30))?;
    let mut fields = take(&mut error, SEQUENCE)?;
    for tag in 0..6 {
        optional(&mut fields, field(tag))?;
    }
    number(take(&mut fields, field(6))?)
}

/// Reads a non-negative number of at most four bytes.
fn number(mut content: &[u8]) -> Result<u32, AuthError> {
    let digits = take(&mut content, INTEGER)?;
    if digits.is_empty() || digits.len() > 4 || digits[0] >= 0x80 {
        return Err(AuthError::Malformed);
    }
    Ok(digits
        .iter()
        .fold(0, |number, &digit| number << 8 | u32::from(digit)))
}

/// Returns Unix seconds as a KerberosTime (RFC 4120, 5.2.3), for example `20261123134600Z`.
fn kerberos_time(unix_s: u64) -> String {
    let seconds = i64::try_from(unix_s).unwrap_or(i64::MAX);
    let time = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    let (hour, minute, second) = time.to_hms();
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z")
}

/// Names of the errors with which servers reject a request (RFC 4120, 7.5.9).
pub(crate) static KERBEROS_ERRORS: StatusTable = StatusTable {
    name: "Kerberos",
    write: |code, formatter| {
        let name = match code {
            EXPIRED => "KRB_AP_ERR_TKT_EXPIRED",
            NOT_YET_VALID => "KRB_AP_ERR_TKT_NYV",
            REPEATED => "KRB_AP_ERR_REPEAT",
            NOT_US => "KRB_AP_ERR_NOT_US",
            SKEW => "KRB_AP_ERR_SKEW",
            MODIFIED => "KRB_AP_ERR_MODIFIED",
            OLD_KEY => "KRB_AP_ERR_BADKEYVER",
            NO_KEY => "KRB_AP_ERR_NOKEY",
            _ => return write!(formatter, "Kerberos error {code}"),
        };
        write!(formatter, "{name} ({code})")
    },
};

pub(crate) const EXPIRED: u32 = 32;
pub(crate) const NOT_YET_VALID: u32 = 33;
pub(crate) const REPEATED: u32 = 34;
pub(crate) const NOT_US: u32 = 35;
pub(crate) const SKEW: u32 = 37;
pub(crate) const MODIFIED: u32 = 41;
pub(crate) const OLD_KEY: u32 = 44;
pub(crate) const NO_KEY: u32 = 45;

#[cfg(test)]
mod tests {
    use super::super::ticket::tests::{cache, credential};
    use super::*;
    use proptest::prelude::*;

    const TICKET: &[u8] = &[0x61, 3, 4, 1, 9];
    /// 2026-11-23 13:46:07.25 by the KDC's clock, which is 2.5 s ahead in the test cache.
    const NOW_US: u64 = 1_795_441_567_250_000 - 2_500_000;

    fn ticket() -> ServiceTicket {
        let credential = credential(&[b"cifs", b"dc1"], 18, &[7; 32], TICKET);
        ServiceTicket::of_cache(&cache(&[credential])).expect("a good cache")
    }

    fn fresh(now_us: u64) -> Fresh {
        Fresh {
            key: [9; 32],
            sequence: [0xff; 4],
            now_us,
        }
    }

    /// Returns a server's SPNEGO token, with `message` in GSS-API framing.
    fn answer(kind: [u8; 2], message: &[u8]) -> Vec<u8> {
        let token = element(application(0), &[&oid(), &kind, message]);
        let response = spnego::Response {
            state: Some(spnego::State::Completed),
            token: Some(&token),
            mic: None,
        };
        spnego::write_response(response, Some(Mechanism::Kerberos))
    }

    /// Returns the AP-REP of a server that has `key`, with its own key if `subkey` is given.
    fn proof(key: &[u8], time: &str, microseconds: u32, subkey: Option<&[u8]>) -> Vec<u8> {
        let subkey = subkey.map_or(Vec::new(), |subkey| {
            let fields = [
                element(field(0), &[&integer(18)]),
                element(field(1), &[&element(OCTETS, &[subkey])]),
            ];
            element(field(2), &[&element(SEQUENCE, &[&fields.concat()])])
        });
        let plain = element(
            SEQUENCE,
            &[
                &element(field(0), &[&element(TIME, &[time.as_bytes()])]),
                &element(field(1), &[&integer(microseconds)]),
                &subkey,
                &element(field(3), &[&integer(1)]),
            ],
        );
        let plain = element(application(27), &[&plain]);
        let cipher = ticket().cipher();
        let encrypted = cipher.encrypt(key, PROOF_USAGE, &plain).expect("it encrypts");
        let encrypted = [
            element(field(0), &[&integer(18)]),
            element(field(1), &[&integer(3)]),
            element(field(2), &[&element(OCTETS, &[&encrypted])]),
        ];
        let fields = [
            element(field(0), &[&integer(5)]),
            element(field(1), &[&integer(15)]),
            element(field(2), &[&element(SEQUENCE, &[&encrypted.concat()])]),
        ];
        element(application(15), &[&element(SEQUENCE, &[&fields.concat()])])
    }

    fn session_key(answer: &[u8]) -> Result<Vec<u8>, AuthError> {
        let ticket = ticket();
        let request = ticket.request(&fresh(NOW_US)).expect("it is valid");
        request.session_key(answer)
    }

    const TIME_SENT: &str = "20261123134607Z";

    #[test]
    fn a_request_has_the_ticket_and_an_authenticator_encrypted_with_its_key() {
        let ticket = ticket();
        let request = ticket.request(&fresh(NOW_US)).expect("it is valid");
        let place = |part: &[u8]| {
            request
                .token()
                .windows(part.len())
                .position(|window| window == part)
        };
        assert!(place(TICKET).is_some());
        // The authenticator is the last octet string. The cipher adds 28 bytes to it.
        let plain = request.authenticator([0xff; 4]);
        let encrypted = &request.token()[request.token().len() - plain.len() - 28..];
        let opened = ticket
            .cipher()
            .decrypt(&ticket.key, AUTHENTICATOR_USAGE, encrypted);
        assert_eq!(opened.expect("it opens"), plain);
        let has = |part: &[u8]| plain.windows(part.len()).any(|window| window == part);
        assert!(has(TIME_SENT.as_bytes()) && has(b"DYNO.TEST") && has(b"alice") && has(&[9; 32]));
        assert!(
            has(&[2, 4, 0x3f, 0xff, 0xff, 0xff]),
            "a number that nobody takes for a negative one"
        );
    }

    #[test]
    fn the_servers_key_is_used_if_it_sent_one_and_otherwise_ours() {
        let of = |subkey| session_key(&answer(AP_REP, &proof(&[7; 32], TIME_SENT, 250_000, subkey)));
        assert_eq!(of(None), Ok(vec![9; 32]));
        assert_eq!(of(Some(&[5; 32])), Ok(vec![5; 32]));
        assert_eq!(of(Some(&[5; 8])), Err(AuthError::Unsupported));
    }

    #[test]
    fn a_server_that_cannot_read_the_ticket_is_refused() {
        let of = |key: &[u8], time, microseconds| {
            session_key(&answer(AP_REP, &proof(key, time, microseconds, None)))
        };
        assert_eq!(of(&[8; 32], TIME_SENT, 250_000), Err(AuthError::Unproven));
        assert_eq!(of(&[7; 32], "20261123134608Z", 250_000), Err(AuthError::Unproven));
        assert_eq!(of(&[7; 32], TIME_SENT, 250_001), Err(AuthError::Unproven));
        let silent = spnego::Response {
            state: Some(spnego::State::Completed),
            ..Default::default()
        };
        assert_eq!(
            session_key(&spnego::write_response(silent, None)),
            Err(AuthError::Unproven)
        );
    }

    #[test]
    fn a_kerberos_error_is_shown_by_its_name() {
        let fields = [
            element(field(0), &[&integer(5)]),
            element(field(1), &[&integer(30)]),
            element(field(4), &[&element(TIME, &[b"20261123134607Z"])]),
            element(field(5), &[&integer(0)]),
            element(field(6), &[&integer(SKEW)]),
        ];
        let error = element(application(30), &[&element(SEQUENCE, &[&fields.concat()])]);
        let told = session_key(&answer(KRB_ERROR, &error)).expect_err("it is an error");
        assert_eq!(told, AuthError::Kerberos(SKEW));
        assert_eq!(
            dyno_measure::Failure::from(told).to_string(),
            "the log-on by Kerberos was refused: KRB_AP_ERR_SKEW (37)"
        );
    }

    #[test]
    fn an_expired_ticket_is_not_used() {
        let ticket = ticket();
        let at = |unix_s: u64| ticket.request(&fresh(unix_s * 1_000_000)).map(|_| ());
        assert_eq!(at(1_999_999_997), Ok(()));
        assert_eq!(at(1_999_999_998), Err(AuthError::TicketExpired)); // By the KDC's clock.
    }

    #[test]
    fn times_have_the_format_of_kerberos() {
        assert_eq!(kerberos_time(0), "19700101000000Z");
        assert_eq!(kerberos_time(951_782_400), "20000229000000Z");
        assert_eq!(kerberos_time(1_795_441_567), TIME_SENT);
        assert_eq!(kerberos_time(4_102_444_799), "20991231235959Z");
    }

    proptest! {
        #[test]
        fn no_answer_of_a_server_causes_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
            place in 0usize..200,
            value: u8,
        ) {
            let mut changed = answer(AP_REP, &proof(&[7; 32], TIME_SENT, 250_000, None));
            let _ = session_key(&bytes);
            let _ = session_key(&answer(AP_REP, &bytes));
            let _ = session_key(&answer(KRB_ERROR, &bytes));
            let length = changed.len();
            changed[place % length] ^= value;
            let key = session_key(&changed);
            prop_assert!(key.is_err() || key == Ok(vec![9; 32]));
        }
    }
}
