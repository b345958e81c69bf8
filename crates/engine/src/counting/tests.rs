//! Tests which operations a tally counts, and where.

use super::*;
use dyno_http::Exchange;
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
        cost: Exchange {
            received_bytes: 100,
            sent_bytes: 50,
            connect_ns: Some(5),
            connections: 1,
            ..Exchange::default()
        },
        session_lost: false,
    }
}

/// Creates a tally of operations that end at `moments`.
fn tally(result: Result<(), Failure>, moments: &[u64]) -> LevelTally {
    let mut tally = Tally::new(
        WINDOW,
        &["none".to_owned(), "all".to_owned()],
        0..3,
        Arc::default(),
    );
    for moment in moments {
        tally.count(2, &ended(result), (moment.saturating_sub(1000), *moment), 1000);
    }
    tally.finish(0, |_| None)
}

/// Both sides of each limit: start, window open, window close, end.
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
fn only_operations_that_end_in_the_window_count_in_it_but_the_total_counts_all() {
    let tally = tally(Ok(()), &MOMENTS);
    assert_eq!(tally.operations_total, 7);
    assert_eq!((tally.by_operation[1].count, tally.by_operation[0].count), (2, 0));
    assert_eq!(tally.by_operation[1].bytes_read, 20);
    assert_eq!(tally.by_operation[1].bytes_written, 14);
    assert_eq!(
        (tally.by_client[2].bytes_read, tally.by_client[2].bytes_written),
        (20, 14)
    );
    assert_eq!((tally.bytes_in, tally.bytes_out), (200, 100));
    assert_eq!((tally.response_time.count(), tally.connect_time.count()), (2, 2));
    assert_eq!(
        (tally.by_client[2].operations, tally.by_client[2].bytes_in),
        (2, 200)
    );
    assert_eq!(tally.generator.connections, 7);
    // Two of the operations of 1000 ns were in progress when the window ended.
    assert_eq!(tally.outstanding_ns, 2 * 1000);
    let seconds: Vec<u64> = tally.by_second.iter().map(|second| second.operations).collect();
    assert_eq!(seconds, [1, 1, 1, 0, 0, 0, 1, 1, 0, 1, 1]);
}

#[test]
fn a_failure_is_counted_once_and_does_not_change_the_figures_of_successes() {
    let tally = tally(Err(Fault::WrongLength.into()), &MOMENTS);
    let [fault] = &tally.errors[..] else {
        panic!("{:?}", tally.errors)
    };
    assert_eq!(
        (fault.fault.as_str(), fault.count, fault.in_window),
        ("wrong_length", 7, 2)
    );
    assert_eq!((tally.by_operation[1].errors, tally.by_client[2].errors), (2, 7));
    assert_eq!((tally.operations_total, tally.by_operation[1].count), (0, 0));
    assert_eq!(
        (tally.bytes_in, tally.bytes_out, tally.response_time.count()),
        (0, 0, 0)
    );
    assert_eq!(tally.by_second.iter().map(|second| second.errors).sum::<u64>(), 7);
}

#[test]
fn an_operation_that_times_out_after_the_window_is_unanswered_and_not_an_error() {
    let count = |fault: Fault, response_ns: u64| {
        let live = Arc::new(Live::default());
        let mut tally = Tally::new(WINDOW, &["a".to_owned(), "b".to_owned()], 0..3, live);
        for elapsed_ns in [6 * NS_PER_S, 8 * NS_PER_S] {
            let begun_ns = elapsed_ns - response_ns;
            tally.count(2, &ended(Err(fault.into())), (begun_ns, elapsed_ns), response_ns);
        }
        let tally = tally.finish(1, |_| None);
        let rows = tally.errors.iter().map(|row| (row.fault.clone(), row.count));
        (tally.under_way_at_close, rows.collect::<Vec<_>>())
    };
    let row = |fault: &str, count| (fault.to_owned(), count);
    assert_eq!(
        count(Fault::ResponseTimeout, 2 * NS_PER_S),
        (1, vec![row("response_timeout", 1), row(UNANSWERED, 1)])
    );
    // The second operation began after the window closed. A wrong answer is an error, even after the window.
    assert_eq!(
        count(Fault::ResponseTimeout, NS_PER_S / 2),
        (0, vec![row("response_timeout", 2)])
    );
    assert_eq!(
        count(Fault::WrongContent, 2 * NS_PER_S),
        (1, vec![row("wrong_content", 2)])
    );
}

#[test]
fn the_parts_of_several_threads_add_up() {
    let mut sum = tally(Ok(()), &MOMENTS);
    sum.merge(tally(Err(Fault::ClosedEarly.into()), &MOMENTS));
    sum.merge(tally(Err(Fault::ClosedEarly.into()), &MOMENTS[..3]));
    sum.merge(tally(Ok(()), &[25 * NS_PER_S]));
    assert_eq!((sum.operations_total, sum.by_operation[1].count), (8, 2));
    assert_eq!(
        (sum.errors.len(), sum.errors[0].count, sum.errors[0].in_window),
        (1, 10, 3)
    );
    assert_eq!(sum.by_second.len(), 26);
    assert_eq!((sum.by_client.len(), sum.by_client[2].errors), (3, 10));
    assert_eq!((sum.response_time.count(), sum.generator.connections), (2, 18));
}
