//! Options about a container's life.

use std::time::Duration;
use tote_engine::container::{Attaching, Streams};
use tote_engine::{EngineError, Signal, StopTimeout};
use tote_options::Parsed;

/// Builds the settings for attaching from the options, with docker's defaults.
pub(crate) fn attaching(parsed: &Parsed, streams: Streams) -> Attaching {
    Attaching {
        streams,
        detach_keys: parsed
            .value("detach-keys")
            .map(|keys| keys.to_string_lossy().into_owned()),
        sig_proxy: parsed.value("sig-proxy").is_none_or(|value| value == "true"),
    }
}

/// Parses `--time`.
pub(crate) fn stop_timeout(parsed: &Parsed) -> Result<Option<StopTimeout>, EngineError> {
    let seconds: Option<i64> = match parsed.number("time") {
        Ok(seconds) => seconds,
        Err(error) => return Err(EngineError::Usage(error.to_string())),
    };
    Ok(seconds.map(|seconds| match u64::try_from(seconds) {
        Ok(seconds) => StopTimeout::After(Duration::from_secs(seconds)),
        Err(_) => StopTimeout::Never,
    }))
}

pub(crate) fn parse_signal(text: &str) -> Result<Signal, EngineError> {
    text.parse()
        .map_err(|error: tote_engine::SignalError| EngineError::Usage(error.to_string()))
}
