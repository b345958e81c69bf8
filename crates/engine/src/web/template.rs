//! Templates with placeholders: `${name}` inserts a value, `${name:url}` percent-encodes it, and `$${` stands
//! for a plain `${`.
//!
//! Values come from a server, so a value that would end its part of the request is not sent.

use dyno_measure::ValueName;
use std::collections::BTreeMap;

const BUILT_IN: [(&str, Slot); 4] = [
    ("client", Slot::Client),
    ("thread", Slot::Thread),
    ("round", Slot::Round),
    ("unique", Slot::Unique),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Value from an answer, by its index among all values of the script.
    Taken(usize),
    /// The number of the client, from 1.
    Client,
    /// The number of the client's thread, from 1.
    Thread,
    /// The number of sessions that this thread has started.
    Round,
    /// A text that is unique to the session, across all levels.
    Unique,
}

/// The names of values that are known so far.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeMap<String, usize>);

impl Names {
    /// Returns the number of values from answers.
    pub(crate) fn values(&self) -> usize {
        self.0.len()
    }

    /// Adds a name whose value an answer provides.
    pub(crate) fn take(&mut self, name: &str) -> Result<(ValueName, usize), String> {
        let Some(value_name) = ValueName::new(name) else {
            return Err(format!(
                "{name:?} is not a valid name of a value: use 1 to {} letters, digits and _, and don't \
                 begin with a digit",
                ValueName::MOST_BYTES
            ));
        };
        if BUILT_IN.iter().any(|(known, _)| *known == name) {
            return Err(format!(
                "{name} is a reserved name, so it can't be the name of an extracted value"
            ));
        }
        let next = self.0.len();
        Ok((value_name, *self.0.entry(name.to_owned()).or_insert(next)))
    }

    fn slot(&self, name: &str) -> Option<Slot> {
        let built_in = BUILT_IN.iter().find(|(known, _)| *known == name);
        built_in
            .map(|(_, slot)| *slot)
            .or_else(|| self.0.get(name).map(|place| Slot::Taken(*place)))
    }
}

/// Values of one thread of a client.
#[derive(Debug)]
pub(crate) struct User {
    /// Bits of the Unix time at which this user was created. They distinguish it from users of other levels.
    pub(crate) made: u64,
    pub(crate) client: usize,
    pub(crate) thread: usize,
    pub(crate) round: u64,
    pub(crate) values: Vec<Option<Vec<u8>>>,
}

/// Part of the request into which a value is inserted. It restricts the characters of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Path,
    Field,
    Body,
}

impl Place {
    fn takes(self, value: &[u8]) -> bool {
        match self {
            Self::Path => value.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#'),
            // RFC 9110, section 5.5: no control characters except the tab.
            Self::Field => value
                .iter()
                .all(|byte| *byte == b'\t' || (*byte >= 0x20 && *byte != 0x7f)),
            Self::Body => true,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Value {
        slot: Slot,
        name: ValueName,
        encoded: bool,
        place: Place,
    },
}

/// A text with placeholders for values.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

impl Template {
    pub(crate) fn of_path(text: &str, names: &Names) -> Result<Self, String> {
        Self::parse(text, Place::Path, names).map(Self)
    }

    /// Parses the template of a header's value.
    pub(crate) fn of_field(text: &str, names: &Names) -> Result<Self, String> {
        Self::parse(text, Place::Field, names).map(Self)
    }

    pub(crate) fn of_body(text: &str, names: &Names) -> Result<Self, String> {
        Self::parse(text, Place::Body, names).map(Self)
    }

    fn parse(mut text: &str, place: Place, names: &Names) -> Result<Vec<Part>, String> {
        let (mut parts, mut plain) = (Vec::new(), String::new());
        while let Some(at) = text.find("${") {
            let (before, rest) = text.split_at(at);
            if let Some(before) = before.strip_suffix('$') {
                plain += before;
                plain += "${";
                text = &rest[2..];
                continue;
            }
            plain += before;
            let (inside, after) = rest[2..]
                .split_once('}')
                .ok_or("a ${ lacks its }; $${ stands for a plain ${")?;
            let (name, encoded) = match inside.split_once(':') {
                None => (inside, false),
                Some((name, "url")) => (name, true),
                Some((_, coding)) => {
                    return Err(format!(
                        "${{{inside}}}: unknown encoding {coding:?}; the only one is url"
                    ))
                }
            };
            let (Some(slot), Some(value_name)) = (names.slot(name), ValueName::new(name)) else {
                return Err(format!("${{{inside}}}: no earlier step takes {name:?}"));
            };
            parts.extend((!plain.is_empty()).then(|| Part::Text(std::mem::take(&mut plain).into())));
            parts.push(Part::Value {
                slot,
                name: value_name,
                encoded,
                place,
            });
            text = after;
        }
        plain += text;
        parts.extend((!plain.is_empty()).then(|| Part::Text(plain.into())));
        Ok(parts)
    }

    /// Writes the text with the user's values inserted. A path may begin with a URL of `host`, as in a redirect.
    ///
    /// # Errors
    /// The name of a value that is missing, or not permitted in this part of the request.
    pub(crate) fn write(&self, user: &User, host: &[u8], out: &mut Vec<u8>) -> Result<(), ValueName> {
        out.clear();
        for part in &self.0 {
            let (slot, name, encoded, place) = match part {
                Part::Text(text) => {
                    out.extend_from_slice(text.as_bytes());
                    continue;
                }
                Part::Value {
                    slot,
                    name,
                    encoded,
                    place,
                } => (slot, name, encoded, place),
            };
            let (client, thread) = (user.client + 1, user.thread + 1);
            let text;
            let mut value: &[u8] = match slot {
                Slot::Taken(at) => user.values[*at].as_deref().ok_or(*name)?,
                built_in => {
                    text = match built_in {
                        Slot::Client => client.to_string(),
                        Slot::Thread => thread.to_string(),
                        Slot::Round => user.round.to_string(),
                        _ => format!("{:x}-{client}-{thread}-{}", user.made, user.round),
                    };
                    text.as_bytes()
                }
            };
            // A path that starts with a value must be a path, not a URL of another host.
            let begins_path = *place == Place::Path && out.is_empty();
            if begins_path {
                value = path_of(value, host);
            }
            if begins_path && (*encoded || !value.starts_with(b"/")) {
                return Err(*name);
            }
            if *encoded {
                percent_encode(value, out);
            } else if place.takes(value) {
                out.extend_from_slice(value);
            } else {
                return Err(*name);
            }
        }
        Ok(())
    }
}

/// Returns the path of a URL of this host (RFC 9110, section 10.2.2), and any other value unchanged.
fn path_of<'a>(value: &'a [u8], host: &[u8]) -> &'a [u8] {
    let after_scheme = [&b"http:"[..], b"https:", b""]
        .iter()
        .find_map(|scheme| value.strip_prefix(*scheme)?.strip_prefix(b"//"));
    let rest = after_scheme
        .filter(|rest| rest.len() >= host.len() && rest[..host.len()].eq_ignore_ascii_case(host))
        .map(|rest| &rest[host.len()..]);
    match rest {
        Some(b"") => b"/",
        Some(path) if path.starts_with(b"/") => path,
        // This is a URL of another host.
        _ if value.starts_with(b"//") => b"",
        _ => value,
    }
}

/// Percent-encodes all characters except the unreserved ones (RFC 3986, section 2.3).
fn percent_encode(value: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in value {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out.push(*byte);
        } else {
            out.extend([
                b'%',
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 0xf)],
            ]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let mut names = Names::default();
        names.take("sid").expect("a name");
        names
    }

    fn written(template: &Template, value: &[u8]) -> Result<String, ValueName> {
        let user = User {
            made: 0xabc,
            client: 6,
            thread: 0,
            round: 3,
            values: vec![Some(value.to_vec())],
        };
        let mut out = Vec::new();
        template.write(&user, b"h:8080", &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn values_stand_where_the_text_says_plain_or_encoded() {
        let text = "{\"a\": $5, \"b\": \"$${x}\"} u${client}-${thread}-${round} ${unique} ${sid} ${sid:url}";
        let body = Template::of_body(text, &names()).expect("a template");
        let expected = "{\"a\": $5, \"b\": \"${x}\"} u7-1-3 abc-7-1-3 a b%/ a%20b%25%2F";
        assert_eq!(written(&body, b"a b%/").as_deref(), Ok(expected));
    }

    #[test]
    fn a_value_never_ends_its_part_of_the_request() {
        let path = Template::of_path("/${sid}", &names()).expect("a template");
        assert_eq!(written(&path, b"x").as_deref(), Ok("/x"));
        for value in ["x y", "x#", "x\r\nB: c", "\u{e9}", "\0"] {
            assert!(written(&path, value.as_bytes()).is_err(), "{value:?}");
        }
        let whole = Template::of_path("${sid}", &names()).expect("a template");
        for (value, path) in [
            ("/x?y", "/x?y"),
            ("http://h:8080/x", "/x"),
            ("https://H:8080", "/"),
            ("//h:8080/x", "/x"),
        ] {
            assert_eq!(written(&whole, value.as_bytes()).as_deref(), Ok(path));
        }
        for value in ["http://h/x", "http://h:80801/x", "//other/x", "x", ""] {
            assert!(written(&whole, value.as_bytes()).is_err(), "{value:?}");
        }
        let field = Template::of_field("${sid}", &names()).expect("a template");
        assert!(written(&field, b"x y#\t\xe9").is_ok());
        for value in ["x\r\nB: c", "x\n", "\0", "\x7f"] {
            assert!(written(&field, value.as_bytes()).is_err(), "{value:?}");
        }
        let encoded = Template::of_path("/${sid:url}", &names()).expect("a template");
        assert_eq!(written(&encoded, b"\r\n").as_deref(), Ok("/%0D%0A"));
    }

    #[test]
    fn an_invalid_template_has_a_reason() {
        for (text, why) in [
            ("${sid", "lacks its }"),
            ("${other}", "takes \"other\""),
            ("${}", "takes \"\""),
            ("${sid:html}", "unknown encoding \"html\""),
        ] {
            let problem = Template::of_body(text, &names()).expect_err(text);
            assert!(problem.contains(why), "{problem}");
        }
        let mut names = names();
        for name in ["", "1", "a-b", "round", "unique"] {
            assert!(names.take(name).is_err(), "{name}");
        }
    }
}
