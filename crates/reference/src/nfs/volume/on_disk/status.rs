//! What a refusal of the kernel is to a client.

use crate::nfs::volume::files::Refused;
use dyno_nfs::status::Status;
use rustix::io::Errno;

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self(match errno {
            Errno::PERM => Status::Perm,
            Errno::NOENT => Status::NoEnt,
            Errno::ACCESS => Status::Access,
            Errno::ROFS => Status::RoFs,
            Errno::EXIST => Status::Exist,
            Errno::XDEV => Status::XDev,
            Errno::NOTDIR => Status::NotDir,
            Errno::ISDIR => Status::IsDir,
            Errno::INVAL => Status::Inval,
            Errno::FBIG => Status::FBig,
            Errno::NOSPC => Status::NoSpc,
            Errno::MLINK => Status::MLink,
            Errno::NAMETOOLONG => Status::NameTooLong,
            Errno::NOTEMPTY => Status::NotEmpty,
            Errno::DQUOT => Status::DQuot,
            // LOOP: a name that was no link when it was looked at, and is one now.
            Errno::STALE | Errno::LOOP => Status::Stale,
            Errno::OPNOTSUPP => Status::NotSupp,
            // Out of descriptors or memory: it may be otherwise soon.
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Status::JukeBox,
            _ => Status::Io,
        })
    }
}
