//! Listening sockets of the reference servers.

use super::{failure, Socket};
use crate::executor::Executor;
use dyno_measure::{Failure, Fault};
use rustix::io::Errno;
use rustix::net::{self, sockopt, AddressFamily, SocketFlags, SocketType};
use std::net::SocketAddr;

#[derive(Debug)]
pub struct Listener {
    socket: Socket,
}

impl Listener {
    /// Listens on `address`. If `share_port` is set, several listeners of one process may share a port.
    pub fn bind(executor: &Executor, address: SocketAddr, share_port: bool) -> Result<Self, Errno> {
        const BACKLOG: i32 = 4096;
        let family = if address.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        sockopt::set_socket_reuseport(&fd, share_port)?;
        // Accepted sockets inherit this option. The end of a long answer must not wait for an
        // acknowledgement.
        sockopt::set_tcp_nodelay(&fd, true)?;
        net::bind(&fd, &address)?;
        net::listen(&fd, BACKLOG)?;
        Ok(Self {
            socket: Socket::new(fd, executor.clone()),
        })
    }

    /// Returns the local address.
    pub fn address(&self) -> Result<SocketAddr, Errno> {
        self.socket.local_address()
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    /// The process is out of file descriptors or memory.
    pub async fn accept(&self) -> Result<Socket, Failure> {
        loop {
            match net::accept_with(&self.socket.fd, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(fd) => return Ok(Socket::new(fd, self.socket.executor.clone())),
                Err(Errno::AGAIN) => self.socket.readable(Fault::ConnectTimeout).await?,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return Err(failure(error)),
            }
        }
    }
}
