//! MOUNT and the portmapper, and calls to programs that don't exist.

use super::raw::{Raw, EXPORT, OK};
use dyno_nfs::status::Status;
use dyno_nfs::wire::{
    parse_port, Body, FileHandle, Program, Reader, Request, Writer, DUMP, GETPORT, MNT, MOUNT, NFS,
    PORTMAPPER, UMNTALL,
};
use dyno_nfs::wire::{EXPORT as LIST_EXPORTS, UMNT};
use dyno_testserver::nfs::{Options, Server};
use std::net::{Ipv4Addr, SocketAddr};

fn two_exports() -> Server {
    let options = Options {
        exports: vec!["/a".to_owned(), "/a/b".to_owned()],
        files: vec![("file".to_owned(), b"content".to_vec())],
        ..Options::on_loopback(EXPORT)
    };
    Server::start(&options).expect("it starts")
}

#[test]
fn exports_and_directories_below_them_are_mounted() {
    let server = two_exports();
    let mut raw = Raw::connect(server.address());
    let a = raw.mount("/a").expect("an export");
    assert_eq!(raw.mount("/a/"), Ok(a));
    let below = raw.make_directory(a, "below");
    assert_eq!(raw.mount("/a/below"), Ok(below));
    assert!(raw.look_up(a, "file").is_ok());
    for (path, status) in [
        ("/", Status::NoEnt),
        ("/ab", Status::NoEnt),
        ("/a/nothing", Status::NoEnt),
        ("/a/file", Status::NotDir),
        ("/a/..", Status::Inval),
    ] {
        assert_eq!(raw.mount(path), Err(status as u32), "{path}");
    }
    assert_eq!(raw.call(MOUNT, DUMP, &[]).1, [0; 4]);
    assert_eq!(raw.call(MOUNT, UMNTALL, &[]).1, [0_u8; 0]);
    let mut path = Vec::new();
    Writer(&mut path).opaque(b"/a");
    assert_eq!(raw.call(MOUNT, UMNT, &path).1, [0_u8; 0]);
    let (_, listed) = raw.call(MOUNT, LIST_EXPORTS, &[]);
    let mut reader = Reader::new(&listed);
    for path in [&b"/a"[..], b"/a/b"] {
        assert_eq!(
            (reader.bool(), reader.opaque(100), reader.u32()),
            (Ok(true), Ok(path), Ok(0))
        );
    }
    assert_eq!(reader.bool(), Ok(false));
}

#[test]
fn files_of_one_export_are_not_moved_to_another() {
    let options = Options {
        exports: vec!["/a".to_owned(), "/b".to_owned()],
        ..Options::on_loopback(EXPORT)
    };
    let server = Server::start(&options).expect("it starts");
    let mut raw = Raw::connect(server.address());
    let (a, b) = (
        raw.mount("/a").expect("an export"),
        raw.mount("/b").expect("an export"),
    );
    let file = raw.create(a, "x");
    let rename = Request::Rename {
        from_at: a,
        from: b"x",
        to_at: b,
        to: b"x",
    };
    assert_eq!(raw.ask(&rename).status, Status::XDev as u32);
    let (at, name) = (b, b"x".as_slice());
    assert_eq!(
        raw.ask(&Request::Link { file, at, name }).status,
        Status::XDev as u32
    );
    assert_ne!(raw.attributes(a).file_system, raw.attributes(b).file_system);
}

#[test]
fn the_portmapper_returns_the_port_of_services_over_tcp() {
    let options = Options {
        portmapper: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        ..Options::on_loopback(EXPORT)
    };
    let server = Server::start(&options).expect("it starts");
    let mut raw = Raw::connect(server.address());
    let mut port = |program: Program, protocol: u32| {
        let mut arguments = Vec::new();
        Writer(&mut arguments)
            .u32(program.0)
            .u32(program.1)
            .u32(protocol)
            .u32(0);
        parse_port(&raw.call(PORTMAPPER, GETPORT, &arguments).1).expect("a port")
    };
    assert_eq!(port(NFS, 6), Some(server.port()));
    assert_eq!(port(MOUNT, 6), Some(server.port()));
    assert_eq!(port(NFS, 17), None);
    assert_eq!(port(Program(NFS.0, 4), 6), Some(server.port()));
    assert_eq!(port(Program(NFS.0, 2), 6), None);
}

#[test]
fn an_unavailable_program_is_reported_and_the_connection_continues() {
    let server = two_exports();
    let mut raw = Raw::connect(server.address());
    for (program, procedure, unaccepted) in [
        (Program(100_227, 3), 0, 1),
        (Program(NFS.0, 2), 0, 2),
        (Program(NFS.0, 5), 0, 2),
        (Program(MOUNT.0, 1), 0, 2),
        (Program(PORTMAPPER.0, 4), 0, 2),
        (NFS, 22, 3),
        (MOUNT, 6, 3),
        (PORTMAPPER, 9, 3),
        (NFS, 1, 4),
        (MOUNT, MNT, 4),
    ] {
        let (body, _) = raw.call(program, procedure, &[]);
        assert_eq!(body, Body::Unaccepted(unaccepted), "{program:?} {procedure}");
    }
    assert!(raw.mount("/a").is_ok());
    let counted: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(counted, [("GETATTR", 1)], "what was not understood counts, too");
}

#[test]
fn handles_of_other_servers_are_refused() {
    let server = two_exports();
    let mut raw = Raw::connect(server.address());
    let root = raw.mount("/a").expect("an export");
    let mut other_server = root.as_bytes().to_vec();
    other_server[0] ^= 1;
    let mut no_export = root.as_bytes().to_vec();
    no_export[11] = 9;
    let mut no_file = root.as_bytes().to_vec();
    no_file[15] = 99;
    let longer = [root.as_bytes(), &[0; 4]].concat();
    for bytes in [other_server, no_export, no_file, longer, vec![]] {
        let file = FileHandle::of(&bytes).expect("short");
        let reply = raw.ask(&Request::GetAttributes { file });
        assert_eq!(reply.status, Status::Stale as u32);
    }
    assert_eq!(raw.ask(&Request::GetAttributes { file: root }).status, OK);
    assert_eq!(raw.ask(&Request::Null).status, OK);
}
