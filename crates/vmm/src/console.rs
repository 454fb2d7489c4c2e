//! Last words: the end of what a stream said.

/// Bytes that are kept.
const KEPT: usize = 4096;

/// The end of a text from an enemy.
#[derive(Debug, Default)]
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    /// Adds bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(KEPT)..];
        self.0.extend_from_slice(bytes);
        let surplus = self.0.len().saturating_sub(KEPT);
        self.0.drain(..surplus);
    }

    /// Returns the last lines, without control characters.
    pub(crate) fn lines(&self, count: usize) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.0);
        let lines = text.lines().map(|line| {
            let line = line.trim();
            line.chars()
                .map(|c| if c.is_control() { '?' } else { c })
                .collect::<String>()
        });
        let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(count)..].to_vec()
    }
}

/// Puts last words behind an error.
pub(crate) fn last_words(parts: &[Vec<String>]) -> String {
    let lines = parts.concat();
    if lines.is_empty() {
        return String::new();
    }
    format!(": {}", lines.join("; "))
}
