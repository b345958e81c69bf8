//! The client side of a log-on.

use super::ntlm::{self, av, flags, Challenge, From, AUTHENTICATE_BYTES, MIC_AT, VERSION};
use super::spnego::{self, Mechanism};
use super::AuthError;
use std::fmt;

/// The user who logs on. An empty user name requests an anonymous session, which most servers refuse or don't sign.
/// The server may log on an unknown user as a guest, and says so in its response.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Logon {
    pub user: String,
    /// The password, which is never printed.
    pub password: String,
    /// Domain or workgroup; empty if the server belongs to neither.
    pub domain: String,
    /// Name of the client machine, for the server's records.
    pub workstation: String,
}

impl fmt::Debug for Logon {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Logon")
            .field("user", &self.user)
            .field("domain", &self.domain)
            .field("workstation", &self.workstation)
            .finish_non_exhaustive()
    }
}

/// Returns the token of the first SESSION_SETUP. It is the same for all users.
pub fn first_token() -> Vec<u8> {
    spnego::write_init(Mechanism::Ntlm, Some(&negotiate()))
}

/// Returns the NEGOTIATE message (MS-NLMP 2.2.1.1), without names.
fn negotiate() -> Vec<u8> {
    let mut message = ntlm::begin(1);
    message.extend(flags::OURS.to_le_bytes());
    message.extend([0; 16]);
    message.extend(VERSION);
    message
}

/// Responses in an AUTHENTICATE message that prove the user's identity, and the key derived from them.
struct Proof {
    lm: Vec<u8>,
    nt: Vec<u8>,
    /// Key that encrypts the session key in transit.
    exchange_key: [u8; 16],
    /// Whether the server sent a timestamp and therefore requires an integrity code (MIC) over all three
    /// messages.
    wants_mic: bool,
}

impl Logon {
    /// Returns the token of the second SESSION_SETUP, and the session key that applies if the server
    /// accepts the log-on.
    ///
    /// `challenge_token` is the token of the first response. `client_nonce` and `exported_key` are random. `filetime`
    /// is the current time (in 100 ns since 1601). It is used only if the server sends no timestamp.
    ///
    /// # Errors
    /// The challenge is malformed, unsupported or a rejection.
    pub fn second_token(
        &self,
        challenge_token: &[u8],
        client_nonce: [u8; 8],
        exported_key: [u8; 16],
        filetime: u64,
    ) -> Result<(Vec<u8>, [u8; 16]), AuthError> {
        let response = spnego::parse_response(challenge_token, Mechanism::Ntlm)?;
        if response.state == Some(spnego::State::Rejected) {
            return Err(AuthError::Rejected);
        }
        let challenge_message = response.token.ok_or(AuthError::Malformed)?;
        let challenge = Challenge::parse(challenge_message)?;
        let agreed = flags::OURS & challenge.flags;

        let anonymous = self.user.is_empty();
        let proof = if anonymous {
            Proof::of_nobody()
        } else {
            self.proof(&challenge, client_nonce, filetime)?
        };
        let (session_key, sent_key) = if agreed & flags::KEY_EXCHANGE == 0 {
            (proof.exchange_key, Vec::new())
        } else {
            let mut sent = exported_key.to_vec();
            ntlm::rc4(&proof.exchange_key, &mut sent);
            (exported_key, sent)
        };
        let mut message = self.authenticate(&proof, agreed, &sent_key)?;
        if proof.wants_mic {
            let mic = ntlm::hmac_md5(&session_key, &[&negotiate(), challenge_message, &message]);
            message[MIC_AT..AUTHENTICATE_BYTES].copy_from_slice(&mic);
        }
        let list_mic = ntlm::list_mic(
            &session_key,
            agreed,
            From::Client,
            &spnego::mechanisms(Mechanism::Ntlm),
        );
        let answer = spnego::Response {
            state: None,
            token: Some(&message),
            mic: (!anonymous).then_some(&list_mic),
        };
        Ok((spnego::write_response(answer, None), session_key))
    }

    /// Returns the NTLMv2 responses (MS-NLMP 3.3.2) and the key derived from them.
    fn proof(
        &self,
        challenge: &Challenge<'_>,
        client_nonce: [u8; 8],
        filetime: u64,
    ) -> Result<Proof, AuthError> {
        let key = ntlm::password_key(&self.user, &self.password, &self.domain);
        let server_time = ntlm::pairs(challenge.target_info)?
            .into_iter()
            .find_map(|(kind, value)| <[u8; 8]>::try_from(value).ok().filter(|_| kind == av::TIMESTAMP));

        // Response versions 1 and 1; time; nonce; then the server's target info.
        let mut blob = vec![1, 1, 0, 0, 0, 0, 0, 0];
        blob.extend(server_time.unwrap_or(filetime.to_le_bytes()));
        blob.extend(client_nonce);
        blob.extend([0; 4]);
        blob.extend(answered_info(challenge.target_info, server_time.is_some())?);
        blob.extend([0; 4]);

        let proof = ntlm::hmac_md5(&key, &[&challenge.nonce, &blob]);
        let lm = if server_time.is_some() {
            vec![0; 24]
        } else {
            let code = ntlm::hmac_md5(&key, &[&challenge.nonce, &client_nonce]);
            [&code[..], &client_nonce].concat()
        };
        Ok(Proof {
            lm,
            nt: [&proof[..], &blob].concat(),
            exchange_key: ntlm::hmac_md5(&key, &[&proof]),
            wants_mic: server_time.is_some(),
        })
    }

    /// Returns the AUTHENTICATE message (MS-NLMP 2.2.1.3) with a zero integrity code.
    fn authenticate(&self, proof: &Proof, agreed: u32, sent_key: &[u8]) -> Result<Vec<u8>, AuthError> {
        let anonymous = if self.user.is_empty() { flags::ANONYMOUS } else { 0 };
        let mut message = ntlm::begin(3);
        message.resize(AUTHENTICATE_BYTES, 0);
        message[60..64].copy_from_slice(&(agreed | anonymous).to_le_bytes());
        message[64..72].copy_from_slice(&VERSION);
        ntlm::put_payload(&mut message, 28, &ntlm::utf16(&self.domain))?;
        ntlm::put_payload(&mut message, 36, &ntlm::utf16(&self.user))?;
        ntlm::put_payload(&mut message, 44, &ntlm::utf16(&self.workstation))?;
        ntlm::put_payload(&mut message, 12, &proof.lm)?;
        ntlm::put_payload(&mut message, 20, &proof.nt)?;
        ntlm::put_payload(&mut message, 52, sent_key)?;
        Ok(message)
    }
}

impl Proof {
    /// Returns the proof of an anonymous user: the LM response is one zero byte (MS-NLMP 3.2.5.1.2).
    fn of_nobody() -> Self {
        Self {
            lm: vec![0],
            nt: Vec::new(),
            exchange_key: [0; 16],
            wants_mic: false,
        }
    }
}

/// Returns the server's target info for the AUTHENTICATE message, with the MIC flag set if `has_mic`.
fn answered_info(target_info: &[u8], has_mic: bool) -> Result<Vec<u8>, AuthError> {
    let mut info = Vec::with_capacity(target_info.len() + 16);
    let mut given_flags = 0;
    for (kind, value) in ntlm::pairs(target_info)? {
        if kind == av::FLAGS && has_mic {
            given_flags = u32::from_le_bytes(ntlm::at(value, 0)?);
        } else {
            ntlm::put_pair(&mut info, kind, value)?;
        }
    }
    if has_mic {
        ntlm::put_pair(&mut info, av::FLAGS, &(given_flags | av::HAS_MIC).to_le_bytes())?;
    }
    ntlm::put_pair(&mut info, av::END, &[])?;
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::vectors::{array, bytes, BLOG_SESSION_KEY, BLOG_SESSION_SETUPS};

    // MS-NLMP 4.2.4.3.
    const CHALLENGE: &str = "4e544c4d53535000 02000000 0c000c0038000000 33828ae2 0123456789abcdef
        0000000000000000 2400240044000000 060070170000000f 530065007200760065007200
        02000c0044006f006d00610069006e00 01000c00530065007200760065007200 00000000";

    fn logon() -> Logon {
        Logon {
            user: "User".into(),
            password: "Password".into(),
            domain: "Domain".into(),
            workstation: "COMPUTER".into(),
        }
    }

    fn wrapped(challenge: &[u8]) -> Vec<u8> {
        let response = spnego::Response {
            state: Some(spnego::State::Incomplete),
            token: Some(challenge),
            mic: None,
        };
        spnego::write_response(response, Some(Mechanism::Ntlm))
    }

    fn second(challenge: &[u8]) -> Result<(Vec<u8>, [u8; 16]), AuthError> {
        logon().second_token(&wrapped(challenge), [0xaa; 8], [0x55; 16], 0)
    }

    #[test]
    fn the_published_challenge_gets_the_published_responses() {
        let (token, session_key) = second(&bytes(CHALLENGE)).expect("a good challenge");
        assert_eq!(session_key, [0x55; 16]);
        let message = spnego::parse_response(&token, Mechanism::Ntlm)
            .expect("well formed")
            .token
            .expect("there is one");
        let of = |offset| ntlm::payload(message, offset).expect("well formed");
        assert_eq!(of(12), bytes("86c35097ac9cec102554764a57cccc19aaaaaaaaaaaaaaaa"));
        assert_eq!(of(20)[..16], bytes("68cd0ab851e51c96aabc927bebef6a1c"));
        assert_eq!(of(20).len(), 84);
        assert_eq!(of(52), bytes("c5dad2544fc9799094ce1ce90bc9d03e"));
        assert_eq!(of(28), ntlm::utf16("Domain"));
        assert_eq!(of(36), ntlm::utf16("User"));
        assert_eq!(of(44), ntlm::utf16("COMPUTER"));
    }

    #[test]
    fn the_integrity_code_is_computed_as_in_windows() {
        // Compares the integrity code that Windows sent with the one that this client computes over the same messages.
        let message =
            |number: usize, before: usize| bytes(BLOG_SESSION_SETUPS[number].0)[64 + before..].to_vec();
        let first = message(0, 24);
        let negotiate = spnego::parse_init(&first)
            .expect("well formed")
            .token
            .expect("there is one");
        let (second, third) = (message(1, 8), message(2, 24));
        let challenge = spnego::parse_response(&second, Mechanism::Ntlm)
            .expect("well formed")
            .token
            .expect("there is one");
        let authenticate = spnego::parse_response(&third, Mechanism::Ntlm)
            .expect("well formed")
            .token
            .expect("there is one");
        let mut zeroed = authenticate.to_vec();
        zeroed[MIC_AT..AUTHENTICATE_BYTES].fill(0);
        let mic = ntlm::hmac_md5(&array::<16>(BLOG_SESSION_KEY), &[negotiate, challenge, &zeroed]);
        assert_eq!(authenticate[MIC_AT..AUTHENTICATE_BYTES], mic);
    }

    #[test]
    fn a_server_that_sends_the_time_gets_it_back_with_an_integrity_code() {
        let mut challenge = bytes(CHALLENGE);
        challenge.truncate(challenge.len() - 4);
        challenge.extend(bytes("0700 0800 1122334455667788 00000000"));
        challenge[40..44].copy_from_slice(&[48, 0, 48, 0]);
        let (token, _) = second(&challenge).expect("a good challenge");
        let message = spnego::parse_response(&token, Mechanism::Ntlm)
            .expect("well formed")
            .token
            .expect("there is one");
        let nt = ntlm::payload(message, 20).expect("well formed");
        assert_eq!(nt[24..32], bytes("1122334455667788"));
        let pairs = ntlm::pairs(&nt[44..]).expect("well formed");
        assert!(pairs.contains(&(av::FLAGS, &[2, 0, 0, 0])));
        assert_eq!(ntlm::payload(message, 12), Ok(&[0; 24][..]));
        assert_ne!(message[MIC_AT..AUTHENTICATE_BYTES], [0; 16]);
    }

    #[test]
    fn a_malformed_challenge_is_refused_without_a_panic() {
        let challenge = bytes(CHALLENGE);
        for length in 0..challenge.len() {
            assert_eq!(
                second(&challenge[..length]),
                Err(AuthError::Malformed),
                "{length} bytes"
            );
        }
        for place in 0..challenge.len() {
            for value in [0, 0x7f, 0xff] {
                let mut changed = challenge.clone();
                changed[place] = value;
                let _ = second(&changed);
            }
        }
        let mut weak = challenge.clone();
        weak[23] &= !0x20;
        assert_eq!(second(&weak), Err(AuthError::Unsupported));
        let rejected = spnego::Response {
            state: Some(spnego::State::Rejected),
            ..Default::default()
        };
        let token = spnego::write_response(rejected, None);
        assert_eq!(
            logon().second_token(&token, [0; 8], [0; 16], 0),
            Err(AuthError::Rejected)
        );
    }

    #[test]
    fn the_password_is_not_printed() {
        let printed = format!("{:?}", logon());
        assert!(printed.contains("User") && !printed.contains("Password"));
    }
}
