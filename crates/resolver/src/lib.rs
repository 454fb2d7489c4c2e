//! The resolver of a container: it answers for names of containers, and passes all other questions on to servers.
//!
//! [`Resolver`] is neither a process nor a thread. It has one descriptor, which the process that watches the container puts into
//! its own poll(2), and does what can be done at once when that descriptor becomes readable.
//!
//! Invariants:
//! - Nothing here blocks but the lookup of a name, which its owner ([`Names`]) makes from the files of the moment: there is
//!   nothing to load again.
//! - Messages come from enemies. The parser reads a header and one question, follows no pointer, and no bytes make it
//!   panic; a message that is passed on is passed on as it came, but for its number.
//! - Nothing grows without a bound: not the questions under way, nor the connections, nor an answer.
//! - An answer of a server counts only if it came from the address that was asked, to the random port and with the random
//!   number of that question, and repeats the question.
//! - Where its owner hears answers ([`Names::hear`]), a question that leaves has nothing of the client's but the name, the kind
//!   and the class.
//!
//! The crate knows neither networks nor containers, and no file.

mod anew;
mod framed;
mod heard;
mod message;
mod name;
mod relay;
mod resolver;

pub use heard::Heard;
pub use message::MOST_ADDRESSES;
pub use name::is_label;
pub use resolver::{Hearing, Names, Resolver, Server};
