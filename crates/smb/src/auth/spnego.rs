//! SPNEGO tokens (RFC 4178, section 4.2; MS-SPNG), which carry NTLM and Kerberos messages in DER.
//!
//! Each token offers or accepts a single mechanism.

use super::der::{application, element, field, octets, optional, take, ENUMERATED, OBJECT, OCTETS, SEQUENCE};
use super::AuthError;

/// Maximum length of an accepted token. Servers send a few hundred bytes.
const MAX_TOKEN_BYTES: usize = 16 << 10;

const SPNEGO_OID: &[u8] = &[0x2b, 6, 1, 5, 5, 2];

/// Authentication mechanism of a log-on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mechanism {
    Ntlm,
    Kerberos,
}

impl Mechanism {
    pub(super) fn oid(self) -> &'static [u8] {
        match self {
            Self::Ntlm => &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 2, 2, 0x0a],
            Self::Kerberos => &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2],
        }
    }
}

/// State of a negotiation (`negState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Completed = 0,
    Incomplete = 1,
    Rejected = 2,
    RequestMic = 3,
}

/// Fields of a NegTokenResp; absent fields are None.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Response<'a> {
    pub(super) state: Option<State>,
    pub(super) token: Option<&'a [u8]>,
    pub(super) mic: Option<&'a [u8]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Init<'a> {
    /// Encoded list of mechanisms, which `mechListMIC` covers.
    pub(super) mechanisms: &'a [u8],
    /// Token of the first mechanism.
    pub(super) token: Option<&'a [u8]>,
}

/// Returns the encoded list of offered mechanisms, which `mechListMIC` covers.
pub(super) fn mechanisms(mechanism: Mechanism) -> Vec<u8> {
    element(SEQUENCE, &[&element(OBJECT, &[mechanism.oid()])])
}

/// Returns a NegTokenInit that offers one mechanism. A server's offer has no token.
pub(super) fn write_init(mechanism: Mechanism, token: Option<&[u8]>) -> Vec<u8> {
    let mechanisms = element(field(0), &[&mechanisms(mechanism)]);
    let token = token.map_or(Vec::new(), |token| {
        element(field(2), &[&element(OCTETS, &[token])])
    });
    let init = element(field(0), &[&element(SEQUENCE, &[&mechanisms, &token])]);
    element(application(0), &[&element(OBJECT, &[SPNEGO_OID]), &init])
}

/// Returns a NegTokenResp. `named`: the chosen mechanism, which a server includes in its first response.
pub(super) fn write_response(response: Response<'_>, named: Option<Mechanism>) -> Vec<u8> {
    let mut fields = Vec::new();
    if let Some(state) = response.state {
        fields.extend(element(field(0), &[&element(ENUMERATED, &[&[state as u8]])]));
    }
    if let Some(mechanism) = named {
        fields.extend(element(field(1), &[&element(OBJECT, &[mechanism.oid()])]));
    }
    if let Some(token) = response.token {
        fields.extend(element(field(2), &[&element(OCTETS, &[token])]));
    }
    if let Some(mic) = response.mic {
        fields.extend(element(field(3), &[&element(OCTETS, &[mic])]));
    }
    element(field(1), &[&element(SEQUENCE, &[&fields])])
}

/// Parses a NegTokenInit. Fails unless its first mechanism is NTLM, the only one that the server side supports.
pub(super) fn parse_init(token: &[u8]) -> Result<Init<'_>, AuthError> {
    let mut rest = bounded(token)?;
    let mut whole = take(&mut rest, application(0))?;
    if take(&mut whole, OBJECT)? != SPNEGO_OID {
        return Err(AuthError::Unsupported);
    }
    let mut init = take(&mut whole, field(0))?;
    let mut fields = take(&mut init, SEQUENCE)?;
    let mechanisms = take(&mut fields, field(0))?;
    let mut list = take(&mut { mechanisms }, SEQUENCE)?;
    // The token belongs to the first mechanism. Changing to another one would take a further round trip.
    if take(&mut list, OBJECT)? != Mechanism::Ntlm.oid() {
        return Err(AuthError::Unsupported);
    }
    optional(&mut fields, field(1))?;
    let token = octets(optional(&mut fields, field(2))?)?;
    Ok(Init { mechanisms, token })
}

/// Parses a NegTokenResp from a negotiation that offered only `mechanism`.
pub(super) fn parse_response(token: &[u8], mechanism: Mechanism) -> Result<Response<'_>, AuthError> {
    let mut rest = bounded(token)?;
    let mut response = take(&mut rest, field(1))?;
    let mut fields = take(&mut response, SEQUENCE)?;
    let mut parsed = Response::default();
    if let Some(mut state) = optional(&mut fields, field(0))? {
        parsed.state = Some(match take(&mut state, ENUMERATED)? {
            [0] => State::Completed,
            [1] => State::Incomplete,
            [2] => State::Rejected,
            [3] => State::RequestMic,
            _ => return Err(AuthError::Malformed),
        });
    }
    if let Some(mut chosen) = optional(&mut fields, field(1))? {
        if take(&mut chosen, OBJECT)? != mechanism.oid() {
            return Err(AuthError::Unsupported);
        }
    }
    parsed.token = octets(optional(&mut fields, field(2))?)?;
    parsed.mic = octets(optional(&mut fields, field(3))?)?;
    Ok(parsed)
}

fn bounded(token: &[u8]) -> Result<&[u8], AuthError> {
    (token.len() <= MAX_TOKEN_BYTES)
        .then_some(token)
        .ok_or(AuthError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::vectors::{bytes, BLOG_SESSION_SETUPS};

    /// Returns the token of a SESSION_SETUP: the fixed part before it has 24 bytes in requests and 8 in
    /// responses.
    fn published(number: usize, before: usize) -> Vec<u8> {
        bytes(BLOG_SESSION_SETUPS[number].0)[64 + before..].to_vec()
    }

    #[test]
    fn tokens_are_written_as_in_windows() {
        let first = published(0, 24);
        let init = parse_init(&first).expect("well formed");
        assert_eq!(init.mechanisms, mechanisms(Mechanism::Ntlm));
        assert_eq!(write_init(Mechanism::Ntlm, init.token), first);

        let challenge = published(1, 8);
        let response = parse_response(&challenge, Mechanism::Ntlm).expect("well formed");
        assert_eq!(response.state, Some(State::Incomplete));
        assert_eq!(write_response(response, Some(Mechanism::Ntlm)), challenge);

        let last = published(2, 24);
        let response = parse_response(&last, Mechanism::Ntlm).expect("well formed");
        assert_eq!(response.token.map(|token| &token[..8]), Some(&b"NTLMSSP\0"[..]));
        assert_eq!(response.mic.map(<[u8]>::len), Some(16));
        assert_eq!(write_response(response, None), last);
    }

    #[test]
    fn a_truncated_or_too_long_token_is_refused_without_a_panic() {
        for (token, is_init) in [(published(0, 24), true), (published(1, 8), false)] {
            for length in 0..token.len() {
                let cut = &token[..length];
                let refused = if is_init {
                    parse_init(cut).is_err()
                } else {
                    parse_response(cut, Mechanism::Ntlm).is_err()
                };
                assert!(refused, "{length} bytes");
            }
        }
        let endless = [&[0xa1, 0x84, 0xff, 0xff, 0xff, 0xff][..], &[0; 100]].concat();
        assert_eq!(
            parse_response(&endless, Mechanism::Ntlm),
            Err(AuthError::Malformed)
        );
        assert_eq!(
            parse_response(&vec![0xa1; MAX_TOKEN_BYTES + 1], Mechanism::Ntlm),
            Err(AuthError::Malformed)
        );
    }

    #[test]
    fn another_mechanism_is_distinguished_from_a_malformed_token() {
        let mut token = published(1, 8);
        let place = token
            .windows(10)
            .position(|window| window == Mechanism::Ntlm.oid())
            .expect("it names NTLM");
        token[place + 9] ^= 1;
        assert_eq!(
            parse_response(&token, Mechanism::Ntlm),
            Err(AuthError::Unsupported)
        );
    }
}
