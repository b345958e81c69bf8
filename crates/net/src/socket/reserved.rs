//! Connections from ports below 1024, which some servers require of their clients. Only root may bind these ports.

use super::{Dialer, Peer, Socket};
use dyno_measure::monotonic_ns;
use rustix::io::Errno;
use rustix::net::{self, sockopt, SocketType};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The range of Linux's own NFS client (sunrpc.min_resvport and max_resvport).
const FIRST: u16 = 665;
const LAST: u16 = 1023;

impl Dialer {
    /// Chooses whether further connections come from a port below 1024, if one can be bound.
    pub fn use_reserved_ports(&self, reserved: bool) {
        // Processes that start together begin at different ports.
        let first = FIRST + (monotonic_ns() % u64::from(LAST - FIRST + 1)) as u16;
        self.reserved_port.set(reserved.then_some(first));
    }

    pub fn uses_reserved_ports(&self) -> bool {
        self.reserved_port.get().is_some()
    }

    /// Dials from one of these ports after `first`; None: none can be bound.
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
                // A port whose last connection is in TIME_WAIT may lead to another peer.
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
