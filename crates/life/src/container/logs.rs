//! `logs`: reads the output of a container.

use super::StreamError;
use super::attach::connect;
use super::{find, logging};
use crate::{EngineError, Home};
use rustix::fs::{Mode, OFlags};
use tote_bundle::LogDriver;
use tote_calendar::Time;
use tote_monitor::{LogReader, Query};
use tote_sys::utc_offset;

/// Selection of log entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogsOptions {
    /// True to wait for new entries.
    pub follow: bool,
    /// Time of the oldest entry, as a user writes it.
    pub since: Option<String>,
    /// Time of the newest entry.
    pub until: Option<String>,
    /// Number of entries from the end.
    pub tail: Option<u64>,
}

/// Sends the entries of a container's log to `take`, which returns whether it wants more. Following continues through
/// restarts, and ends with the container.
///
/// # Errors
/// [`StreamError`].
pub fn logs(
    home: &Home,
    wanted: &str,
    options: &LogsOptions,
    take: &mut dyn FnMut(&tote_monitor::Entry<'_>) -> bool,
) -> Result<(), EngineError> {
    let entry = find(home, wanted)?;
    let name = || entry.container.display().to_owned();
    if !entry.kept {
        return Err(StreamError::Unkept(name()).into());
    }
    let choice = entry.container.run_options()?.log;
    if choice.driver == LogDriver::None {
        return Err(StreamError::NoLog(name()).into());
    }
    let query = Query {
        tail: options.tail,
        since: moment("since", options.since.as_deref())?,
        until: moment("until", options.until.as_deref())?,
    };
    let id = &entry.container.id;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(home.container(id), flags, Mode::empty()).map_err(StreamError::Directory)?;
    let reader = LogReader::new(dir, logging::file(&choice), query);
    let result = if options.follow {
        reader.follow(&mut || connect(home, id).ok(), take)
    } else {
        reader.read(take)
    };
    Ok(result.map_err(StreamError::from)?)
}

fn moment(option: &'static str, text: Option<&str>) -> Result<Option<Time>, StreamError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let now = Time::now();
    let offset = utc_offset(i64::try_from(now.0 / 1_000_000_000).unwrap_or(0));
    let time = Time::parse(text, now, offset).map_err(|source| StreamError::Time {
        option,
        value: text.to_owned(),
        source,
    })?;
    Ok(Some(time))
}
