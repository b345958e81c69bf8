//! UDP: a client socket with one peer, and a server socket. The sender has to resend lost datagrams.

use super::{failure, Dialer, Peer, Socket};
use crate::executor::Executor;
use dyno_measure::{Failure, Fault};
use rustix::io::Errno;
use rustix::net::{self, sockopt, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::SocketAddr;

/// Size of a receive buffer that holds any IPv4 datagram (at most 65,507 bytes).
pub const MOST_DATAGRAM_BYTES: usize = 65_536;

impl Dialer {
    /// Creates a UDP socket connected to the peer, and requests a kernel receive buffer of
    /// `receive_buffer_bytes`.
    pub fn dial_datagrams(&self, receive_buffer_bytes: usize) -> Result<Socket, Failure> {
        for _ in 0..super::SOURCES_PER_DIAL {
            match self.try_dial(SocketType::DGRAM) {
                // UDP's `connect` returns AGAIN if no port is free.
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
    /// Returns the size of the kernel's receive buffer. Large datagrams occupy about twice their size, small
    /// ones more.
    pub fn receive_buffer_bytes(&self) -> Result<usize, Failure> {
        sockopt::socket_recv_buffer_size(&self.fd).map_err(failure)
    }
}

/// UDP socket of a reference server.
#[derive(Debug)]
pub struct Datagrams {
    socket: Socket,
}

impl Datagrams {
    /// Binds to `address`. If `share_port` is set, several sockets of one process may share a port.
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

    /// Waits for a datagram and returns its length and sender.
    pub async fn receive(&self, buffer: &mut [u8]) -> Result<(usize, SocketAddr), Failure> {
        loop {
            match net::recvfrom(&self.socket.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((bytes, _, Some(sender))) => {
                    if let Ok(sender) = SocketAddr::try_from(sender) {
                        return Ok((bytes, sender));
                    }
                }
                // CONNREFUSED belongs to an earlier answer, whose recipient has closed its socket.
                Ok((_, _, None)) | Err(Errno::INTR | Errno::CONNREFUSED) => {}
                Err(Errno::AGAIN) => self.socket.readable(Fault::ResponseTimeout).await?,
                Err(error) => return Err(failure(error)),
            }
        }
    }

    /// Sends a datagram. It is lost if it is too long or the kernel has no room.
    pub fn send(&self, datagram: &[u8], receiver: SocketAddr) {
        while net::sendto(&self.socket.fd, datagram, SendFlags::NOSIGNAL, &receiver) == Err(Errno::INTR) {}
    }
}
