//! Checksums of objects: CRC32, CRC32C, CRC64NVME and SHA-256, as header fields and trailers name them.

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use sha2::{Digest, Sha256};
use std::sync::OnceLock;

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
        match self {
            Self::Crc32 => STANDARD.encode((crc(&CRC32, content) as u32).to_be_bytes()),
            Self::Crc32c => STANDARD.encode((crc(&CRC32C, content) as u32).to_be_bytes()),
            Self::Crc64Nvme => STANDARD.encode(crc(&CRC64_NVME, content).to_be_bytes()),
            Self::Sha256 => STANDARD.encode(Sha256::digest(content)),
        }
    }
}

/// A reflected CRC: polynomial with its bits reversed, the mask of its width, and its tables.
struct Crc {
    polynomial: u64,
    mask: u64,
    tables: OnceLock<Box<[[u64; 256]; STRIDE]>>,
}

/// Bytes per step.
const STRIDE: usize = 8;

static CRC32: Crc = Crc::new(0xEDB8_8320, u32::MAX as u64);
static CRC32C: Crc = Crc::new(0x82F6_3B78, u32::MAX as u64);
static CRC64_NVME: Crc = Crc::new(0x9A6C_9329_AC4B_C9B5, u64::MAX);

impl Crc {
    const fn new(polynomial: u64, mask: u64) -> Self {
        Self {
            polynomial,
            mask,
            tables: OnceLock::new(),
        }
    }

    /// Returns the tables: `tables[n][byte]` is the remainder of a byte with `n` zero bytes after it.
    fn tables(&self) -> &[[u64; 256]; STRIDE] {
        self.tables.get_or_init(|| {
            let mut tables = Box::new([[0; 256]; STRIDE]);
            for byte in 0..256 {
                let mut value = byte as u64;
                for _ in 0..8 {
                    value = (value >> 1) ^ (if value & 1 == 1 { self.polynomial } else { 0 });
                }
                tables[0][byte] = value;
            }
            for number in 1..STRIDE {
                for byte in 0..256 {
                    let before = tables[number - 1][byte];
                    tables[number][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
                }
            }
            tables
        })
    }
}

fn crc(kind: &Crc, content: &[u8]) -> u64 {
    let tables = kind.tables();
    let mut value = kind.mask;
    let mut blocks = content.chunks_exact(STRIDE);
    for block in &mut blocks {
        let mut word = [0; STRIDE];
        word.copy_from_slice(block);
        let mixed = (u64::from_le_bytes(word) ^ value).to_le_bytes();
        value = (0..STRIDE).fold(0, |sum, at| sum ^ tables[STRIDE - 1 - at][usize::from(mixed[at])]);
    }
    for byte in blocks.remainder() {
        value = (value >> 8) ^ tables[0][usize::from(*byte ^ (value & 0xff) as u8)];
    }
    value ^ kind.mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_checksum_has_the_check_value_of_its_catalogue() {
        let check = b"123456789";
        assert_eq!(crc(&CRC32, check), 0xCBF4_3926);
        assert_eq!(crc(&CRC32C, check), 0xE306_9283);
        assert_eq!(crc(&CRC64_NVME, check), 0xAE8B_1486_0A79_9888);
        assert_eq!(Algorithm::Crc32.of(b"hello world"), "DUoRhQ==");
        assert_eq!(
            Algorithm::Sha256.of(b""),
            "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
        );
    }
}
