//! Local ports are exhausted. On loopback, the generator uses further source addresses. Elsewhere, this
//! counts as the generator's fault.

use super::running::{faults, level_at, run, run_with, with_client};
use super::server::{Connection, Server, OK};
use super::testbed::{Namespace, Testbed, SERVER};
use dyno_engine::LevelSpec;
use dyno_measure::{Fault, Side};
use dyno_net::consent_document;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};

const TOKEN: &str = "Zr4u7xKq9LmN2pWs";
const PORTS: u64 = 50;
const SERVER_PORT: u16 = 8080;

fn leave_few_ports(namespace: &Namespace) {
    namespace.run(|| {
        // `/proc/sys/net` shows the namespace of the calling thread.
        std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40049").expect("root may");
        std::fs::write("/proc/sys/net/ipv4/tcp_tw_reuse", "0").expect("root may");
    });
}

/// Serves the consent document, and answers anything else; the client closes first, so that its port stays occupied.
fn serve(mut connection: Connection) {
    while let Some(path) = connection.request() {
        let host = format!("{SERVER}:{SERVER_PORT}");
        let document = consent_document(&host, TOKEN);
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{document}",
            document.len()
        );
        connection.send(if path.starts_with("/.well-known/") {
            &answer
        } else {
            OK
        });
    }
}

fn connection_per_request(url: &str) -> LevelSpec {
    let mut level = with_client(level_at(url), "keep_alive", json!(false));
    level.window.length_s = 1.0;
    // Outside loopback a rate limit is required. This one is never reached.
    level.max_rate_per_s = Some(1e6);
    level
}

#[test]
fn on_loopback_further_source_addresses_are_used_and_no_operation_fails() {
    let Some(testbed) = Testbed::new() else { return };
    leave_few_ports(&testbed.server);
    let (server, tally) = testbed.server.run(|| {
        let server = Server::start_on(IpAddr::V4(Ipv4Addr::LOCALHOST), SERVER_PORT, serve);
        let url = format!("http://{}/", server.address);
        // 250 addresses with 50 ports each suffice for this rate.
        let tally = run(LevelSpec {
            max_rate_per_s: Some(5_000.0),
            ..connection_per_request(&url)
        });
        (server, tally)
    });
    assert_eq!(faults(&tally), []);
    assert_eq!(tally.operations_total, server.requests());
    assert!(
        tally.operations_total > PORTS,
        "{} operations",
        tally.operations_total
    );
    let least = tally.operations_total.div_ceil(PORTS);
    assert!(tally.generator.source_addresses >= least);
}

#[test]
fn outside_loopback_a_lack_of_ports_is_the_generators_fault_and_never_the_servers() {
    let Some(testbed) = Testbed::new() else { return };
    leave_few_ports(&testbed.client);
    let server = testbed
        .server
        .run(|| Server::start_on(SERVER, SERVER_PORT, serve));
    let tally = testbed.client.run(|| {
        run_with(
            connection_per_request(&format!("http://{}/", server.address)),
            Some(TOKEN),
        )
    });
    let [(fault, count)] = faults(&tally)[..] else {
        panic!("{:?}", tally.errors)
    };
    assert_eq!((fault, fault.side()), (Fault::NoPorts, Side::Client));
    assert!(count > 0);
    assert_eq!(tally.generator.source_addresses, 1);
    assert!(
        (1..=PORTS).contains(&tally.operations_total),
        "{} operations",
        tally.operations_total
    );
    // The additional request is the one for consent.
    assert_eq!(server.requests(), tally.operations_total + 1);
}
