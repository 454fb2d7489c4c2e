//! Images and registries: what is fetched, what is sent, and who one is there.

mod compress;
mod crew;
mod fetch;
mod login;
mod pull;
mod push;
mod repair;
mod settings;
mod want;

pub(crate) use settings::web_client;

pub use login::{ask_secret, login, logout};
pub use pull::{LayerStep, PullEvent, PullRequest, Pulled, pull, pull_all_tags};
pub use push::{PushEvent, PushReport, PushRequest, PushStep, PushedImage, push};
pub use repair::{Health, Lost, verify_store};
pub use want::{Wanted, WhenToPull, wanted};
