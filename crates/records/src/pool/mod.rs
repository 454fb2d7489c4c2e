//! Records of pools, and the locks of processes that fill them.

pub mod error;
pub mod list;
pub mod lock;
pub mod record;

pub use error::{MOST, PoolError};
pub use list::{PoolRow, image_users, names, pools, records, volume_users};
pub use record::Pool;
