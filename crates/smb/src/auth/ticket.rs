//! A Kerberos service ticket, read from a credential cache of MIT Kerberos (file format 4).
//!
//! The user gets the ticket before the load starts. Log-ons need nothing else. This module contacts no KDC and reads no
//! passwords or keytabs.

use super::der::{element, field, integer, SEQUENCE, TEXT};
use picky_krb::crypto::{Cipher, CipherSuite};
use std::fmt;

/// Version 4 of the file format.
const FORMAT: [u8; 2] = [5, 4];
/// Tag of the header field with the KDC's clock offset: the seconds and microseconds by which that clock is ahead.
const CLOCK_OFFSET: u16 = 1;
/// MIT caches store settings as tickets of this realm.
const SETTINGS_REALM: &[u8] = b"X-CACHECONF:";
/// Upper bound on the size of a ticket, which must fit into the token of a SESSION_SETUP (at most 65,535
/// bytes).
const MAX_TICKET_BYTES: usize = 60_000;
const MAX_PARTS: u32 = 16;

/// Reason why a credential cache has no usable ticket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    #[error("the credential cache is malformed, or not of format 4")]
    Malformed,
    /// There is no ticket for a file server.
    #[error("the credential cache has no ticket for cifs/HOST")]
    NotThere,
    /// The ticket's key is for an unsupported cipher, with this Kerberos encryption type.
    #[error("the ticket's key has encryption type {0}; only AES (17 and 18) is supported")]
    Cipher(u16),
    /// The ticket is too long for a log-on. The value is its length in bytes.
    #[error("the ticket has {0} bytes, more than a log-on over SMB can carry")]
    TooLong(usize),
}

/// Ticket for a file server, with its session key.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceTicket {
    /// Realm and name of the client in DER, as an authenticator contains them.
    pub(super) client: Client,
    /// Name of the server's principal, `cifs/HOST@REALM`.
    server: String,
    pub(super) suite: CipherSuite,
    pub(super) key: Vec<u8>,
    /// Expiry, as Unix time in seconds.
    pub(super) ends_s: u64,
    /// The ticket in DER, as the KDC sent it.
    pub(super) ticket: Vec<u8>,
    /// Time by which the KDC's clock is ahead of this machine's clock, in µs.
    pub(super) clock_offset_us: i64,
}

/// The client of a ticket, in DER.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) realm: Vec<u8>,
    pub(super) name: Vec<u8>,
}

impl fmt::Debug for ServiceTicket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ServiceTicket")
            .field("server", &self.server)
            .field("ends_s", &self.ends_s)
            .finish_non_exhaustive()
    }
}

impl ServiceTicket {
    /// Returns the last ticket for a file server in a credential cache.
    ///
    /// # Errors
    /// The cache has no usable ticket.
    pub fn of_cache(cache: &[u8]) -> Result<Self, TicketError> {
        let mut reader = Reader(cache);
        if reader.array()? != FORMAT {
            return Err(TicketError::Malformed);
        }
        let clock_offset_us = reader.clock_offset_us()?;
        reader.principal()?;
        let mut found = Err(TicketError::NotThere);
        while !reader.0.is_empty() {
            let credential = reader.credential()?;
            if credential.is_of_file_server() {
                found = credential.ticket(clock_offset_us);
            }
        }
        found
    }

    pub(super) fn cipher(&self) -> Box<dyn Cipher> {
        self.suite.cipher()
    }
}

struct Principal<'a> {
    kind: u32,
    realm: &'a [u8],
    parts: Vec<&'a [u8]>,
}

impl Principal<'_> {
    /// Returns the PrincipalName (RFC 4120, 5.2.2).
    fn name(&self) -> Vec<u8> {
        let parts: Vec<u8> = self
            .parts
            .iter()
            .flat_map(|part| element(TEXT, &[part]))
            .collect();
        element(
            SEQUENCE,
            &[
                &element(field(0), &[&integer(self.kind)]),
                &element(field(1), &[&element(SEQUENCE, &[&parts])]),
            ],
        )
    }

    fn text(&self) -> String {
        let parts: Vec<_> = self
            .parts
            .iter()
            .map(|part| String::from_utf8_lossy(part))
            .collect();
        format!("{}@{}", parts.join("/"), String::from_utf8_lossy(self.realm))
    }
}

struct Credential<'a> {
    client: Principal<'a>,
    server: Principal<'a>,
    cipher: u16,
    key: &'a [u8],
    ends_s: u32,
    ticket: &'a [u8],
}

impl Credential<'_> {
    fn is_of_file_server(&self) -> bool {
        self.server.realm != SETTINGS_REALM
            && self
                .server
                .parts
                .first()
                .is_some_and(|part| part.eq_ignore_ascii_case(b"cifs"))
    }

    fn ticket(&self, clock_offset_us: i64) -> Result<ServiceTicket, TicketError> {
        let suite = match CipherSuite::try_from(usize::from(self.cipher)) {
            Ok(suite @ (CipherSuite::Aes128CtsHmacSha196 | CipherSuite::Aes256CtsHmacSha196)) => suite,
            _ => return Err(TicketError::Cipher(self.cipher)),
        };
        if self.key.len() != suite.cipher().key_size() {
            return Err(TicketError::Malformed);
        }
        if self.ticket.len() > MAX_TICKET_BYTES {
            return Err(TicketError::TooLong(self.ticket.len()));
        }
        Ok(ServiceTicket {
            client: Client {
                realm: element(TEXT, &[self.client.realm]),
                name: self.client.name(),
            },
            server: self.server.text(),
            suite,
            key: self.key.to_vec(),
            ends_s: u64::from(self.ends_s),
            ticket: self.ticket.to_vec(),
            clock_offset_us,
        })
    }
}

/// The unread rest of the file. All numbers are big-endian.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], TicketError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(TicketError::Malformed)?;
        self.0 = rest;
        Ok(*array)
    }

    fn short(&mut self) -> Result<u16, TicketError> {
        self.array().map(u16::from_be_bytes)
    }

    fn long(&mut self) -> Result<u32, TicketError> {
        self.array().map(u32::from_be_bytes)
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], TicketError> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(TicketError::Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Reads a length, and then that many bytes.
    fn data(&mut self) -> Result<&'a [u8], TicketError> {
        let length = self.long()? as usize;
        self.bytes(length)
    }

    fn clock_offset_us(&mut self) -> Result<i64, TicketError> {
        let length = usize::from(self.short()?);
        let mut header = Reader(self.bytes(length)?);
        let mut offset_us = 0;
        while !header.0.is_empty() {
            let (tag, length) = (header.short()?, usize::from(header.short()?));
            let mut value = Reader(header.bytes(length)?);
            if tag == CLOCK_OFFSET {
                let (seconds, microseconds) = (value.long()? as i32, value.long()? as i32);
                offset_us = i64::from(seconds) * 1_000_000 + i64::from(microseconds);
            }
        }
        Ok(offset_us)
    }

    fn principal(&mut self) -> Result<Principal<'a>, TicketError> {
        let (kind, count) = (self.long()?, self.long()?);
        if count > MAX_PARTS {
            return Err(TicketError::Malformed);
        }
        Ok(Principal {
            kind,
            realm: self.data()?,
            parts: (0..count).map(|_| self.data()).collect::<Result<_, _>>()?,
        })
    }

    /// Skips a list of addresses or of authorization data. Neither is needed.
    fn skip_list(&mut self) -> Result<(), TicketError> {
        for _ in 0..self.long()? {
            self.short()?;
            self.data()?;
        }
        Ok(())
    }

    fn credential(&mut self) -> Result<Credential<'a>, TicketError> {
        let (client, server) = (self.principal()?, self.principal()?);
        let (cipher, key) = (self.short()?, self.data()?);
        let [_authenticated_s, _starts_s, ends_s, _renewable_s] =
            [self.long()?, self.long()?, self.long()?, self.long()?];
        let _is_for_another_key: [u8; 1] = self.array()?;
        let _flags = self.long()?;
        self.skip_list()?;
        self.skip_list()?;
        let ticket = self.data()?;
        let _second_ticket = self.data()?;
        Ok(Credential {
            client,
            server,
            cipher,
            key,
            ends_s,
            ticket,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn data(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
    }

    fn principal(realm: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        let mut text = [
            &1u32.to_be_bytes()[..],
            &(parts.len() as u32).to_be_bytes(),
            &data(realm),
        ]
        .concat();
        parts.iter().for_each(|part| text.extend(data(part)));
        text
    }

    /// Returns a ticket of alice for `server` that expires at Unix second 2,000,000,000.
    pub fn credential(server: &[&[u8]], cipher: u16, key: &[u8], ticket: &[u8]) -> Vec<u8> {
        let mut text = principal(b"DYNO.TEST", &[b"alice"]);
        text.extend(principal(b"DYNO.TEST", server));
        text.extend(cipher.to_be_bytes());
        text.extend(data(key));
        for time in [1, 2, 2_000_000_000u32, 0] {
            text.extend(time.to_be_bytes());
        }
        text.extend([0; 5]);
        text.extend([&[0, 0, 0, 1, 0, 2][..], &data(&[127, 0, 0, 1]), &[0; 4]].concat());
        text.extend(data(ticket));
        text.extend(data(&[]));
        text
    }

    /// Returns a cache that states that the KDC's clock is 2.5 s ahead.
    pub fn cache(credentials: &[Vec<u8>]) -> Vec<u8> {
        let mut text = vec![5, 4, 0, 12, 0, 1, 0, 8, 0, 0, 0, 2, 0, 7, 0xa1, 0x20];
        text.extend(principal(b"DYNO.TEST", &[b"alice"]));
        text.extend(credentials.concat());
        text
    }

    #[test]
    fn the_ticket_for_a_file_server_is_found_among_others() {
        let cache = cache(&[
            credential(&[b"krbtgt", b"DYNO.TEST"], 18, &[1; 32], b"not this one"),
            credential(&[b"cifs", b"dc1.dyno.test"], 18, &[2; 32], b"this one"),
        ]);
        let ticket = ServiceTicket::of_cache(&cache).expect("a good cache");
        assert_eq!(ticket.ticket, b"this one");
        assert_eq!(ticket.key, [2; 32]);
        assert_eq!(ticket.ends_s, 2_000_000_000);
        assert_eq!(ticket.clock_offset_us, 2_500_000);
        assert_eq!(ticket.server, "cifs/dc1.dyno.test@DYNO.TEST");
        assert!(!format!("{ticket:?}").contains("[2, 2"), "keys are not printed");
    }

    #[test]
    fn the_reason_why_a_cache_is_unusable_is_reported() {
        let of = |credentials: &[Vec<u8>]| ServiceTicket::of_cache(&cache(credentials)).map(|_| ());
        let cifs: &[&[u8]] = &[b"cifs", b"a"];
        assert_eq!(of(&[]), Err(TicketError::NotThere));
        assert_eq!(
            of(&[credential(cifs, 23, &[0; 16], b"")]),
            Err(TicketError::Cipher(23))
        );
        assert_eq!(
            of(&[credential(cifs, 16, &[0; 24], b"")]),
            Err(TicketError::Cipher(16))
        );
        assert_eq!(
            of(&[credential(cifs, 18, &[0; 16], b"")]),
            Err(TicketError::Malformed)
        );
        let long = vec![0; MAX_TICKET_BYTES + 1];
        assert_eq!(
            of(&[credential(cifs, 17, &[0; 16], &long)]),
            Err(TicketError::TooLong(long.len()))
        );
    }

    #[test]
    fn a_truncated_or_changed_cache_is_refused_without_a_panic() {
        let whole = cache(&[credential(&[b"cifs", b"a"], 17, &[2; 16], b"ticket")]);
        let first = whole.len() - credential(&[b"cifs", b"a"], 17, &[2; 16], b"ticket").len();
        for length in 0..whole.len() {
            let expected = if length == first {
                TicketError::NotThere
            } else {
                TicketError::Malformed
            };
            assert_eq!(
                ServiceTicket::of_cache(&whole[..length]),
                Err(expected),
                "{length} bytes"
            );
        }
        for place in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[place] = value;
                let _ = ServiceTicket::of_cache(&changed);
            }
        }
    }
}
