//! Images and registries: what is fetched, what is sent, and who one is there.

mod compress;
mod crew;
mod fetch;
mod login;
mod pull;
mod push;
mod repair;
mod search;
mod settings;
mod want;

pub(crate) use compress::Compressed;
pub(crate) use crew::for_each;
pub(crate) use fetch::Fetch;
pub(crate) use pull::pull_members;
pub(crate) use push::push_layers;
pub(crate) use repair::in_a_line;
pub(crate) use settings::{registry_client, web_client};

pub use login::{ask_secret, login, login_name, logout, logout_everywhere, parse_creds};
pub use pull::{LayerStep, PullEvent, PullRequest, Pulled, pull, pull_all_tags};
pub use push::{PushEvent, PushReport, PushRequest, PushStep, PushedImage, push, push_all_tags};
pub use repair::{Health, Lost, verify_store};
pub use search::{SEARCH_LIMIT, SearchRequest, list_tags, search};
pub use settings::Access;
pub use want::{Wanted, WhenToPull, wanted};
