//! The script of a session: what each step sends, and what it takes from its answer for the steps behind it. Pure.
//!
//! Answers are hostile: of a body no more than `MOST_SEARCHED_BYTES` is kept, and only where a step searches it; a value
//! has `MOST_VALUE_BYTES`; regular expressions take linear time and bounded memory. Not for: cookies that are kept and
//! redirects that are followed by themselves; each step says what it sends.

use super::client::Stated;
use super::template::{Names, Template, User};
use dyno_http::{each_field, Body, RequestStyle, Shape};
use dyno_measure::{Detail, Failure, Fault, ValueName};
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Steps are counted as classes.
const MOST_STEPS: usize = 250;
/// Of all steps together.
const MOST_VALUES: usize = 64;
/// Of a body, where a step searches it.
pub(crate) const MOST_SEARCHED_BYTES: usize = 256 * 1024;
/// Of a value.
pub(crate) const MOST_VALUE_BYTES: usize = 4096;
/// Of a compiled expression, and of what it remembers while it searches.
const MOST_REGEX_BYTES: usize = 1 << 20;
/// A day.
const MOST_THINK_S: f64 = 86_400.0;

/// Where a value stands in an answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    /// The value of a header; of several the first.
    Header(String),
    /// The value that `Set-Cookie` gives to a name; of several the last.
    Cookie(String),
    /// The first group of a regular expression in the body, or all that it matches where it has no group.
    Regex(String),
    /// A JSON pointer (RFC 6901) to a string, a number, or true or false, in the body.
    JsonPointer(String),
}

/// One step as the document has it. `path`, values of `headers` and `body` are templates.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepSection {
    pub name: String,
    pub method: String,
    pub path: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    think_s: f64,
    #[serde(default)]
    status: Vec<u16>,
    #[serde(default)]
    bytes: Option<u64>,
    #[serde(default)]
    take: BTreeMap<String, Source>,
}

impl StepSection {
    pub(crate) fn think_ns(&self) -> u64 {
        crate::spec::nanoseconds(self.think_s)
    }

    /// What it sends, before all values are known. `common`: fields of every step, as they are.
    fn shape(&self, common: &[(String, String)]) -> Shape {
        let plain = common
            .iter()
            .map(|(name, value)| (name.clone(), value.replace("${", "$${")));
        Shape {
            method: self.method.clone(),
            fields: plain.chain(self.headers.iter().cloned()).collect(),
            body: None,
        }
    }
}

/// How a value is found.
#[derive(Debug)]
enum Finder {
    Header(String),
    Cookie(String),
    Regex(Box<Regex>),
    Json(String),
}

impl Finder {
    fn of(source: &Source) -> Result<Self, String> {
        Ok(match source {
            Source::Header(name) => Self::Header(name.clone()),
            Source::Cookie(name) => Self::Cookie(name.clone()),
            Source::Regex(pattern) => {
                let mut builder = RegexBuilder::new(pattern);
                builder
                    .size_limit(MOST_REGEX_BYTES)
                    .dfa_size_limit(MOST_REGEX_BYTES);
                let regex = builder.build().map_err(|error| match error {
                    regex::Error::CompiledTooBig(_) => {
                        format!("the expression {pattern:?} takes more than 1 MiB")
                    }
                    error => format!(
                        "the expression {pattern:?} is none: {}",
                        last_line(&error.to_string())
                    ),
                })?;
                Self::Regex(Box::new(regex))
            }
            Source::JsonPointer(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                Self::Json(pointer.clone())
            }
            Source::JsonPointer(pointer) => {
                return Err(format!("the JSON pointer {pointer:?} does not begin with /"))
            }
        })
    }

    fn searches_body(&self) -> bool {
        matches!(self, Self::Regex(_) | Self::Json(_))
    }

    fn in_field(&self, name: &str, value: &[u8], found: &mut Option<Vec<u8>>) {
        match self {
            Self::Header(wanted) if found.is_none() && name.eq_ignore_ascii_case(wanted) => {
                *found = Some(value.trim_ascii().to_vec());
            }
            Self::Cookie(wanted) if name.eq_ignore_ascii_case("set-cookie") => {
                let pair = value.split(|byte| *byte == b';').next().unwrap_or_default();
                let mut sides = pair.splitn(2, |byte| *byte == b'=');
                if let (Some(name), Some(value)) = (sides.next(), sides.next()) {
                    if name.trim_ascii() == wanted.as_bytes() {
                        *found = Some(value.trim_ascii().to_vec());
                    }
                }
            }
            _ => {}
        }
    }

    fn in_body(&self, body: &[u8], json: Option<&serde_json::Value>) -> Option<Vec<u8>> {
        match self {
            Self::Regex(regex) => {
                let found = regex.captures(body)?;
                let place = usize::from(regex.captures_len() > 1);
                Some(found.get(place)?.as_bytes().to_vec())
            }
            Self::Json(pointer) => match json?.pointer(pointer)? {
                serde_json::Value::String(text) => Some(text.clone().into_bytes()),
                value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_)) => {
                    Some(value.to_string().into_bytes())
                }
                _ => None,
            },
            Self::Header(_) | Self::Cookie(_) => None,
        }
    }
}

/// What its library says of an expression in several lines, for people.
fn last_line(text: &str) -> &str {
    let line = text.lines().last().unwrap_or(text);
    line.strip_prefix("error: ").unwrap_or(line)
}

/// One value that a step takes.
#[derive(Debug)]
struct Take {
    name: ValueName,
    slot: usize,
    finder: Finder,
}

/// One step, ready to be sent.
#[derive(Debug)]
pub(crate) struct Step {
    /// The head without its last line end, so that the length of the body can follow.
    head: Template,
    body: Option<Template>,
    takes: Vec<Take>,
    pub(crate) stated: Stated,
    /// Whether it may be sent twice.
    pub(crate) repeat: bool,
}

/// All steps.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) steps: Vec<Step>,
    pub(crate) values: usize,
}

impl Script {
    /// The script of these steps to one server.
    ///
    /// # Errors
    /// Everything that is wrong with them, a sentence each.
    pub(crate) fn new(
        sections: &[StepSection],
        style: &RequestStyle,
        common: &[(String, String)],
    ) -> Result<Self, Vec<String>> {
        let (mut names, mut problems, mut steps) = (Names::default(), Vec::new(), Vec::new());
        if !(1..=MOST_STEPS).contains(&sections.len()) {
            problems.push(format!("a session has 1 to {MOST_STEPS} steps"));
        }
        let mut step_names = BTreeSet::new();
        for (place, section) in sections.iter().enumerate() {
            let mut wrong = wrong_with(section, common);
            if !step_names.insert(&section.name) {
                wrong.push("another step has the same name".to_owned());
            }
            match Step::new(section, style, common, &mut names) {
                Ok(step) => steps.push(step),
                Err(more) => wrong.extend(more),
            }
            let told = format!("step {} ({})", place + 1, section.name.escape_debug());
            problems.extend(wrong.into_iter().map(|problem| format!("{told}: {problem}")));
        }
        if names.values() > MOST_VALUES {
            problems.push(format!("a session takes {MOST_VALUES} values at most"));
        }
        if problems.is_empty() {
            let values = names.values();
            Ok(Self { steps, values })
        } else {
            Err(problems)
        }
    }
}

fn wrong_with(section: &StepSection, common: &[(String, String)]) -> Vec<String> {
    let mut wrong = section.shape(common).problems();
    let name = &section.name;
    if name.is_empty() || name.len() > 60 || name.chars().any(char::is_control) {
        wrong.push("its name has 1 to 60 characters, and none of control".to_owned());
    }
    let path = &section.path;
    let begins = path.starts_with('/') || path.starts_with("${");
    if !begins || !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        wrong.push(format!(
            "{path:?} is no path: it begins with / or a value and is plain ASCII without blanks or #"
        ));
    }
    if !(0.0..=MOST_THINK_S).contains(&section.think_s) {
        wrong.push("think_s must lie between 0 and 86,400 seconds".to_owned());
    }
    wrong
}

impl Step {
    fn new(
        section: &StepSection,
        style: &RequestStyle,
        common: &[(String, String)],
        names: &mut Names,
    ) -> Result<Self, Vec<String>> {
        let mut wrong = Vec::new();
        let shape = section.shape(common);
        let bytes = style.request(&section.path, &shape);
        let head = String::from_utf8_lossy(bytes.strip_suffix(b"\r\n").unwrap_or(&bytes)).into_owned();
        let head = Template::of_head(&head, names)
            .map_err(|problem| wrong.push(problem))
            .ok();
        let body = section
            .body
            .as_deref()
            .map(|body| Template::of_body(body, names))
            .transpose();
        let body = body.map_err(|problem| wrong.push(problem)).ok().flatten();
        let mut takes = Vec::new();
        for (name, source) in &section.take {
            // What this step takes is known to those behind it alone.
            match (names.take(name), Finder::of(source)) {
                (Ok((name, slot)), Ok(finder)) => takes.push(Take { name, slot, finder }),
                (Err(problem), _) | (_, Err(problem)) => wrong.push(problem),
            }
        }
        match head {
            Some(head) if wrong.is_empty() => Ok(Self {
                head,
                body,
                takes,
                stated: Stated {
                    status: section.status.clone(),
                    bytes: section.bytes,
                },
                repeat: shape.is_idempotent(),
            }),
            _ => Err(wrong),
        }
    }

    /// Writes the request of a user. `body`: for its body meanwhile.
    pub(crate) fn write(&self, user: &User, out: &mut Vec<u8>, body: &mut Vec<u8>) -> Result<(), Failure> {
        out.clear();
        self.head.write(user, out).map_err(unusable)?;
        if let Some(template) = &self.body {
            body.clear();
            template.write(user, body).map_err(unusable)?;
            out.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        if self.body.is_some() {
            out.extend_from_slice(body);
        }
        Ok(())
    }

    /// Takes the values of an answer that was right.
    pub(crate) fn finish(&self, user: &mut User, body: &[u8]) -> Result<(), Failure> {
        let reads_json = self
            .takes
            .iter()
            .any(|take| matches!(take.finder, Finder::Json(_)));
        let json = reads_json.then(|| serde_json::from_slice(body).ok()).flatten();
        for take in &self.takes {
            if take.finder.searches_body() {
                user.values[take.slot] = take.finder.in_body(body, json.as_ref());
            }
            match &user.values[take.slot] {
                None => return Err(of_value(Fault::MissingValue, take.name)),
                Some(value) if value.len() > MOST_VALUE_BYTES => return Err(unusable(take.name)),
                Some(_) => {}
            }
        }
        Ok(())
    }
}

fn unusable(name: ValueName) -> Failure {
    of_value(Fault::UnusableValue, name)
}

fn of_value(fault: Fault, name: ValueName) -> Failure {
    Failure {
        fault,
        detail: Detail::Value(name),
    }
}

/// Takes what a step needs of an answer while it comes.
pub(crate) struct Taking<'a> {
    pub(crate) step: &'a Step,
    pub(crate) user: &'a mut User,
    /// Of the body, where the step searches it.
    pub(crate) body: &'a mut Vec<u8>,
}

impl Body for Taking<'_> {
    fn head(&mut self, bytes: &[u8]) {
        for take in &self.step.takes {
            self.user.values[take.slot] = None;
        }
        if self.step.takes.iter().all(|take| take.finder.searches_body()) {
            return;
        }
        each_field(bytes, &mut |name, value| {
            for take in &self.step.takes {
                take.finder
                    .in_field(name, value, &mut self.user.values[take.slot]);
            }
        });
    }

    fn part(&mut self, data: &[u8], _last: bool) {
        if self.step.takes.iter().any(|take| take.finder.searches_body()) {
            let room = MOST_SEARCHED_BYTES - self.body.len();
            self.body.extend_from_slice(&data[..data.len().min(room)]);
        }
    }
}

/// Everything that is wrong with the steps of a session in a document, a sentence each.
#[must_use]
pub fn session_problems(steps: &str) -> Vec<String> {
    let sections: Vec<StepSection> = match serde_json::from_str(steps) {
        Ok(sections) => sections,
        Err(error) => return vec![error.to_string()],
    };
    let style = RequestStyle {
        version: dyno_http::Version::Http11,
        keep_alive: true,
        host: "localhost".to_owned(),
    };
    Script::new(&sections, &style, &[]).err().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_body_without_end_no_more_is_kept_than_is_searched_and_of_others_nothing() {
        for (take, most_bytes) in [
            (r#"{"v": {"regex": "y"}}"#, MOST_SEARCHED_BYTES),
            (r#"{"v": {"header": "x"}}"#, 0),
        ] {
            let sections = format!(r#"[{{"name": "a", "method": "GET", "path": "/", "take": {take}}}]"#);
            let sections: Vec<StepSection> = serde_json::from_str(&sections).expect("a list");
            let style = RequestStyle {
                version: dyno_http::Version::Http11,
                keep_alive: true,
                host: "h".to_owned(),
            };
            let script = Script::new(&sections, &style, &[]).expect("a script");
            let mut user = User {
                client: 0,
                thread: 0,
                round: 1,
                values: vec![None; script.values],
            };
            let mut body = Vec::new();
            let mut taking = Taking {
                step: &script.steps[0],
                user: &mut user,
                body: &mut body,
            };
            taking.head(b"HTTP/1.1 200 OK\r\n\r\n");
            for _ in 0..1000 {
                taking.part(&[b'x'; 10_000], false);
            }
            assert_eq!(body.len(), most_bytes, "{take}");
        }
    }
}
