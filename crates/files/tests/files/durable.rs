//! Data becomes durable while an application keeps writing. A background flush covers the writes answered before it.
//! Data that a server loses in a restart, at any moment, is written again.

use crate::clock::run;
use crate::rig::{alone, client, passed, some_cases, Shared, User};
use crate::server::{Refusal, Server};
use crate::streams::writing;
use dyno_files::{CacheOptions, Call, CallKind, Handle, Policy};
use dyno_measure::Fault;
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// An eighth of the minimum memory. Four times as much may be dirty or unstable, and this much is sent or flushed at
/// once.
const MANY: usize = 128 << 10;

/// Returns options for close-to-open with the minimum memory and this write size.
fn options(write_run_bytes: u32) -> CacheOptions {
    CacheOptions {
        policy: Policy::CloseToOpen(Default::default()),
        write_run_bytes,
        ..writing()
    }
}

fn stateless() -> Shared {
    let mut server = Server::stateless(1);
    server.stateless.as_mut().expect("is stateless").without_history = true;
    Rc::new(RefCell::new(server))
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 251 + at) as u8).collect()
}

/// Writes `data` from `at` on, in pieces of 16 KiB.
async fn write_on(user: &mut User, handle: Handle, at: usize, data: &[u8]) {
    for (piece, bytes) in data.chunks(16 << 10).enumerate() {
        user.write(handle, (at + (piece << 14)) as u64, bytes).await;
    }
}

#[test]
fn a_writer_does_not_wait_for_a_flush_while_memory_is_free() {
    let server = stateless();
    alone(async {
        let mut user = client(&server, 0, options(MANY as u32)).await;
        let handle = user.make("f").await;
        let data = content(16 * MANY);
        server.borrow_mut().held.push(CallKind::Flush);
        // Nothing is stable until a flush is answered, and here no flush is. The limit for writes is half of the
        // memory.
        write_on(&mut user, handle, 0, &data[..4 * MANY]).await;
        assert!(passed(&server).iter().all(|call| !call.starts_with("flush")));
        server.borrow_mut().held.clear();
        server.borrow_mut().carry_out_all();
        write_on(&mut user, handle, 4 * MANY, &data[4 * MANY..]).await;
        let flushes = passed(&server).iter().filter(|call| *call == "flush").count();
        assert!((3..=12).contains(&flushes), "{flushes} flushes of 12 runs");
        user.close(handle).await;
        server.borrow_mut().start_anew();
        assert!(server.borrow().content("f") == Some(&data[..]));
        user.finish().await;
    });
}

#[test]
fn a_failed_background_flush_is_reported_by_the_next_call() {
    let server = stateless();
    alone(async {
        let mut user = client(&server, 0, options(MANY as u32)).await;
        let handle = user.make("f").await;
        server.borrow_mut().refusals.push(Refusal {
            client: 0,
            kind: CallKind::Flush,
            after: 0,
            with: Fault::NoSpace,
        });
        let data = content(MANY);
        let mut told = Vec::new();
        for run in 0..12 {
            let written = user.try_write(handle, (run * MANY) as u64, &data).await;
            told.extend(written.err());
        }
        assert_eq!(told, [Fault::NoSpace], "once, and not at the close");
        user.close(handle).await;
        user.finish().await;
    });
}

/// Appends to a file, sometimes rewrites parts of it, and reads, flushes and closes it in between.
async fn write_again(mut user: User, mut seed: u64, rounds: u32) -> Vec<u8> {
    let mut model: Vec<u8> = Vec::new();
    let mut at = 0_usize;
    let mut handle = user.make("file").await;
    for round in 0..rounds {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (what, size) = ((seed >> 40) % 200, (seed >> 48) as usize % 60_000 + 1);
        match what {
            0..=191 => {
                let back = (seed >> 25) as usize % (600 << 10);
                at = if what < 30 { at.saturating_sub(back) } else { at };
                let data: Vec<u8> = (0..size)
                    .map(|byte| (byte / 300 + byte + round as usize * 37) as u8)
                    .collect();
                user.write(handle, at as u64, &data).await;
                model.resize(model.len().max(at + size), 0);
                model[at..at + size].copy_from_slice(&data);
                at += size;
            }
            192..=195 => {
                let from = (seed >> 25) as usize % (model.len() + 1);
                let data = user.read(handle, from as u64, size as u32).await;
                let to = model.len().min(from + size);
                assert!(data == model[from..to], "round {round}: other data");
            }
            196..=197 => drop(user.call(Call::Flush { handle }).await.unwrap()),
            _ => {
                user.close(handle).await;
                handle = user.edit("file").await;
            }
        }
    }
    user.close(handle).await;
    user.finish().await;
    model
}

/// Maximum number of restarts until the server executes `FLUSHES_BETWEEN` flushes without a restart. A client that
/// tries four times must then succeed: an answer from before the first restart may cost one more attempt.
const MOST_RESTARTS: u32 = 2;
const FLUSHES_BETWEEN: usize = 3;

/// A server that executes calls on demand, and restarts at some of them.
struct Restarting<'a> {
    server: &'a Shared,
    choice: u64,
    in_order: bool,
    /// Restarts per hundred calls.
    restarts: u64,
    in_a_row: u32,
    flushes: usize,
}

impl Restarting<'_> {
    fn goes_on(&mut self) -> bool {
        self.choice = self
            .choice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let mut server = self.server.borrow_mut();
        let flushed = server.log.drain(..).filter(|call| call.kind == CallKind::Flush);
        self.flushes += flushed.count();
        if self.flushes >= FLUSHES_BETWEEN {
            self.in_a_row = 0;
        }
        if self.in_a_row < MOST_RESTARTS && (self.choice >> 33) % 100 < self.restarts {
            (self.in_a_row, self.flushes) = (self.in_a_row + 1, 0);
            server.start_anew();
        }
        server.carry_out_any(if self.in_order {
            0
        } else {
            (self.choice >> 40) as usize
        })
    }
}

proptest! {
    #![proptest_config(some_cases())]

    #[test]
    fn data_are_durable_after_the_close_whenever_the_server_restarts(
        seed in any::<u64>(),
        runs in prop_oneof![Just(4_u32 << 10), Just(16 << 10), Just(64 << 10)],
        restarts in prop_oneof![Just(0_u64), Just(4), Just(40)],
        in_order in any::<bool>(),
    ) {
        let server = stateless();
        server.borrow_mut().by_hand = true;
        let model = RefCell::new(Vec::new());
        let (server_of, model_of) = (&server, &model);
        let writer = Box::pin(async move {
            let user = client(server_of, 0, options(runs)).await;
            *model_of.borrow_mut() = write_again(user, seed, 150).await;
        });
        let (in_a_row, flushes) = (0, 0);
        let mut restarting = Restarting { server: &server, choice: seed, in_order, restarts, in_a_row, flushes };
        run(vec![writer], || restarting.goes_on());
        server.borrow_mut().start_anew();
        prop_assert!(server.borrow().content("file") == Some(&model.borrow()[..]), "other data");
        prop_assert_eq!(server.borrow().open_handles(), 0);
    }
}
