use crate::digest::Digest;
use std::fmt;

/// The digest that names a layer together with all layers below it.
///
/// <https://github.com/opencontainers/image-spec/blob/main/config.md#layer-chainid>
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId(pub Digest);

impl ChainId {
    /// Computes the chain id of each layer, lowest first, from the digests of the uncompressed layers. `sha256`
    /// hashes a short text.
    pub fn of(diff_ids: &[Digest], mut sha256: impl FnMut(&[u8]) -> Digest) -> Vec<Self> {
        let mut chain: Vec<Self> = Vec::with_capacity(diff_ids.len());
        for diff_id in diff_ids {
            let id = match chain.last() {
                None => *diff_id,
                Some(below) => sha256(format!("{below} {diff_id}").as_bytes()),
            };
            chain.push(Self(id));
        }
        chain
    }
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_holds_all_below() {
        let [a, b, c] = [1, 2, 3].map(|byte| Digest::sha256([byte; 32]));
        let mut hashed = Vec::new();
        let chain = ChainId::of(&[a, b, c], |text| {
            hashed.push(String::from_utf8(text.to_vec()).unwrap());
            Digest::sha256([40 + u8::try_from(hashed.len()).unwrap(); 32])
        });
        let second = Digest::sha256([41; 32]);
        assert_eq!(
            chain,
            [ChainId(a), ChainId(second), ChainId(Digest::sha256([42; 32]))]
        );
        assert_eq!(hashed, [format!("{a} {b}"), format!("{second} {c}")]);
        assert!(ChainId::of(&[], |_| a).is_empty());
    }
}
