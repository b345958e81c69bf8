//! The wrapping of NTLM's messages: SPNEGO's tokens (RFC 4178, section 4.2; MS-SPNG) in DER.
//!
//! One mechanism is offered and understood. What comes is read in place; lengths are held against what is there, and no
//! reading nests deeper than the format does.

use super::AuthError;

/// Longer tokens are not looked at; NTLM's have some hundred bytes.
const MAX_TOKEN_BYTES: usize = 16 << 10;

const SEQUENCE: u8 = 0x30;
const OCTETS: u8 = 0x04;
const ENUMERATED: u8 = 0x0a;
const OBJECT: u8 = 0x06;
const APPLICATION: u8 = 0x60;
const SPNEGO_OID: &[u8] = &[0x2b, 6, 1, 5, 5, 2];
const NTLM_OID: &[u8] = &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 2, 2, 0x0a];

/// The tag of a field of a sequence, by its number.
const fn field(number: u8) -> u8 {
    0xa0 | number
}

/// How far a negotiation is (`negState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Completed = 0,
    Incomplete = 1,
    Rejected = 2,
    RequestMic = 3,
}

/// A NegTokenResp, as far as it was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Response<'a> {
    pub(super) state: Option<State>,
    pub(super) token: Option<&'a [u8]>,
    pub(super) mic: Option<&'a [u8]>,
}

/// A NegTokenInit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Init<'a> {
    /// The list of mechanisms as it was encoded: `mechListMIC` covers it.
    pub(super) mechanisms: &'a [u8],
    /// The first mechanism's token.
    pub(super) token: Option<&'a [u8]>,
}

/// The list of mechanisms that we offer, as `mechListMIC` covers it.
pub(super) fn mechanisms() -> Vec<u8> {
    element(SEQUENCE, &[&element(OBJECT, &[NTLM_OID])])
}

/// A NegTokenInit that offers NTLM, with its first message or (a server's offer) without.
pub(super) fn write_init(token: Option<&[u8]>) -> Vec<u8> {
    let mechanisms = element(field(0), &[&mechanisms()]);
    let token = token.map_or(Vec::new(), |token| {
        element(field(2), &[&element(OCTETS, &[token])])
    });
    let init = element(field(0), &[&element(SEQUENCE, &[&mechanisms, &token])]);
    element(APPLICATION, &[&element(OBJECT, &[SPNEGO_OID]), &init])
}

/// A NegTokenResp. A server names the mechanism in its first one.
pub(super) fn write_response(response: Response<'_>, names_mechanism: bool) -> Vec<u8> {
    let mut fields = Vec::new();
    if let Some(state) = response.state {
        fields.extend(element(field(0), &[&element(ENUMERATED, &[&[state as u8]])]));
    }
    if names_mechanism {
        fields.extend(element(field(1), &[&element(OBJECT, &[NTLM_OID])]));
    }
    if let Some(token) = response.token {
        fields.extend(element(field(2), &[&element(OCTETS, &[token])]));
    }
    if let Some(mic) = response.mic {
        fields.extend(element(field(3), &[&element(OCTETS, &[mic])]));
    }
    element(field(1), &[&element(SEQUENCE, &[&fields])])
}

/// Reads a NegTokenInit.
pub(super) fn parse_init(token: &[u8]) -> Result<Init<'_>, AuthError> {
    let mut rest = bounded(token)?;
    let mut whole = take(&mut rest, APPLICATION)?;
    if take(&mut whole, OBJECT)? != SPNEGO_OID {
        return Err(AuthError::Unsupported);
    }
    let mut init = take(&mut whole, field(0))?;
    let mut fields = take(&mut init, SEQUENCE)?;
    let mechanisms = take(&mut fields, field(0))?;
    let mut list = take(&mut { mechanisms }, SEQUENCE)?;
    // Its token is the first one's. A client that prefers another mechanism would have to be told to choose again.
    if take(&mut list, OBJECT)? != NTLM_OID {
        return Err(AuthError::Unsupported);
    }
    optional(&mut fields, field(1))?;
    let token = octets(optional(&mut fields, field(2))?)?;
    Ok(Init { mechanisms, token })
}

/// Reads a NegTokenResp.
pub(super) fn parse_response(token: &[u8]) -> Result<Response<'_>, AuthError> {
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
    if let Some(mut mechanism) = optional(&mut fields, field(1))? {
        if take(&mut mechanism, OBJECT)? != NTLM_OID {
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

fn octets(content: Option<&[u8]>) -> Result<Option<&[u8]>, AuthError> {
    content.map(|mut content| take(&mut content, OCTETS)).transpose()
}

/// The content of the element that `rest` begins with, where it has `tag`.
fn optional<'a>(rest: &mut &'a [u8], tag: u8) -> Result<Option<&'a [u8]>, AuthError> {
    if rest.first() == Some(&tag) {
        take(rest, tag).map(Some)
    } else {
        Ok(None)
    }
}

/// The content of the element that `rest` begins with, which must have `tag`; `rest` goes on behind it.
fn take<'a>(rest: &mut &'a [u8], tag: u8) -> Result<&'a [u8], AuthError> {
    let (&found, after_tag) = rest.split_first().ok_or(AuthError::Malformed)?;
    let (&first, mut after) = after_tag.split_first().ok_or(AuthError::Malformed)?;
    if found != tag {
        return Err(AuthError::Malformed);
    }
    let mut length = usize::from(first);
    if first >= 0x80 {
        // So many bytes of length follow; tokens are too short for more than two.
        let (digits, behind) = after
            .split_at_checked(usize::from(first & 0x7f))
            .filter(|(digits, _)| matches!(digits.len(), 1 | 2))
            .ok_or(AuthError::Malformed)?;
        length = digits
            .iter()
            .fold(0, |length, &digit| length << 8 | usize::from(digit));
        after = behind;
    }
    let (content, behind) = after.split_at_checked(length).ok_or(AuthError::Malformed)?;
    *rest = behind;
    Ok(content)
}

/// An element of DER with the parts as its content.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len();
    let mut element = vec![tag];
    match length {
        0..0x80 => element.push(length as u8),
        0x80..0x100 => element.extend([0x81, length as u8]),
        _ => element.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    element.extend(content);
    element
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::vectors::{bytes, BLOG_SESSION_SETUPS};

    /// A token inside a SESSION_SETUP: request bodies have 24 bytes before it, responses 8.
    fn published(number: usize, before: usize) -> Vec<u8> {
        bytes(BLOG_SESSION_SETUPS[number].0)[64 + before..].to_vec()
    }

    #[test]
    fn tokens_are_written_as_windows_writes_them() {
        let first = published(0, 24);
        let init = parse_init(&first).expect("well formed");
        assert_eq!(init.mechanisms, mechanisms());
        assert_eq!(write_init(init.token), first);

        let challenge = published(1, 8);
        let response = parse_response(&challenge).expect("well formed");
        assert_eq!(response.state, Some(State::Incomplete));
        assert_eq!(write_response(response, true), challenge);

        let last = published(2, 24);
        let response = parse_response(&last).expect("well formed");
        assert_eq!(response.token.map(|token| &token[..8]), Some(&b"NTLMSSP\0"[..]));
        assert_eq!(response.mic.map(<[u8]>::len), Some(16));
        assert_eq!(write_response(response, false), last);
    }

    #[test]
    fn what_is_cut_or_too_long_is_refused_without_a_panic() {
        for (token, is_init) in [(published(0, 24), true), (published(1, 8), false)] {
            for length in 0..token.len() {
                let cut = &token[..length];
                let refused = if is_init {
                    parse_init(cut).is_err()
                } else {
                    parse_response(cut).is_err()
                };
                assert!(refused, "{length} bytes");
            }
        }
        let endless = [&[0xa1, 0x84, 0xff, 0xff, 0xff, 0xff][..], &[0; 100]].concat();
        assert_eq!(parse_response(&endless), Err(AuthError::Malformed));
        assert_eq!(
            parse_response(&vec![0xa1; MAX_TOKEN_BYTES + 1]),
            Err(AuthError::Malformed)
        );
    }

    #[test]
    fn another_mechanism_is_told_from_a_broken_token() {
        let mut token = published(1, 8);
        let place = token
            .windows(10)
            .position(|window| window == NTLM_OID)
            .expect("it names NTLM");
        token[place + 9] ^= 1;
        assert_eq!(parse_response(&token), Err(AuthError::Unsupported));
    }
}
