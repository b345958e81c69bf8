//! Checksums by which S3 verifies an object's content.

use base64::prelude::{Engine, BASE64_STANDARD};
use crc_fast::{CrcAlgorithm, Digest};

/// A checksum of an object's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    Crc32,
    Crc32c,
    Crc64Nvme,
}

impl Checksum {
    /// Returns the header's name.
    #[must_use]
    pub fn header(self) -> &'static str {
        match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
        }
    }

    /// Returns the name in `x-amz-checksum-algorithm`.
    #[must_use]
    pub fn algorithm(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
        }
    }

    /// Returns the name of the element in the XML of a part.
    #[must_use]
    pub(crate) fn element(self) -> &'static str {
        match self {
            Self::Crc32 => "ChecksumCRC32",
            Self::Crc32c => "ChecksumCRC32C",
            Self::Crc64Nvme => "ChecksumCRC64NVME",
        }
    }

    /// Returns the checksum of the concatenated `parts`, in the form of the header.
    #[must_use]
    pub fn of<'a>(self, parts: impl IntoIterator<Item = &'a [u8]>) -> String {
        let mut digest = Digest::new(match self {
            Self::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
            Self::Crc32c => CrcAlgorithm::Crc32Iscsi,
            Self::Crc64Nvme => CrcAlgorithm::Crc64Nvme,
        });
        parts.into_iter().for_each(|part| digest.update(part));
        let sum = digest.finalize().to_be_bytes();
        match self {
            Self::Crc64Nvme => BASE64_STANDARD.encode(sum),
            Self::Crc32 | Self::Crc32c => BASE64_STANDARD.encode(&sum[4..]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Checksum;

    /// The check values of the three algorithms ("123456789"; reveng catalogue of CRC algorithms) in Base64.
    #[test]
    fn checksums_have_their_published_check_values() {
        for (checksum, expected) in [
            (Checksum::Crc32, "y/Q5Jg=="),
            (Checksum::Crc32c, "4waSgw=="),
            (Checksum::Crc64Nvme, "rosUhgp5mIg="),
        ] {
            assert_eq!(checksum.of([b"123456789".as_slice()]), expected);
            assert_eq!(checksum.of([b"1234".as_slice(), b"", b"56789"]), expected);
        }
    }
}
