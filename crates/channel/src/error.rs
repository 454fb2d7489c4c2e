//! Reasons to end a conversation.

/// Why the bytes of the other end are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// The length of a frame is beyond the limit.
    #[error("cannot read a message of {0} bytes: at most {max} are allowed", max = crate::MAX_PAYLOAD)]
    Length(u32),
    /// There is no such kind of message in this direction.
    #[error("cannot read a message of the unknown kind {0}")]
    Kind(u8),
    /// The payload is not one of its kind.
    #[error("cannot read a message of kind {0}: its content is not of that kind")]
    Payload(u8),
    /// A message names a process that does not exist.
    #[error("a message is about process {0}, which does not exist")]
    Session(u16),
    /// A message came when it could not.
    #[error("a message about {0} came out of its order")]
    Order(&'static str),
    /// More bytes came than the receiver has allowed.
    #[error("more bytes came than were allowed")]
    Window,
    /// More bytes were allowed than a window has.
    #[error("more bytes were allowed than a window has")]
    Credit,
    /// The other end is another version.
    #[error("the other end has version {0} of the messages, this end {own}", own = crate::VERSION)]
    Version(u16),
    /// More warnings came than people read.
    #[error("more than {max} warnings came", max = crate::MAX_WARNINGS)]
    Warnings,
    /// The other end speaks, and does not read.
    #[error("the other end does not read what it is told")]
    Deaf,
    /// A plan is too large.
    #[error("cannot take a plan of more than {max} bytes", max = crate::MAX_PLAN)]
    Plan,
    /// There are too many processes.
    #[error("cannot have more than {max} processes", max = crate::MAX_SESSIONS)]
    Sessions,
}
