//! Requests to make an image smaller, and the steps of the work.

use super::SlimError;
use super::probe::SlimProbe;
use std::time::Duration;
use tote_bundle::RunOptions;
use tote_needs::Pattern;

/// Request to make an image smaller.
#[derive(Debug)]
pub struct SlimRequest {
    /// Image, as the user names it.
    pub name_of_image: String,
    /// Name of the smaller image; the image's with `.slim` at the end of its repository if not given.
    pub name: Option<String>,
    /// Options of its runs; their command is that of the first run.
    pub options: RunOptions,
    /// Options of its runs as they were given, by their long names.
    pub given: Vec<(String, String)>,
    /// Commands of further runs, to which no question is put.
    pub also: Vec<Vec<String>>,
    /// Questions to the first run.
    pub probes: Vec<SlimProbe>,
    /// Time for which each run lasts at least, unless it ends by itself.
    pub run_for: Option<Duration>,
    /// Time in which each probe has to pass.
    pub probe_timeout: Duration,
    /// Paths to keep, with everything below.
    pub include_paths: Vec<String>,
    /// Programs to keep, with what they need.
    pub include_bins: Vec<String>,
    /// Further such paths, from files.
    pub include_from: Vec<String>,
    /// True if the shell stays.
    pub include_shell: bool,
    /// Paths that do not stay, whatever needs them.
    pub excludes: Vec<Pattern>,
    /// True if databases of packages stay.
    pub keep_metadata: bool,
    /// True if the container's output is shown.
    pub show_output: bool,
    /// True if the rest is kept as an image as well.
    pub keeps_rest: bool,
    /// True if the image is a smaller one, and the result is one with the files that containers have missed in it.
    pub from_misses: bool,
    /// True if the rights that were used are told, and the smaller image has to do with them.
    pub rights: bool,
    /// Files that are known before any run; [`slim`](super::slim) fills them in.
    pub learned: Learned,
}

/// Files that a smaller image has, and those that its containers have missed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    pub(crate) before: Vec<String>,
    pub(crate) missed: Vec<String>,
}

/// Step of the work, for people who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlimStep<'a> {
    /// The image runs: the number of the run, and of all runs.
    Runs(usize, usize),
    /// The image's files are looked through, and the layer is made.
    Analyses,
    /// The smaller image runs.
    Verifies(usize, usize),
    /// The smaller image got this name.
    Named(&'a str),
}

/// Parses a value of `--exclude-pattern`.
///
/// # Errors
/// [`SlimError::Pattern`].
pub fn parse_pattern(text: &str) -> Result<Pattern, SlimError> {
    Pattern::parse(text).map_err(|source| SlimError::Pattern {
        text: text.to_owned(),
        source,
    })
}

/// Parses a time in Go's syntax, or a number of seconds.
///
/// # Errors
/// [`SlimError::Time`].
pub fn parse_time(option: &'static str, text: &str) -> Result<Duration, SlimError> {
    let seconds = text
        .parse::<u32>()
        .ok()
        .map(|seconds| Duration::from_secs(seconds.into()));
    let parsed = || tote_calendar::parse_duration(text).and_then(|nanos| u64::try_from(nanos).ok());
    let time = seconds.or_else(|| parsed().map(Duration::from_nanos));
    time.ok_or_else(|| SlimError::Time {
        option,
        text: text.to_owned(),
    })
}
