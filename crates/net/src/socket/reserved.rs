//! Connections from local ports below 1024. Some servers accept only these. Only root may bind these ports.

use super::{Dialer, Peer, Socket};
use dyno_measure::monotonic_ns;
use rustix::io::Errno;
use rustix::net::{self, sockopt, SocketType};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// First port of the range that Linux's own NFS client uses (sunrpc.min_resvport and max_resvport).
const FIRST: u16 = 665;
const LAST: u16 = 1023;

impl Dialer {
    /// Sets whether later connections use a local port below 1024, if one can be bound.
    pub fn use_reserved_ports(&self, reserved: bool) {
        // Processes that start at the same time should begin at different ports.
        let first = FIRST + (monotonic_ns() % u64::from(LAST - FIRST + 1)) as u16;
        self.reserved_port.set(reserved.then_some(first));
    }

    pub fn uses_reserved_ports(&self) -> bool {
        self.reserved_port.get().is_some()
    }

    /// Dials from the first port that can be bound, starting at `first` and wrapping around at the end of the range.
    /// Returns None if no port can be bound.
    pub(super) fn try_reserved(&self, kind: SocketType, first: u16) -> Option<Result<Socket, Errno>> {
        let Peer::Tcp(peer) = self.target else {
            return None;
        };
        let from = match peer {
            SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        for port in (first..=LAST).chain(FIRST..first) {
            let dialed = self.open_socket(kind).and_then(|fd| {
                // The port may still have a connection to another peer in TIME_WAIT.
                sockopt::set_socket_reuseaddr(&fd, true)?;
                net::bind(&fd, &SocketAddr::new(from, port))?;
                self.target.connect(&fd)?;
                Ok(self.dialed(fd))
            });
            match dialed {
                Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => {}
                Err(Errno::ACCESS | Errno::PERM) => return None,
                dialed => {
                    self.reserved_port
                        .set(Some(if port == LAST { FIRST } else { port + 1 }));
                    return Some(dialed);
                }
            }
        }
        None
    }
}
