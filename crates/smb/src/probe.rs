//! Checks whether an SMB server is present and what it offers, with a single NEGOTIATE (MS-SMB2 2.2.3). If
//! the server closes the connection in response, the probe also tries SMB 1 (`smb1.rs`).
//!
//! The probe needs no consent: it does not log on, changes nothing on the server and causes no load. Only a session can
//! check shares and users.

use crate::session::{Options, Session};
use crate::smb1;
use crate::wire::{capabilities, security, Dialect, NegotiateResponse};
use dyno_measure::{monotonic_ns, Detail, Failure, Fault};
use dyno_net::{run_alone, system_failure, Dialer};
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Client number of the probe, which no client of a load level has.
const PROBING_CLIENT: u32 = u32::MAX;
/// Number of probes that this process has started. The GUID of a probe depends on this number and the process ID. Samba
/// passes all connections with the same GUID to one process, so a probe with the GUID of a hanging probe would hang,
/// too.
static PROBES: AtomicU64 = AtomicU64::new(0);

/// Properties that a server reports in its NEGOTIATE response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The newest version that both sides support.
    pub dialect: Dialect,
    /// Whether the server requires signed messages.
    pub signing_required: bool,
    pub leases: bool,
    /// Whether the server also grants directory leases.
    pub directory_leases: bool,
    /// Identifies the server while it runs.
    pub server_guid: [u8; 16],
    pub max_read_bytes: u32,
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

/// Negotiates with the server at `address`, disconnects, and returns the server's properties. The address
/// belongs to the given network namespace (file `/proc/PID/ns/net`), if any. Returns within `timeout`,
/// whatever the server sends.
pub fn probe(
    address: SocketAddr,
    network_namespace: Option<&Path>,
    timeout: Duration,
) -> Result<Offer, Failure> {
    // Uses a separate thread, because the thread that enters the namespace stays in it.
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| probe_from_here(address, network_namespace, timeout));
        asking.join().unwrap_or_else(|_| Err(Fault::OtherIo.into()))
    })
}

/// Returns a different seed for each probe of each process.
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
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(system_failure)?;
    }
    let options = Rc::new(Options {
        guid_seed: guid_seed(),
        ..Options::default()
    });
    let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    let deadline_ns = monotonic_ns().saturating_add(timeout_ns);
    let offered = run_alone(deadline_ns, |executor| {
        let dialer = Rc::new(Dialer::new(executor.clone(), address, 0));
        let mut session = Session::new(executor.clone(), dialer.clone(), options, PROBING_CLIENT, "");
        async move {
            match session.ask_for_offer().await {
                Err(failure) => Err(smb1::explained(failure, &dialer).await),
                offer => offer,
            }
        }
    });
    offered.map(Offer::from)
}

fn other_io(number: i32) -> Failure {
    Failure {
        fault: Fault::OtherIo,
        detail: Detail::Errno(number),
    }
}
