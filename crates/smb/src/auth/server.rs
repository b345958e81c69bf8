//! The server side of a log-on, for a server that knows its users' passwords.

use super::ntlm::{self, av, flags, From, AUTHENTICATE_BYTES, MIC_AT, VERSION};
use super::spnego::{self, Mechanism};
use super::AuthError;

/// A server that challenges clients.
#[derive(Debug, Clone)]
pub struct Acceptor {
    /// The server's NetBIOS name.
    pub name: String,
}

/// A client that has been sent a challenge.
#[derive(Debug, Clone)]
pub struct Challenged {
    negotiate: Vec<u8>,
    challenge: Vec<u8>,
    mechanisms: Vec<u8>,
    nonce: [u8; 8],
}

/// Identity of a client, from its second token.
#[derive(Clone, PartialEq, Eq)]
pub enum Identity {
    User {
        /// Key from which the session's keys are derived.
        session_key: [u8; 16],
        /// Token of the last response.
        last_token: Vec<u8>,
    },
    Anonymous,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::User { .. } => "User",
            Self::Anonymous => "Anonymous",
        })
    }
}

/// Returns the token of a NEGOTIATE response, which offers NTLM.
pub fn offer_token() -> Vec<u8> {
    spnego::write_init(Mechanism::Ntlm, None)
}

/// Returns the token of the last response to a client that is admitted without proof: a guest or an
/// anonymous user.
pub fn last_token() -> Vec<u8> {
    completed(None)
}

fn completed(mic: Option<&[u8]>) -> Vec<u8> {
    let response = spnego::Response {
        state: Some(spnego::State::Completed),
        token: None,
        mic,
    };
    spnego::write_response(response, None)
}

impl Acceptor {
    /// Answers a client's first token with a challenge. Returns the token and the state to keep. `nonce` is random,
    /// `filetime` is the current time (in 100 ns since 1601).
    ///
    /// # Errors
    /// The token is malformed or unsupported.
    pub fn challenge(
        &self,
        first_token: &[u8],
        nonce: [u8; 8],
        filetime: u64,
    ) -> Result<(Vec<u8>, Challenged), AuthError> {
        let init = spnego::parse_init(first_token)?;
        let negotiate = init.token.ok_or(AuthError::Malformed)?;
        ntlm::check_kind(negotiate, 1)?;
        let asked = u32::from_le_bytes(ntlm::at(negotiate, 12)?);
        if asked & flags::NEEDED != flags::NEEDED {
            return Err(AuthError::Unsupported);
        }
        // SMB never seals with NTLM. But a client that intends to encrypt requests SEAL, and treats a missing flag as
        // an attack.
        let possible = asked & (flags::OURS | flags::SEAL);
        let agreed = possible | flags::TARGET_INFO | flags::TARGET_TYPE_SERVER | flags::VERSION;

        let name = ntlm::utf16(&self.name);
        let mut target_info = Vec::new();
        ntlm::put_pair(&mut target_info, av::DOMAIN_NAME, &name)?;
        ntlm::put_pair(&mut target_info, av::COMPUTER_NAME, &name)?;
        // Without a domain, the server is its own domain. Windows also sends these names, and some clients
        // require them.
        let host = ntlm::utf16(&self.name.to_lowercase());
        ntlm::put_pair(&mut target_info, av::DNS_DOMAIN_NAME, &host)?;
        ntlm::put_pair(&mut target_info, av::DNS_COMPUTER_NAME, &host)?;
        ntlm::put_pair(&mut target_info, av::TIMESTAMP, &filetime.to_le_bytes())?;
        ntlm::put_pair(&mut target_info, av::END, &[])?;

        let mut challenge = ntlm::begin(2);
        challenge.resize(56, 0);
        challenge[20..24].copy_from_slice(&agreed.to_le_bytes());
        challenge[24..32].copy_from_slice(&nonce);
        challenge[48..56].copy_from_slice(&VERSION);
        ntlm::put_payload(&mut challenge, 12, &name)?;
        ntlm::put_payload(&mut challenge, 40, &target_info)?;
        let response = spnego::Response {
            state: Some(spnego::State::Incomplete),
            token: Some(&challenge),
            mic: None,
        };
        let token = spnego::write_response(response, Some(Mechanism::Ntlm));
        let challenged = Challenged {
            negotiate: negotiate.to_vec(),
            mechanisms: init.mechanisms.to_vec(),
            challenge,
            nonce,
        };
        Ok((token, challenged))
    }
}

impl Challenged {
    /// Checks a client's second token. Accepts only `user` with `password`, and anonymous clients.
    ///
    /// # Errors
    /// The token is malformed or unsupported, [`AuthError::UnknownUser`], [`AuthError::WrongPassword`] or
    /// [`AuthError::Tampered`].
    pub fn identify(&self, second_token: &[u8], user: &str, password: &str) -> Result<Identity, AuthError> {
        let response = spnego::parse_response(second_token, Mechanism::Ntlm)?;
        let message = response.token.ok_or(AuthError::Malformed)?;
        ntlm::check_kind(message, 3)?;
        let given_flags = u32::from_le_bytes(ntlm::at(message, 60)?);
        let given_user = ntlm::text(ntlm::payload(message, 36)?)?;
        let nt = ntlm::payload(message, 20)?;
        if given_user.is_empty() && nt.is_empty() {
            return Ok(Identity::Anonymous);
        }
        if ntlm::capitals(&given_user) != ntlm::capitals(user) {
            return Err(AuthError::UnknownUser);
        }
        let domain = ntlm::text(ntlm::payload(message, 28)?)?;
        let key = ntlm::password_key(&given_user, password, &domain);
        let (proof, blob) = nt.split_first_chunk::<16>().ok_or(AuthError::Malformed)?;
        if ntlm::hmac_md5(&key, &[&self.nonce, blob]) != *proof {
            return Err(AuthError::WrongPassword);
        }
        let mut session_key = ntlm::hmac_md5(&key, &[proof]);
        if given_flags & flags::KEY_EXCHANGE != 0 {
            let mut sent: [u8; 16] = ntlm::at(ntlm::payload(message, 52)?, 0)?;
            ntlm::rc4(&session_key, &mut sent);
            session_key = sent;
        }
        self.check_mic(message, blob, &session_key)?;
        let last_token = self.check_list(response.mic, given_flags, &session_key)?;
        Ok(Identity::User {
            session_key,
            last_token,
        })
    }

    /// Verifies the integrity code over the three messages, if the client declares one.
    fn check_mic(&self, message: &[u8], blob: &[u8], session_key: &[u8; 16]) -> Result<(), AuthError> {
        let info = blob.get(28..).ok_or(AuthError::Malformed)?;
        let has_mic = ntlm::pairs(info)?.into_iter().any(|(kind, value)| {
            let value = value.first_chunk().map_or(0, |value| u32::from_le_bytes(*value));
            kind == av::FLAGS && value & av::HAS_MIC != 0
        });
        if !has_mic {
            return Ok(());
        }
        let mic: [u8; 16] = ntlm::at(message, MIC_AT)?;
        let parts: [&[u8]; 5] = [
            &self.negotiate,
            &self.challenge,
            &message[..MIC_AT],
            &[0; 16],
            &message[AUTHENTICATE_BYTES..],
        ];
        (ntlm::hmac_md5(session_key, &parts) == mic)
            .then_some(())
            .ok_or(AuthError::Tampered)
    }

    /// Verifies the client's `mechListMIC`, if it sent one. Returns the token of the last response, which
    /// then includes the server's own `mechListMIC`.
    fn check_list(
        &self,
        mic: Option<&[u8]>,
        flags: u32,
        session_key: &[u8; 16],
    ) -> Result<Vec<u8>, AuthError> {
        let Some(mic) = mic else {
            return Ok(completed(None));
        };
        if mic != ntlm::list_mic(session_key, flags, From::Client, &self.mechanisms) {
            return Err(AuthError::Tampered);
        }
        let ours = ntlm::list_mic(session_key, flags, From::Server, &self.mechanisms);
        Ok(completed(Some(&ours)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{first_token, Logon};

    fn logon(user: &str, password: &str) -> Logon {
        Logon {
            user: user.into(),
            password: password.into(),
            domain: "WORKGROUP".into(),
            workstation: String::new(),
        }
    }

    fn challenge() -> (Vec<u8>, Challenged) {
        let acceptor = Acceptor {
            name: "REFERENCE".into(),
        };
        acceptor
            .challenge(&first_token(), [9; 8], 133_000_000_000_000_000)
            .expect("our own token")
    }

    /// Returns the client's second token, its key, and the state of the challenge.
    fn answer(logon: &Logon) -> (Vec<u8>, [u8; 16], Challenged) {
        let (token, challenged) = challenge();
        let (second, key) = logon
            .second_token(&token, [1; 8], [2; 16], 0)
            .expect("our own challenge");
        (second, key, challenged)
    }

    #[test]
    fn the_challenge_has_the_dns_names_of_the_host() {
        let (token, _) = challenge();
        let response = spnego::parse_response(&token, Mechanism::Ntlm).expect("well formed");
        let parsed = ntlm::Challenge::parse(response.token.expect("a token")).expect("a challenge");
        let pairs = ntlm::pairs(parsed.target_info).expect("well formed");
        for kind in [av::DNS_COMPUTER_NAME, av::DNS_DOMAIN_NAME] {
            assert!(pairs.contains(&(kind, &ntlm::utf16("reference")[..])), "{kind}");
        }
    }

    #[test]
    fn both_sides_derive_the_same_key() {
        let (second, key, challenged) = answer(&logon("Bench", "päss"));
        let Ok(Identity::User {
            session_key,
            last_token,
        }) = challenged.identify(&second, "bench", "päss")
        else {
            panic!("the user is known");
        };
        assert_eq!(session_key, key);
        let last = spnego::parse_response(&last_token, Mechanism::Ntlm).expect("well formed");
        assert_eq!(last.state, Some(spnego::State::Completed));
        assert!(last.mic.is_some());
    }

    #[test]
    fn without_a_key_exchange_both_sides_derive_another_common_key() {
        let mut first = first_token();
        let place = first.len() - 32 + 12 - 8;
        assert_eq!(first[place..place + 4], flags::OURS.to_le_bytes());
        first[place + 3] &= !0x40;
        let acceptor = Acceptor { name: "S".into() };
        let (token, mut challenged) = acceptor.challenge(&first, [9; 8], 1).expect("well formed");
        // The client still has its unmodified first message.
        challenged.negotiate = spnego::parse_init(&first_token())
            .unwrap()
            .token
            .unwrap()
            .to_vec();
        let (second, key) = logon("u", "p")
            .second_token(&token, [1; 8], [2; 16], 0)
            .expect("a good challenge");
        assert_ne!(key, [2; 16]);
        let identity = challenged.identify(&second, "u", "p").expect("the user is known");
        assert!(matches!(identity, Identity::User { session_key, .. } if session_key == key));
    }

    #[test]
    fn other_users_and_wrong_passwords_are_distinguished() {
        let (second, _, challenged) = answer(&logon("bench", "secret"));
        assert_eq!(
            challenged.identify(&second, "other", "secret"),
            Err(AuthError::UnknownUser)
        );
        assert_eq!(
            challenged.identify(&second, "bench", "Secret"),
            Err(AuthError::WrongPassword)
        );
        let (second, _, challenged) = answer(&logon("", ""));
        assert_eq!(
            challenged.identify(&second, "bench", "secret"),
            Ok(Identity::Anonymous)
        );
    }

    #[test]
    fn an_answer_to_another_challenge_is_refused() {
        let (second, _, _) = answer(&logon("bench", "secret"));
        let acceptor = Acceptor { name: "R".into() };
        let (_, other) = acceptor
            .challenge(&first_token(), [10; 8], 0)
            .expect("our own token");
        assert_eq!(
            other.identify(&second, "bench", "secret"),
            Err(AuthError::WrongPassword)
        );
    }

    #[test]
    fn no_change_in_transit_lets_anybody_in_with_another_key() {
        let (second, key, challenged) = answer(&logon("bench", "secret"));
        let mut accepted = 0;
        for place in 0..second.len() {
            for change in [0x01, 0x20, 0x80] {
                let mut changed = second.clone();
                changed[place] ^= change;
                if let Ok(identity) = challenged.identify(&changed, "bench", "secret") {
                    assert!(matches!(identity, Identity::User { session_key, .. } if session_key == key));
                    accepted += 1;
                }
            }
            let _ = challenged.identify(&second[..place], "bench", "secret");
        }
        // The integrity code covers every byte of the NTLM message. Changed SPNEGO tags around it are harmless.
        assert!(accepted < 10, "{accepted} changes went unnoticed");
    }
}
