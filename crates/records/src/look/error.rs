//! Why something is not shown.

use tote_calendar::BadTime;

/// Why something is not shown.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// An invalid filter of `ps`.
    #[error(
        "invalid filter {0:?}: id=, name=PATTERN, label=KEY[=VALUE], status=, exited=CODE, ancestor=IMAGE, \
         before=CONTAINER, since=CONTAINER, volume=, network=, health=, pod="
    )]
    Filter(String),
    /// An invalid filter of `events`.
    #[error("invalid filter {0:?}: type=, event=, container=, image=, volume=, pod=, label=KEY[=VALUE]")]
    EventFilter(String),
    /// No time.
    #[error("--{option} {text}")]
    Time {
        /// The option.
        option: &'static str,
        /// The given text.
        text: String,
        /// Why not.
        #[source]
        source: BadTime,
    },
    /// Nothing has that name; docker's wording.
    #[error("No such object: {0}")]
    Nothing(String),
    /// Not a kind of objects; docker's wording.
    #[error("{0:?} is not a valid value for --type: give container, image, network, volume or pod")]
    Kind(String),
    /// docker's wording.
    #[error("No public port '{port}' published for {container}")]
    NoPort {
        /// The given text.
        container: String,
        /// With its protocol.
        port: String,
    },
    /// An invalid port.
    #[error("invalid port {0:?}: give a number from 1 to 65535, and tcp, udp or sctp behind a slash")]
    Port(String),
}
