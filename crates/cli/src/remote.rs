//! `tote pull`, `push`, `login`, `logout` and `search`, and how `run` gets an image that is not in the store.

mod login;
pub(crate) mod progress;
mod search;

use crate::{engine_error, failure, home, print, say, warning};
pub(crate) use progress::Progress;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use tote_engine::{
    Access, EngineError, Home, PullRequest, Pulled, PushReport, PushRequest, PushedImage, Wanted, WhenToPull,
};
use tote_options::Parsed;

pub(crate) fn dispatch(parsed: &Parsed) -> ExitCode {
    let done = match parsed.command().name {
        "pull" => pull(parsed),
        "push" => push(parsed),
        "search" => return search::search(parsed),
        "login" => return login::login(parsed),
        _ => return login::logout(parsed),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            engine_error(&error);
            ExitCode::from(1)
        }
    }
}

/// Parses the options about the connection to registries.
pub(crate) fn access(parsed: &Parsed) -> Access {
    Access {
        tls_verify: parsed.value("tls-verify").map(|_| parsed.flag("tls-verify")),
        authfile: parsed.value("authfile").map(PathBuf::from),
        cert_dir: parsed.value("cert-dir").map(PathBuf::from),
        creds: None,
    }
}

/// Parses the same options with `--creds`, a name and a password for this command only.
pub(crate) fn access_with_creds(parsed: &Parsed) -> Result<Access, EngineError> {
    let creds = parsed.value("creds").map(|given| {
        let ask = || tote_engine::ask_secret("Password: ");
        tote_engine::parse_creds(&given.to_string_lossy(), ask)
    });
    Ok(Access {
        creds: creds.transpose()?,
        ..access(parsed)
    })
}

fn name(parsed: &Parsed) -> String {
    let first = parsed.positionals().first();
    first
        .map(|word| word.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn pull(parsed: &Parsed) -> Result<(), EngineError> {
    let quiet = parsed.flag("quiet");
    let request = PullRequest {
        image: name(parsed),
        platform: crate::image::platform(parsed)?,
        beside: false,
        access: access_with_creds(parsed)?,
    };
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let progress = Progress::new(quiet, std::io::stdout().is_terminal());
    let report = |event: tote_engine::PullEvent<'_>| progress.event(event);
    if parsed.flag("all-tags") {
        let mut tell = |pulled: Pulled| {
            progress.end();
            pulled_image(&pulled, quiet);
        };
        return Ok(tote_engine::pull_all_tags(&home, &request, &report, &mut tell)?);
    }
    let pulled = tote_engine::pull(&home, &request, &report);
    progress.end();
    pulled_image(&pulled?, quiet);
    Ok(())
}

/// Prints docker's last lines of a pull.
fn pulled_image(pulled: &Pulled, quiet: bool) {
    if pulled.left_out > 0 {
        let count = pulled.left_out;
        warning(&format!(
            "{count} device nodes of the image could not be made and are left out"
        ));
    }
    if !quiet {
        let what = if pulled.is_new {
            "Downloaded newer image for"
        } else {
            "Image is up to date for"
        };
        print(&format!(
            "Digest: {}\nStatus: {what} {}\n",
            pulled.digest,
            pulled.name.familiar()
        ));
    }
    print(&format!("{}\n", pulled.name));
}

fn push(parsed: &Parsed) -> Result<(), EngineError> {
    let quiet = parsed.flag("quiet");
    let request = PushRequest {
        image: name(parsed),
        destination: parsed
            .positionals()
            .get(1)
            .map(|word| word.to_string_lossy().into_owned()),
        platforms: crate::image::platforms(parsed)?,
        access: access_with_creds(parsed)?,
    };
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let progress = Arc::new(Progress::new(quiet, std::io::stdout().is_terminal()));
    let told = Arc::clone(&progress);
    let report: PushReport = Arc::new(move |event| told.push_event(event));
    let mut tell = |pushed: PushedImage| {
        progress.end();
        pushed_image(&pushed, quiet);
    };
    let pushed = if parsed.flag("all-tags") {
        tote_engine::push_all_tags(&home, &request, &report, &mut tell)
    } else {
        tote_engine::push(&home, &request, &report).map(&mut tell)
    };
    progress.end();
    Ok(pushed?)
}

/// Prints docker's last lines of a push.
pub(crate) fn pushed_image(pushed: &PushedImage, quiet: bool) {
    if quiet {
        print(&format!("{}\n", pushed.name));
    } else {
        let tag = pushed.name.tag().unwrap_or_default();
        print(&format!(
            "{tag}: digest: {} size: {}\n",
            pushed.digest, pushed.size
        ));
    }
}

/// Makes sure that the image of a `run` is in the store, and returns its name there.
///
/// A process of its own pulls the image: memory that TLS and four threads leave behind would be copied at the
/// container's birth, and an unprivileged pull changes its user namespace, which cannot be undone.
pub(crate) fn present(parsed: &Parsed, home: &Home, image: &str) -> Result<String, EngineError> {
    let when = match parsed.value("pull") {
        None => WhenToPull::Missing,
        Some(when) => when.to_string_lossy().parse()?,
    };
    let platform = crate::image::platform(parsed)?;
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
    for option in ["platform", "tls-verify", "authfile", "cert-dir", "quiet"] {
        if let Some(value) = parsed.value(option) {
            let mut word = OsString::from(format!("--{option}="));
            word.push(value);
            words.push(word);
        }
    }
    if apart(parsed, home, &words, name)? {
        return Ok(());
    }
    Err(EngineError::NotPulled(name.to_owned()))
}

/// Runs a command of this program on an image in a process of its own. Returns whether it succeeded.
fn apart(parsed: &Parsed, home: &Home, words: &[OsString], image: &str) -> Result<bool, EngineError> {
    let failed = |attempt| {
        move |source| EngineError::PullProcess {
            attempt,
            image: image.to_owned(),
            source,
        }
    };
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
    let status = command
        .args(words)
        .arg(image)
        .stdin(Stdio::null())
        .stdout(output)
        .status()
        .map_err(failed("start"))?;
    Ok(status.success())
}

/// Reports an error of the command line that the tables cannot express.
fn usage(text: &str, hint: &str) -> ExitCode {
    failure(text, Some(hint), 1)
}
