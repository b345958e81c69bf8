//! Many kinds of wrong answers, in two tables: to the first message, during the session setup, and after the session
//! has worked. Each causes a failure of a known kind in time. No answer causes a panic, a hang or memory growth.
//!
//! `session/hostile.rs` tests the reasons for refusing an answer: individual fields, signatures and encryption.

use answers::{End, Twist, ANY};
use answers_to_one::OF_ONE;
use client::{ways, work, Way};
use dyno_files::{Cache, Uncached};
use dyno_measure::Side;
use dyno_net::{Dialer, Executor};
use dyno_smb::{Dialect, Options, Session};
use scripted::{
    failed, Answer, Request, Scripted, CLOSE, CREATE, NEGOTIATE, QUERY_DIRECTORY, QUERY_INFO, READ,
    SESSION_SETUP, TREE_CONNECT, WRITE,
};
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

mod answers;
mod answers_to_one;
mod client;
#[allow(dead_code)]
#[path = "../session/scripted.rs"]
mod scripted;
/// The user of the scripted server.
mod samba {
    pub const USER: &str = "nobody";
    pub const PASSWORD: &str = "correct horse";
}

/// Time limit for a whole case, in which several calls may time out. It only serves to name a hanging case.
const MOST_OF_A_CASE: Duration = Duration::from_secs(60);
/// Number of concurrent cases. They mostly wait.
const AT_ONCE: usize = 16;
/// Memory limit for all concurrent cases, including their servers.
const MOST_GROWTH_BYTES: usize = 256 << 20;

/// When the wrong answer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Always,
    /// After the client has worked.
    Late,
}

fn honest_file(request: &Request, mut honest: Vec<u8>) -> Vec<u8> {
    match request.command {
        CREATE => honest[64 + 48..64 + 50].copy_from_slice(&60_000u16.to_le_bytes()),
        QUERY_INFO => honest[72 + 40..72 + 42].copy_from_slice(&60_000u16.to_le_bytes()),
        QUERY_DIRECTORY if request.number % 2 == 1 => return failed(request, 0x8000_0006),
        _ => {}
    }
    honest
}

/// Serves one client with the wrong answers. Returns the effect.
fn served(command: u16, moment: Moment, twist: Twist, way: Way) -> End {
    let armed = Arc::new(AtomicBool::new(false));
    let is_armed = armed.clone();
    let server = Scripted::start(move |request, honest| {
        let honest = honest_file(request, honest);
        match request.command == command && (moment == Moment::Always || is_armed.load(Ordering::SeqCst)) {
            true => twist(request, honest),
            false => Answer::Messages(vec![honest]),
        }
    });
    let executor = Executor::new().expect("an epoll instance");
    let options = Options {
        guest: true,
        max_dialect: Dialect::Smb210,
        ..Options::default()
    };
    let dialer = Rc::new(Dialer::new(executor.clone(), server.address, 0));
    let session = Session::new(executor.clone(), dialer, Rc::new(options), 0, "share");
    let end = Rc::new(Cell::new(None));
    let (slot, handle) = (end.clone(), executor.clone());
    executor.spawn(async move {
        let worked = match way {
            Way::Uncached => work(Uncached::new(session), handle, armed).await,
            Way::Cached(options) => work(Cache::new(session, options), handle, armed).await,
        };
        slot.set(worked.err().map(|failure| failure.fault));
    });
    executor.run(|| false).expect("the loop runs");
    end.get()
}

/// A case: its name, its action and the expected effect.
struct Case {
    name: String,
    run: Box<dyn FnOnce() -> End + Send>,
    /// None: success, or any fault that is not the client's own.
    expected: Option<End>,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: &str, command, moment, twist, expected: Option<End>| {
        for (words, way) in ways() {
            cases.push(Case {
                name: format!("{name}, to command {command}, {moment:?}, {words}"),
                run: Box::new(move || served(command, moment, twist, way)),
                expected,
            });
        }
    };
    for (name, twist, first, late) in ANY {
        add(name, NEGOTIATE, Moment::Always, *twist, Some(*first));
        add(name, READ, Moment::Late, *twist, Some(*late));
        for command in [SESSION_SETUP, TREE_CONNECT] {
            add(name, command, Moment::Always, *twist, None);
        }
        for command in [CREATE, WRITE, CLOSE] {
            add(name, command, Moment::Late, *twist, None);
        }
    }
    for (name, command, twist, end) in OF_ONE {
        add(name, *command, Moment::Always, *twist, Some(*end));
        if *command >= CREATE {
            add(name, *command, Moment::Late, *twist, Some(*end));
        }
    }
    cases
}

/// Returns the peak memory of this process, in bytes.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .expect("a peak");
    let kib = line.split_whitespace().nth(1).expect("a number");
    kib.parse::<usize>().expect("a number") << 10
}

#[test]
fn no_wrong_answer_hangs_a_client_or_takes_its_memory_and_each_failure_has_a_known_side() {
    let before_bytes = peak_bytes();
    let left = Arc::new(Mutex::new(cases()));
    let (told, tells) = mpsc::channel();
    for _ in 0..AT_ONCE {
        let (left, told) = (left.clone(), told.clone());
        std::thread::spawn(move || loop {
            let Some(case) = left.lock().expect("no panic while it is held").pop() else {
                return;
            };
            let ended = catch_unwind(AssertUnwindSafe(case.run)).map_err(|_| "a panic");
            let _ = told.send((case.name, case.expected, ended));
        });
    }
    drop(told);
    let mut wrong = Vec::new();
    let mut count = 0;
    loop {
        match tells.recv_timeout(MOST_OF_A_CASE) {
            Ok((name, expected, ended)) => {
                count += 1;
                let is_ours = matches!(ended, Ok(Some(fault)) if fault.side() == Side::Client);
                if ended.is_err() || is_ours || expected.is_some_and(|expected| Ok(expected) != ended) {
                    wrong.push(format!("{name}: {ended:?}, not {expected:?}"));
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                wrong.push("a case hangs".to_owned());
                break;
            }
        }
    }
    wrong.sort();
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    let grown_bytes = peak_bytes() - before_bytes;
    assert!(
        grown_bytes < MOST_GROWTH_BYTES,
        "{grown_bytes} bytes more after {count} cases"
    );
}
