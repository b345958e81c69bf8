//! Serves until standard input ends, then prints the number of requests. For profiling, and for other load generators.
//!
//! `serve PORT CPU[,CPU...] tree|BYTES [FAULT]`: one thread per CPU.

use dyno_testserver::http::{Documents, Options, Server};
use dyno_workload::Tree;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, cpus, documents, fault @ ..] = arguments.as_slice() else {
        return Err("usage: serve PORT CPU[,CPU...] tree|BYTES [FAULT]".into());
    };
    let documents = match documents.as_str() {
        "tree" => Documents::Tree(Tree::load()),
        bytes => Documents::Fixed(bytes.parse()?),
    };
    let cpus = cpus
        .split(',')
        .map(str::parse)
        .collect::<Result<Vec<usize>, _>>()?;
    let server = Server::start(&Options {
        bind: SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse()?)),
        threads: cpus.len(),
        cpus,
        http2: true,
        fault: fault.first().map(|name| name.parse()).transpose()?,
        ..Options::on_loopback(documents)
    })?;
    println!("http://{}", server.address());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.stop();
    println!("{} requests", server.requests());
    Ok(())
}
