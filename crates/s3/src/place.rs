//! Creates the S3 clients of one event loop. They share a dialer, a receive buffer and a signer.

use crate::client::{Client, Settings};
use crate::sign::Signer;
use dyno_http::{Connecting, Connection, EvenShare, Limits, PlainTcp, TlsOverTcp, Transport};
use dyno_net::tls::TlsClient;
use dyno_net::{Dialer, Executor, Pace};
use std::cell::RefCell;
use std::rc::Rc;

/// State shared by the clients of one event loop.
#[derive(Debug)]
pub struct Place {
    pub(crate) executor: Executor,
    pub(crate) dialer: Rc<Dialer>,
    pub(crate) buffer: Rc<RefCell<Box<[u8]>>>,
    pub(crate) settings: Rc<Settings>,
    pub(crate) signer: Rc<RefCell<Signer>>,
    pub(crate) timeout_ns: u64,
    pub(crate) pace: Option<Pace>,
}

impl Place {
    /// Replaces the target's rate limit.
    #[must_use]
    pub fn paced(self, pace: Option<Pace>) -> Self {
        Self { pace, ..self }
    }

    fn client<T: Transport>(&self, transport: T) -> Client<T> {
        let connecting = Connecting {
            keep_alive: true,
            reset: false,
            // A PUT that was not answered may have been carried out, so it is not sent again.
            repeat: false,
            timeout_ns: self.timeout_ns,
        };
        let connection = Connection::over(
            transport,
            self.executor.clone(),
            connecting,
            self.buffer.clone(),
            Limits::default(),
        );
        let pace = self.pace.clone().map(|pace| (pace, self.executor.clone()));
        Client::new(connection, self.settings.clone(), self.signer.clone()).paced(pace)
    }

    #[must_use]
    pub fn plain(&self) -> Client<PlainTcp> {
        self.client(PlainTcp::new(self.dialer.clone()))
    }

    #[must_use]
    pub fn secure(&self, tls: &TlsClient) -> Client<TlsOverTcp> {
        let share = EvenShare::new(0.0);
        self.client(TlsOverTcp::new(
            self.dialer.clone(),
            tls.connector(),
            share,
            self.buffer.clone(),
        ))
    }
}
