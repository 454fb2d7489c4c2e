//! Text that a failing operation adds to its errno.

/// Longest text that travels with a failure, in bytes.
pub(crate) const TEXT: usize = 200;

/// A short text without allocation.
pub(crate) struct Text {
    bytes: [u8; TEXT],
    length: usize,
}

impl Text {
    pub(crate) const EMPTY: Self = Self {
        bytes: [0; TEXT],
        length: 0,
    };

    /// Keeps the start of a text, up to the first NUL or line end.
    pub(crate) fn set(&mut self, text: &[u8]) {
        let end = text
            .iter()
            .position(|&byte| byte == 0 || byte == b'\n')
            .unwrap_or(text.len());
        self.length = 0;
        self.add(&text[..end]);
    }

    /// Appends as much as there is room for; line ends become blanks.
    pub(crate) fn add(&mut self, text: &[u8]) {
        for &byte in text {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = if byte == b'\n' { b' ' } else { byte };
                self.length += 1;
            }
        }
    }

    /// Appends a number.
    pub(crate) fn add_number(&mut self, number: u32) {
        let mut digits = [0; 10];
        let (mut start, mut rest) = (digits.len(), number);
        loop {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.add(&digits[start..]);
    }

    pub(crate) fn get(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
