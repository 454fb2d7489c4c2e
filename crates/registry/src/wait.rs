use crate::options::ClientOptions;
use std::time::Duration;

/// Number of attempts at an operation, and the waits between them.
pub(crate) struct Retry<'a> {
    options: &'a ClientOptions,
    tried: u32,
}

impl<'a> Retry<'a> {
    pub(crate) fn new(options: &'a ClientOptions) -> Self {
        Self { options, tried: 1 }
    }

    /// Forgets earlier failures, because the operation has made progress.
    pub(crate) fn progressed(&mut self) {
        self.tried = 1;
    }

    /// Waits, and returns whether to try again; `asked` is the wait that the host asks for.
    pub(crate) fn again(&mut self, asked: Option<Duration>) -> bool {
        if self.tried >= self.options.attempts {
            return false;
        }
        let wait = self.next_wait(asked);
        self.tried += 1;
        #[expect(
            clippy::disallowed_methods,
            reason = "a pause that spares a busy server; nothing here could signal that it is over"
        )]
        std::thread::sleep(wait);
        true
    }

    fn next_wait(&self, asked: Option<Duration>) -> Duration {
        let doubled = self
            .options
            .backoff
            .saturating_mul(1 << self.tried.saturating_sub(1).min(16));
        asked
            .unwrap_or(doubled)
            .max(doubled)
            .min(self.options.longest_wait)
    }
}

/// Parses a `Retry-After` header in seconds; its other form, a date, is ignored.
pub(crate) fn retry_after(value: &str) -> Option<Duration> {
    value.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_are_bounded() {
        let options = ClientOptions {
            backoff: Duration::from_secs(1),
            longest_wait: Duration::from_secs(5),
            ..ClientOptions::default()
        };
        let mut retry = Retry::new(&options);
        let mut waits = Vec::new();
        for tried in 1..6 {
            retry.tried = tried;
            waits.push(retry.next_wait(None).as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 5, 5]);
        retry.tried = 1;
        assert_eq!(retry.next_wait(Some(Duration::from_secs(3))).as_secs(), 3);
        assert_eq!(retry.next_wait(Some(Duration::MAX)).as_secs(), 5);
        assert_eq!(retry_after("7"), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), None);
    }
}
