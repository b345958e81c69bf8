//! FastCGI 1.0 application: one persistent process with one thread per server connection.
//!
//! Responder role only, one request at a time per connection (`FCGI_MPXS_CONNS=0`). The size of parameters
//! and the number of connections are limited.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::Builder;

const VERSION: u8 = 1;
const BEGIN_REQUEST: u8 = 1;
const ABORT_REQUEST: u8 = 2;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const GET_VALUES: u8 = 9;
const GET_VALUES_RESULT: u8 = 10;
const UNKNOWN_TYPE: u8 = 11;
const RESPONDER: u16 = 1;
const KEEP_CONNECTION: u8 = 1;
const UNKNOWN_ROLE: u8 = 3;
const HEADER_BYTES: usize = 8;
const MOST_PARAMETER_BYTES: usize = 64 * 1024;
const MOST_CONNECTIONS: usize = 20_000;
const STACK_BYTES: usize = 64 * 1024;

/// The variables of one request.
pub(crate) type Variables = HashMap<Vec<u8>, Vec<u8>>;

/// Accepts connections on descriptor 0 (`FCGI_LISTENSOCK_FILENO`) forever. `answer` returns the whole CGI
/// response to a request.
pub(crate) fn serve(answer: fn(&Variables) -> Vec<u8>) -> io::Result<()> {
    let listener: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    let listener = UnixListener::from(listener);
    let connections = Arc::new(AtomicUsize::new(0));
    loop {
        let (stream, _) = listener.accept()?;
        if connections.load(Ordering::Relaxed) >= MOST_CONNECTIONS {
            continue; // Dropping the connection closes it; the server then reports the error to its client.
        }
        connections.fetch_add(1, Ordering::Relaxed);
        let counted = connections.clone();
        let thread = Builder::new().stack_size(STACK_BYTES).spawn(move || {
            // Ignore protocol errors and closed connections: there is nobody to report them to.
            let _ended = converse(stream, answer);
            counted.fetch_sub(1, Ordering::Relaxed);
        });
        if thread.is_err() {
            connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

struct Record {
    kind: u8,
    request: u16,
    content: Vec<u8>,
}

fn converse(mut stream: UnixStream, answer: fn(&Variables) -> Vec<u8>) -> io::Result<()> {
    let mut under_way: Option<(u16, bool, Vec<u8>)> = None;
    while let Some(record) = read_record(&mut stream)? {
        match (record.kind, &mut under_way) {
            (BEGIN_REQUEST, begun) => {
                let [high, low, flags, ..] = record.content[..] else {
                    return Err(io::ErrorKind::InvalidData.into());
                };
                let keep = flags & KEEP_CONNECTION != 0;
                if u16::from_be_bytes([high, low]) == RESPONDER {
                    *begun = Some((record.request, keep, Vec::new()));
                } else {
                    stream.write_all(&end(record.request, UNKNOWN_ROLE))?;
                }
            }
            (GET_VALUES, _) => stream.write_all(&record_of(GET_VALUES_RESULT, 0, &VALUES))?,
            (PARAMS, Some((_, _, parameters))) => {
                parameters.extend_from_slice(&record.content);
                if parameters.len() > MOST_PARAMETER_BYTES {
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
            // End of the body, which the page ignores.
            (STDIN, Some((request, keep, parameters))) if record.content.is_empty() => {
                let variables = variables(parameters).ok_or(io::ErrorKind::InvalidData)?;
                let body = answer(&variables);
                let (request, keep) = (*request, *keep);
                let mut sent = record_of(STDOUT, request, &body);
                sent.extend(record_of(STDOUT, request, &[]));
                sent.extend(end(request, 0));
                stream.write_all(&sent)?;
                under_way = None;
                if !keep {
                    return Ok(());
                }
            }
            (ABORT_REQUEST, begun) => {
                stream.write_all(&end(record.request, 0))?;
                *begun = None;
            }
            (PARAMS | STDIN, _) => {}
            (kind, _) => stream.write_all(&record_of(UNKNOWN_TYPE, 0, &[kind, 0, 0, 0, 0, 0, 0, 0]))?,
        }
    }
    Ok(())
}

/// Name-value pair `FCGI_MPXS_CONNS` = `0`.
const VALUES: [u8; 18] = *b"\x0f\x01FCGI_MPXS_CONNS0";

fn read_record(stream: &mut impl Read) -> io::Result<Option<Record>> {
    let mut header = [0; HEADER_BYTES];
    match stream.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let [version, kind, request_high, request_low, length_high, length_low, padding, _] = header;
    if version != VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let length = usize::from(u16::from_be_bytes([length_high, length_low]));
    let mut content = vec![0; length + usize::from(padding)];
    stream.read_exact(&mut content)?;
    content.truncate(length);
    Ok(Some(Record {
        kind,
        request: u16::from_be_bytes([request_high, request_low]),
        content,
    }))
}

/// Encodes a record of less than 64 KiB.
fn record_of(kind: u8, request: u16, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap_or(u16::MAX);
    let ([request_high, request_low], [length_high, length_low]) =
        (request.to_be_bytes(), length.to_be_bytes());
    let header = [
        VERSION,
        kind,
        request_high,
        request_low,
        length_high,
        length_low,
        0,
        0,
    ];
    [&header, &content[..usize::from(length)]].concat()
}

fn end(request: u16, protocol_status: u8) -> Vec<u8> {
    record_of(END_REQUEST, request, &[0, 0, 0, 0, protocol_status, 0, 0, 0])
}

/// Parses name-value pairs (FastCGI 1.0, section 3.4). Returns None if a length exceeds the data.
fn variables(mut bytes: &[u8]) -> Option<Variables> {
    let mut found = Variables::new();
    while !bytes.is_empty() {
        let name_length = take_length(&mut bytes)?;
        let value_length = take_length(&mut bytes)?;
        let (name, rest) = bytes.split_at_checked(name_length)?;
        let (value, rest) = rest.split_at_checked(value_length)?;
        found.insert(name.to_vec(), value.to_vec());
        bytes = rest;
    }
    Some(found)
}

fn take_length(bytes: &mut &[u8]) -> Option<usize> {
    let (first, rest) = bytes.split_first()?;
    if first & 0x80 == 0 {
        *bytes = rest;
        return Some(usize::from(*first));
    }
    let (four, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    usize::try_from(u32::from_be_bytes(*four) & 0x7fff_ffff).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(variables: &Variables) -> Vec<u8> {
        variables.get(&b"QUERY_STRING"[..]).cloned().unwrap_or_default()
    }

    /// Returns the application's answer to `sent`, followed by the end of the stream.
    fn conversation(sent: &[u8]) -> Vec<u8> {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        let application = std::thread::spawn(move || converse(ours, echo));
        theirs.write_all(sent).expect("it listens");
        theirs
            .shutdown(std::net::Shutdown::Write)
            .expect("it is connected");
        let mut answered = Vec::new();
        theirs.read_to_end(&mut answered).expect("an end");
        let _ended = application.join().expect("no panic");
        answered
    }

    fn begin(request: u16, role: u8, flags: u8) -> Vec<u8> {
        record_of(BEGIN_REQUEST, request, &[0, role, flags, 0, 0, 0, 0, 0])
    }

    fn asked(request: u16, flags: u8, parameters: &[u8]) -> Vec<u8> {
        let (split, rest) = parameters.split_at(parameters.len() / 2);
        [
            begin(request, 1, flags),
            record_of(PARAMS, request, split),
            record_of(PARAMS, request, rest),
            record_of(PARAMS, request, &[]),
            record_of(STDIN, request, b"ignored"),
            record_of(STDIN, request, &[]),
        ]
        .concat()
    }

    fn answered(request: u16, body: &[u8]) -> Vec<u8> {
        [
            record_of(STDOUT, request, body),
            record_of(STDOUT, request, &[]),
            end(request, 0),
        ]
        .concat()
    }

    #[test]
    fn requests_on_a_kept_connection_are_answered_in_order() {
        let long = "y".repeat(200);
        let parameters = [b"\x0c\x01QUERY_STRINGx".to_vec(), {
            let mut pair = vec![2, 0x80, 0, 0, 200];
            pair.extend_from_slice(b"AB");
            pair.extend_from_slice(long.as_bytes());
            pair
        }]
        .concat();
        let sent = [
            asked(1, KEEP_CONNECTION, &parameters),
            asked(7, KEEP_CONNECTION, b"\x0c\x02QUERY_STRINGzz"),
        ]
        .concat();
        assert_eq!(
            conversation(&sent),
            [answered(1, b"x"), answered(7, b"zz")].concat()
        );
    }

    #[test]
    fn without_the_keep_flag_the_connection_ends_after_the_answer() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        let application = std::thread::spawn(move || converse(ours, echo));
        theirs.write_all(&asked(1, 0, b"")).expect("it listens");
        let mut heard = Vec::new();
        theirs.read_to_end(&mut heard).expect("an end"); // our end is still open
        assert_eq!(heard, answered(1, b""));
        application.join().expect("no panic").expect("an ordinary end");
    }

    #[test]
    fn other_roles_and_records_are_refused_as_the_protocol_requires() {
        assert_eq!(conversation(&begin(3, 2, 1)), end(3, UNKNOWN_ROLE));
        let unknown = record_of(UNKNOWN_TYPE, 0, &[99, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(conversation(&record_of(99, 0, b"")), unknown);
        let values = record_of(GET_VALUES_RESULT, 0, &VALUES);
        assert_eq!(conversation(&record_of(GET_VALUES, 0, b"")), values);
    }

    #[test]
    fn broken_records_end_the_connection_without_an_answer() {
        for sent in [
            b"\x02\x01\0\x01\0\0\0\0".to_vec(),
            record_of(BEGIN_REQUEST, 1, b""),
            asked(1, 0, b"\x7f\x01x"),
            asked(1, 0, b"\xff\xff"),
            [
                begin(1, 1, 0),
                record_of(PARAMS, 1, &[1; 60_000]),
                record_of(PARAMS, 1, &[1; 60_000]),
            ]
            .concat(),
        ] {
            assert_eq!(conversation(&sent), b"", "{:?}", &sent[..sent.len().min(40)]);
        }
    }
}
