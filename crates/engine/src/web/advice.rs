//! Hints for failures of web servers, derived from the failed request and the first answers.

use super::{Requests, WebWork};
use crate::engine_thread::FirstAnswer;
use dyno_http::{Asking, Challenge};
use dyno_measure::Failure;

/// Returns a hint for a failure.
pub(super) fn of(work: &WebWork, failure: &Failure, first: &FirstAnswer) -> Option<String> {
    let client = work.tls.as_ref().or(work.secure.as_ref().map(|(_, tls)| tls));
    let http2 = work.options.streams.is_some();
    let mut is = work.target.circumstances(client.map(|tls| &tls.client), http2);
    is.asking = asking_of(work, failure, first);
    is.redirects_to_itself = first
        .location
        .get()
        .is_some_and(|location| work.target.is_at(location));
    is.answers_others = first.others_succeed.get();
    is.challenge = Challenge::of(&first.schemes.borrow());
    let advice = dyno_http::advice(failure, &is)?;
    Some(match dyno_http::size_of_request(failure, &is) {
        Some(size) => format!("{advice} {size}"),
        None => advice.to_owned(),
    })
}

/// Returns the properties of the failed request.
fn asking_of(work: &WebWork, failure: &Failure, first: &FirstAnswer) -> Asking {
    let (Requests::Session(script) | Requests::SessionHttp2(script, _)) = &work.requests else {
        return work.asking;
    };
    let failed = first.failed_step(failure.fault);
    let step = failed.and_then(|failed| Some((script.steps.get(failed.step)?, failed.head_bytes)));
    step.map_or(work.asking, |(step, head_bytes)| Asking {
        head_bytes,
        ..step.asking
    })
}
