//! Access rights (MS-SMB2 2.2.13.1.1).

pub(crate) const READ_DATA: u32 = 0x0000_0001;
pub(crate) const WRITE_DATA: u32 = 0x0000_0002;
pub(crate) const APPEND: u32 = 0x0000_0004;
pub(crate) const EXECUTE: u32 = 0x0000_0020;
pub(crate) const READ_ATTRIBUTES: u32 = 0x0000_0080;
pub(crate) const WRITE_ATTRIBUTES: u32 = 0x0000_0100;
pub(crate) const DELETE: u32 = 0x0001_0000;
pub(crate) const READ_CONTROL: u32 = 0x0002_0000;
pub(crate) const SYNCHRONIZE: u32 = 0x0010_0000;
pub(crate) const ALL: u32 = 0x001F_01FF;
pub(super) const QUIET: u32 = READ_ATTRIBUTES | WRITE_ATTRIBUTES | SYNCHRONIZE | READ_CONTROL;
