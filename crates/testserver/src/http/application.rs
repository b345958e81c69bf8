//! A small application with log-in, for testing sessions: a form with a token, a log-in that sets a cookie, and an
//! account and orders that require the cookie. The application is stateless: tokens and cookies are digests under a
//! random key per server start. docs/sessions.md describes the steps.
//!
//! It is not secure: any user name with the password `secret` is accepted.

use super::documents::{Document, Place, HTML, TEXT};
use super::opening::Status;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

const JSON: &str = "application/json";
const PASSWORD: &[u8] = b"secret";
const MOST_NAME_BYTES: usize = 40;

#[derive(Debug, Default)]
pub(crate) struct Application {
    key: RandomState,
    forms: AtomicU64,
}

/// The parts of a request that the application uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wish<'a> {
    pub(crate) body: Option<&'a [u8]>,
    /// The header `Cookie`, or empty.
    pub(crate) cookie: &'a [u8],
    /// The header `X-Key`, or empty.
    pub(crate) key: &'a [u8],
}

impl Application {
    pub(crate) fn answer(&self, place: Place, wish: Wish<'_>) -> Document {
        match (place, wish.body) {
            (Place::LogIn, None) => self.form(),
            (Place::LogIn, Some(body)) => self.log_in(body),
            (Place::Account, _) => self.for_user(wish.cookie, |name| self.account(name)),
            (Place::Orders, None) => status(Status::MethodNotAllowed),
            (Place::Orders, Some(body)) => {
                self.for_user(wish.cookie, |name| self.order(name, wish.key, body))
            }
        }
    }

    /// Returns a digest that differs for each purpose and name.
    fn digest(&self, purpose: &str, name: &str) -> String {
        format!("{:016x}", self.key.hash_one((purpose, name)))
    }

    /// Returns a form token. It contains characters that a form must encode.
    fn token(&self, number: &str) -> String {
        format!("{number}+{}/=", self.digest("form", number))
    }

    fn form(&self) -> Document {
        let number = self.forms.fetch_add(1, Ordering::Relaxed).to_string();
        let token = self.token(&number);
        let body = format!(
            "<!DOCTYPE html>\n<html><head><title>Log in</title></head><body>\n<form method=\"post\" \
             action=\"/app/login\">\n<input name=\"user\"><input name=\"password\" type=\"password\">\n<input \
             type=\"hidden\" name=\"token\" value=\"{token}\">\n</form></body></html>\n"
        );
        Document::new(Status::Ok, HTML, body.as_bytes())
    }

    fn log_in(&self, body: &[u8]) -> Document {
        let field = |name: &str| {
            let pair = body.split(|byte| *byte == b'&').find_map(|pair| {
                let (key, value) = split_at_byte(pair, b'=')?;
                (key == name.as_bytes()).then_some(value)
            });
            pair.map(decoded).unwrap_or_default()
        };
        let token = field("token");
        let number = split_at_byte(&token, b'+').map_or(&[][..], |(number, _)| number);
        let number = String::from_utf8_lossy(number);
        let user = field("user");
        let spelled = !user.is_empty()
            && user.len() <= MOST_NAME_BYTES
            && user.iter().all(|byte| byte.is_ascii_alphanumeric());
        if !spelled || field("password") != PASSWORD || token != self.token(&number).as_bytes() {
            return status(Status::Forbidden);
        }
        let name = String::from_utf8_lossy(&user);
        let cookie = self.digest("cookie", &name);
        let fields = vec![
            ("Location", format!("/app/account?user={name}")),
            ("Set-Cookie", "lang=en; Path=/app".to_owned()),
            ("Set-Cookie", format!("sid={name}.{cookie}; Path=/app; HttpOnly")),
        ];
        Document::with_fields(Status::Found, TEXT, fields, b"")
    }

    /// Returns the result of `answer` for the user that the cookie identifies, or 401 if the cookie is
    /// missing or invalid.
    fn for_user(&self, cookie: &[u8], answer: impl FnOnce(&str) -> Document) -> Document {
        let cookies = cookie.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let sid = cookies.filter_map(|pair| pair.strip_prefix(b"sid=")).next();
        let sid = sid.and_then(|sid| std::str::from_utf8(sid).ok());
        match sid.and_then(|sid| sid.split_once('.')) {
            Some((name, cookie)) if cookie == self.digest("cookie", name) => answer(name),
            _ => status(Status::Unauthorized),
        }
    }

    fn account(&self, name: &str) -> Document {
        let key = self.digest("key", name);
        let body = format!(
            "{{\"user\": \"{name}\", \"keys\": [{{\"id\": 1, \"key\": \"{key}\"}}], \"open\": true}}\n"
        );
        Document::new(Status::Ok, JSON, body.as_bytes())
    }

    fn order(&self, name: &str, key: &[u8], body: &[u8]) -> Document {
        if key != self.digest("key", name).as_bytes() {
            return status(Status::Forbidden);
        }
        let body = format!("{{\"order\": {}}}\n", body.len());
        Document::new(Status::Ok, JSON, body.as_bytes())
    }
}

fn status(status: Status) -> Document {
    Document::new(status, TEXT, format!("{}\n", status.name()).as_bytes())
}

fn split_at_byte(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|byte| *byte == at)?;
    Some((&bytes[..place], &bytes[place + 1..]))
}

/// Decodes a form value: `+` is a space, `%41` a byte. Invalid escapes stay as they are.
fn decoded(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, behind)) = rest.split_first() {
        let code = behind
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                out.push(byte);
                rest = &behind[2..];
                continue;
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(*first),
        }
        rest = behind;
    }
    out
}
