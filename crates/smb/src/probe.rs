//! Asks whether an SMB server is there, and what it offers: one NEGOTIATE (MS-SMB2 2.2.3), and nothing after it.
//! A server that ends the connection at that is asked in SMB 1, too (`smb1.rs`).
//!
//! It takes no user, changes nothing on the server and is no load; so it needs no consent. Not for: shares and users,
//! which a session alone can tell of.

use crate::session::{Options, Session};
use crate::smb1;
use crate::wire::{capabilities, security, Dialect, NegotiateResponse};
use dyno_measure::{monotonic_ns, Detail, Failure, Fault};
use dyno_net::{Dialer, Executor};
use rustix::io::Errno;
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};
use std::cell::Cell;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// No client of a mix has this number.
const PROBING_CLIENT: u32 = u32::MAX;
/// Probes of this process so far. They make the GUIDs, with the process's number: a server hands all connections with one GUID to one process, so that
/// one probe would wait behind another that hangs.
static PROBES: AtomicU64 = AtomicU64::new(0);

/// What a server says of itself before anybody has logged on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The newest version that both sides have.
    pub dialect: Dialect,
    /// It will have every message signed.
    pub signing_required: bool,
    pub leases: bool,
    /// It grants leases of directories, too.
    pub directory_leases: bool,
    /// Names the server, for as long as it runs.
    pub server_guid: [u8; 16],
    /// The most that a read may have.
    pub max_read_bytes: u32,
    /// The most that a write may have.
    pub max_write_bytes: u32,
}

impl From<NegotiateResponse> for Offer {
    fn from(response: NegotiateResponse) -> Self {
        Self {
            dialect: response.dialect,
            signing_required: response.security_mode & security::SIGNING_REQUIRED != 0,
            leases: response.dialect >= Dialect::Smb210 && response.capabilities & capabilities::LEASING != 0,
            directory_leases: response.leases_directories(),
            server_guid: response.server_guid,
            max_read_bytes: response.max_read_bytes,
            max_write_bytes: response.max_write_bytes,
        }
    }
}

/// Asks the server at `address` for what it offers. The address is looked for in the network namespace whose file
/// (`/proc/PID/ns/net`) is given. It ends within `timeout`, whatever the server sends.
///
/// # Errors
/// The failure that a session would end with at this step; `advice` has words for each.
pub fn probe(
    address: SocketAddr,
    network_namespace: Option<&Path>,
    timeout: Duration,
) -> Result<Offer, Failure> {
    // On a thread of its own: who has entered a namespace doesn't come back.
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| probe_from_here(address, network_namespace, timeout));
        asking.join().unwrap_or_else(|_| Err(Fault::OtherIo.into()))
    })
}

/// Another for each probe of each process.
fn guid_seed() -> u64 {
    u64::from(std::process::id()) << 32 | PROBES.fetch_add(1, Ordering::Relaxed) & u64::from(u32::MAX)
}

fn probe_from_here(
    address: SocketAddr,
    network_namespace: Option<&Path>,
    timeout: Duration,
) -> Result<Offer, Failure> {
    if let Some(path) = network_namespace {
        let file = File::open(path).map_err(|error| other_io(error.raw_os_error().unwrap_or(0)))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(errno)?;
    }
    let executor = Executor::new().map_err(errno)?;
    let dialer = Rc::new(Dialer::new(executor.clone(), address, 0));
    let options = Rc::new(Options {
        guid_seed: guid_seed(),
        ..Options::default()
    });
    let mut session = Session::new(executor.clone(), dialer.clone(), options, PROBING_CLIENT, "");
    let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    let deadline_ns = monotonic_ns().saturating_add(timeout_ns);
    let offered = Rc::new(Cell::new(Err(Fault::ResponseTimeout.into())));
    let (slot, handle) = (offered.clone(), executor.clone());
    executor.spawn(async move {
        handle.set_deadline(deadline_ns);
        slot.set(match session.ask_for_offer().await {
            Err(failure) => Err(smb1::explained(failure, &dialer).await),
            offer => offer,
        });
    });
    executor.run(|| false).map_err(errno)?;
    offered.get().map(Offer::from)
}

fn errno(error: Errno) -> Failure {
    other_io(error.raw_os_error())
}

fn other_io(number: i32) -> Failure {
    Failure {
        fault: Fault::OtherIo,
        detail: Detail::Errno(number),
    }
}
