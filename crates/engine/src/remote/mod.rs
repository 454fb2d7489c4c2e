//! Images and registries: what is fetched, what is sent, and who one is there.

mod compress;
mod fetch;
mod login;
mod pull;
mod push;
mod settings;
mod want;

pub(crate) use settings::web_client;

pub use login::{ask_secret, login, logout};
pub use pull::{LayerStep, PullEvent, PullRequest, Pulled, pull, pull_all_tags};
pub use push::{PushEvent, PushRequest, PushStep, PushedImage, push};
pub use want::{Wanted, WhenToPull, wanted};
