//! What to try where no session came about: whose the fault is, and which setting or which side to look at.
//!
//! Not for failures of single calls under load: those are counted.

use crate::status::Status;
use crate::Refusal;
use dyno_measure::{Detail, Failure, Fault};

/// What to try about a session that was not made; None where there is nothing to be said beyond the failure's words.
#[must_use]
pub fn advice(failure: &Failure) -> Option<&'static str> {
    match (failure.fault, failure.detail) {
        (_, Detail::Refused { step, status }) => {
            Refusal::of(step).map(|refusal| of_refusal(refusal, status.map_or(0, |status| status.code)))
        }
        (Fault::ConnectionRefused, _) => {
            Some("Start the server, or check the port: nothing listens there. The usual one is 2049. UDP (proto=udp) is often switched off.")
        }
        (Fault::ConnectTimeout | Fault::Unreachable, _) => {
            Some("Check the address, and that no firewall lies between: the host does not answer.")
        }
        (Fault::ResponseTimeout, _) => {
            Some("Look at the server's log: it accepts connections and does not answer. It may also be no NFS server.")
        }
        (Fault::ClosedEarly | Fault::ConnectionReset, _) => {
            Some(
                "Look at the server's log: it ended the connection. Some do so beyond a number of connections (Ganesha: \
                 RPC_Max_Connections, 1024 by default), others to clients whose port is above 1023.",
            )
        }
        (Fault::MalformedMessage, _) => {
            Some("The server breaks the protocol. Check the port, and tell us of the server's version.")
        }
        _ => None,
    }
}

fn of_refusal(refusal: Refusal, status: u32) -> &'static str {
    match refusal {
        Refusal::NoPortmapper => {
            "Start rpcbind on the server, or name both ports in the URL: nfs://host/export?nfsport=2049&mountport=20048."
        }
        Refusal::NoNfs => "Let the server speak version 3 over TCP: or measure it with NFSv4.1: ?vers=4.1.",
        Refusal::NoUdp => {
            "Switch UDP on (Linux: nfsd --udp; Ganesha: Enable_UDP), or measure it over TCP: without proto=udp."
        }
        Refusal::NoMountService => "Start mountd with version 3 on the server, or name its port: ?mountport=20048.",
        Refusal::NotMount => "Check mountport in the URL.",
        Refusal::Export => of_export(status),
        Refusal::Flavor => "Allow sec=sys on the export: Kerberos is not supported.",
        Refusal::NotNfs => "Check the port: it is another kind of server, or one that speaks NFSv4 alone.",
        Refusal::OnlyNfs4 => {
            "Measure it with NFSv4.1: ?vers=4.1. For NFSv3, start rpcbind on the server, or name both ports in the URL."
        }
        Refusal::NotNfs4 => "Let the server speak version 4.1, or measure it with NFSv3: ?vers=3.",
        Refusal::ClientId | Refusal::Session => {
            "Look at the server's log for why it refused the client: it may have too many, or be in its time of grace."
        }
        Refusal::Sizes => "Raise the server's largest read and write.",
    }
}

fn of_export(status: u32) -> &'static str {
    match Status::of_code(status) {
        Some(Status::NoEnt | Status::NotDir) => {
            "The server has no export of this path: `showmount -e` on a client lists them."
        }
        Some(Status::Perm | Status::Access) => {
            "The export denies this client: check its list of clients. Ports below 1024 are not used here: such an \
             export needs the option insecure."
        }
        _ => "Look at the server's log for why it refused the export.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_and_every_lost_connection_has_advice() {
        for refusal in Refusal::ALL {
            assert!(advice(&refusal.failure(None)).is_some_and(|text| text.ends_with('.')));
        }
        for fault in [
            Fault::ConnectionRefused,
            Fault::Unreachable,
            Fault::ResponseTimeout,
            Fault::ClosedEarly,
        ] {
            assert!(advice(&fault.into()).is_some());
        }
        assert_eq!(advice(&Fault::NotFound.into()), None);
    }
}
