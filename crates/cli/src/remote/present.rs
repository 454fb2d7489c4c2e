//! An image that must be here before a container can be made of it.

use crate::tell::say;
use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use tote_engine::{EngineError, Home, ImageFault, Wanted, WhenToPull};
use tote_options::Parsed;

/// Makes sure that the image of a `run` is in the store, and returns its name there.
///
/// A process of its own pulls the image: memory that TLS and four threads leave behind would be copied at the
/// container's birth, and an unprivileged pull changes its user namespace, which cannot be undone.
pub(crate) fn present(parsed: &Parsed, home: &Home, image: &str) -> Result<String, EngineError> {
    let when = match parsed.value("pull") {
        None => WhenToPull::Missing,
        Some(when) => when.to_string_lossy().parse()?,
    };
    super::access::access(parsed).check()?;
    let platform = crate::image::given::platform(parsed)?;
    match tote_engine::wanted(home, image, when, platform.as_ref())? {
        Wanted::Here(name) => Ok(name),
        Wanted::ToPull { name, is_missing } => {
            if is_missing && !parsed.flag("quiet") {
                say(&format!("Unable to find image '{image}' locally\n"));
            }
            pull_apart(parsed, home, &name)?;
            Ok(name)
        }
    }
}

fn pull_apart(parsed: &Parsed, home: &Home, name: &str) -> Result<(), EngineError> {
    let mut words = vec![OsString::from("pull")];
    for option in ["platform", "tls-verify", "authfile", "cert-dir", "creds", "quiet"] {
        if let Some(value) = parsed.value(option) {
            let mut word = OsString::from(format!("--{option}="));
            word.push(value);
            words.push(word);
        }
    }
    // With the tag, because the pull of a run does not say that it has chosen one.
    let tag = if super::is_untagged(name) { ":latest" } else { "" };
    if apart(parsed, home, &words, &format!("{name}{tag}"))? {
        return Ok(());
    }
    Err(EngineError::Image(ImageFault::NotPulled(name.to_owned())))
}

/// Runs a command of this program on an image in a process of its own. Returns whether it succeeded.
fn apart(parsed: &Parsed, home: &Home, words: &[OsString], image: &str) -> Result<bool, EngineError> {
    let failed = |attempt| {
        move |source| {
            EngineError::Image(ImageFault::PullProcess {
                attempt,
                image: image.to_owned(),
                source,
            })
        }
    };
    // process: command
    #[expect(
        clippy::disallowed_methods,
        reason = "it is this very program, by the kernel's own link to it, before there is a container"
    )]
    let mut command = Command::new("/proc/self/exe");
    command.arg("--root").arg(home.root());
    if let Some(how) = parsed.value("share-host") {
        command.arg("--share-host").arg(how);
    }
    // Standard output belongs to the container.
    let output = std::io::stderr()
        .as_fd()
        .try_clone_to_owned()
        .map_err(failed("start"))?;
    #[expect(clippy::disallowed_methods, reason = "a pull has limits of its own")]
    let status = command
        .args(words)
        .arg(image)
        .stdin(Stdio::null())
        .stdout(output)
        .status()
        .map_err(failed("start"))?;
    Ok(status.success())
}
