//! A socket report must reach its task, regardless of what the task waits for at that moment.

use dyno_measure::{monotonic_ns, Fault, NS_PER_S};
use dyno_net::{Dialer, Executor, Idle, Socket};
use std::cell::Cell;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::rc::Rc;

const LATE: Fault = Fault::ResponseTimeout;
/// Larger than the buffers of both sides.
const MUCH_BYTES: usize = 64 * 1024 * 1024;

/// Connects a task to a peer on another thread. The event must arrive long before the task's deadline.
fn check<Work: Future<Output = ()>>(
    peer: impl FnOnce(TcpStream) + Send + 'static,
    task: impl FnOnce(Executor, Socket) -> Work + 'static,
) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    let peer = std::thread::spawn(move || peer(listener.accept().expect("the task connects").0));
    let executor = Executor::new().expect("an epoll instance");
    let (handle, in_time) = (executor.clone(), Rc::new(Cell::new(false)));
    let noted = in_time.clone();
    executor.spawn(async move {
        handle.set_deadline(monotonic_ns() + 20 * NS_PER_S);
        let socket = Dialer::new(handle.clone(), address, 0)
            .dial(None)
            .expect("it connects");
        task(handle.clone(), socket).await;
        noted.set(!handle.deadline_passed());
    });
    executor.run(|| false).expect("the loop runs");
    assert!(in_time.get(), "only the deadline woke the task");
    peer.join().expect("the peer is content");
}

#[test]
fn data_that_arrive_while_a_task_waits_to_send_are_read_afterwards() {
    check(
        |mut stream| {
            stream.write_all(b"x").expect("the task is there");
            let taken = std::io::copy(&mut (&stream).take(MUCH_BYTES as u64), &mut std::io::sink());
            assert_eq!(taken.ok(), Some(MUCH_BYTES as u64));
            // Closing would be another event, so the peer stays open until the task has ended.
            assert_eq!(stream.read(&mut [0]).ok(), Some(0));
        },
        |_, socket| async move {
            socket
                .send_all(&vec![0; MUCH_BYTES], LATE)
                .await
                .expect("all is taken");
            socket.readable(LATE).await.expect("it has arrived long since");
            assert_eq!(socket.try_receive(&mut [0; 9]), Ok(Some(1)));
        },
    );
}

/// The task sleeps until the peer has acted. Then the connection must be in the expected state.
fn check_idle(expected: Idle, peer: impl FnOnce(&mut TcpStream) + Send + 'static) {
    check(
        move |mut stream| {
            stream.read_exact(&mut [0]).expect("the task says hello");
            stream.write_all(b"y").expect("the task is there");
            // The task confirms that it has read the byte.
            stream.read_exact(&mut [0]).expect("the task has heard");
            peer(&mut stream);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        },
        move |executor, socket| async move {
            socket.send_first(b"x").await.expect("the peer is there");
            while socket.try_receive(&mut [0]) == Ok(None) {
                socket.readable(LATE).await.expect("the peer answers");
            }
            socket.send_all(b"x", LATE).await.expect("the peer is there");
            let mut idle = socket.after_idling();
            while idle == Idle::Quiet && expected != Idle::Quiet && !executor.deadline_passed() {
                executor.sleep_until(monotonic_ns() + 1_000_000).await;
                idle = socket.after_idling();
            }
            assert_eq!(idle, expected);
        },
    );
}

#[test]
fn an_end_during_a_sleep_is_noticed() {
    check_idle(Idle::Ended, |stream| {
        stream.shutdown(Shutdown::Write).expect("it is connected")
    });
    check_idle(Idle::Ended, |stream| {
        stream.shutdown(Shutdown::Both).expect("it is connected")
    });
}

#[test]
fn bytes_that_arrive_during_a_sleep_are_noticed() {
    check_idle(Idle::Spoke, |stream| {
        stream.write_all(b"more").expect("the task is there")
    });
}

#[test]
fn a_connection_without_events_stays_usable() {
    check_idle(Idle::Quiet, |_| {});
}
