//! FSCTL_QUERY_NETWORK_INTERFACE_INFO (MS-SMB2 2.2.32.5, 3.3.5.15.11): tells a client the address for further
//! connections. It is always the address that the client already uses.

use super::BODY;
use crate::smb::bytes::{u32_at, Put};
use crate::smb::message::write_control;
use crate::smb::status::Status;
use std::net::SocketAddr;

const ANSWER_BYTES: u32 = 152;
const ADDRESS_BYTES: usize = 128;
/// Capability flag: several connections are useful, because they are distributed over CPUs.
const RSS_CAPABLE: u32 = 1;
/// An arbitrary value, because the field can't express that the speed is unknown. Clients only compare the speeds of
/// interfaces, and there is only one interface.
const LINK_BITS_PER_S: u64 = 10_000_000_000;
const IP_4: u16 = 2;
const IP_6: u16 = 23;

pub(super) fn query(part: &[u8], local: SocketAddr, out: &mut Vec<u8>) -> Result<(), Status> {
    if u32_at(part, BODY + 44)? < ANSWER_BYTES {
        return Err(Status::INVALID_PARAMETER);
    }
    write_control(part, out, |out| {
        out.u32(0);
        out.u32(1); // its index
        out.u32(RSS_CAPABLE);
        out.u32(0);
        out.u64(LINK_BITS_PER_S);
        let start = out.len();
        match local {
            SocketAddr::V4(address) => {
                out.u16(IP_4);
                out.u16(0);
                out.extend_from_slice(&address.ip().octets());
            }
            SocketAddr::V6(address) => {
                out.u16(IP_6);
                out.u16(0);
                out.u32(0);
                out.extend_from_slice(&address.ip().octets());
                out.u32(address.scope_id());
            }
        }
        out.zeros(start + ADDRESS_BYTES - out.len());
    })
}
