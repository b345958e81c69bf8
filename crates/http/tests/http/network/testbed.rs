//! Two hosts joined by a cable: network namespaces with a veth pair, made for one test and removed with it.

use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where servers listen.
pub const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
/// On the same network as both, and nobody's.
#[allow(dead_code, reason = "not every test that shares this file asks for it")]
pub const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 99));

/// One host.
pub struct Namespace {
    name: String,
}

/// Both. Removed when it is dropped, whatever the test came to.
pub struct Testbed {
    pub server: Namespace,
    pub client: Namespace,
}

impl Testbed {
    /// None, with the reason on standard error, where this process may not make namespaces.
    pub fn new() -> Option<Self> {
        let made = Self::make();
        if let Err(reason) = &made {
            eprintln!("SKIPPED: network namespaces can't be made here: {reason}");
            assert!(
                !rustix::process::geteuid().is_root() || reason.contains("not permitted"),
                "{reason}"
            );
        }
        made.ok()
    }

    fn make() -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("dyno-test-{}-{number}", std::process::id());
        let testbed = Self {
            server: Namespace::new(format!("{name}-server"))?,
            client: Namespace::new(format!("{name}-client"))?,
        };
        let (server, client) = (&testbed.server, &testbed.client);
        server.ip(&format!(
            "link add cable type veth peer name cable netns {}",
            client.name
        ))?;
        server.ip(&format!("address add {SERVER}/24 dev cable"))?;
        client.ip("address add 10.77.0.2/24 dev cable")?;
        for namespace in [server, client] {
            namespace.ip("link set cable up")?;
        }
        Ok(testbed)
    }
}

impl Namespace {
    fn new(name: String) -> Result<Self, String> {
        ip(&format!("netns add {name}"))?;
        let namespace = Self { name };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// `ip` with these arguments in this namespace.
    pub fn ip(&self, arguments: &str) -> Result<(), String> {
        ip(&format!("-netns {} {arguments}", self.name))
    }

    /// Runs `work` on a thread that lives in this namespace, as do all threads that it starts.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.name)).expect("the namespace has a file");
        let in_namespace = move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("who made a namespace may enter it");
            work()
        };
        std::thread::scope(|scope| scope.spawn(in_namespace).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(reason) = ip(&format!("netns delete {}", self.name)) {
            eprintln!("{reason}");
        }
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output()
        .map_err(|error| format!("ip: {error}"))?;
    let problem = String::from_utf8_lossy(&output.stderr);
    output
        .status
        .success()
        .then_some(())
        .ok_or(format!("ip {arguments}: {problem}"))
}
