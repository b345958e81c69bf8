//! Checksums of objects: CRC32, CRC32C, CRC64NVME and SHA-256, and their header fields and trailers.

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use crc_fast::{checksum, CrcAlgorithm};
use sha2::{Digest, Sha256};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha256,
}

impl Algorithm {
    pub(super) const ALL: [Self; 4] = [Self::Crc32, Self::Crc32c, Self::Crc64Nvme, Self::Sha256];

    /// Returns the name of the header field or trailer.
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Sha256 => "x-amz-checksum-sha256",
        }
    }

    pub(super) fn of_field(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.field() == name)
    }

    /// Returns the checksum of these bytes in Base64.
    pub(super) fn of(self, content: &[u8]) -> String {
        let crc = |algorithm| checksum(algorithm, content).to_be_bytes();
        match self {
            Self::Crc32 => STANDARD.encode(&crc(CrcAlgorithm::Crc32IsoHdlc)[4..]),
            Self::Crc32c => STANDARD.encode(&crc(CrcAlgorithm::Crc32Iscsi)[4..]),
            Self::Crc64Nvme => STANDARD.encode(crc(CrcAlgorithm::Crc64Nvme)),
            Self::Sha256 => STANDARD.encode(Sha256::digest(content)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_checksum_has_the_check_value_of_its_catalogue() {
        for (algorithm, bytes) in [
            (Algorithm::Crc32, &[0xCB, 0xF4, 0x39, 0x26][..]),
            (Algorithm::Crc32c, &[0xE3, 0x06, 0x92, 0x83]),
            (Algorithm::Crc64Nvme, &0xAE8B_1486_0A79_9888_u64.to_be_bytes()),
        ] {
            assert_eq!(
                algorithm.of(b"123456789"),
                STANDARD.encode(bytes),
                "{algorithm:?}"
            );
        }
        assert_eq!(Algorithm::Crc32.of(b"hello world"), "DUoRhQ==");
        assert_eq!(
            Algorithm::Sha256.of(b""),
            "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
        );
    }
}
