//! Wakes between tasks and from other threads, and futures of other libraries on this loop.

use dyno_measure::{monotonic_ns, Fault, NS_PER_S};
use dyno_net::{Dialer, Executor, Listener, Socket};
use futures::channel::{mpsc, oneshot};
use futures::future::{join, select, Either};
use futures::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{FutureExt, SinkExt};
use std::cell::{Cell, RefCell};
use std::future::{poll_fn, Future};
use std::io;
use std::pin::{pin, Pin};
use std::rc::Rc;
use std::task::{ready, Context, Poll, Waker};
use std::thread;
use std::time::Duration;

const LATE: Fault = Fault::ResponseTimeout;
/// If wakes are lost, the loop and its test end after this time.
const LIMIT_NS: u64 = 120 * NS_PER_S;
/// Larger than the buffers of both sides.
const MUCH_BYTES: usize = 16 * 1024 * 1024;
const ECHOED_BYTES: usize = 2 * 1024 * 1024;

/// Runs the tasks that `begin` spawns. Each holds a copy of the token, and all must end long before the
/// limit.
fn check(begin: impl FnOnce(&Executor, Rc<()>)) {
    let executor = Executor::new().expect("an epoll instance");
    let token = Rc::new(());
    begin(&executor, token.clone());
    let until_ns = monotonic_ns() + LIMIT_NS;
    let stopped = Cell::new(false);
    executor
        .run(|| {
            stopped.set(monotonic_ns() >= until_ns);
            stopped.get()
        })
        .expect("the loop runs");
    assert!(!stopped.get(), "a task was not called");
    assert_eq!(Rc::strong_count(&token), 1, "a task is left");
}

async fn pair(executor: &Executor) -> (Socket, Socket) {
    let listener = Listener::bind(executor, ([127, 0, 0, 1], 0).into(), false).expect("a port is free");
    let address = listener.address().expect("it listens");
    let near = Dialer::new(executor.clone(), address, 0)
        .dial(None)
        .expect("it connects");
    (near, listener.accept().await.expect("somebody connects"))
}

async fn receive(socket: &Socket, most: usize) -> usize {
    let mut buffer = vec![0; most];
    loop {
        if let Some(count) = socket.try_receive(&mut buffer).expect("a connection") {
            return count;
        }
        socket.readable(LATE).await.expect("in time");
    }
}

#[test]
fn a_task_wakes_another_that_has_no_socket_or_timer() {
    check(|executor, token| {
        let (sender, receiver) = oneshot::channel();
        let held = token.clone();
        executor.spawn(async move {
            let _held = held;
            assert_eq!(receiver.await, Ok(7));
        });
        executor.spawn(async move {
            let _held = token;
            sender.send(7).expect("somebody waits");
        });
    });
}

#[test]
fn tasks_that_wake_each_other_continue_until_they_are_done() {
    check(|executor, token| {
        let (mut ping, mut pinged) = mpsc::channel(0);
        let (mut pong, mut ponged) = mpsc::channel(0);
        let held = token.clone();
        executor.spawn(async move {
            let _held = held;
            for number in 0..10_000 {
                ping.send(number).await.expect("somebody listens");
                assert_eq!(ponged.next().await, Some(number));
            }
        });
        executor.spawn(async move {
            let _held = token;
            while let Some(number) = pinged.next().await {
                pong.send(number).await.expect("somebody listens");
            }
        });
    });
}

#[test]
fn tasks_that_wake_each_other_for_ever_let_timers_and_sockets_run() {
    check(|executor, token| {
        let over = Rc::new(Cell::new(false));
        let (handle, seen) = (executor.clone(), over.clone());
        executor.spawn(async move {
            poll_fn(|context| {
                context.waker().wake_by_ref();
                if seen.get() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        });
        executor.spawn(async move {
            let _held = token;
            let (near, far) = pair(&handle).await;
            handle.sleep_until(monotonic_ns() + 1_000_000).await;
            near.send_all(b"x", LATE).await.expect("a connection");
            assert_eq!(receive(&far, 9).await, 1);
            over.set(true);
        });
    });
}

#[test]
fn another_thread_wakes_a_task_while_the_loop_waits_for_events() {
    check(|executor, token| {
        let (sender, receiver) = oneshot::channel();
        let calling = Rc::new(RefCell::new(None));
        let (held, thread) = (token.clone(), calling.clone());
        executor.spawn(async move {
            let _held = held;
            *thread.borrow_mut() = Some(thread::spawn(move || {
                // The loop may already be waiting, or not. No wake may be lost in either case.
                thread::sleep(Duration::from_millis(3));
                sender.send(7)
            }));
            assert_eq!(receiver.await, Ok(7));
        });
        drop(token);
    });
}

#[test]
fn many_wakes_from_many_threads_all_arrive() {
    const EACH: usize = 2_000;
    check(|executor, token| {
        let (sender, mut receiver) = mpsc::unbounded();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let sender = sender.clone();
                thread::spawn(move || {
                    for number in 0..EACH {
                        sender.unbounded_send(number).expect("somebody listens");
                        if number % 64 == 0 {
                            thread::sleep(Duration::from_micros(50));
                        }
                    }
                })
            })
            .collect();
        drop(sender);
        executor.spawn(async move {
            let _held = token;
            let mut received = 0;
            while receiver.next().await.is_some() {
                received += 1;
            }
            assert_eq!(received, threads.len() * EACH);
            for thread in threads {
                thread.join().expect("it ends");
            }
        });
    });
}

#[test]
fn a_wake_before_the_loop_runs_is_kept() {
    check(|executor, token| {
        let (sender, receiver) = oneshot::channel();
        executor.spawn(async move {
            let _held = token;
            assert_eq!(receiver.await, Ok(7));
        });
        sender.send(7).expect("somebody waits");
    });
}

async fn own_waker() -> Waker {
    poll_fn(|context| Poll::Ready(context.waker().clone())).await
}

#[test]
fn a_wake_after_the_end_of_a_task_or_loop_is_harmless() {
    let kept = Rc::new(RefCell::new(None));
    check(|executor, token| {
        let (early, late, handle) = (kept.clone(), kept.clone(), executor.clone());
        executor.spawn(async move {
            early.replace(Some(own_waker().await));
        });
        executor.spawn(async move {
            let _held = token;
            handle.give_way().await;
            // The waker's task has ended and its number may be reused, so this wake must have no effect.
            let waker: Waker = late.borrow().clone().expect("it was revealed");
            waker.wake_by_ref();
            handle.sleep_until(monotonic_ns() + 1_000_000).await;
            waker.wake();
        });
    });
    let waker: Waker = kept.take().expect("it was revealed");
    waker.wake_by_ref();
    thread::spawn(move || waker.wake()).join().expect("it returns");
}

#[test]
fn a_task_that_is_woken_spuriously_continues_to_wait() {
    check(|executor, token| {
        let kept = Rc::new(RefCell::new(None));
        let waited = Rc::new(Cell::new(false));
        let (handle, held, revealed, done) = (executor.clone(), token.clone(), kept.clone(), waited.clone());
        executor.spawn(async move {
            let _held = held;
            revealed.replace(Some(own_waker().await));
            let (near, far) = pair(&handle).await;
            let due_ns = monotonic_ns() + 30_000_000;
            let sending = async {
                handle.sleep_until(due_ns).await;
                assert!(monotonic_ns() >= due_ns);
                near.send_all(b"x", LATE).await.expect("a connection");
            };
            let receiving = async {
                far.readable(LATE).await.expect("in time");
                assert!(monotonic_ns() >= due_ns, "readable without an arrival");
            };
            join(sending, receiving).await;
            done.set(true);
        });
        let handle = executor.clone();
        executor.spawn(async move {
            let _held = token;
            handle.give_way().await;
            while !waited.get() {
                let waker: Option<Waker> = kept.borrow().clone();
                if let Some(waker) = waker {
                    waker.wake();
                }
                handle.sleep_until(monotonic_ns() + 100_000).await;
            }
        });
    });
}

#[test]
fn a_task_waits_for_two_sockets_at_once() {
    check(|executor, token| {
        let handle = executor.clone();
        executor.spawn(async move {
            let _held = token;
            let (first_near, first_far) = pair(&handle).await;
            let (second_near, second_far) = pair(&handle).await;
            let mut received = [0, 0];
            for round in 0..100 {
                let near = if round % 3 == 0 { &first_near } else { &second_near };
                near.send_all(b"x", LATE).await.expect("a connection");
                let (first, second) = (first_far.readable(LATE), second_far.readable(LATE));
                let number = match select(pin!(first), pin!(second)).await {
                    Either::Left((result, _)) => result.map(|()| 0),
                    Either::Right((result, _)) => result.map(|()| 1),
                }
                .expect("in time");
                assert_eq!(number, usize::from(round % 3 != 0));
                received[number] += receive([&first_far, &second_far][number], 9).await;
            }
            assert_eq!(received, [34, 66]);
        });
    });
}

#[test]
fn a_report_for_one_socket_of_a_task_does_not_affect_the_other() {
    check(|executor, token| {
        let handle = executor.clone();
        executor.spawn(async move {
            let _held = token;
            let (quiet_near, quiet_far) = pair(&handle).await;
            let (near, far) = pair(&handle).await;
            assert!(quiet_far.readable(LATE).now_or_never().is_none());
            near.send_all(b"x", LATE).await.expect("a connection");
            far.readable(LATE).await.expect("in time");
            drop(near);
            while !far.end_reported() {
                far.readable(LATE).await.expect("in time");
            }
            assert!(!quiet_far.end_reported());
            assert!(quiet_far.readable(LATE).now_or_never().is_none());
            drop(quiet_near);
            quiet_far.readable(LATE).await.expect("in time");
            assert!(quiet_far.end_reported());
        });
    });
}

#[test]
fn one_task_sends_and_another_receives_on_one_connection() {
    check(|executor, token| {
        let handle = executor.clone();
        executor.spawn(async move {
            let (near, far) = pair(&handle).await;
            for socket in [near, far] {
                let socket = Rc::new(socket);
                let (sending, held) = (socket.clone(), token.clone());
                handle.spawn(async move {
                    let _held = held;
                    sending
                        .send_all(&vec![0; MUCH_BYTES], LATE)
                        .await
                        .expect("all is taken");
                    sending.end_sending().expect("it is connected");
                });
                let held = token.clone();
                handle.spawn(async move {
                    let _held = held;
                    let mut received = 0;
                    loop {
                        match receive(&socket, 65_536).await {
                            0 => break,
                            count => received += count,
                        }
                    }
                    assert_eq!(received, MUCH_BYTES);
                });
            }
        });
    });
}

#[test]
fn futures_that_are_polled_separately_from_their_task_are_woken() {
    check(|executor, token| {
        let handle = executor.clone();
        executor.spawn(async move {
            let _held = token;
            let start_ns = monotonic_ns();
            let mut waits: FuturesUnordered<_> = (0..50u64)
                .map(|number| {
                    let handle = &handle;
                    async move {
                        let (near, far) = pair(handle).await;
                        handle.sleep_until(start_ns + (50 - number) * 200_000).await;
                        let sending = near.send_all(b"x", LATE).map(|sent| sent.expect("a connection"));
                        join(sending, receive(&far, 9)).await.1
                    }
                })
                .collect();
            let mut received = 0;
            while let Some(count) = waits.next().await {
                received += count;
            }
            assert_eq!(received, 50);
        });
    });
}

#[test]
fn a_deadline_ends_every_wait_of_its_task_but_of_no_other() {
    check(|executor, token| {
        let (handle, held) = (executor.clone(), token.clone());
        executor.spawn(async move {
            let _held = held;
            let (near, far) = pair(&handle).await;
            handle.set_deadline(monotonic_ns() + 30_000_000);
            let (one, other) = join(near.readable(LATE), far.readable(LATE)).await;
            assert_eq!(
                (one, other),
                (
                    Err(Fault::ResponseTimeout.into()),
                    Err(Fault::ResponseTimeout.into())
                )
            );
        });
        let handle = executor.clone();
        executor.spawn(async move {
            let _held = token;
            handle.sleep_until(monotonic_ns() + 100_000_000).await;
            assert!(!handle.deadline_passed());
        });
    });
}

#[test]
fn tasks_left_by_an_earlier_run_of_a_loop_do_not_affect_the_next() {
    let executor = Executor::new().expect("an epoll instance");
    let kept = Rc::new(RefCell::new(Vec::new()));
    for _ in 0..3 {
        let (handle, kept) = (executor.clone(), kept.clone());
        executor.spawn(async move {
            let waker = own_waker().await;
            kept.borrow_mut().push(waker);
            let _ = handle.sleep_until(monotonic_ns() + 1_000_000).now_or_never();
        });
    }
    executor.run(|| false).expect("the loop runs");
    let wakers: Vec<Waker> = kept.take();
    // Wake between the runs, and again in the second run, which has fewer tasks.
    wakers.iter().for_each(Waker::wake_by_ref);
    let handle = executor.clone();
    executor.spawn(async move {
        wakers.into_iter().for_each(Waker::wake);
        handle.sleep_until(monotonic_ns() + 2_000_000).await;
    });
    executor.run(|| false).expect("the loop runs");
}

/// Implements the traits that TLS and HTTP/2 libraries require of a connection.
struct Adapter(Socket);

fn broken<T>(_: T) -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl AsyncRead for Adapter {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(count) = self.0.try_receive(buffer).map_err(broken)? {
                return Poll::Ready(Ok(count));
            }
            ready!(self.0.poll_readable(context, LATE)).map_err(broken)?;
        }
    }
}

impl AsyncWrite for Adapter {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            if let Some(count) = self.0.try_send(bytes).map_err(broken)? {
                return Poll::Ready(Ok(count));
            }
            ready!(self.0.poll_writable(context, LATE)).map_err(broken)?;
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.end_sending().map_err(broken))
    }
}

#[test]
fn a_connection_implements_the_traits_that_libraries_require() {
    fn echo(adapter: Adapter) -> impl Future<Output = ()> {
        let (reader, mut writer) = adapter.split();
        async move {
            futures::io::copy(reader, &mut writer)
                .await
                .expect("a connection");
            writer.close().await.expect("it is connected");
        }
    }
    check(|executor, token| {
        let handle = executor.clone();
        executor.spawn(async move {
            let _held = token;
            let (near, far) = pair(&handle).await;
            handle.spawn(echo(Adapter(far)));
            let (mut reader, mut writer) = Adapter(near).split();
            let sent: Vec<u8> = (0..ECHOED_BYTES).map(|index| (index / 7) as u8).collect();
            let sending = async {
                writer.write_all(&sent).await.expect("a connection");
                writer.close().await.expect("it is connected");
            };
            let mut received = Vec::new();
            let (_, count) = join(sending, reader.read_to_end(&mut received)).await;
            assert_eq!(count.expect("a connection"), ECHOED_BYTES);
            assert!(received == sent, "other bytes came back");
        });
    });
}
