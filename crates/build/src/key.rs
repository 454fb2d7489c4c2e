//! Keys under which results of instructions are found again, and an encoding for them that only this file decides.
//!
//! ```text
//!   key    = "tote key 1\n" kind field*
//!   field  = text | number | "-" | "+" field | "(" field* ")"
//!   text   = LENGTH ":" BYTES ","        LENGTH in bytes, decimal
//!   number = "#" DECIMAL ","
//! ```
//! `-` and `+` begin a field that may be missing, and `(` and `)` enclose a list. Each field shows where it ends, so two
//! different lists of fields never have the same bytes. The number in the first line changes when what an instruction
//! writes does: keys of another version are never found.

/// First line of every key.
const VERSION: &[u8] = b"tote key 1\n";

/// A key, to which fields are added one by one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(Vec<u8>);

/// A value that is a field of a key.
pub trait Field {
    /// Adds the value to a key.
    fn add_to(&self, key: &mut Key);
}

impl Key {
    /// Begins the key of an instruction or of a part of it.
    #[must_use]
    pub fn new(kind: &str) -> Self {
        Self(VERSION.to_vec()).with(kind)
    }

    /// Adds a field.
    #[must_use]
    pub fn with<F: Field + ?Sized>(mut self, field: &F) -> Self {
        field.add_to(&mut self);
        self
    }

    /// Returns the encoded key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Field for str {
    fn add_to(&self, key: &mut Key) {
        key.0
            .extend_from_slice(format!("{}:{self},", self.len()).as_bytes());
    }
}

impl Field for String {
    fn add_to(&self, key: &mut Key) {
        self.as_str().add_to(key);
    }
}

impl Field for u64 {
    fn add_to(&self, key: &mut Key) {
        key.0.extend_from_slice(format!("#{self},").as_bytes());
    }
}

impl Field for u32 {
    fn add_to(&self, key: &mut Key) {
        u64::from(*self).add_to(key);
    }
}

impl Field for bool {
    fn add_to(&self, key: &mut Key) {
        u64::from(*self).add_to(key);
    }
}

impl<F: Field> Field for Option<F> {
    fn add_to(&self, key: &mut Key) {
        match self {
            None => key.0.push(b'-'),
            Some(field) => {
                key.0.push(b'+');
                field.add_to(key);
            }
        }
    }
}

impl<F: Field> Field for [F] {
    fn add_to(&self, key: &mut Key) {
        key.0.push(b'(');
        self.iter().for_each(|field| field.add_to(key));
        key.0.push(b')');
    }
}

impl<F: Field> Field for Vec<F> {
    fn add_to(&self, key: &mut Key) {
        self.as_slice().add_to(key);
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn add_to(&self, key: &mut Key) {
        self.0.add_to(key);
        self.1.add_to(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileMode, Origin, StepMount};
    use tote_dockerfile::Sharing;

    fn shown(key: &Key) -> &str {
        str::from_utf8(key.as_bytes()).unwrap()
    }

    /// Other bytes for the same instruction lose every cache, also those that others have imported: whoever changes these on
    /// purpose changes the version as well.
    #[test]
    fn bytes_stay_the_same() {
        let key = Key::new("RUN")
            .with(&vec!["sh".to_owned(), "-c".to_owned()])
            .with(&Some(7_u32))
            .with(&None::<String>)
            .with(&true)
            .with("é");
        assert_eq!(shown(&key), "tote key 1\n3:RUN,(2:sh,2:-c,)+#7,-#1,2:é,");
        let cache = StepMount::Cache {
            id: "go".to_owned(),
            target: "/c".to_owned(),
            mode: Some(0o755),
            uid: None,
            gid: Some(0),
            read_only: false,
            sharing: Sharing::Locked,
            from: Some(Origin::Named("x".to_owned())),
            source: "/".to_owned(),
        };
        let bind = StepMount::Bind {
            target: "/t".to_owned(),
            source: "/s".to_owned(),
            from: Origin::Context,
            writable: true,
        };
        let secret = StepMount::Secret {
            id: "s".to_owned(),
            target: None,
            env: Some("S".to_owned()),
            required: true,
            mode: None,
            uid: None,
            gid: None,
        };
        let tmpfs = StepMount::Tmpfs {
            target: "/m".to_owned(),
            size: Some(1 << 40),
        };
        let ssh = StepMount::Ssh {
            id: "default".to_owned(),
            target: None,
            required: false,
            mode: None,
            uid: Some(1),
            gid: None,
        };
        let key = Key::new("mounts").with(&vec![cache, bind, secret, tmpfs, ssh]);
        let expected = "tote key 1\n6:mounts,(\
                        5:cache,2:go,2:/c,+#493,-+#0,#0,6:locked,+5:named,1:x,1:/,\
                        4:bind,2:/t,2:/s,7:context,#1,\
                        6:secret,1:s,-+1:S,#1,---\
                        5:tmpfs,2:/m,+#1099511627776,\
                        3:ssh,7:default,-#0,-+#1,-)";
        assert_eq!(shown(&key), expected);
        let mode = |text: &str| Key::new("mode").with(&FileMode::parse(text).unwrap());
        assert_eq!(shown(&mode("644")), "tote key 1\n4:mode,4:bits,#420,");
        assert_eq!(
            shown(&mode("u=rwX,go-w")),
            "tote key 1\n4:mode,7:changes,(#2496,1:=,3:rwX,#1599,1:-,1:w,)"
        );
    }

    #[test]
    fn different_fields_have_different_bytes() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let keys = [
            Key::new("a").with("b").with("c"),
            Key::new("a").with("b1:c"),
            Key::new("a").with(&words(&["b", "c"])),
            Key::new("a").with(&words(&["b"])).with(&words(&["c"])),
            Key::new("a").with(&words(&["b,1:c"])),
            Key::new("a").with(&words(&[])).with(&words(&["b", "c"])),
            Key::new("a").with(&Some(words(&["b", "c"]))),
            Key::new("a").with(&1_u64),
            Key::new("a").with("1"),
            Key::new("a").with(""),
            Key::new("a").with(&None::<String>),
            Key::new("a"),
        ];
        for (number, key) in keys.iter().enumerate() {
            assert!(!keys[number + 1..].contains(key), "{}", shown(key));
        }
    }
}
