//! Keys of a client thread's objects, by their numbers.

use std::fmt::Write;

/// Keys below one prefix: `PREFIXp0001/o00000123`. The number of digits is fixed, so keys sort like numbers.
/// If an object has retired keys, its next key ends with their number: `o00000123-1`.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    prefix: String,
    objects_per_prefix: u32,
}

impl Names {
    pub(crate) fn new(prefix: String, objects_per_prefix: u32) -> Self {
        Self {
            prefix,
            objects_per_prefix,
        }
    }

    /// Returns the prefix of all keys.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Sets `key` to the key of an object that has `retired` retired keys.
    pub(crate) fn write_key(&self, object: u32, retired: u32, key: &mut String) {
        self.write_part(object / self.objects_per_prefix, key);
        // Writing to a string can't fail.
        let _ = write!(key, "o{object:08}");
        if retired > 0 {
            let _ = write!(key, "-{retired}");
        }
    }

    /// Sets `key` to the prefix with number `part`.
    pub(crate) fn write_part(&self, part: u32, key: &mut String) {
        key.clear();
        key.push_str(&self.prefix);
        let _ = write!(key, "p{part:04}/");
    }

    /// Returns the first object with the prefix `part`, and the first object of the next prefix.
    pub(crate) fn objects_of(&self, part: u32) -> (u32, u32) {
        let first = part.saturating_mul(self.objects_per_prefix);
        (first, first.saturating_add(self.objects_per_prefix))
    }

    /// Returns the object with a key, and the number of this key among the object's keys, from 0. Returns
    /// None if the key is not one of ours.
    pub(crate) fn object(&self, key: &str) -> Option<(u32, u32)> {
        let (_, number) = key.strip_prefix(&*self.prefix)?.split_once("/o")?;
        let (number, turn) = number.split_once('-').unwrap_or((number, "0"));
        let (object, turn) = (number.parse().ok()?, turn.parse().ok()?);
        let mut own = String::with_capacity(key.len());
        self.write_key(object, turn, &mut own);
        (own == key).then_some((object, turn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_as_its_object_and_no_other_key_is() {
        let names = Names::new("a/0/1/".to_owned(), 100);
        let mut key = String::new();
        for object in [0, 99, 100, 123_456] {
            for turn in [12, 0] {
                names.write_key(object, turn, &mut key);
                assert_eq!(names.object(&key), Some((object, turn)), "{key}");
            }
        }
        assert_eq!(key, "a/0/1/p1234/o00123456");
        assert_eq!(names.objects_of(1), (100, 200));
        for other in [
            "a/0/1/p0000/o123",
            "a/0/1/p0001/o00000000",
            "a/0/2/p0000/o00000000",
            "",
            "a/0/1/p0000/o+0000001",
            "a/0/1/p0000/o00000001-0",
            "a/0/1/p0000/o00000001-01",
            "a/0/1/p0000/o00000001-",
        ] {
            assert_eq!(names.object(other), None, "{other}");
        }
    }
}
