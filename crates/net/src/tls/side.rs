//! The two ends of a TLS connection, as far as `channel.rs` treats them alike.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::UnbufferedStatus;
use rustls::CommonState;
use std::fmt::{self, Debug};

pub trait Side: Debug {
    /// What rustls keeps of a connection of this end.
    type Data;

    /// Goes on with the records at the beginning of `incoming`.
    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// What has been negotiated.
    fn state(&self) -> &CommonState;
}

/// The end that asks.
pub struct ClientSide(pub(crate) UnbufferedClientConnection);

/// The end that answers.
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
