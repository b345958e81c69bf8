//! Compares the estimated ready work with its true value in a simulation of clients, generator and servers,
//! and checks the counts of the real loop.

use dyno_measure::{monotonic_ns, Fault};
use dyno_net::{Dialer, Executor, Listener, ReadyWork, ReadyWorkMeter};
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

/// Model of a server.
#[derive(Debug, Clone, Copy)]
enum Server {
    /// Number of CPUs with one queue, and mean service time in nanoseconds.
    Cpus(usize, u64),
    /// Constant delay, independent of load.
    Delay(u64),
}

#[derive(Debug, Clone, Copy)]
enum Spread {
    /// Constant service times.
    None,
    /// Uniform between 0.5 and 1.5 times the mean.
    Even,
    Exponential,
}

#[derive(Debug, Clone, Copy)]
struct Model {
    clients: usize,
    /// Generator time per answer and next request.
    generator_ns: u64,
    /// Time of an `epoll_wait`, including the wake-up if nothing was ready.
    asking_ns: u64,
    waking_ns: u64,
    server: Server,
    /// Distribution of service times around the mean.
    spread: Spread,
}

/// Random numbers by xorshift64*, equal on every machine.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn service(&mut self, mean_ns: u64, spread: Spread) -> u64 {
        let factor = match spread {
            Spread::None => 1.0,
            Spread::Even => 0.5 + self.unit(),
            Spread::Exponential => -(1.0 - self.unit()).ln(),
        };
        (factor * mean_ns as f64) as u64
    }
}

/// Answers in transit, earliest first.
struct Answers {
    server: Server,
    due_ns: BinaryHeap<Reverse<u64>>,
    /// When each server CPU becomes free.
    free_ns: BinaryHeap<Reverse<u64>>,
}

impl Answers {
    fn request(&mut self, now_ns: u64, random: &mut Random, spread: Spread) {
        let due_ns = match self.server {
            Server::Delay(mean_ns) => now_ns + random.service(mean_ns, spread),
            Server::Cpus(_, mean_ns) => {
                let Reverse(free_ns) = self.free_ns.pop().expect("a server has a CPU");
                let due_ns = free_ns.max(now_ns) + random.service(mean_ns, spread);
                self.free_ns.push(Reverse(due_ns));
                due_ns
            }
        };
        self.due_ns.push(Reverse(due_ns));
    }
}

/// Generator's share of the round trip, true and estimated.
struct Outcome {
    truth: f64,
    estimate: f64,
}

fn simulate(model: Model, operations: u64) -> Outcome {
    let cpus = match model.server {
        Server::Cpus(cpus, _) => cpus,
        Server::Delay(_) => 0,
    };
    let mut answers = Answers {
        server: model.server,
        due_ns: BinaryHeap::new(),
        free_ns: std::iter::repeat_n(Reverse(0), cpus).collect(),
    };
    let (mut random, mut meter) = (Random(0x9E37_79B9), ReadyWorkMeter::default());
    let (mut now_ns, mut held_ns, mut done) = (0, 0, 0);
    for _ in 0..model.clients {
        answers.request(0, &mut random, model.spread);
    }
    while done < operations {
        let asked_ns = now_ns;
        let Reverse(first_ns) = *answers.due_ns.peek().expect("every client waits for an answer");
        let slept = first_ns > asked_ns;
        now_ns = match slept {
            true => first_ns + model.waking_ns,
            false => asked_ns + model.asking_ns,
        };
        // Sleeping is not generator work, so waiting counts from the wake-up.
        let from_ns = if slept { now_ns } else { 0 };
        let mut batch = VecDeque::new();
        while answers.due_ns.peek().is_some_and(|due| due.0 <= now_ns) {
            batch.extend(answers.due_ns.pop());
        }
        meter.begin_batch(asked_ns, now_ns, batch.len());
        for Reverse(arrived_ns) in batch {
            now_ns += random.service(model.generator_ns, model.spread);
            held_ns += now_ns - arrived_ns.max(from_ns);
            done += 1;
            answers.request(now_ns, &mut random, model.spread);
        }
    }
    let share = |held_ns: u64| held_ns as f64 / now_ns as f64 / model.clients as f64;
    Outcome {
        truth: share(held_ns),
        estimate: share(meter.finish(now_ns).ready_ns),
    }
}

/// Checks that the estimated share differs from the true one by less than a tenth.
fn check(name: &str, model: Model) {
    for spread in [Spread::Even, Spread::Exponential] {
        let model = Model { spread, ..model };
        let Outcome { truth, estimate } = simulate(model, 30_000);
        let error = estimate / truth - 1.0;
        println!(
            "{name:24} {:4} clients {spread:12?} truth {truth:.4} estimate {estimate:.4} {:+.1} %",
            model.clients,
            100.0 * error,
        );
        assert!(error.abs() < 0.1, "{name}: {truth} {estimate} {model:?}");
    }
}

const MODEL: Model = Model {
    clients: 64,
    generator_ns: 4_000,
    asking_ns: 400,
    waking_ns: 3_000,
    server: Server::Cpus(1, 5_000),
    spread: Spread::Even,
};

#[test]
fn the_share_is_right_for_any_number_of_clients_of_a_server_with_one_cpu() {
    for clients in [1, 2, 4, 16, 64, 1000] {
        for service_ns in [3_500, 5_000, 20_000, 200_000] {
            let server = Server::Cpus(1, service_ns);
            check(
                &format!("one CPU, {service_ns} ns"),
                Model {
                    clients,
                    server,
                    ..MODEL
                },
            );
        }
    }
}

#[test]
fn the_share_is_right_if_the_server_only_delays() {
    for clients in [1, 4, 64, 1000] {
        for delay_ns in [20_000, 300_000, 5_000_000] {
            let server = Server::Delay(delay_ns);
            check(
                &format!("a delay of {delay_ns} ns"),
                Model {
                    clients,
                    server,
                    ..MODEL
                },
            );
        }
    }
}

#[test]
fn the_share_is_right_if_the_server_has_many_cpus() {
    for clients in [1, 8, 64, 512] {
        for cpus in [2, 4, 16] {
            let server = Server::Cpus(cpus, 20_000);
            check(
                &format!("{cpus} CPUs"),
                Model {
                    clients,
                    server,
                    ..MODEL
                },
            );
        }
    }
}

/// The estimate is less accurate if answers do not arrive evenly: clients in lockstep, or two clients with a
/// much faster server.
#[test]
fn the_share_is_rough_if_answers_arrive_unevenly() {
    let lockstep = Model {
        clients: 4,
        server: Server::Delay(20_000),
        spread: Spread::None,
        ..MODEL
    };
    let quick = Model {
        clients: 2,
        server: Server::Cpus(1, 1_000),
        ..MODEL
    };
    for model in [lockstep, quick] {
        let Outcome { truth, estimate } = simulate(model, 30_000);
        println!("{model:?}: truth {truth:.4} estimate {estimate:.4}");
        assert!((truth - estimate).abs() < 0.2);
    }
}

#[test]
fn late_timers_and_all_batches_are_counted() {
    let mut meter = ReadyWorkMeter::default();
    meter.begin_batch(0, 100_000, 3);
    meter.add_timer(7_000);
    // Three reports and a timer, and 10 us of work. The next answer was ready at the next call.
    meter.begin_batch(110_000, 110_400, 2);
    // This time the loop had to wait.
    meter.begin_batch(116_400, 500_000, 0);
    let expected = ReadyWork {
        ready_ns: 7_000 + 10_000 * 5 / 2 + 10_400 + 6_000 * 3 / 2,
        busy_ns: 16_000,
        batches: 2,
        events: 6,
    };
    assert_eq!(meter.finish(500_100), expected);
}

#[test]
fn the_loop_measures_from_start_to_take() {
    const ROUNDS: u64 = 50;
    let executor = Executor::new().expect("an epoll instance");
    let (handle, found) = (executor.clone(), Rc::new(Cell::new(None)));
    let told = found.clone();
    executor.spawn(async move {
        let listener = Listener::bind(&handle, ([127, 0, 0, 1], 0).into(), false).expect("a port is free");
        let address = listener.address().expect("it listens");
        let near = Dialer::new(handle.clone(), address, 0)
            .dial(None)
            .expect("it connects");
        let far = listener.accept().await.expect("somebody connects");
        assert_eq!(handle.take_ready_work(), ReadyWork::default());
        handle.start_ready_work();
        for _ in 0..ROUNDS {
            near.send_all(b"x", Fault::ResponseTimeout)
                .await
                .expect("a connection");
            while far.try_receive(&mut [0; 9]).expect("a connection").is_none() {
                far.readable(Fault::ResponseTimeout).await.expect("in time");
            }
            handle.sleep_until(monotonic_ns() + 50_000).await;
        }
        told.set(Some(handle.take_ready_work()));
        assert_eq!(handle.take_ready_work(), ReadyWork::default());
    });
    executor.run(|| false).expect("the loop runs");
    let found = found.take().expect("the task has ended");
    assert!(
        found.batches >= ROUNDS && found.events >= found.batches,
        "{found:?}"
    );
    assert!(found.busy_ns > 0 && found.ready_ns >= found.busy_ns, "{found:?}");
}
