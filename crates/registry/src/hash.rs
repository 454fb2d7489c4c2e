use sha2::Digest as _;
use tote_image::{Algorithm, Digest};

/// A running hash over a stream of bytes.
#[derive(Clone, Debug)]
pub struct Hasher(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Sha256(sha2::Sha256),
    Sha512(Box<sha2::Sha512>),
}

impl Hasher {
    /// Starts with the hash of the empty text.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Sha256 => Kind::Sha256(sha2::Sha256::new()),
            Algorithm::Sha512 => Kind::Sha512(Box::default()),
        })
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Kind::Sha256(hash) => hash.update(bytes),
            Kind::Sha512(hash) => hash.update(bytes),
        }
    }

    /// Returns the digest of all bytes added.
    #[must_use]
    pub fn finish(self) -> Digest {
        let digest = match self.0 {
            Kind::Sha256(hash) => Some(Digest::sha256(hash.finalize().into())),
            Kind::Sha512(hash) => Digest::from_bytes(Algorithm::Sha512, &hash.finalize()),
        };
        #[expect(clippy::expect_used, reason = "SHA-512 has 64 bytes")]
        digest.expect("a hash has the length of its own algorithm")
    }

    /// Computes the digest of `bytes`.
    #[must_use]
    pub fn digest(algorithm: Algorithm, bytes: &[u8]) -> Digest {
        let mut hasher = Self::new(algorithm);
        hasher.update(bytes);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes() {
        assert_eq!(
            Hasher::digest(Algorithm::Sha256, b"abc").to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            Hasher::digest(Algorithm::Sha512, b"").to_string(),
            "sha512:cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f\
             63b931bd47417a81a538327af927da3e"
        );
    }
}
