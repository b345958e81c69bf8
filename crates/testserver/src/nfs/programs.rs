//! Replies of the portmapper and MOUNT. Both are available on every port of the server.

use super::host::Host;
use super::volume::Refused;
use dyno_nfs::status::{Status, Unaccepted};
use dyno_nfs::wire::{
    begin_reply, end_reply, parse_path, parse_port_of, reject, write_exports, Malformed, Mounted, Program,
    Rejection, Transport, Writer, AUTH_SYS, DIRECTORY, DUMP, EXPORT, GETPORT, MNT, MOUNT, NFS, UMNT, UMNTALL,
};
use std::sync::atomic::Ordering;

/// NFS version 4.
pub(super) const NFS4: Program = Program(NFS.0, 4);
const NULL: u32 = 0;

/// Answers the portmapper's procedures: NULL and GETPORT.
pub(super) fn answer_portmapper(host: &Host, xid: u32, procedure: u32, arguments: &[u8], out: &mut Vec<u8>) {
    answer(xid, out, |writer| {
        match procedure {
            NULL => {}
            GETPORT => {
                let is_served = match parse_port_of(arguments)? {
                    Some((program, Transport::Tcp)) => [NFS, NFS4, MOUNT].contains(&program),
                    Some((program, Transport::Udp)) => host.options.udp && [NFS, MOUNT].contains(&program),
                    None => false,
                };
                let port = host.port.load(Ordering::Relaxed);
                writer.u32(if is_served { port.into() } else { 0 });
            }
            _ => return Ok(Some(Unaccepted::ProcUnavail)),
        }
        Ok(None)
    });
}

/// Answers MOUNT's procedures. Mounts are not recorded: DUMP's list is empty.
pub(super) fn answer_mount(host: &Host, xid: u32, procedure: u32, arguments: &[u8], out: &mut Vec<u8>) {
    answer(xid, out, |writer| {
        match procedure {
            NULL | UMNTALL => {}
            MNT => match mount(host, parse_path(arguments)?) {
                Ok(mounted) => mounted.write(writer.u32(Status::Ok as u32)),
                Err(Refused(status)) => {
                    writer.u32(status as u32);
                }
            },
            DUMP => {
                writer.u32(0);
            }
            UMNT => {
                parse_path(arguments)?;
            }
            EXPORT => write_exports(host.exports.iter().map(|export| export.name.as_str()), writer),
            _ => return Ok(Some(Unaccepted::ProcUnavail)),
        }
        Ok(None)
    });
}

/// Writes a reply with the results that `write` appends, or with the error that `write` returns.
fn answer(
    xid: u32,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Writer<'_>) -> Result<Option<Unaccepted>, Malformed>,
) {
    let start = begin_reply(out, xid);
    let unaccepted = match write(&mut Writer(out)) {
        Ok(None) => return end_reply(out, start),
        Ok(Some(unaccepted)) => unaccepted,
        Err(Malformed) => Unaccepted::GarbageArgs,
    };
    out.truncate(start);
    reject(out, xid, Rejection::Unaccepted(unaccepted));
}

/// Returns the root of an export, or a directory below it.
fn mount(host: &Host, path: &[u8]) -> Result<Mounted, Refused> {
    let below = |export: &str| -> Option<Vec<u8>> {
        let rest = path.strip_prefix(export.as_bytes())?;
        (rest.is_empty() || rest.starts_with(b"/")).then(|| rest.to_vec())
    };
    let found = host
        .exports
        .iter()
        .find_map(|export| Some((export, below(&export.name)?)));
    let (export, rest) = found.ok_or(Status::NoEnt)?;
    let volume = export.lock();
    let mut at = volume.files.root();
    for name in rest.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        if matches!(name, b"." | b"..") {
            return Err(Status::Inval.into());
        }
        at = volume.files.look_up(at, name)?;
    }
    if volume.attributes(at).kind != DIRECTORY {
        return Err(Status::NotDir.into());
    }
    Ok(Mounted {
        root: volume.handle(at)?,
        flavors: vec![AUTH_SYS],
    })
}
