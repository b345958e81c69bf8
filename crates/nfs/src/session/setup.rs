//! Start and end of a session: single requests, each on its own connection. The portmapper is queried once
//! per target (`target.rs`), MOUNT and FSINFO for each session.

use super::datagrams;
use super::options::TransferSizes;
use super::Session;
use crate::refusal::Refusal;
use crate::status::{self, Status};
use crate::v4::NFS4;
use crate::wire::{
    mount, parse_fs_info, parse_mount, parse_port, port_of, unmount, Body, FileHandle, Message, Procedure,
    Program, Reader, Records, Request, Transport, AUTH_NONE, AUTH_SYS, MOUNT, NFS,
};
use dyno_files::Traffic;
use dyno_measure::{monotonic_ns, Detail, Failure, Fault};
use dyno_net::{Dialer, Executor, Pace, Socket};
use std::net::SocketAddr;

/// Upper bound on the size of an answer during the set-up.
const MOST_BYTES: usize = 65_536;
const PORTMAPPER_PORT: u16 = 111;
/// Port of NFSv4 (RFC 8881, 2.9.3), and usually of NFSv3.
pub(crate) const NFS_PORT: u16 = 2049;

/// Answer to a single request.
pub(super) struct Answer {
    pub(super) record: Vec<u8>,
    pub(super) body: Body,
}

impl Answer {
    fn results(&self, at: usize) -> &[u8] {
        &self.record[at..]
    }
}

/// Sends a request, once the rate limit permits it, on a connection of `dialer` that need not be established yet.
/// Returns the answer.
pub(super) async fn exchange(
    (dialer, socket): (&Dialer, &Socket),
    message: &Message,
    xid: u32,
    traffic: &mut Traffic,
) -> Result<Answer, Failure> {
    dialer.turn(1).await;
    socket.send_first(message.bytes()).await?;
    traffic.bytes_out += message.bytes().len() as u64;
    let mut records = Records::new(MOST_BYTES);
    let is_first = traffic.bytes_in == 0;
    // Another kind of server may listen there.
    let malformed = |failure| match is_first {
        true => Refusal::NotRpc.failure(None),
        false => failure,
    };
    loop {
        if let Some(range) = records.next_record().map_err(|why| malformed(why.into()))? {
            let record = records.bytes()[range].to_vec();
            let (answered, body) = Body::parse(&record).map_err(|why| malformed(why.into()))?;
            if answered != xid {
                return Err(Fault::MalformedMessage.into());
            }
            return Ok(Answer { record, body });
        }
        match socket.try_receive(records.room())? {
            Some(0) => return Err(Fault::ClosedEarly.into()),
            Some(count) => {
                records.filled(count);
                traffic.bytes_in += count as u64;
            }
            None => socket.readable(Fault::ResponseTimeout).await?,
        }
    }
}

/// Sends a request over a new connection or datagram socket.
async fn ask_by(
    dialer: &Dialer,
    (executor, transport): (&Executor, Transport),
    message: &Message,
    xid: u32,
    traffic: &mut Traffic,
) -> Result<Answer, Failure> {
    match transport {
        Transport::Tcp => exchange((dialer, &dialer.dial(None)?), message, xid, traffic).await,
        Transport::Udp => {
            let socket = dialer.dial_datagrams(MOST_BYTES)?;
            let exchanged = datagrams::exchange(executor, (dialer, &socket), message, xid, traffic).await;
            exchanged.map(|(record, body)| Answer { record, body })
        }
    }
}

/// The host whose portmapper is queried for ports.
pub(crate) struct Portmapped<'a> {
    pub executor: &'a Executor,
    /// Rate limit of the requests; None: no limit.
    pub pace: Option<Pace>,
    /// Address of the NFS server. The portmapper runs on the same host. If it names no ports, this address is checked
    /// for NFSv4.
    pub server: SocketAddr,
    pub transport: Transport,
}

impl Portmapped<'_> {
    fn dialer(&self, peer: SocketAddr) -> Dialer {
        Dialer::new(self.executor.clone(), peer, 0).paced(self.pace.clone())
    }
}

/// Queries the portmapper for the ports of NFS and MOUNT.
pub(crate) async fn ask_ports(host: Portmapped<'_>) -> Result<(u16, u16), Failure> {
    let (executor, now_ns) = (host.executor, monotonic_ns());
    // A firewall may drop everything to port 111: half of the time is reserved for the request below.
    let half_ns = executor.deadline_ns().saturating_sub(now_ns) / 2;
    match executor.with_deadline(now_ns + half_ns, ask_both(&host)).await {
        Err(failure) => Err(explained(&host, failure).await),
        asked => asked,
    }
}

/// Returns why the portmapper named no ports, after checks of the NFS port.
async fn explained(host: &Portmapped<'_>, failure: Failure) -> Failure {
    if host.transport == Transport::Tcp && speaks(host, NFS4).await {
        return Refusal::OnlyNfs4.failure(None);
    }
    let says_none = [Refusal::NoNfs, Refusal::NoUdp].map(|refusal| refusal.failure(None));
    if !says_none.contains(&failure) || !refuses(host).await {
        return failure;
    }
    let no_nfs4 = Refusal::NoServer.failure(None);
    match ask_port(host, Transport::Tcp, NFS4, Refusal::NoServer).await {
        Err(why) if why == no_nfs4 => no_nfs4,
        _ => failure,
    }
}

/// Returns whether this address refuses connections, because nothing listens there.
async fn refuses(host: &Portmapped<'_>) -> bool {
    let asked = match host.dialer(host.server).dial(None) {
        Ok(socket) => socket.send_first(&[]).await.map(|_| ()),
        Err(failure) => Err(failure),
    };
    asked.is_err_and(|failure| failure.fault == Fault::ConnectionRefused)
}

/// Returns whether the server at this address executes calls of `program`.
async fn speaks(host: &Portmapped<'_>, program: Program) -> bool {
    let dialer = host.dialer(host.server);
    let Ok(socket) = dialer.dial(None) else {
        return false;
    };
    let mut message = Message::default();
    message.begin(program.1, program, 0, None);
    message.end();
    let asked = exchange((&dialer, &socket), &message, program.1, &mut Traffic::default()).await;
    asked.is_ok_and(|answer| matches!(answer.body, Body::Accepted(_)))
}

async fn ask_both(host: &Portmapped<'_>) -> Result<(u16, u16), Failure> {
    let no_nfs = match host.transport {
        Transport::Tcp => Refusal::NoNfs,
        Transport::Udp => Refusal::NoUdp,
    };
    let nfs = ask_port(host, host.transport, NFS, no_nfs).await?;
    let mount = ask_port(host, host.transport, MOUNT, Refusal::NoMountService).await?;
    Ok((nfs, mount))
}

async fn ask_port(
    host: &Portmapped<'_>,
    transport: Transport,
    program: Program,
    refusal: Refusal,
) -> Result<u16, Failure> {
    let portmapper = host.dialer(SocketAddr::new(host.server.ip(), PORTMAPPER_PORT));
    let mut message = Message::default();
    port_of(&mut message, program.0, program, transport);
    let traffic = &mut Traffic::default();
    let by = (host.executor, transport);
    let asked = ask_by(&portmapper, by, &message, program.0, traffic).await;
    let answer = asked.map_err(|failure| match failure.fault {
        Fault::ConnectionRefused | Fault::ClosedEarly | Fault::ConnectionReset => {
            Refusal::NoPortmapper.failure(None)
        }
        _ => failure,
    })?;
    match answer.body {
        Body::Accepted(at) => parse_port(answer.results(at))?.ok_or_else(|| refusal.failure(None)),
        _ => Err(Refusal::NoPortmapper.failure(None)),
    }
}

impl Session {
    /// Mounts the export, connects, and negotiates the sizes. If the server may require a client port below 1024,
    /// tries again with one.
    pub(super) async fn establish(&mut self) -> Result<(), Failure> {
        let was_reserved = self.dialer.uses_reserved_ports();
        let established = self.establish_once().await;
        let Err(failure) = established else {
            return Ok(());
        };
        if was_reserved || !wants_low_port(&failure) {
            return Err(failure);
        }
        self.drop_session();
        self.dialer.use_reserved_ports(true);
        let again = self.establish_once().await;
        if again.is_err() {
            self.dialer.use_reserved_ports(false);
        }
        again.map_err(|_| failure)
    }

    async fn establish_once(&mut self) -> Result<(), Failure> {
        if self.options.version.is_four() {
            return self.establish4().await;
        }
        let root = self.mount().await?;
        self.dial()?;
        let agreed = self.settle(root).await?;
        self.conversation.establish(root, agreed);
        let most_bytes = agreed.max_read_bytes.max(agreed.listing_bytes) as usize;
        self.records
            .set_max_record_bytes(most_bytes + super::AROUND_DATA_BYTES);
        Ok(())
    }

    async fn ask_mount_service(
        &mut self,
        write: impl FnOnce(&Self, &mut Message, u32),
    ) -> Result<Answer, Failure> {
        let xid = self.conversation.number();
        let mut message = Message::default();
        write(self, &mut message, xid);
        let dialer =
            Dialer::new(self.executor.clone(), self.mount_address, 0).paced(self.dialer.pace().cloned());
        dialer.use_reserved_ports(self.dialer.uses_reserved_ports());
        let by = (&self.executor, self.options.transport);
        self.traffic.connections += 1;
        ask_by(&dialer, by, &message, xid, &mut self.traffic).await
    }

    async fn mount(&mut self) -> Result<FileHandle, Failure> {
        let asked = self.ask_mount_service(|session, message, xid| {
            mount(message, xid, &session.export, &session.options.credential);
        });
        let answer = asked.await?;
        let at = match answer.body {
            Body::Accepted(at) => at,
            Body::Unaccepted(reason) => return Err(Refusal::NotMount.failure(Some(status::of_rpc(reason)))),
            Body::Denied(reason) => return Err(Refusal::denied(reason)),
        };
        match parse_mount(answer.results(at))? {
            Err(refused) => Err(Refusal::Export.failure(Some(status::of_mount(refused)))),
            Ok(mounted) if takes_auth_sys(&mounted.flavors) => {
                self.conversation.no_flavor = mounted.flavors.is_empty();
                Ok(mounted.root)
            }
            Ok(_) => Err(Refusal::Flavor.failure(None)),
        }
    }

    async fn settle(&mut self, root: FileHandle) -> Result<TransferSizes, Failure> {
        let xid = self.conversation.number();
        let mut message = Message::default();
        Request::FsInfo { root }.write(&mut message, xid, &self.options.credential);
        self.conversation.count(Procedure::FsInfo as usize);
        let socket = self.socket.as_ref().ok_or(Fault::SessionLost)?;
        let answer = match self.options.transport {
            Transport::Tcp => exchange((&*self.dialer, socket), &message, xid, &mut self.traffic).await?,
            Transport::Udp => {
                let by = (&*self.dialer, socket);
                let (record, body) =
                    datagrams::exchange(&self.executor, by, &message, xid, &mut self.traffic).await?;
                Answer { record, body }
            }
        };
        let at = match answer.body {
            Body::Accepted(at) => at,
            Body::Unaccepted(reason) => return Err(Refusal::NotNfs.failure(Some(status::of_rpc(reason)))),
            Body::Denied(reason) => return Err(Refusal::denied(reason)),
        };
        let refused = Reader::new(answer.results(at)).u32()?;
        if refused != Status::Ok as u32 {
            return Err(Refusal::Export.failure(Some(status::of(refused))));
        }
        let info = parse_fs_info(answer.results(at + 4))?;
        TransferSizes::of(&self.options, &info).ok_or_else(|| Refusal::Sizes.failure(None))
    }

    /// Unmounts the export, or ends the NFSv4.1 session.
    pub(super) async fn leave(&mut self) -> Result<(), Failure> {
        if self.options.version.is_four() {
            return self.leave4().await;
        }
        let asked = self.ask_mount_service(|session, message, xid| {
            unmount(message, xid, &session.export, &session.options.credential);
        });
        asked.await.map(|_| ())
    }
}

/// Returns whether a server may have refused the session because of a port above 1023 (Linux: NFS3ERR_PERM or
/// MNT3ERR_ACCES; Ganesha: AUTH_TOOWEAK, NFS4ERR_WRONGSEC, or no such name in the pseudo file system).
fn wants_low_port(failure: &Failure) -> bool {
    let Detail::Refused { step, status } = failure.detail else {
        return false;
    };
    let status = status.map_or(0, |status| status.code);
    let denied = [Status::Perm, Status::Access, Status::NoEnt].map(|status| status as u32);
    match Refusal::of(step) {
        Some(Refusal::Flavor) => true,
        Some(Refusal::Export) => denied.contains(&status),
        _ => false,
    }
}

/// Returns whether an export with these flavors accepts AUTH_SYS. A server that lists AUTH_NONE ignores
/// credentials and therefore accepts AUTH_SYS; Linux's client interprets the list in the same way.
fn takes_auth_sys(flavors: &[u32]) -> bool {
    flavors.is_empty() || flavors.contains(&AUTH_SYS) || flavors.contains(&AUTH_NONE)
}

#[cfg(test)]
mod tests {
    use super::takes_auth_sys;

    #[test]
    fn auth_sys_is_tried_unless_the_export_lists_only_other_flavors() {
        for (flavors, takes) in [
            (&[][..], true),
            (&[0], true),
            (&[1], true),
            (&[390_003, 1], true),
            (&[390_003], false),
        ] {
            assert_eq!(takes_auth_sys(flavors), takes, "{flavors:?}");
        }
    }
}
