//! Several caching clients on a few files see what they would see without caches.

use crate::clock::{now, run, Task, MS};
use crate::connection::Connection;
use crate::rig::some_cases;
use crate::server::Server;
use crate::stage::{inspect, play, steps, Stage, Step};
use dyno_files::{Cache, CacheOptions, Caching, Files, Policy, Redirector, Uncached};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// Runs steps with clients that `files` creates. Returns the errors.
fn played<F: Files>(
    steps: Vec<Step>,
    clients: usize,
    set_up: impl Fn(&mut Server),
    files: impl Fn(Connection) -> F,
) -> Result<(), String> {
    let mut server = Server::new(clients + 1);
    set_up(&mut server);
    let server = Rc::new(RefCell::new(server));
    let stage = Stage::new(steps, clients, "", false);
    let tasks = (0..clients)
        .map(|client| -> Task<'_> {
            let files = files(Connection::new(&server, client));
            let stage = stage.clone();
            Box::pin(async move {
                play(files, client, stage, now, MS).await;
            })
        })
        .collect();
    run(tasks, || false);
    if let Some(wrong) = stage.borrow_mut().wrong.take() {
        return Err(wrong);
    }
    let result = Rc::new(RefCell::new(Ok(())));
    let (inspector, told) = (Uncached::new(Connection::new(&server, clients)), result.clone());
    let seen = stage.clone();
    run(
        vec![Box::pin(async move {
            *told.borrow_mut() = inspect(inspector, &seen).await
        })],
        || false,
    );
    let wrong_answers = server.borrow().wrong_answers;
    if wrong_answers > 0 {
        return Err(format!("{wrong_answers} breaks were answered wrong"));
    }
    if server.borrow().open_handles() > 0 {
        return Err("handles are still open".to_owned());
    }
    let result = result.borrow().clone();
    result
}

fn policy() -> impl Strategy<Value = Policy> {
    let rh = Caching::READ_HANDLE;
    prop_oneof![
        4 => Just(Policy::Oplock(Caching::ALL)),
        1 => Just(Policy::Oplock(Caching::READ_WRITE)),
        1 => Just(Policy::Oplock(Caching::READ)),
        4 => Just(Policy::Lease(Caching::ALL)),
        1 => Just(Policy::Lease(Caching::READ_WRITE)),
        2 => Just(Policy::Lease(rh)),
        1 => Just(Policy::Lease(Caching::READ)),
        1 => Just(Policy::Nothing),
    ]
}

fn options() -> impl Strategy<Value = CacheOptions> {
    let redirector = prop_oneof![Just(Redirector::Xp), Just(Redirector::Plain)];
    let runs = prop_oneof![
        Just((61_440, 65_536)),
        Just((4_096, 4_096)),
        Just((1 << 20, 1 << 20))
    ];
    let read_ahead = prop_oneof![Just(0), Just(32 << 10)];
    (policy(), redirector, runs, read_ahead, 0..3_u32).prop_map(
        |(policy, redirector, (read_run_bytes, write_run_bytes), read_ahead_bytes, deferred)| CacheOptions {
            policy,
            redirector,
            read_run_bytes,
            write_run_bytes,
            read_ahead_bytes,
            most_deferred: [0, 1, 45][deferred as usize],
            ..CacheOptions::default()
        },
    )
}

proptest! {
    #![proptest_config(some_cases())]

    #[test]
    fn without_a_cache_the_server_matches_a_plain_file_system(steps in steps(3, 60)) {
        prop_assert_eq!(played(steps, 3, |_| {}, Uncached::new), Ok(()));
    }

    #[test]
    fn with_a_cache_every_client_sees_the_last_write_of_any_client(
        steps in steps(3, 80),
        options in options(),
        allocation_bytes in prop_oneof![Just(1_u64), Just(4096), Just(1 << 20)],
    ) {
        let set_up = |server: &mut Server| server.allocation_bytes = allocation_bytes;
        let files = |connection| Cache::with_clock(connection, options, now);
        prop_assert_eq!(played(steps, 3, set_up, files), Ok(()));
    }

    #[test]
    fn clients_with_different_caches_or_none_agree(
        steps in steps(2, 60),
        one in options(),
        grants in prop_oneof![
            Just(Caching::READ),
            Just(Caching::READ_WRITE),
            Just(Caching::READ_HANDLE),
            Just(Caching { handle: true, ..Caching::NONE }), // Samba grants this for a locked file.
        ],
    ) {
        let set_up = |server: &mut Server| server.grants = grants;
        let files = |connection| Cache::with_clock(connection, one, now);
        prop_assert_eq!(played(steps, 2, set_up, files), Ok(()));
    }
}
