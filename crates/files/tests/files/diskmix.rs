//! Acceptance test of the cache: runs passes of the disk mix through it, and compares the resulting requests with the
//! captures of 2004 (Windows XP, batch oplocks). Source: facts of the disk mix, the wire mix and its sizes.

use crate::clock::now;
use crate::connection::Connection;
use crate::rig::{alone, server, Shared};
use dyno_files::{
    Access, Ask, Cache, CacheOptions, Call, CallKind, Disposition, Files, Handle, Open, Reply, Stability,
};
use dyno_measure::Fault;
use dyno_workload::{
    content_of, DiskMix, DiskMixOptions, FileAction, FileCatalogue, FileWorkload, Intent, Ledger, Outcome,
    PathId, Presence, Script, Slot, Workload,
};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Clients run the applications in different orders. Their sums differ only slightly, mostly because a deferred close
/// may fall into another part.
const CLIENTS: usize = 2;
/// The first pass isn't counted: it contains closes of files that the preparation left open.
const PASSES: u64 = 2;

/// Executes the mix's actions through a cache.
struct Player {
    files: Cache<Connection>,
    mix: DiskMix,
    handles: Vec<Option<Handle>>,
    ledger: Ledger,
    names: Rc<FileCatalogue>,
}

impl Player {
    async fn act(&mut self, action: &FileAction) -> u64 {
        let names = self.names.clone();
        let call = self.on_handle(action).unwrap_or_else(|| on_path(action, &names));
        let mut read = Vec::new();
        let mut take = |piece: &[u8]| read.extend_from_slice(piece);
        let reply = self.files.call(&call, &mut take).await;
        if let FileAction::Read { slot, offset, bytes } = *action {
            let came = u32::try_from(read.len()).ok();
            assert_eq!(
                self.ledger.expected_bytes(slot, offset, bytes),
                came,
                "{action:?}"
            );
            let checked = self.ledger.check(slot, offset, &read);
            assert_eq!(checked, Ok(read.len() as u64), "{action:?}");
        }
        self.judge(action, reply.map_err(|failure| failure.fault));
        read.len() as u64
    }

    fn on_handle(&self, action: &FileAction) -> Option<Call<'static>> {
        let handle =
            |slot: Slot| self.handles[usize::from(slot.0)].expect("nothing fails here, so it is open");
        Some(match *action {
            FileAction::Close { slot } => Call::Close { handle: handle(slot) },
            FileAction::Read { slot, offset, bytes } => Call::Read {
                handle: handle(slot),
                offset,
                bytes,
            },
            FileAction::Write {
                slot,
                offset,
                bytes,
                generation,
            } => {
                let writing = self.ledger.writing(slot, generation).expect("is open");
                Call::Write {
                    handle: handle(slot),
                    offset,
                    data: content_of(writing, offset, bytes as usize),
                    stability: Stability::Unstable,
                }
            }
            FileAction::Flush { slot } => Call::Flush { handle: handle(slot) },
            FileAction::Lock { slot, offset, bytes } => Call::Lock {
                handle: handle(slot),
                offset,
                bytes,
            },
            FileAction::Unlock { slot, offset, bytes } => Call::Unlock {
                handle: handle(slot),
                offset,
                bytes,
            },
            FileAction::QueryFile { slot } => Call::QueryHandle { handle: handle(slot) },
            FileAction::QueryTimes { slot } => Call::QueryTimes { handle: handle(slot) },
            FileAction::SetEnd { slot, bytes } => Call::SetEnd {
                handle: handle(slot),
                bytes,
            },
            FileAction::SetTimes { slot } => Call::SetTimes { handle: handle(slot) },
            _ => return None,
        })
    }

    fn judge(&mut self, action: &FileAction, reply: Result<Reply, Fault>) {
        let presence = match *action {
            FileAction::Open { presence, .. }
            | FileAction::QueryPath { presence, .. }
            | FileAction::Find { presence, .. }
            | FileAction::Delete { presence, .. }
            | FileAction::MakeDirectory { presence, .. }
            | FileAction::RemoveDirectory { presence, .. } => presence,
            _ => Presence::There,
        };
        let found = match reply {
            Ok(Reply::NotThere | Reply::Found { entries: 0 }) => false,
            Err(Fault::NotFound | Fault::AlreadyThere) if presence == Presence::Either => return,
            Ok(_) => true,
            Err(fault) => panic!("{action:?}: {fault:?}"),
        };
        let makes = matches!(action, FileAction::MakeDirectory { .. });
        assert!(
            presence == Presence::Either || makes || (presence == Presence::There) == found,
            "{action:?}"
        );
        if found == (presence != Presence::NotThere) {
            self.ledger.apply(action);
        }
        match (*action, reply) {
            (FileAction::Open { slot, .. }, Ok(Reply::Opened { handle, .. })) => {
                let place = usize::from(slot.0);
                self.handles.resize(self.handles.len().max(place + 1), None);
                self.handles[place] = Some(handle);
            }
            (FileAction::Close { slot }, _) => self.handles[usize::from(slot.0)] = None,
            _ => {}
        }
    }
}

fn on_path<'a>(action: &FileAction, names: &'a FileCatalogue) -> Call<'a> {
    let path = |id: PathId| names.paths[id.0 as usize].as_str();
    match *action {
        FileAction::Open {
            path: id,
            intent,
            directory,
            ..
        } => {
            let (access, disposition) = wanted(intent);
            Call::Open(Open {
                path: path(id),
                access,
                disposition,
                directory,
                delete_on_close: false,
                ask: Ask::Nothing,
            })
        }
        FileAction::QueryPath { path: id, .. } => Call::QueryPath { path: path(id) },
        FileAction::Find {
            directory, pattern, ..
        } => Call::Find {
            directory: path(directory),
            pattern: &names.patterns[usize::from(pattern)],
        },
        FileAction::Rename { from, to } => Call::Rename {
            from: path(from),
            to: path(to),
        },
        FileAction::Delete { path: id, .. } => Call::Delete { path: path(id) },
        FileAction::MakeDirectory { path: id, .. } => Call::MakeDirectory { path: path(id) },
        FileAction::RemoveDirectory { path: id, .. } => Call::RemoveDirectory { path: path(id) },
        _ => Call::QuerySpace { directory: "" },
    }
}

fn wanted(intent: Intent) -> (Access, Disposition) {
    match intent {
        Intent::Look => (Access::Attributes, Disposition::Open),
        Intent::Read => (Access::Read, Disposition::Open),
        Intent::Edit => (Access::ReadWrite, Disposition::Open),
        Intent::Make => (Access::ReadWrite, Disposition::Create),
        Intent::MakeOrEdit => (Access::ReadWrite, Disposition::OpenIf),
        Intent::Replace => (Access::ReadWrite, Disposition::OverwriteIf),
    }
}

type Counts = BTreeMap<&'static str, BTreeMap<&'static str, f64>>;

/// Returns the lines of the wire mix and its sizes to which a call belongs.
fn lines(kind: CallKind, bytes: u64, not_there: bool) -> Vec<&'static str> {
    let size = |sizes: &[(u64, u64, &'static str)]| {
        let within = |&&(least, most, _): &&(u64, u64, &'static str)| (least..=most).contains(&bytes);
        sizes.iter().find(within).map_or("other", |found| found.2)
    };
    match (kind, not_there) {
        (CallKind::Open, true) => vec!["open failed"],
        (CallKind::Open | CallKind::Create, _) => vec!["open or create"],
        (CallKind::QueryPath, true) => vec!["query path -"],
        (CallKind::Find, true) => vec!["find -"],
        (CallKind::Read, _) => vec!["read", size(&READ_SIZES)],
        (CallKind::Write, _) => vec!["write", size(&WRITE_SIZES)],
        (kind, _) => vec![kind.name()],
    }
}

const READ_SIZES: [(u64, u64, &str); 7] = [
    (2048, 2048, "read of 2,048"),
    (4096, 4096, "read of 4,096"),
    (8192, 8192, "read of 8,192"),
    (16_384, 16_384, "read of 16,384"),
    (32_768, 32_768, "read of 32,768"),
    (61_440, 61_440, "read of 61,440"),
    (0, u64::MAX, "read of others"),
];
const WRITE_SIZES: [(u64, u64, &str); 9] = [
    (1, 1, "write of 1"),
    (2048, 2048, "write of 2,048"),
    (4096, 4096, "write of 4,096"),
    (8192, 8192, "write of 8,192"),
    (65_536, 65_536, "write of 65,536"),
    (8193, 16_384, "write of 8 to 16 K"),
    (16_385, 32_768, "write of 16 to 32 K"),
    (32_769, 65_535, "write of 32 to 65 K"),
    (0, u64::MAX, "write of others"),
];

async fn passes(server: &Shared, client: usize, options: CacheOptions, counts: &mut Counts) {
    let mix = DiskMix::new(
        Script::load(&DiskMixOptions::default()),
        1,
        u32::try_from(client).unwrap(),
    );
    let mut player = Player {
        files: Cache::with_clock(Connection::new(server, client), options, now),
        handles: Vec::new(),
        ledger: Ledger::new(0),
        names: Rc::new(mix.catalogue().clone()),
        mix,
    };
    player.files.connect().await.unwrap();
    for action in player.mix.preparation(false) {
        player.act(&action).await;
    }
    server.borrow_mut().log.clear();
    let order = player.mix.order();
    let (mut last, mut piece) = (Outcome::START, usize::MAX);
    loop {
        let op = player.mix.next(&last);
        if player.mix.passes() == PASSES {
            break;
        }
        if player.mix.begins_piece() {
            piece = piece.wrapping_add(1);
        }
        if player.mix.passes() == 0 {
            server.borrow_mut().log.clear();
        }
        let bytes_read = player.act(&op.action).await;
        last = Outcome {
            bytes_read,
            ..Outcome::START
        };
        let counted = player.mix.passes() > 0;
        for call in server.borrow_mut().log.drain(..).filter(|_| counted) {
            let piece = order[piece % order.len()];
            let mut add = |line, amount| *counts.entry(line).or_default().entry(piece).or_default() += amount;
            lines(call.kind, call.bytes, call.not_there)
                .into_iter()
                .for_each(|line| add(line, 1.0));
            match call.kind {
                CallKind::Read => add("bytes read", call.bytes as f64),
                CallKind::Write => add("bytes written", call.bytes as f64),
                _ => {}
            }
        }
    }
}

fn mean_pass() -> Counts {
    let mut counts = Counts::new();
    for client in 0..CLIENTS {
        let server = server(CLIENTS);
        alone(passes(&server, client, CacheOptions::default(), &mut counts));
    }
    let share = 1.0 / (CLIENTS as f64 * (PASSES - 1) as f64);
    counts
        .values_mut()
        .flat_map(BTreeMap::values_mut)
        .for_each(|count| *count *= share);
    counts
}

#[test]
fn a_present_day_client_reads_what_it_wrote_in_passes_of_the_disk_mix() {
    for client in 0..CLIENTS {
        let server = server(CLIENTS);
        alone(passes(
            &server,
            client,
            CacheOptions::modern(),
            &mut Counts::new(),
        ));
    }
}

/// Allowed deviation of a line from its fact: this share of the fact, but at least one request.
const SHARE: f64 = 0.05;
const REQUESTS: f64 = 1.0;

#[test]
fn a_pass_of_the_disk_mix_makes_the_requests_of_2004() {
    let counts = mean_pass();
    let sum = |line: &str| {
        counts
            .get(line)
            .map_or(0.0, |pieces| pieces.values().sum::<f64>())
    };
    let mut wrong = Vec::new();
    println!("{:24} {:>12} {:>12}", "once a pass", "2004", "ours");
    for (line, fact) in FACTS {
        let ours = sum(line);
        let off = ours / fact - 1.0;
        println!("{line:24} {fact:12.1} {ours:12.1} {:+6.1} %", off * 100.0);
        if (ours - fact).abs() > (fact * SHARE).max(REQUESTS) {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}; by piece: {counts:#?}");
}

/// The wire mix of 2004 and its sizes, per pass (facts 3.4 and 3.5).
const FACTS: [(&str, f64); 33] = [
    ("bytes read", 11_410_671.0),
    ("bytes written", 7_712_287.0),
    ("read", 962.6),
    ("open or create", 450.5),
    ("open failed", 163.0),
    ("close", 450.5),
    ("query path", 367.4),
    ("query path -", 189.0),
    ("write", 303.1),
    ("delete", 124.0),
    ("find -", 111.0),
    ("find", 104.0),
    ("query space", 102.0),
    ("query file", 97.0),
    ("set times", 50.0),
    ("flush", 43.0),
    ("rename", 26.0),
    ("lock", 2.0),
    ("unlock", 2.0),
    ("read of 4,096", 644.5),
    ("read of 61,440", 129.0),
    ("read of 8,192", 36.0),
    ("read of 2,048", 36.0),
    ("read of 16,384", 15.0),
    ("read of 32,768", 3.0),
    ("write of 65,536", 96.0),
    ("write of 4,096", 77.0),
    ("write of 1", 57.0),
    ("write of 8 to 16 K", 16.0),
    ("write of 2,048", 13.0),
    ("write of 16 to 32 K", 12.0),
    ("write of 8,192", 9.0),
    ("write of 32 to 65 K", 10.0),
];
