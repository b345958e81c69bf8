//! The results in an answer that calls need, for all versions of NFS.

use crate::status::{self, Status, Status4};
use crate::v4::{self, Entries4};
use crate::wire::{self, parse, Attributes3, Committed, Created, Entries, FileHandle, Found, Message, Wcc};
use dyno_files::{Attributes, Info, SpaceInfo, Stability, Verifier};
use dyno_measure::Failure;
use std::ops::Range;

/// The answer to one request of a call.
pub(super) struct Answer<'a> {
    pub(super) is_four: bool,
    pub(super) status: u32,
    pub(super) results: &'a [u8],
    /// Start of the results in the record buffer.
    pub(super) begin: usize,
    /// Whether the request was sent more than once, and may have been executed before.
    pub(super) repeated: bool,
    pub(super) request: &'a Message,
}

impl Answer<'_> {
    pub(super) fn is(&self, status: Status) -> bool {
        self.status == status as u32
    }

    /// Returns whether the status is one of these, which only NFSv4.1 has.
    pub(super) fn is_one_of(&self, statuses: &[Status4]) -> bool {
        statuses.iter().any(|status| self.status == *status as u32)
    }

    /// Returns whether the server no longer knows a file handle of the request.
    pub(super) fn is_stale(&self) -> bool {
        self.is(Status::Stale) || self.is(Status::BadHandle)
    }

    pub(super) fn failure_of(&self, status: Status) -> Failure {
        match self.is_four {
            false => status::failure(status as u32),
            true => status::failure4(status as u32),
        }
    }

    pub(super) fn failure(&self) -> Failure {
        match self.is_four {
            false => status::failure(self.status),
            true => status::failure4(self.status),
        }
    }
}

pub(super) struct WasRead {
    pub is_end: bool,
    /// Range of the data in the results.
    pub data: Range<usize>,
    pub info: Option<Info>,
}

/// State of a file after a call that changes it.
pub(super) enum Changed {
    /// The attributes that the server reported. None if the server reported none.
    Told(Option<Attributes>),
    /// The attributes after the change; the server does not report those before it.
    After(Info),
}

/// Result of a write.
pub(super) struct WasWritten {
    pub bytes: u32,
    pub stability: Stability,
    pub verifier: Verifier,
    pub changed: Changed,
}

/// A part of a listing.
pub(super) enum Listing<'a> {
    Three(Entries<'a>),
    Four(Entries4<'a>),
}

impl Listing<'_> {
    /// Returns the verifier for continuing the listing after its last cookie.
    pub(super) fn verifier(&self) -> u64 {
        match self {
            Self::Three(entries) => entries.verifier,
            Self::Four(entries) => entries.verifier,
        }
    }

    /// Passes the cookie and name of each entry to `take`; returns whether the listing ends here.
    pub(super) fn each(&mut self, mut take: impl FnMut(u64, &[u8])) -> Result<bool, Failure> {
        match self {
            Self::Three(entries) => {
                while let Some(entry) = entries.next_entry()? {
                    take(entry.cookie, entry.name);
                }
                Ok(entries.is_last_part()?)
            }
            Self::Four(entries) => {
                while let Some((cookie, name)) = entries.next_entry()? {
                    take(cookie, name);
                }
                Ok(entries.is_last_part()?)
            }
        }
    }
}

fn info(attributes: Option<Attributes3>) -> Option<Info> {
    attributes.map(|attributes| attributes.info())
}

impl Answer<'_> {
    pub(super) fn info(&self) -> Result<Info, Failure> {
        Ok(match self.is_four {
            false => parse::<Attributes3>(self.results)?.info(),
            true => v4::parse_get_attributes(self.results)?,
        })
    }

    pub(super) fn found(&self) -> Result<(FileHandle, Option<Info>), Failure> {
        Ok(match self.is_four {
            false => {
                let found: Found = parse(self.results)?;
                (found.file, info(found.attributes))
            }
            true => {
                let (file, info) = v4::parse_lookup(self.results)?;
                (file, Some(info))
            }
        })
    }

    /// Parses the results of CREATE and MKDIR; with NFSv4.1, of creating a directory.
    pub(super) fn made(&self) -> Result<(Option<FileHandle>, Option<Info>), Failure> {
        Ok(match self.is_four {
            false => {
                let made: Created = parse(self.results)?;
                (made.file, info(made.attributes))
            }
            true => {
                let (file, info) = v4::parse_made(self.results)?;
                (Some(file), Some(info))
            }
        })
    }

    pub(super) fn set(&self) -> Result<Changed, Failure> {
        Ok(match self.is_four {
            false => Changed::Told(parse::<Wcc>(self.results)?.attributes()),
            true => Changed::After(v4::parse_set(self.results)?),
        })
    }

    /// Parses the results of a READ of `most` bytes.
    pub(super) fn read(&self, most: u32) -> Result<WasRead, Failure> {
        Ok(match self.is_four {
            false => {
                let read = wire::parse_read(self.results, most)?;
                WasRead {
                    is_end: read.is_end,
                    data: read.data,
                    info: info(read.attributes),
                }
            }
            true => {
                let (is_end, data) = v4::parse_read(self.results, most)?;
                WasRead {
                    is_end,
                    data,
                    info: None,
                }
            }
        })
    }

    /// Parses the results of a WRITE of `most` bytes, which must be at least as durable as `least`.
    pub(super) fn written(&self, most: u32, least: Stability) -> Result<WasWritten, Failure> {
        Ok(match self.is_four {
            false => {
                let written = wire::parse_write(self.results, most, least)?;
                WasWritten {
                    bytes: written.bytes,
                    stability: written.stability,
                    verifier: written.verifier,
                    changed: Changed::Told(written.wcc.attributes()),
                }
            }
            true => {
                let written = v4::parse_write(self.results, most, least)?;
                WasWritten {
                    bytes: written.bytes,
                    stability: written.stability,
                    verifier: written.verifier,
                    changed: Changed::After(written.info),
                }
            }
        })
    }

    pub(super) fn committed(&self) -> Result<(Verifier, Option<Attributes>), Failure> {
        Ok(match self.is_four {
            false => {
                let committed: Committed = parse(self.results)?;
                (committed.verifier, committed.wcc.attributes())
            }
            true => (v4::parse_commit(self.results)?, None),
        })
    }

    pub(super) fn space(&self) -> Result<SpaceInfo, Failure> {
        Ok(match self.is_four {
            false => wire::parse_fs_stat(self.results)?,
            true => v4::parse_space(self.results)?,
        })
    }

    /// Parses the results of a listing; `plus`: with attributes.
    pub(super) fn listing(&self, plus: bool) -> Result<Listing<'_>, Failure> {
        Ok(match self.is_four {
            false => Listing::Three(Entries::parse(self.results, plus)?),
            true => Listing::Four(Entries4::parse(self.results, plus)?),
        })
    }

    /// Returns the number of bytes of a WRITE after its data and padding.
    pub(super) fn bytes_behind_data(&self) -> usize {
        match self.is_four {
            false => 0,
            true => v4::AFTER_DATA_BYTES,
        }
    }
}
