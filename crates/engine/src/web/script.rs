//! The script of a session: the request of each step, and the values that it extracts from the answer for
//! later steps. It does no I/O, and is the same for every version of HTTP.
//!
//! Answers are hostile. At most `MOST_SEARCHED_BYTES` of a body are kept, and only if a step searches it. A
//! value has at most `MOST_VALUE_BYTES`. Regular expressions take linear time and limited memory. There is no
//! automatic handling of cookies or redirects: each step states what it sends.

use super::client::Stated;
use super::decoding::SampledBody;
use super::template::{Names, Template, User};
use dyno_http::{one_cookie, Asking, Body, RequestForm, Shape, USER_AGENT};
use dyno_measure::{Detail, Failure, Fault, ValueName};
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum steps of a session. Each is counted as a class.
const MOST_STEPS: usize = 250;
/// Maximum values of all steps together.
const MOST_VALUES: usize = 64;
/// Maximum bytes kept of a body that a step searches.
pub(crate) const MOST_SEARCHED_BYTES: usize = 256 * 1024;
pub(crate) const MOST_VALUE_BYTES: usize = 4096;
/// Limit of a compiled expression, and of its search cache.
const MOST_REGEX_BYTES: usize = 1 << 20;
const MOST_THINK_S: f64 = 86_400.0;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    /// The value of a header. If there are several values, the first one.
    Header(String),
    /// The value that `Set-Cookie` gives to a name. If there are several values, the last one.
    Cookie(String),
    /// The first group of a regular expression in the body, or the whole match if the expression has no group.
    Regex(String),
    /// A JSON pointer (RFC 6901) to a string, number or Boolean in the body.
    JsonPointer(String),
}

/// One step as in the document. `path`, `body` and the values of `headers` are templates.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepSection {
    pub name: String,
    pub method: String,
    pub path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    think_s: f64,
    status: Vec<u16>,
    bytes: Option<u64>,
    take: BTreeMap<String, Source>,
}

impl StepSection {
    pub(crate) fn think_ns(&self) -> u64 {
        crate::spec::nanoseconds(self.think_s)
    }

    /// Returns the shape of the request before all values are known. `common`: fields that every step sends.
    fn shape(&self, common: &[(String, String)]) -> Shape {
        let plain = common
            .iter()
            .map(|(name, value)| (name.clone(), value.replace("${", "$${")));
        Shape {
            method: self.method.clone(),
            fields: one_cookie(plain.chain(self.headers.iter().cloned())),
            body: None,
        }
    }
}

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
                        format!("the regular expression {pattern:?} needs more than 1 MiB")
                    }
                    error => format!(
                        "{pattern:?} is not a valid regular expression: {}",
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

    fn in_field(&self, name: &[u8], value: &[u8], found: &mut Option<Vec<u8>>) {
        match self {
            Self::Header(wanted) if found.is_none() && name.eq_ignore_ascii_case(wanted.as_bytes()) => {
                *found = Some(value.trim_ascii().to_vec());
            }
            Self::Cookie(wanted) if name.eq_ignore_ascii_case(b"set-cookie") => {
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

/// Returns the last line of a message from the regular-expression library, the only readable one.
fn last_line(text: &str) -> &str {
    let line = text.lines().last().unwrap_or(text);
    line.strip_prefix("error: ").unwrap_or(line)
}

/// A value that a step extracts.
#[derive(Debug)]
struct Take {
    name: ValueName,
    slot: usize,
    finder: Finder,
}

/// One step, ready to be sent.
#[derive(Debug)]
pub(crate) struct Step {
    method: String,
    path: Template,
    authority: Template,
    fields: Vec<(String, Template)>,
    body: Option<Template>,
    takes: Vec<Take>,
    pub(crate) stated: Stated,
    /// Whether the request may be sent twice.
    pub(crate) repeat: bool,
    /// Properties of the request on which hints depend, without the size of its head.
    pub(crate) asking: Asking,
}

#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) steps: Vec<Arc<Step>>,
    pub(crate) values: usize,
}

impl Script {
    /// Returns the script of these steps for a server's host.
    ///
    /// # Errors
    /// The problems of the steps, one sentence each.
    pub(crate) fn new(
        sections: &[StepSection],
        host: &str,
        common: &[(String, String)],
    ) -> Result<Self, Vec<String>> {
        let (mut names, mut problems, mut steps) = (Names::default(), Vec::new(), Vec::new());
        if !(1..=MOST_STEPS).contains(&sections.len()) {
            problems.push(format!("a session must have 1 to {MOST_STEPS} steps"));
        }
        let mut step_names = BTreeSet::new();
        for (place, section) in sections.iter().enumerate() {
            let mut wrong = wrong_with(section, common);
            if !step_names.insert(&section.name) {
                wrong.push("another step has the same name".to_owned());
            }
            match Step::new(section, host, common, &mut names) {
                Ok(step) => steps.push(Arc::new(step)),
                Err(more) => wrong.extend(more),
            }
            let told = format!("step {} ({})", place + 1, section.name.escape_debug());
            problems.extend(wrong.into_iter().map(|problem| format!("{told}: {problem}")));
        }
        if names.values() > MOST_VALUES {
            problems.push(format!("a session can have at most {MOST_VALUES} values"));
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
        wrong.push("the name must have 1 to 60 characters without control characters".to_owned());
    }
    let path = &section.path;
    let begins = path.starts_with('/') || path.starts_with("${");
    if !begins || !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        wrong.push(format!(
            "{path:?} is not a path: it must begin with / or a value, and be ASCII without spaces or #"
        ));
    }
    if !(0.0..=MOST_THINK_S).contains(&section.think_s) {
        wrong.push("think_s must be between 0 and 86,400 seconds".to_owned());
    }
    wrong
}

impl Step {
    fn new(
        section: &StepSection,
        host: &str,
        common: &[(String, String)],
        names: &mut Names,
    ) -> Result<Self, Vec<String>> {
        let mut wrong = Vec::new();
        let shape = section.shape(common);
        let path = Template::of_path(&section.path, names)
            .map_err(|problem| wrong.push(problem))
            .ok();
        let mut authority = host.to_owned();
        let mut given = Vec::new();
        for (name, value) in &shape.fields {
            if name.eq_ignore_ascii_case("host") {
                authority.clone_from(value);
            } else {
                given.push((name.as_str(), value.as_str()));
            }
        }
        if !given
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("user-agent"))
        {
            given.insert(0, ("User-Agent", USER_AGENT));
        }
        let mut field = |value: &str| {
            let template = Template::of_field(value, names);
            template.map_err(|problem| wrong.push(problem)).ok()
        };
        let authority = field(&authority);
        let fields = given
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), field(value)?)))
            .collect();
        let body = section
            .body
            .as_deref()
            .map(|body| Template::of_body(body, names))
            .transpose();
        let body = body.map_err(|problem| wrong.push(problem)).ok().flatten();
        let mut takes = Vec::new();
        for (name, source) in &section.take {
            // Only later steps can use the values of this step.
            match (names.take(name), Finder::of(source)) {
                (Ok((name, slot)), Ok(finder)) => takes.push(Take { name, slot, finder }),
                (Err(problem), _) | (_, Err(problem)) => wrong.push(problem),
            }
        }
        match (path, authority) {
            (Some(path), Some(authority)) if wrong.is_empty() => Ok(Self {
                repeat: shape.is_idempotent(),
                asking: Asking::of(&shape, 0),
                method: shape.method,
                path,
                authority,
                fields,
                body,
                takes,
                stated: Stated {
                    status: section.status.clone(),
                    bytes: section.bytes,
                },
            }),
            _ => Err(wrong),
        }
    }

    /// Writes a user's request. Returns it with the size that its request line and headers have over
    /// HTTP/1.1. `part`: scratch buffer.
    pub(crate) fn write<'a, F: RequestForm>(
        &self,
        user: &User,
        form: &'a mut F,
        part: &mut Vec<u8>,
    ) -> Result<(&'a F::Request, usize), Failure> {
        self.authority.write(user, b"", part).map_err(unusable)?;
        let authority = part.clone();
        self.path.write(user, &authority, part).map_err(unusable)?;
        form.begin(&self.method, part, &authority);
        let plain_bytes = b"  HTTP/1.1\r\nHost: \r\n\r\n".len();
        let mut head_bytes = self.method.len() + part.len() + authority.len() + plain_bytes;
        for (name, value) in &self.fields {
            value.write(user, &authority, part).map_err(unusable)?;
            form.field(name, part);
            head_bytes += name.len() + part.len() + b": \r\n".len();
        }
        let body = match &self.body {
            None => None,
            Some(body) => {
                body.write(user, &authority, part).map_err(unusable)?;
                Some(part.as_slice())
            }
        };
        Ok((form.end(body), head_bytes))
    }

    /// Extracts the values of a correct answer.
    pub(crate) fn finish(&self, user: &mut User, taking: &mut Taking) -> Result<(), Failure> {
        let reads_json = self
            .takes
            .iter()
            .any(|take| matches!(take.finder, Finder::Json(_)));
        let body = &taking.body;
        let json = reads_json.then(|| serde_json::from_slice(body).ok()).flatten();
        for (take, in_field) in self.takes.iter().zip(&mut taking.in_fields) {
            let value = match take.finder.searches_body() {
                true => take.finder.in_body(body, json.as_ref()),
                false => in_field.take(),
            };
            match value {
                None => return Err(of_value(Fault::MissingValue, take.name)),
                Some(value) if value.len() > MOST_VALUE_BYTES => return Err(unusable(take.name)),
                value => user.values[take.slot] = value,
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

/// Collects the values that a step needs while the answer arrives.
#[derive(Debug, Default)]
pub(crate) struct Taking {
    /// The step; None if nothing is needed.
    step: Option<Arc<Step>>,
    /// Values found in fields so far, by index among the step's values.
    in_fields: Vec<Option<Vec<u8>>>,
    /// The body, if the step searches it.
    body: Vec<u8>,
    pub(super) sampled: SampledBody,
}

impl Taking {
    /// Maximum capacity that a buffer keeps between steps.
    const KEPT_BYTES: usize = 4096;

    /// Prepares for the answer to a step.
    pub(crate) fn begin(&mut self, step: &Arc<Step>) {
        self.step = Some(step.clone());
        self.clear();
    }

    pub(crate) fn clear(&mut self) {
        self.in_fields.clear();
        if let Some(step) = &self.step {
            self.in_fields.resize(step.takes.len(), None);
        }
        self.body.clear();
        self.body.shrink_to(Self::KEPT_BYTES);
    }
}

impl Body for Taking {
    fn wants_fields(&mut self) -> bool {
        // An earlier attempt may have left values.
        self.clear();
        let decodes = self.sampled.wants_fields();
        let mut takes = self.step.iter().flat_map(|step| &step.takes);
        takes.any(|take| !take.finder.searches_body()) || decodes
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.sampled.field(name, value);
        if let Some(step) = &self.step {
            for (take, found) in step.takes.iter().zip(&mut self.in_fields) {
                take.finder.in_field(name, value, found);
            }
        }
    }

    fn answers_head(&self) -> bool {
        self.step.as_ref().is_some_and(|step| step.method == "HEAD")
    }

    fn part(&mut self, data: &[u8], last: bool) {
        self.sampled.part(data, last);
        let mut takes = self.step.iter().flat_map(|step| &step.takes);
        if takes.any(|take| take.finder.searches_body()) {
            let room = MOST_SEARCHED_BYTES - self.body.len();
            self.body.extend_from_slice(&data[..data.len().min(room)]);
        }
    }
}

/// Returns all problems of a document's session steps, one sentence each.
pub fn session_problems(steps: &str) -> Vec<String> {
    let sections: Vec<StepSection> = match serde_json::from_str(steps) {
        Ok(sections) => sections,
        Err(error) => return vec![error.to_string()],
    };
    Script::new(&sections, "localhost", &[]).err().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    #[test]
    fn an_endless_body_is_kept_only_as_far_as_it_is_searched_and_others_not_at_all() {
        for (take, most_bytes) in [
            (r#"{"v": {"regex": "y"}}"#, MOST_SEARCHED_BYTES),
            (r#"{"v": {"header": "x"}}"#, 0),
        ] {
            let usual: Value =
                serde_json::from_str(include_str!("../../tests/complete.json")).expect("as made");
            let mut step = usual["step"].clone();
            step["name"] = json!("a");
            step["path"] = json!("/");
            step["take"] = serde_json::from_str(take).expect("a place");
            let sections: Vec<StepSection> = serde_json::from_value(json!([step])).expect("a list");
            let script = Script::new(&sections, "h", &[]).expect("a script");
            let mut taking = Taking::default();
            taking.begin(&script.steps[0]);
            taking.wants_fields();
            for _ in 0..1000 {
                taking.part(&[b'x'; 10_000], false);
            }
            assert_eq!(taking.body.len(), most_bytes, "{take}");
        }
    }
}
