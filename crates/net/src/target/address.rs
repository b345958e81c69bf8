//! Names and addresses: parses a host, recognises loopback, and resolves a name once.

use dyno_measure::{monotonic_ns, NS_PER_S};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{sync_channel, RecvTimeoutError};
use std::time::Duration;

/// Returns whether an address is a loopback address, including an IPv4-mapped IPv6 one.
pub fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Returns whether the text of a host names loopback, without a look-up: a loopback address, `localhost`, or a name
/// below it (RFC 6761, section 6.3). Any other name counts as remote. This is only for early checks; the resolved
/// address decides.
pub fn names_loopback(host: &str) -> bool {
    name_and_port(host, 1).is_some_and(|(name, _)| match name.parse() {
        Ok(address) => is_loopback(address),
        Err(_) => is_local_name(name),
    })
}

fn is_local_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let (above, last) = name.rsplit_once('.').unwrap_or(("-", name));
    !above.is_empty() && last.eq_ignore_ascii_case("localhost")
}

/// Resolves `host[:port]` once. Of several addresses, returns the first that accepts a connection: a server
/// on `localhost` may listen on `127.0.0.1`, on `::1`, or on both.
///
/// # Errors
/// The host does not exist, none of its addresses accepts a connection, or `deadline_ns` (monotonic clock)
/// has passed. If no address of a loopback name accepts a connection, the first one is returned instead.
pub fn resolve(host: &str, default_port: u16, deadline_ns: u64) -> io::Result<SocketAddr> {
    let (name, port) = name_and_port(host, default_port).ok_or(io::ErrorKind::InvalidInput)?;
    let addresses = match name.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) if is_local_name(name) => look_up_here(name, port, deadline_ns),
        Err(_) => look_up(name, port, deadline_ns)?,
    };
    if let [address] = addresses[..] {
        return Ok(address);
    }
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"));
    for &address in &addresses {
        let left = until(deadline_ns);
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(_) => return Ok(address),
            Err(error) => last_error = error,
        }
    }
    match addresses.first() {
        Some(first) if is_local_name(name) => Ok(*first),
        _ => Err(last_error),
    }
}

/// Returns the addresses of a loopback name: those that the system resolves within a second, and both
/// loopback addresses. A name server need not know these names (RFC 6761, section 6.3), so this function does
/// not wait for a slow one.
fn look_up_here(name: &str, port: u16, deadline_ns: u64) -> Vec<SocketAddr> {
    let soon_ns = deadline_ns.min(monotonic_ns().saturating_add(NS_PER_S));
    let mut found = look_up(name, port, soon_ns).unwrap_or_default();
    found.retain(|address| is_loopback(address.ip()));
    for usual in loopbacks(port) {
        if !found.contains(&usual) {
            found.push(usual);
        }
    }
    found
}

fn loopbacks(port: u16) -> [SocketAddr; 2] {
    [
        (Ipv4Addr::LOCALHOST, port).into(),
        (Ipv6Addr::LOCALHOST, port).into(),
    ]
}

/// Resolves a name with the system's resolver. The resolver has no deadline, so it runs on a separate thread,
/// which is abandoned after the deadline and ends when the resolver gives up. It runs in the network
/// namespace of the calling thread.
fn look_up(name: &str, port: u16, deadline_ns: u64) -> io::Result<Vec<SocketAddr>> {
    let (answer, answered) = sync_channel(1);
    let asked = name.to_owned();
    std::thread::Builder::new().spawn(move || {
        let found = (&*asked, port).to_socket_addrs();
        // After the deadline there is no receiver.
        let _ = answer.send(found.map(Iterator::collect));
    })?;
    match answered.recv_timeout(until(deadline_ns)) {
        Ok(found) => found,
        Err(RecvTimeoutError::Timeout) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("the look-up of the name {name} did not end in time"),
        )),
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other(format!(
            "the look-up of the name {name} ended without an answer"
        ))),
    }
}

fn until(deadline_ns: u64) -> Duration {
    Duration::from_nanos(deadline_ns.saturating_sub(monotonic_ns()))
}

/// Returns whether the part of a URL before the path is only `host` or `host:port`.
pub fn is_plain_host(host: &str) -> bool {
    host.is_ascii()
        && !host.contains(|character: char| character < ' ' || "@?#\\% ".contains(character))
        && name_and_port(host, 1).is_some()
}

/// Splits `name`, `name:port`, `[v6]` or `[v6]:port`. Returns None for any other text.
pub fn name_and_port(host: &str, default_port: u16) -> Option<(&str, u16)> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(literal) => literal.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().ok()?,
        None if rest.is_empty() => default_port,
        _ => return None,
    };
    (!name.is_empty() && !name.contains(['[', ']']) && port > 0).then_some((name, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{bind, listen, socket, AddressFamily, SocketType};
    use std::os::fd::OwnedFd;

    #[test]
    fn only_addresses_of_this_machine_are_loopback_in_any_notation() {
        for (host, loopback) in [
            ("127.0.0.1:80", true),
            ("127.255.255.254:80", true),
            ("[::1]:80", true),
            ("[::ffff:127.0.0.1]:80", true),
            ("2130706433:80", true),
            ("127.1:80", true),
            ("0.0.0.0:80", false),
            ("128.0.0.1:80", false),
            ("126.255.255.255:80", false),
            ("[::]:80", false),
            ("[::ffff:10.0.0.1]:80", false),
            ("[::7f00:1]:80", false),
            ("10.127.0.1:80", false),
        ] {
            let address = resolve(host, 80, monotonic_ns() + NS_PER_S).expect(host);
            assert_eq!(is_loopback(address.ip()), loopback, "{host}");
        }
    }

    #[test]
    fn the_text_of_a_host_names_loopback_only_as_an_address_or_localhost() {
        for host in [
            "127.0.0.1",
            "127.8.9.10:80",
            "[::1]:80",
            "[::ffff:127.0.0.1]",
            "localhost",
            "LocalHost:80",
            "shop.localhost:80",
            "a.b.Localhost.",
        ] {
            assert!(names_loopback(host), "{host}");
        }
        for host in [
            "",
            "10.0.0.1",
            "[::]",
            "localhost.example",
            "mylocalhost",
            ".localhost",
            "files",
            "127.1",
            "::1",
            "127.0.0.1:",
        ] {
            assert!(!names_loopback(host), "{host}");
        }
    }

    /// Binds an address, so that no other program accepts connections there.
    fn take(address: SocketAddr) -> Option<OwnedFd> {
        let family = if address.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let socket = socket(family, SocketType::STREAM, None).ok()?;
        bind(&socket, &address).ok()?;
        Some(socket)
    }

    /// Binds both loopback addresses at one port, or only the IPv4 one on a machine without IPv6.
    fn take_both() -> Option<(Vec<(SocketAddr, OwnedFd)>, u16)> {
        let has_ipv6 = take(loopbacks(0)[1]).is_some();
        for _ in 0..100 {
            let free = std::net::TcpListener::bind(loopbacks(0)[0]).ok()?;
            let port = free.local_addr().ok()?.port();
            drop(free);
            let taken = loopbacks(port).map(|address| take(address).map(|socket| (address, socket)));
            let taken: Vec<_> = taken.into_iter().flatten().collect();
            if taken.len() == 1 + usize::from(has_ipv6) {
                return Some((taken, port));
            }
        }
        None
    }

    #[test]
    fn a_loopback_name_resolves_to_the_address_that_accepts_connections() {
        // Each look-up may take its full limit of one second.
        let find = |name: &str, port| {
            resolve(&format!("{name}:{port}"), 80, monotonic_ns() + 30 * NS_PER_S).map(|found| found.ip())
        };
        let (taken, port) = take_both().expect("a free port");
        assert!(find("localhost", port).expect("refused later").is_loopback());
        for place in 0..taken.len() {
            let (taken, port) = take_both().expect("a free port");
            let (here, server) = &taken[place];
            listen(server, 8).expect("taken");
            assert_eq!(find("localhost", port).expect("here"), here.ip());
            assert_eq!(find("shop.localhost", port).expect("here"), here.ip());
        }
    }

    #[test]
    fn a_look_up_past_its_deadline_is_abandoned() {
        let late = resolve("a-name-that-must-be-looked-up.invalid", 80, monotonic_ns());
        assert_eq!(late.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
    }
}
