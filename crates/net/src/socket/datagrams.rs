//! UDP: a client's socket, which knows one peer, and a server's, which answers whoever asks.
//!
//! Not for what a lost datagram means: whoever sends has to send again.

use super::{failure, Dialer, Peer, Socket};
use crate::executor::Executor;
use dyno_measure::{Failure, Fault};
use rustix::io::Errno;
use rustix::net::{self, sockopt, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::SocketAddr;

/// More than fits into one over IPv4 (65,507 bytes), so that none is cut.
pub const MOST_DATAGRAM_BYTES: usize = 65_536;

impl Dialer {
    /// Makes a socket for datagrams to the peer and from it alone, which asks the kernel for a receive buffer of so many bytes.
    ///
    /// # Errors
    /// Why there is none; nothing was sent.
    pub fn dial_datagrams(&self, receive_buffer_bytes: usize) -> Result<Socket, Failure> {
        for _ in 0..super::SOURCES_PER_DIAL {
            match self.try_dial(SocketType::DGRAM) {
                // Without a port that is free, UDP's connect says AGAIN.
                Err(Errno::AGAIN | Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) if self.next_source() => {}
                Err(Errno::AGAIN) => break,
                result => {
                    let socket = result.map_err(failure)?;
                    sockopt::set_socket_recv_buffer_size(&socket.fd, receive_buffer_bytes)
                        .map_err(failure)?;
                    return Ok(socket);
                }
            }
        }
        Err(Fault::NoPorts.into())
    }
}

impl Socket {
    /// Returns what the kernel may keep for this socket until it is received: of datagrams about twice their bytes, and
    /// more of small ones.
    ///
    /// # Errors
    /// Where the socket is gone.
    pub fn receive_buffer_bytes(&self) -> Result<usize, Failure> {
        sockopt::socket_recv_buffer_size(&self.fd).map_err(failure)
    }
}

/// A server's socket for datagrams; for the reference servers.
#[derive(Debug)]
pub struct Datagrams {
    socket: Socket,
}

impl Datagrams {
    /// Receives at `address`; several of one process may share a port.
    ///
    /// # Errors
    /// Where the address can't be had.
    pub fn bind(
        executor: &Executor,
        address: SocketAddr,
        share_port: bool,
        receive_buffer_bytes: usize,
    ) -> Result<Self, Errno> {
        let family = Peer::Tcp(address).family();
        debug_assert_ne!(family, AddressFamily::UNIX);
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = net::socket_with(family, SocketType::DGRAM, flags, None)?;
        sockopt::set_socket_reuseport(&fd, share_port)?;
        sockopt::set_socket_recv_buffer_size(&fd, receive_buffer_bytes)?;
        net::bind(&fd, &address)?;
        Ok(Self {
            socket: Socket::new(fd, executor.clone()),
        })
    }

    /// Waits for a datagram: how long it is, and who sent it.
    ///
    /// # Errors
    /// Where the socket is gone.
    pub async fn receive(&self, buffer: &mut [u8]) -> Result<(usize, SocketAddr), Failure> {
        loop {
            match net::recvfrom(&self.socket.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((bytes, _, Some(sender))) => {
                    if let Ok(sender) = SocketAddr::try_from(sender) {
                        return Ok((bytes, sender));
                    }
                }
                // The last is what a client came to that was answered before: nobody is there any more.
                Ok((_, _, None)) | Err(Errno::INTR | Errno::CONNREFUSED) => {}
                Err(Errno::AGAIN) => self.socket.readable(Fault::ResponseTimeout).await?,
                Err(error) => return Err(failure(error)),
            }
        }
    }

    /// Sends a datagram. One that the kernel has no room for, or that is too long, is lost, as on any way.
    pub fn send(&self, datagram: &[u8], receiver: SocketAddr) {
        while net::sendto(&self.socket.fd, datagram, SendFlags::NOSIGNAL, &receiver) == Err(Errno::INTR) {}
    }
}
