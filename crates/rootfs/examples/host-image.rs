//! Prepares the host image below a directory, prints the mounts, and measures how long a start waits for it.
//!
//! `cargo run --release -p tote-rootfs --example host-image -- CACHE-DIR`

#![allow(clippy::print_stdout, reason = "an example is read by people")]

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;
use tote_rootfs::HostImage;

#[expect(
    clippy::disallowed_methods,
    reason = "the entry point is the standard library's"
)]
fn main() -> Result<(), Box<dyn Error>> {
    let cache_dir = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: host-image CACHE-DIR")?);
    let begin = Instant::now();
    let image = HostImage::prepare(&cache_dir)?;
    println!("lower   {}", image.lower.display());
    for bind in &image.binds {
        println!("bind    {} on /{}", bind.source.display(), bind.target.display());
    }
    println!("first   {:?}", begin.elapsed());

    let mut again = Vec::new();
    for _ in 0..1000 {
        let begin = Instant::now();
        HostImage::prepare(&cache_dir)?;
        again.push(begin.elapsed());
    }
    again.sort_unstable();
    println!(
        "again   {:?} at best, {:?} in the middle",
        again[0],
        again[again.len() / 2]
    );
    Ok(())
}
