//! The reference server in the place of the smbd that the session's own tests use, so that both are asked the same.

use dyno_testserver::smb::{Options, Server};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

pub const USER: &str = "nobody";
pub const PASSWORD: &str = "correct horse";

/// One that runs.
pub struct Samba {
    pub address: SocketAddr,
    pub server: Server,
}

/// What tests begin with.
pub fn server_options() -> Options {
    Options {
        user: Some(USER.to_owned()),
        password: PASSWORD.to_owned(),
        ..Options::on_loopback("share")
    }
}

impl Samba {
    /// One with options of its own.
    pub fn with(options: &Options) -> Arc<Self> {
        let server = Server::start(options).expect("it starts");
        Arc::new(Self {
            address: server.address(),
            server,
        })
    }

    /// The one that most tests share; it ends when none of them runs. Of two threads, since breaks go between them.
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
