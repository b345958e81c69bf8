//! Clients that concurrently read and write one file sequentially, on a server that executes their calls in any order.
//! No client ever reads old data, and the file has what was written.

use crate::clock::{now, run, Task, MS};
use crate::connection::Connection;
use crate::rig::{client, server, some_cases, User};
use crate::streams::{streaming, writing};
use dyno_files::{Access, Cache, CacheOptions, Caching, Call, Disposition, Files, Handle, Policy};
use proptest::prelude::*;
use std::cell::RefCell;

/// Appends to a file, sometimes does something else with it, and checks reads. Returns the expected contents.
async fn write_any(mut user: User, mut seed: u64, rounds: u32) -> Vec<u8> {
    let mut model: Vec<u8> = Vec::new();
    let mut at = 0;
    let mut handle = user.make("file").await;
    for round in 0..rounds {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (what, size) = ((seed >> 40) % 40, (seed >> 50) as usize % 30_000 + 1);
        let place = (seed >> 25) as usize % (model.len() + 5000);
        match what {
            0..=27 => {
                at = if what < 25 { at } else { place };
                let data: Vec<u8> = (0..size)
                    .map(|byte| (byte / 300 + byte + round as usize * 37) as u8)
                    .collect();
                user.write(handle, at as u64, &data).await;
                model.resize(model.len().max(at + size), 0);
                model[at..at + size].copy_from_slice(&data);
                at += size;
            }
            28..=33 => {
                let data = user.read(handle, place as u64, size as u32).await;
                let from = place.min(model.len());
                assert!(
                    data == model[from..model.len().min(place + size)],
                    "round {round}: other data"
                );
            }
            34 => user.idle(MS).await,
            35 => drop(user.call(Call::Flush { handle }).await.unwrap()),
            36 => {
                let bytes = place as u64;
                user.call(Call::SetEnd { handle, bytes }).await.unwrap();
                model.resize(place, 0);
            }
            37 => {
                user.close(handle).await;
                handle = user.edit("file").await;
            }
            _ => at = at.min(400_000) / 2,
        }
    }
    user.close(handle).await;
    user.idle(1000 * MS).await;
    user.finish().await;
    model
}

/// Opens and reads the file, so that the server breaks the other client's caching.
async fn disturb(mut user: User, rounds: u32) {
    for round in 0..rounds {
        user.idle(MS * u64::from(round % 3)).await;
        let opened = user.try_open("file", Access::Read, Disposition::Open).await;
        if let Some(handle) = opened.unwrap() {
            user.read(handle, u64::from(round) * 10_000, 9000).await;
            user.close(handle).await;
        }
    }
    user.finish().await;
}

const FILE_BYTES: usize = 96 << 10;
const CLIENTS: usize = 3;

/// Returns the client that owns a byte: every page has bytes of all clients.
fn owner(at: usize) -> usize {
    at / 512 % CLIENTS
}

/// Reads a file sequentially through two handles, and writes this client's own bytes, while other clients do the same.
/// These bytes must have their last values, and no other byte may ever become older.
async fn stream(mut user: User, me: usize, mut seed: u64, rounds: u32) {
    let mut seen = vec![0_u8; FILE_BYTES];
    let mut places = [0_usize; 2];
    let mut open: [Option<Handle>; 2] = [None; 2];
    for round in 0..rounds {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (what, which) = ((seed >> 40) % 20, (seed >> 50) as usize % 2);
        let Some(handle) = open[which] else {
            let access = [Access::Read, Access::ReadWrite][which];
            open[which] = user.try_open("file", access, Disposition::Open).await.unwrap();
            places[which] = 0;
            continue;
        };
        let version = u8::try_from(round / 2 + 1).unwrap();
        match what {
            0..=1 if which == 1 => {
                // Write only this client's own bytes in the next stretch.
                let at = (places[which] + (seed >> 20) as usize % 40_000) / 512 * 512;
                let at = (at..at + 512 * CLIENTS)
                    .step_by(512)
                    .find(|at| owner(*at) == me)
                    .unwrap();
                if at + 512 <= FILE_BYTES {
                    user.write(handle, at as u64, &[version; 512]).await;
                    seen[at..at + 512].fill(version);
                }
            }
            0..=16 => {
                let at = places[which];
                let data = user
                    .read(handle, at as u64, 4096 + (seed >> 25) as u32 % 8192)
                    .await;
                for (at, byte) in (at..).zip(&data) {
                    let right = if owner(at) == me {
                        *byte == seen[at]
                    } else {
                        *byte >= seen[at]
                    };
                    assert!(right, "client {me} was shown an older byte {at} of {}", owner(at));
                    seen[at] = *byte;
                }
                places[which] = if data.is_empty() { 0 } else { at + data.len() };
            }
            17 => {
                user.close(handle).await;
                open[which] = None;
            }
            _ => user.idle(MS).await,
        }
    }
    for handle in open.into_iter().flatten() {
        user.close(handle).await;
    }
    user.idle(1000 * MS).await;
    user.finish().await;
}

proptest! {
    #![proptest_config(some_cases())]

    #[test]
    fn concurrent_streams_of_one_file_never_read_old_data(
        seed in any::<u64>(),
        lease in any::<bool>(),
        grants in prop_oneof![Just(Caching::ALL), Just(Caching::READ), Just(Caching::READ_HANDLE)],
        ahead in prop_oneof![Just(8_u32 << 10), Just(64 << 10)],
    ) {
        let server = server(CLIENTS);
        server.borrow_mut().put("file", &[0; FILE_BYTES], false);
        server.borrow_mut().grants = grants;
        server.borrow_mut().by_hand = true;
        let all = Caching::ALL;
        let options = CacheOptions {
            policy: if lease { Policy::Lease(all) } else { Policy::Oplock(all) },
            read_ahead_bytes: ahead,
            ..streaming()
        };
        let tasks = (0..CLIENTS).map(|me| -> Task<'_> {
            let mut files = Cache::with_clock(Connection::new(&server, me), options, now);
            Box::pin(async move {
                files.connect().await.unwrap();
                stream(User { files }, me, seed.wrapping_add(me as u64 * 7919), 120).await;
            })
        }).collect();
        // The server executes the calls in any order.
        let mut choice = seed;
        run(tasks, || {
            choice = choice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            server.borrow_mut().carry_out_any((choice >> 40) as usize)
        });
        prop_assert_eq!(server.borrow().wrong_answers, 0);
        prop_assert_eq!(server.borrow().open_handles(), 0);
    }
    #[test]
    fn data_written_while_others_look_are_in_the_file(
        seed in any::<u64>(),
        lease in any::<bool>(),
        runs in prop_oneof![Just(4_u32 << 10), Just(16 << 10), Just(64 << 10)],
        looks in prop_oneof![Just(0_u32), Just(8)],
    ) {
        let server = server(2);
        server.borrow_mut().by_hand = true;
        let policy = if lease { Policy::Lease(Caching::ALL) } else { Policy::Oplock(Caching::ALL) };
        let options = CacheOptions { policy, write_run_bytes: runs, ..writing() };
        let model = RefCell::new(Vec::new());
        let (server_of, model_of) = (&server, &model);
        let writer: Task<'_> = Box::pin(async move {
            let user = client(server_of, 0, options).await;
            *model_of.borrow_mut() = write_any(user, seed, 80).await;
        });
        let other: Task<'_> = Box::pin(async move {
            let user = client(server_of, 1, options).await;
            disturb(user, looks).await;
        });
        let mut choice = seed;
        run(vec![writer, other], || {
            choice = choice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            server.borrow_mut().carry_out_any((choice >> 40) as usize)
        });
        prop_assert!(server.borrow().content("file") == Some(&model.borrow()[..]));
        prop_assert_eq!(server.borrow().wrong_answers, 0);
        prop_assert_eq!(server.borrow().open_handles(), 0);
    }
}
