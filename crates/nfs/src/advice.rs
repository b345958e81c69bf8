//! Table of remedies for errors: whose fault it is, and which setting to change or which side to check. The first row
//! that applies is used.

use crate::session::Options;
use crate::status::{Denied, Status, Status4};
use crate::wire::Transport;
use crate::Refusal;
use dyno_files::{Hint, WRONG_CONTENT};
use dyno_measure::{Failure, Fault};
use dyno_net::{NO_CONNECTION, NO_FILES};

/// Returns a suggested remedy for a failure, or None if there is nothing to add to its message.
#[must_use]
pub fn advice(failure: &Failure, options: &Options) -> Option<&'static str> {
    Hint::first(HINTS, failure, Refusal::of, options)
}

type Row = Hint<Refusal, Options>;

fn as_root(options: &Options) -> bool {
    options.credential.uid == 0
}

fn by_version_4(options: &Options) -> bool {
    options.version.is_four()
}

fn by_version_3_over_tcp(options: &Options) -> bool {
    !by_version_4(options) && !over_udp(options)
}

fn over_udp(options: &Options) -> bool {
    options.transport == Transport::Udp
}

const NO_ENTRY: &[u32] = &[Status::NoEnt as u32];
const GRACE: &[u32] = &[Status4::Grace as u32];
const DENIED: &[u32] = &[Status::Perm as u32, Status::Access as u32];
const LOW_PORT: &str =
    "The server may accept requests only from ports below 1024: run dyno as root, or give the export the \
     option insecure (Ganesha: PrivilegedPort = false). Otherwise, allow sec=sys on the export: Kerberos is \
     not supported.";

#[rustfmt::skip]
const HINTS: &[Row] = &[
    Row::failed(Fault::NoFiles, &[], NO_FILES),
    Row::failed(Fault::ConnectionRefused, &[], "Nothing listens on one of the ports (nfsport, mountport): start the server, or correct the ports. A server that only speaks NFSv4 has no mountport: measure it with ?vers=4.1.").when(by_version_3_over_tcp),
    Row::failed(Fault::ConnectionRefused, &[], "Start the server, or check the port: nothing listens there. The usual port is 2049.").when(by_version_4),
    Row::failed(Fault::ConnectionRefused, &[], "Start the server, or check the port: nothing listens there. The usual port is 2049. UDP (proto=udp) is often disabled."),
    Row::failed(
        Fault::ConnectTimeout,
        &[],
        NO_CONNECTION,
    ),
    Row::failed(Fault::Unreachable, &[], "The host does not answer: check the address, and that no firewall blocks the connection."),
    Row::failed(Fault::ResponseTimeout, GRACE, "The server has restarted, and waits for its previous clients to reconnect (NFSv4). Wait for its grace period to end, usually 90 s, and start again. Linux: nfsv4gracetime; Ganesha: Grace_Period, or Graceless = true."),
    Row::failed(Fault::ResponseTimeout, &[], "The server accepts connections, but does not answer in time: look at its log. A sleeping disk may delay the first access: open the export once, and start again, or raise timeout_s of the suite. Also check that the port is that of an NFS server."),
    Row::failed(Fault::ClosedEarly, &[], "The server closed the connection: check the port, whether the server still runs, and its log. Some servers limit the number of connections (Ganesha: RPC_Max_Connections, 1024 by default). Others refuse clients whose port is above 1023."),
    Row::failed(Fault::ConnectionReset, &[], "The server closed the connection: check the port, whether the server still runs, and its log. Some servers limit the number of connections (Ganesha: RPC_Max_Connections, 1024 by default). Others refuse clients whose port is above 1023."),
    Row::failed(Fault::MalformedMessage, &[], "The server violates the protocol. Check the port, and report this with the server's version."),

    Row::failed(Fault::AccessDenied, &[Denied::TooWeak as u32], LOW_PORT),
    Row::failed(Fault::AccessDenied, &[Status::RoFs as u32], "The export is read-only: export it with rw (Ganesha: Access_Type = RW), and make the file system below it writable. The server's pseudo root is always read-only: name an export below it.").when(by_version_4),
    Row::failed(Fault::AccessDenied, &[Status::RoFs as u32], "The export is read-only: export it with rw (Ganesha: Access_Type = RW), and make the file system below it writable."),
    Row::failed(Fault::AccessDenied, &[], "The server maps root to nobody (root_squash), or the export is read-only. Name a user who can write to the directory by adding ?uid=1000&gid=1000 to the URL, or export it with rw,no_root_squash. If it maps all users to nobody (all_squash), chown the directory on the server to anonuid (usually 65534).").when(as_root),
    Row::failed(Fault::AccessDenied, &[], "The clients' uid has no write access to the directory, or the export is read-only. Name another user by adding ?uid=1000&gid=1000 to the URL, or change the directory's owner or mode on the server. If the export maps all users to one (all_squash), the clients' uid has no effect: chown the directory to that user (anonuid, usually 65534)."),
    Row::failed(Fault::NotFound, &[], "A file of the load, or its directory, is missing: somebody on the server removed it, or replaced the exported directory."),
    Row::failed(Fault::SessionLost, &[Status::Stale as u32], "The directory or the export was removed or replaced on the server: export it again (Linux: exportfs -ra; Ganesha: reload or restart it)."),
    Row::failed(Fault::SessionLost, &[], "The server ended the session: check its log, and whether it still runs."),
    Row::failed(Fault::WrongContent, &[], WRONG_CONTENT),
    Row::failed(Fault::NoSpace, &[Status::DQuot as u32], "The user's quota is used up: raise it, or write less: a suite with fewer clients, a smaller -s (Bonnie) or --scale (scenarios). Ganesha also returns this status for an export with Access_Type = MDONLY: set RW."),
    Row::failed(Fault::NoSpace, &[], "The export is full: free space on the server, or write less: a suite with fewer clients, a smaller -s (Bonnie) or --scale (scenarios). If df -h shows free space there, look at df -i (no inodes left) and at quotas."),

    Row::refused(Refusal::NoPortmapper, &[], "Start rpcbind on the server, or name both ports in the URL: nfs://host/export?nfsport=2049&mountport=20048. A server that only speaks NFSv4 needs no rpcbind: check its port, and measure it with ?vers=4.1."),
    Row::refused(Refusal::NoNfs, &[], "Enable version 3 over TCP on the server, or measure it with NFSv4.1: ?vers=4.1."),
    Row::refused(Refusal::NoServer, &[], "Start the NFS service on the server: systemctl start nfs-server, or nfs-ganesha. `rpcinfo -p HOST` lists the services of its portmapper."),
    Row::refused(Refusal::NoUdp, &[], "Enable UDP (Linux: nfsd --udp; Ganesha: Enable_UDP), or measure over TCP: leave out proto=udp."),
    Row::refused(Refusal::NoMountService, &[], "Start mountd with version 3 on the server, or name its port: ?mountport=20048."),
    Row::refused(Refusal::NotRpc, &[], "Check the port: another kind of server listens there. NFS usually uses 2049.").when(by_version_4),
    Row::refused(Refusal::NotRpc, &[], "Check the ports (nfsport, mountport): another kind of server listens on one of them. NFS usually uses 2049."),
    Row::refused(Refusal::NotMount, &[], "Check mountport in the URL."),
    Row::refused(Refusal::Export, &[Denied::Failed as u32], "The export may not allow UDP (Ganesha: Transports, Protocols): leave out proto=udp.").when(over_udp),
    Row::refused(Refusal::Export, &[Denied::Failed as u32], "The export may not allow this version of NFS, or TCP (Ganesha: Protocols, Transports): name another version, ?vers=4.1 or ?vers=3, or ?proto=udp for an export without TCP (NFSv3 only)."),
    Row::refused(Refusal::Export, &[Status::NotDir as u32], "The URL names a file: name its directory."),
    Row::refused(Refusal::Export, NO_ENTRY, "The server has no export of this path, or hides it because of the client's address or its port above 1023 (run dyno as root, or use the option insecure; Ganesha: PrivilegedPort = false). With NFSv4 paths begin at the server's pseudo root (Linux: fsid=0; Ganesha: Pseudo), and an export may be for NFSv3 only (Ganesha: Protocols).").when(by_version_4),
    Row::refused(Refusal::Export, NO_ENTRY, "The server has no export of this path: `showmount -e` on a client lists the exports."),
    Row::refused(Refusal::Export, DENIED, "The export denies this client, or there is no export of this path: `showmount -e` on a client lists the exports, with their clients. An export that requires ports below 1024 needs dyno to run as root, or the option insecure. The server may have this path under NFSv4 only: ?vers=4.1."),
    Row::refused(Refusal::Export, &[Status::Stale as u32], "The exported directory was removed or replaced on the server: export it again (Linux: exportfs -ra; Ganesha: reload or restart it)."),
    Row::refused(Refusal::Export, &[], "The server's log may show why it refused the export."),
    Row::refused(Refusal::Flavor, &[Denied::TooWeak as u32], LOW_PORT),
    Row::refused(Refusal::Flavor, &[], "Allow sec=sys on the export: Kerberos is not supported."),
    Row::refused(Refusal::NoFlavor, &[], "Allow sec=sys on the export: Kerberos is not supported. A server without a working Kerberos names no flavor for an export with only sec=krb5 (Ganesha: set SecType = sys)."),
    Row::refused(Refusal::NotNfs, &[], "Check the port: it belongs to another service, such as mountd. The usual port is 2049.").when(by_version_4),
    Row::refused(Refusal::NotNfs, &[], "Check the port: it belongs to another kind of server, or to one that only speaks NFSv4."),
    Row::refused(Refusal::OnlyNfs4, &[], "Measure it with NFSv4.1: ?vers=4.1. For NFSv3, start rpcbind on the server, or name both ports in the URL: ?nfsport=2049&mountport=20048."),
    Row::refused(Refusal::NotNfs4, &[], "Enable version 4.1 on the server, or measure it with NFSv3: ?vers=3."),
    Row::refused(Refusal::ClientId, &[], "The server's log may show why it refused the client: it may have too many clients, or be in its grace period."),
    Row::refused(Refusal::Session, &[], "The server's log may show why it refused the client: it may have too many clients, or be in its grace period."),
    Row::refused(Refusal::Sizes, &[], "Raise the server's maximum read and write sizes."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_and_every_lost_connection_has_advice() {
        let of = |failure: Failure| advice(&failure, &Options::default());
        for refusal in Refusal::ALL {
            assert!(of(refusal.failure(None)).is_some_and(|text| text.ends_with('.')));
        }
        for fault in [
            Fault::NoFiles,
            Fault::ConnectionRefused,
            Fault::Unreachable,
            Fault::ResponseTimeout,
            Fault::ClosedEarly,
        ] {
            assert!(of(fault.into()).is_some());
        }
        assert_eq!(of(Fault::LockConflict.into()), None);
    }

    #[test]
    fn only_root_gets_the_hint_about_root_squash() {
        let of = |uid| {
            let mut options = Options::default();
            options.credential.uid = uid;
            advice(&Fault::AccessDenied.into(), &options)
        };
        assert!(of(0).is_some_and(|text| text.contains("root_squash")));
        assert!(of(1000).is_some_and(|text| !text.contains("root_squash")));
    }
}
