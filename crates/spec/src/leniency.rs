//! Rules for values that a document leaves out, or writes as `null`.

use serde::Deserialize;

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

/// Reads `null` as the default, because Go programs write an empty list or map as `null`.
pub(crate) fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
