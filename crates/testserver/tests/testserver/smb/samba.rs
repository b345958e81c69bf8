//! Replaces smbd with the reference server in the client's own tests, so that both servers pass the same
//! tests.

use dyno_testserver::smb::{Options, Server};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

pub const USER: &str = "nobody";
pub const PASSWORD: &str = "correct horse";

/// A running server.
pub struct Samba {
    pub address: SocketAddr,
    pub server: Server,
}

/// Returns the default options of the tests.
pub fn server_options() -> Options {
    Options {
        user: Some(USER.to_owned()),
        password: PASSWORD.to_owned(),
        ..Options::on_loopback("share")
    }
}

impl Samba {
    /// Starts a server with these options.
    pub fn with(options: &Options) -> Arc<Self> {
        let server = Server::start(options).expect("it starts");
        Arc::new(Self {
            address: server.address(),
            server,
        })
    }

    /// Returns the server that most tests share. It ends when no test uses it. It has two threads, because breaks pass
    /// between threads.
    pub fn shared() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Samba>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(samba) = shared.upgrade() {
            return Some(samba);
        }
        let samba = Self::with(&Options {
            threads: 2,
            ..server_options()
        });
        *shared = Arc::downgrade(&samba);
        Some(samba)
    }
}
