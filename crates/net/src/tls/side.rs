//! Operations common to both ends of a TLS connection.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::UnbufferedStatus;
use rustls::CommonState;
use std::fmt::{self, Debug};

pub trait Side: Debug {
    /// rustls's connection state for this end.
    type Data;

    /// Processes the records at the start of `incoming`.
    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    fn state(&self) -> &CommonState;
}

pub struct ClientSide(pub(crate) UnbufferedClientConnection);

pub struct ServerSide(pub(crate) UnbufferedServerConnection);

impl Side for ClientSide {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.0.process_tls_records(incoming)
    }

    fn state(&self) -> &CommonState {
        &self.0
    }
}

impl Side for ServerSide {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.0.process_tls_records(incoming)
    }

    fn state(&self) -> &CommonState {
        &self.0
    }
}

impl Debug for ClientSide {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientSide").finish_non_exhaustive()
    }
}

impl Debug for ServerSide {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ServerSide").finish_non_exhaustive()
    }
}
