//! Two hosts connected by a veth pair in network namespaces, removed after the test.

use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Address of the servers.
pub const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
/// Unused address in the same network.
#[allow(dead_code, reason = "not every test that shares this file asks for it")]
pub const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 99));

/// A host.
pub struct Namespace {
    name: String,
}

/// Both hosts. Dropping it removes them.
pub struct Testbed {
    pub server: Namespace,
    pub client: Namespace,
}

impl Testbed {
    /// Creates both, or prints why not and returns None if this process may not create namespaces.
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

    /// Runs `ip` with these arguments in this namespace.
    pub fn ip(&self, arguments: &str) -> Result<(), String> {
        ip(&format!("-netns {} {arguments}", self.name))
    }

    /// Runs `work` on a thread in this namespace; threads that it starts inherit it.
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
