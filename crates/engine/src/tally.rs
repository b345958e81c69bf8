//! What a mix counted: by class, by client, by second, by fault. One tally an engine thread, merged at the end.
//!
//! The window counts successes that completed in it; totals count from start to end, so that they can be held against
//! the server's own count.

use crate::protocol::Performed;
use dyno_files::Calls;
use dyno_measure::{Failure, Fault, Histogram, Phase, ThreadCpu, Window, NS_PER_S};
use dyno_smb::{Agreed, Cipher, SigningAlgorithm};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// One operation class in the window.
#[derive(Debug, Clone, Default)]
pub struct ClassTally {
    /// Successes.
    pub count: u64,
    /// Application bytes that came with them.
    pub bytes_read: u64,
    /// Application bytes that they wrote.
    pub bytes_written: u64,
    /// Failures.
    pub errors: u64,
    /// Response times of the successes, ns.
    pub response_time: Histogram,
}

/// One client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientTally {
    /// Successes in the window.
    pub operations: u64,
    /// All bytes that came with them.
    pub bytes_in: u64,
    /// Application bytes that came with them.
    pub bytes_read: u64,
    /// Application bytes that they wrote.
    pub bytes_written: u64,
    /// Failures from start to end.
    pub errors: u64,
    /// When it left the mix, ns after its start.
    pub left_at_ns: Option<u64>,
}

/// One second since the start of the mix.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SecondTally {
    /// Successes.
    pub operations: u64,
    /// Their bytes, heads included.
    pub bytes_in: u64,
    /// Failures.
    pub errors: u64,
}

/// One kind of failure.
#[derive(Debug, Clone, Copy)]
pub struct FaultTally {
    /// The kind.
    pub fault: Fault,
    /// From start to end.
    pub count: u64,
    /// In the window.
    pub in_window: u64,
    /// The first one.
    pub example: Failure,
}

/// What the generator used and did itself.
#[derive(Debug, Clone, Default)]
pub struct GeneratorTally {
    /// CPU time of the engine threads in the window.
    pub cpu: ThreadCpu,
    /// Of the thread that used most of it.
    pub busiest_cpu_s: f64,
    /// From the kernel's report of readiness to the end of its batch, in the window, ns.
    pub loop_lag: Histogram,
    /// Opened from start to end; of work on files, from the first client's log-on to the last one's leaving.
    pub connections: u64,
    /// Idle connections that the server had closed; of work on files, sessions set up after one that was lost.
    pub reconnects: u64,
    /// Local addresses used.
    pub source_addresses: u32,
}

/// What a session came to, as far as it decides what its figures mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKind {
    /// "3.1.1".
    pub dialect: &'static str,
    /// How every message is signed; None where they aren't, also because they are encrypted instead.
    pub signing: Option<&'static str>,
    /// How every message is encrypted.
    pub encryption: Option<&'static str>,
    /// Of a guest or nobody.
    pub guest: bool,
    /// The most that one read has.
    pub max_read_bytes: u32,
    /// The most that one write has.
    pub max_write_bytes: u32,
    /// The server gives leases.
    pub leases: bool,
}

impl From<&Agreed> for SessionKind {
    fn from(agreed: &Agreed) -> Self {
        Self {
            dialect: agreed.dialect.name(),
            signing: agreed.signing.map(SigningAlgorithm::name),
            encryption: agreed.cipher.map(Cipher::name),
            guest: agreed.guest,
            max_read_bytes: agreed.max_read_bytes,
            max_write_bytes: agreed.max_write_bytes,
            leases: agreed.leases,
        }
    }
}

/// What only work on files has.
#[derive(Debug, Clone, Default)]
pub struct FilesTally {
    /// Passes through the whole workload that ended in the mix.
    pub passes: u64,
    /// Application bytes whose content was compared with what the file should contain, from start to end.
    pub bytes_checked: u64,
    /// Calls below the client cache, from start to end.
    pub calls: Calls,
    /// Requests of the protocol by name, from start to end.
    pub requests: BTreeMap<&'static str, u64>,
    /// All requests of all sessions, those that made and removed workspaces too: what the server should have counted.
    pub protocol_requests: u64,
    /// Clients that had a session of each kind: of two, where one that was set up anew came to something else.
    pub sessions: BTreeMap<SessionKind, u64>,
}

impl FilesTally {
    fn add(&mut self, other: &Self) {
        self.passes += other.passes;
        self.bytes_checked += other.bytes_checked;
        self.protocol_requests += other.protocol_requests;
        for (ours, theirs) in self.calls.iter_mut().zip(&other.calls) {
            ours.add(theirs);
        }
        for (name, count) in &other.requests {
            *self.requests.entry(name).or_default() += count;
        }
        for (kind, clients) in &other.sessions {
            *self.sessions.entry(*kind).or_default() += clients;
        }
    }
}

/// The whole mix, or one engine thread's part of it.
#[derive(Debug, Clone, Default)]
pub struct MixTally {
    /// By class id.
    pub by_class: Vec<ClassTally>,
    /// By client number.
    pub by_client: Vec<ClientTally>,
    /// By second.
    pub by_second: Vec<SecondTally>,
    /// Kinds of failure that occurred.
    pub faults: Vec<FaultTally>,
    /// Successes from start to end.
    pub operations_total: u64,
    /// All bytes that came in the window with successes.
    pub bytes_in: u64,
    /// All bytes that were sent for them.
    pub bytes_out: u64,
    /// From the intended start until the connection stood, in the window, ns.
    pub connect_time: Histogram,
    /// Operations, failures too, that were under way when the window closed: the window's own figures don't have them.
    pub under_way_at_close: u64,
    /// The longest that one of them took in the end, ns.
    pub under_way_longest_ns: u64,
    /// The generator itself.
    pub generator: GeneratorTally,
    /// Of work on files.
    pub files: Option<FilesTally>,
}

impl MixTally {
    /// Adds another engine thread's part. Both number clients and classes alike.
    pub fn add(&mut self, other: &Self) {
        merge(&mut self.by_class, &other.by_class, |ours, theirs| {
            ours.count += theirs.count;
            ours.bytes_read += theirs.bytes_read;
            ours.bytes_written += theirs.bytes_written;
            ours.errors += theirs.errors;
            ours.response_time.add(&theirs.response_time);
        });
        merge(&mut self.by_client, &other.by_client, |ours, theirs| {
            ours.operations += theirs.operations;
            ours.bytes_in += theirs.bytes_in;
            ours.bytes_read += theirs.bytes_read;
            ours.bytes_written += theirs.bytes_written;
            ours.errors += theirs.errors;
            ours.left_at_ns = ours.left_at_ns.or(theirs.left_at_ns);
        });
        merge(&mut self.by_second, &other.by_second, |ours, theirs| {
            ours.operations += theirs.operations;
            ours.bytes_in += theirs.bytes_in;
            ours.errors += theirs.errors;
        });
        for theirs in &other.faults {
            self.add_fault(theirs);
        }
        self.operations_total += other.operations_total;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.connect_time.add(&other.connect_time);
        self.under_way_at_close += other.under_way_at_close;
        self.under_way_longest_ns = self.under_way_longest_ns.max(other.under_way_longest_ns);
        if let Some(theirs) = &other.files {
            self.files.get_or_insert_default().add(theirs);
        }
        self.generator.cpu.user_s += other.generator.cpu.user_s;
        self.generator.cpu.system_s += other.generator.cpu.system_s;
        self.generator.busiest_cpu_s = self.generator.busiest_cpu_s.max(other.generator.busiest_cpu_s);
        self.generator.loop_lag.add(&other.generator.loop_lag);
        self.generator.connections += other.generator.connections;
        self.generator.reconnects += other.generator.reconnects;
        self.generator.source_addresses += other.generator.source_addresses;
    }

    fn add_fault(&mut self, theirs: &FaultTally) {
        match self.faults.iter_mut().find(|ours| ours.fault == theirs.fault) {
            Some(ours) => {
                ours.count += theirs.count;
                ours.in_window += theirs.in_window;
            }
            None => self.faults.push(*theirs),
        }
    }

    /// Response times of all successes in the window.
    #[must_use]
    pub fn response_time(&self) -> Histogram {
        let mut all = Histogram::new();
        self.by_class
            .iter()
            .for_each(|class| all.add(&class.response_time));
        all
    }
}

fn merge<T: Clone + Default>(ours: &mut Vec<T>, theirs: &[T], add: impl Fn(&mut T, &T)) {
    if ours.len() < theirs.len() {
        ours.resize(theirs.len(), T::default());
    }
    ours.iter_mut()
        .zip(theirs)
        .for_each(|(ours, theirs)| add(ours, theirs));
}

/// Figures that other threads may look at while the mix runs. One writer, so plain stores.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub operations: AtomicU64,
    pub bytes_in: AtomicU64,
    pub bytes_moved: AtomicU64,
    pub errors: AtomicU64,
    pub clients_left: AtomicU64,
}

/// Counts for one engine thread while the mix runs.
#[derive(Debug)]
pub(crate) struct Tally {
    window: Window,
    mix: MixTally,
    live: Arc<Live>,
    bytes_in_total: u64,
    bytes_moved_total: u64,
    errors_total: u64,
}

impl Tally {
    pub(crate) fn new(window: Window, classes: usize, clients: usize, live: Arc<Live>) -> Self {
        let mix = MixTally {
            by_class: vec![ClassTally::default(); classes],
            by_client: vec![ClientTally::default(); clients],
            ..MixTally::default()
        };
        Self {
            window,
            mix,
            live,
            bytes_in_total: 0,
            bytes_moved_total: 0,
            errors_total: 0,
        }
    }

    /// Counts one operation that ended `elapsed_ns` after the start of the mix.
    pub(crate) fn count(&mut self, client: usize, performed: &Performed, elapsed_ns: u64, response_ns: u64) {
        let measured = self.window.phase(elapsed_ns) == Phase::Measured;
        self.mix.generator.connections += u64::from(performed.connections);
        self.mix.generator.reconnects += u64::from(performed.reconnected);
        if let Some(connect_ns) = performed.connect_ns.filter(|_| measured) {
            self.mix.connect_time.record(connect_ns);
        }
        let closes_ns = self.window.closes_ns();
        if elapsed_ns >= closes_ns && elapsed_ns.saturating_sub(response_ns) < closes_ns {
            self.mix.under_way_at_close += 1;
            self.mix.under_way_longest_ns = self.mix.under_way_longest_ns.max(response_ns);
        }
        match performed.result {
            Ok(()) => self.count_success(client, performed, measured, response_ns),
            Err(failure) => self.count_failure(client, performed, measured, failure),
        }
        self.count_second(performed, elapsed_ns);
    }

    fn count_success(&mut self, client: usize, performed: &Performed, measured: bool, response_ns: u64) {
        self.mix.operations_total += 1;
        self.bytes_in_total += performed.bytes_in;
        self.live
            .operations
            .store(self.mix.operations_total, Ordering::Relaxed);
        self.live.bytes_in.store(self.bytes_in_total, Ordering::Relaxed);
        self.bytes_moved_total += performed.bytes_read + performed.bytes_written;
        self.live
            .bytes_moved
            .store(self.bytes_moved_total, Ordering::Relaxed);
        if !measured {
            return;
        }
        let class = &mut self.mix.by_class[usize::from(performed.class.0)];
        class.count += 1;
        class.bytes_read += performed.bytes_read;
        class.bytes_written += performed.bytes_written;
        class.response_time.record(response_ns);
        let client = &mut self.mix.by_client[client];
        client.operations += 1;
        client.bytes_in += performed.bytes_in;
        client.bytes_read += performed.bytes_read;
        client.bytes_written += performed.bytes_written;
        self.mix.bytes_in += performed.bytes_in;
        self.mix.bytes_out += performed.bytes_out;
    }

    fn count_failure(&mut self, client: usize, performed: &Performed, measured: bool, failure: Failure) {
        self.mix.by_class[usize::from(performed.class.0)].errors += u64::from(measured);
        self.note_failure(client, measured, failure);
    }

    fn note_failure(&mut self, client: usize, measured: bool, failure: Failure) {
        self.errors_total += 1;
        self.live.errors.store(self.errors_total, Ordering::Relaxed);
        self.mix.by_client[client].errors += 1;
        self.mix.add_fault(&FaultTally {
            fault: failure.fault,
            count: 1,
            in_window: u64::from(measured),
            example: failure,
        });
    }

    /// Counts what kept a client out of the mix: an error before the first second's operations, and of no class.
    pub(crate) fn count_absence(&mut self, client: usize, failure: Failure) {
        self.note_failure(client, false, failure);
        self.mix
            .by_second
            .resize(self.mix.by_second.len().max(1), SecondTally::default());
        self.mix.by_second[0].errors += 1;
    }

    fn count_second(&mut self, performed: &Performed, elapsed_ns: u64) {
        let second = usize::try_from(elapsed_ns / NS_PER_S).unwrap_or(usize::MAX);
        let seconds = &mut self.mix.by_second;
        if seconds.len() <= second {
            seconds.resize(second + 1, SecondTally::default());
        }
        let second = &mut seconds[second];
        match performed.result {
            Ok(()) => {
                second.operations += 1;
                second.bytes_in += performed.bytes_in;
            }
            Err(_) => second.errors += 1,
        }
    }

    pub(crate) fn client_left(&mut self, client: usize, elapsed_ns: u64) {
        self.mix.by_client[client].left_at_ns = Some(elapsed_ns);
        let left = self.live.clients_left.load(Ordering::Relaxed) + 1;
        self.live.clients_left.store(left, Ordering::Relaxed);
    }

    /// What a client that uses files did beside its operations.
    pub(crate) fn add_files(&mut self, files: &FilesTally) {
        self.mix.files.get_or_insert_default().add(files);
    }

    pub(crate) fn generator(&mut self) -> &mut GeneratorTally {
        &mut self.mix.generator
    }

    pub(crate) fn finish(&mut self) -> MixTally {
        std::mem::take(&mut self.mix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_workload::ClassId;

    const WINDOW: Window = Window {
        length_ns: 10 * NS_PER_S,
        ramp_up_ns: 2 * NS_PER_S,
        ramp_down_ns: 3 * NS_PER_S,
    };

    fn ended(result: Result<(), Failure>) -> Performed {
        Performed {
            class: ClassId(1),
            result,
            bytes_read: 10,
            bytes_written: 7,
            bytes_in: 100,
            bytes_out: 50,
            connect_ns: Some(5),
            connections: 1,
            reconnected: false,
            session_lost: false,
        }
    }

    /// One operation that ends at each of `moments`.
    fn tally(result: Result<(), Failure>, moments: &[u64]) -> MixTally {
        let mut tally = Tally::new(WINDOW, 2, 3, Arc::default());
        for moment in moments {
            tally.count(2, &ended(result), *moment, 1000);
        }
        tally.finish()
    }

    /// Either side of each border: start, window open, window closed, end.
    const MOMENTS: [u64; 7] = [
        0,
        2 * NS_PER_S - 1,
        2 * NS_PER_S,
        7 * NS_PER_S - 1,
        7 * NS_PER_S,
        10 * NS_PER_S - 1,
        10 * NS_PER_S,
    ];

    #[test]
    fn only_what_ends_in_the_window_counts_in_it_and_the_total_counts_all() {
        let tally = tally(Ok(()), &MOMENTS);
        assert_eq!(tally.operations_total, 7);
        assert_eq!((tally.by_class[1].count, tally.by_class[0].count), (2, 0));
        assert_eq!(tally.by_class[1].bytes_read, 20);
        assert_eq!(tally.by_class[1].bytes_written, 14);
        assert_eq!(
            (tally.by_client[2].bytes_read, tally.by_client[2].bytes_written),
            (20, 14)
        );
        assert_eq!((tally.bytes_in, tally.bytes_out), (200, 100));
        assert_eq!(
            (tally.response_time().count(), tally.connect_time.count()),
            (2, 2)
        );
        assert_eq!(
            (tally.by_client[2].operations, tally.by_client[2].bytes_in),
            (2, 200)
        );
        assert_eq!(tally.generator.connections, 7);
        let seconds: Vec<u64> = tally.by_second.iter().map(|second| second.operations).collect();
        assert_eq!(seconds, [1, 1, 1, 0, 0, 0, 1, 1, 0, 1, 1]);
    }

    #[test]
    fn a_failure_is_counted_once_and_moves_no_figure_of_the_successes() {
        let tally = tally(Err(Fault::WrongLength.into()), &MOMENTS);
        let [fault] = tally.faults[..] else {
            panic!("{:?}", tally.faults)
        };
        assert_eq!(
            (fault.fault, fault.count, fault.in_window),
            (Fault::WrongLength, 7, 2)
        );
        assert_eq!((tally.by_class[1].errors, tally.by_client[2].errors), (2, 7));
        assert_eq!((tally.operations_total, tally.by_class[1].count), (0, 0));
        assert_eq!(
            (tally.bytes_in, tally.bytes_out, tally.response_time().count()),
            (0, 0, 0)
        );
        assert_eq!(tally.by_second.iter().map(|second| second.errors).sum::<u64>(), 7);
    }

    #[test]
    fn the_parts_of_several_threads_add_up() {
        let mut sum = tally(Ok(()), &MOMENTS);
        sum.add(&tally(Err(Fault::ClosedEarly.into()), &MOMENTS));
        sum.add(&tally(Err(Fault::ClosedEarly.into()), &MOMENTS[..3]));
        sum.add(&tally(Ok(()), &[25 * NS_PER_S]));
        assert_eq!((sum.operations_total, sum.by_class[1].count), (8, 2));
        assert_eq!(
            (sum.faults.len(), sum.faults[0].count, sum.faults[0].in_window),
            (1, 10, 3)
        );
        assert_eq!(sum.by_second.len(), 26);
        assert_eq!((sum.by_client.len(), sum.by_client[2].errors), (3, 10));
        assert_eq!((sum.response_time().count(), sum.generator.connections), (2, 18));
    }
}
