//! Wrong answers to one kind of request, and their effect on the client.

use crate::answers::{message, random, with, End, Twist, LOST};
use crate::scripted::{
    CLOSE, CREATE, NEGOTIATE, QUERY_DIRECTORY, QUERY_INFO, READ, SESSION_SETUP, TREE_CONNECT, WRITE,
};
use dyno_measure::Fault;

/// Answers to one kind of request, during the session setup and after the session has worked.
pub const OF_ONE: &[(&str, u16, Twist, End)] = &[
    (
        "no dialect",
        NEGOTIATE,
        |_, honest| with(honest, 68, &[0, 0]),
        LOST,
    ),
    (
        "a dialect that nobody offered",
        NEGOTIATE,
        |_, honest| with(honest, 68, &[0x11, 3]),
        LOST,
    ),
    (
        "the wildcard dialect",
        NEGOTIATE,
        |_, honest| with(honest, 68, &[0xff, 2]),
        LOST,
    ),
    (
        "reads of nothing",
        NEGOTIATE,
        |_, honest| with(honest, 96, &[0; 4]),
        LOST,
    ),
    (
        "writes of nothing",
        NEGOTIATE,
        |_, honest| with(honest, 100, &[0; 4]),
        LOST,
    ),
    (
        "reads of one byte",
        NEGOTIATE,
        |_, honest| with(honest, 96, &[1, 0, 0, 0]),
        LOST,
    ),
    (
        "reads and writes without bound",
        NEGOTIATE,
        |_, honest| with(honest, 92, &[0xff; 12]),
        None,
    ),
    (
        "a token beyond the end",
        NEGOTIATE,
        |_, honest| with(honest, 120, &[0xff; 4]),
        LOST,
    ),
    (
        "a challenge of noise",
        SESSION_SETUP,
        |_, honest| with(honest, 72, &random(64)),
        LOST,
    ),
    (
        "a challenge within the header",
        SESSION_SETUP,
        |_, honest| with(honest, 68, &[8, 0]),
        LOST,
    ),
    (
        "a challenge beyond the end",
        SESSION_SETUP,
        |_, honest| with(honest, 70, &[0xff, 0xff]),
        LOST,
    ),
    (
        "challenges without end",
        SESSION_SETUP,
        |_, honest| with(honest, 8, &[0x16, 0, 0, 0xc0]),
        Some(Fault::SessionRefused),
    ),
    (
        "a share of a printer",
        TREE_CONNECT,
        |_, honest| with(honest, 66, &[3]),
        Some(Fault::SessionRefused),
    ),
    (
        "another session's share",
        TREE_CONNECT,
        |_, honest| with(honest, 40, &[1; 8]),
        LOST,
    ),
    (
        "contexts beyond the end",
        CREATE,
        |_, honest| with(honest, 144, &[0xff; 8]),
        LOST,
    ),
    (
        "contexts within the header",
        CREATE,
        |_, honest| with(honest, 144, &[1, 0, 0, 0, 1, 0, 0, 0]),
        LOST,
    ),
    (
        "a lease without a context",
        CREATE,
        |_, honest| with(honest, 66, &[0xff]),
        LOST,
    ),
    (
        "an oplock that there is not",
        CREATE,
        |_, honest| with(honest, 66, &[0x42]),
        None,
    ),
    (
        "an end beyond all files",
        CREATE,
        |_, honest| with(honest, 104, &[0xff; 16]),
        None,
    ),
    (
        "a directory instead of a file",
        CREATE,
        |_, honest| with(honest, 120, &[0x10]),
        None,
    ),
    (
        "more data than was asked for",
        READ,
        |_, honest| with(honest, 68, &[0xff, 0xff, 0x0f, 0]),
        LOST,
    ),
    (
        "data before their place",
        READ,
        |_, honest| with(honest, 66, &[8]),
        LOST,
    ),
    (
        "data behind the end",
        READ,
        |_, honest| with(honest, 66, &[0xff]),
        LOST,
    ),
    (
        "no data and no end",
        READ,
        |_, honest| {
            let mut none = honest[..80].to_vec();
            none[68..72].fill(0);
            message(none)
        },
        None,
    ),
    (
        "one byte of data",
        READ,
        |_, honest| {
            let mut one = honest[..81].to_vec();
            one[68..72].copy_from_slice(&[1, 0, 0, 0]);
            message(one)
        },
        None,
    ),
    (
        "more written than was sent",
        WRITE,
        |_, honest| with(honest, 68, &[0xff; 4]),
        LOST,
    ),
    (
        "nothing written",
        WRITE,
        |_, honest| with(honest, 68, &[0; 4]),
        Some(Fault::WrongLength),
    ),
    (
        "an end beyond all files, later",
        QUERY_INFO,
        |_, honest| with(honest, 72 + 32, &[0xff; 16]),
        None,
    ),
    (
        "information of no length",
        QUERY_INFO,
        |_, honest| with(honest, 68, &[0; 4]),
        LOST,
    ),
    (
        "information beyond the end",
        QUERY_INFO,
        |_, honest| with(honest, 68, &[0xff; 4]),
        LOST,
    ),
    (
        "units that overflow",
        QUERY_INFO,
        |_, honest| with(honest, 72, &[0xff; 32]),
        None,
    ),
    (
        "a listing that goes back",
        QUERY_DIRECTORY,
        |_, honest| with(honest, 72, &[0xf8, 0xff, 0xff, 0xff]),
        LOST,
    ),
    (
        "a listing that stands still",
        QUERY_DIRECTORY,
        |_, honest| with(honest, 72, &[1, 0, 0, 0]),
        LOST,
    ),
    (
        "a name beyond the listing",
        QUERY_DIRECTORY,
        |_, honest| with(honest, 72 + 60, &[0xff; 4]),
        LOST,
    ),
    (
        "a name of odd length",
        QUERY_DIRECTORY,
        |_, honest| with(honest, 72 + 60, &[1]),
        None,
    ),
    (
        "another tree's file",
        CLOSE,
        |_, honest| with(honest, 36, &[0xee; 4]),
        LOST,
    ),
];
