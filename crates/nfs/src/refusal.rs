//! The step at which a session was refused: portmapper, MOUNT or NFS.
//!
//! `advice.rs` has the remedies.

use crate::status::{self, Denied};
use dyno_measure::{named_enum, Detail, Failure, Fault, ProtocolStatus, StatusTable};

/// Table with the texts of the refusals below.
static STEPS: StatusTable = StatusTable {
    name: "NFS session",
    write: |code, formatter| match Refusal::of_code(code) {
        Some(refusal) => write!(formatter, "{}", refusal.words()),
        None => write!(formatter, "{}", Fault::SessionRefused.words()),
    },
};

named_enum! {
    /// Why a session with a file server was not established.
    pub enum Refusal {
        NoPortmapper "no_portmapper" "the portmapper (port 111) does not answer"
        NoNfs "no_nfs" "the server has no NFSv3 over TCP, according to its portmapper"
        NoServer "no_server" "no NFS server runs there: the portmapper lists none, and nothing listens on \
            the NFS port"
        NoMountService "no_mount_service" "the server has no MOUNT version 3 over this transport, according to its portmapper"
        NotMount "not_mount" "the service at the MOUNT port does not speak MOUNT"
        Export "export" "the export was refused"
        Flavor "flavor" "the export does not accept AUTH_SYS"
        NoFlavor "no_flavor" "the export names no security flavor, and does not accept AUTH_SYS"
        NotNfs "not_nfs" "the service at the NFS port does not speak this version of NFS"
        Sizes "sizes" "the server's maximum size of a read or write is less than 512 bytes"
        OnlyNfs4 "only_nfs4" "the server has no portmapper that names NFSv3 and MOUNT, but speaks NFSv4"
        NotNfs4 "not_nfs4" "the server does not speak NFSv4.1"
        ClientId "client_id" "the server refused the client (EXCHANGE_ID)"
        Session "session" "the server refused a session (CREATE_SESSION)"
        NotRpc "not_rpc" "the first answer is not an NFS message"
        NoUdp "no_udp" "the server has no NFSv3 over UDP, according to its portmapper"
    }
}

impl Refusal {
    fn of_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }

    /// Returns the refusal in a failure's `Detail::Refused`, if NFS set it.
    pub fn of(step: ProtocolStatus) -> Option<Self> {
        Self::of_code(step.code).filter(|_| step.table.name == STEPS.name)
    }

    /// Returns the failure of a denied call, with the server's `auth_stat`, if any.
    pub(crate) fn denied(reason: Option<u32>) -> Failure {
        let refusal = match reason == Some(Denied::Failed as u32) {
            true => Self::Export,
            false => Self::Flavor,
        };
        refusal.failure(reason.map(status::of_authentication))
    }

    /// Returns the failure of a call that RPC denied. `no_flavor`: the server named no flavor for the export.
    pub(crate) fn denied_call(reason: Option<u32>, no_flavor: bool) -> Failure {
        if no_flavor && reason == Some(Denied::TooWeak as u32) {
            return Self::NoFlavor.failure(None);
        }
        let status = reason.map(status::of_authentication);
        Failure {
            fault: Fault::AccessDenied,
            detail: status.map_or(Detail::None, Detail::Status),
        }
    }

    /// Returns the failure of a refused session, with the server's status, if any.
    pub fn failure(self, status: Option<ProtocolStatus>) -> Failure {
        STEPS.refusal(self as u32, status)
    }
}
