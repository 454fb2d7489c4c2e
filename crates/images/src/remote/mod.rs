//! Images and registries: pulls, pushes, searches and credentials.

mod compress;
mod crew;
mod error;
mod fetch;
mod login;
mod pull;
mod push;
mod repair;
mod search;
mod settings;
mod want;

pub use compress::Compressed;
pub use crew::for_each;
pub use fetch::Fetch;
pub(crate) use pull::pull_members;
pub use push::push_layers;
pub use settings::{registry_client, web_client};

pub use error::RemoteError;
pub use login::{ask_secret, login, login_name, logout, logout_everywhere, parse_creds};
pub use pull::{LayerStep, PullEvent, PullRequest, Pulled, pull, pull_all_tags};
pub use push::{PushEvent, PushReport, PushRequest, PushStep, PushedImage, push, push_all_tags};
pub use repair::{Health, Lost, verify_store};
pub use search::{SEARCH_LIMIT, SearchRequest, list_tags, search};
pub use settings::Access;
pub use want::{Wanted, WhenToPull, wanted};
