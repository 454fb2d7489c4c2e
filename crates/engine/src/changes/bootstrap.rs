//! `image bootstrap`: a base image from a distribution's packages, made by mmdebstrap(1).

use super::bootstrap_error::BootstrapError;
use super::commit::bare;
use super::sources;
use crate::{EngineError, Home, enter_ids, open_store};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use tote_image::{ContainerConfig, Digest, History, Reference};
use tote_images::ImagesError;
use tote_store::Limits;

/// Time in which apt says what its proxy is.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// Where the program is, whatever the caller's path is.
const PLACES: [&str; 2] = ["/usr/bin", "/usr/local/bin"];
/// Where apt has its mirrors from.
const SOURCES: &str = "/etc/apt/sources.list";
const MORE_SOURCES: &str = "/etc/apt/sources.list.d";

/// The variable by which apt is told a proxy.
const PROXY: &str = "http_proxy";

/// Properties of the new image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootstrapOptions {
    /// `debian:bookworm`.
    pub what: String,
    /// Packages besides those of the variant.
    pub packages: Vec<String>,
    /// mmdebstrap's variant.
    pub variant: String,
    /// Where the packages come from; that of the host where it has one for the suite.
    pub mirror: Option<String>,
    /// The image's name; `what` where none is given.
    pub name: Option<String>,
    /// Whether nothing is shown of what the program says.
    pub quiet: bool,
}

/// Makes the image. What the program says goes to standard error. The process must have one thread.
///
/// # Errors
/// [`EngineError`]; nothing gets a name then.
pub fn bootstrap(home: &Home, options: &BootstrapOptions) -> Result<Digest, EngineError> {
    let (_, suite) = (options.what.split_once(':'))
        .filter(|(distribution, suite)| !distribution.is_empty() && !suite.is_empty())
        .ok_or_else(|| BootstrapError::What(options.what.clone()))?;
    let name = Reference::parse(options.name.as_deref().unwrap_or(&options.what))?;
    if name.digest().is_some() {
        return Err(ImagesError::TagIsDigest(name.familiar()).into());
    }
    let words = words(suite, options)?;
    // It makes a user namespace of its own, before this process is in one.
    let mut running = Running::start(&words, options.quiet)?;
    enter_ids(home)?;
    let store = open_store(home)?;
    let ingest = store.ingest_at_once()?;
    let layer = ingest.add_layer(&mut running.output, Limits::default());
    // If it failed, that is the reason why its archive is damaged.
    running.finish()?;
    let layer = layer?;
    let created = Some(tote_calendar::in_seconds(tote_calendar::now()));
    let mut config = bare(ContainerConfig {
        cmd: vec!["bash".to_owned()],
        ..ContainerConfig::default()
    });
    config.created.clone_from(&created);
    config.rootfs.diff_ids.push(layer.diff_id);
    config.history.push(History {
        created,
        created_by: format!("mmdebstrap {}", words.join(" ")),
        ..History::default()
    });
    let image = ingest.image(&config.to_json(), None)?;
    store.make_tree(&image)?;
    ingest.tag(&name, &image.id)?;
    Ok(image.id)
}

/// The program's command line.
fn words(suite: &str, options: &BootstrapOptions) -> Result<Vec<String>, BootstrapError> {
    for word in options
        .packages
        .iter()
        .chain([&options.variant, &suite.to_owned()])
    {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".+-:~_".contains(&byte);
        if word.is_empty() || word.starts_with('-') || !word.bytes().all(is_plain) {
            return Err(BootstrapError::Word(word.clone()));
        }
    }
    let mirror = options
        .mirror
        .clone()
        .or_else(|| sources::mirror(&apt_sources(), suite));
    if let Some(mirror) = mirror.as_ref().filter(|mirror| !mirror.contains("://")) {
        return Err(BootstrapError::Word(mirror.clone()));
    }
    let mut words = vec![
        format!("--variant={}", options.variant),
        "--format=tar".to_owned(),
        // Every container has devices of its own, and a user could make none of these.
        "--skip=output/dev".to_owned(),
    ];
    if !options.packages.is_empty() {
        words.push(format!("--include={}", options.packages.join(",")));
    }
    words.extend([suite.to_owned(), "-".to_owned()]);
    words.extend(mirror);
    Ok(words)
}

/// All of apt's lists, one after the other.
fn apt_sources() -> String {
    // absence: mmdebstrap has a mirror of its own where no list names one
    let more = std::fs::read_dir(MORE_SOURCES).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = more.map(|entry| entry.path()).collect();
    paths.sort();
    paths.insert(0, PathBuf::from(SOURCES));
    // absence: mmdebstrap has a mirror of its own where no list names one
    let texts = paths.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    texts.map(|text| text + "\n\n").collect()
}

/// The proxy of the host's apt.
#[expect(
    clippy::disallowed_methods,
    reason = "what apt's files say together is for its own program to know"
)]
fn proxy() -> Option<String> {
    // process: programs of the host
    let mut command = std::process::Command::new("/usr/bin/apt-config");
    let asked = command.args(["shell", "PROXY", "Acquire::http::Proxy"]);
    let told = tote_sys::Wait::within(PATIENCE).output(asked.stdin(Stdio::null()));
    // absence: without an answer apt's own proxy is used
    let told = told.ok()?;
    quoted(&String::from_utf8_lossy(&told.stdout))
}

/// The value of `NAME='VALUE'`.
fn quoted(line: &str) -> Option<String> {
    let value = line
        .trim()
        .split_once('=')?
        .1
        .strip_prefix('\'')?
        .strip_suffix('\'')?;
    (!value.is_empty() && value != "DIRECT" && !value.contains('\'')).then(|| value.to_owned())
}

/// mmdebstrap at work. It ends by SIGPIPE when the reader is gone.
struct Running {
    child: Child,
    output: ChildStdout,
}

impl Running {
    #[expect(
        clippy::disallowed_methods,
        reason = "which packages a suite is made of is for the distribution's own program to know"
    )]
    fn start(words: &[String], quiet: bool) -> Result<Self, BootstrapError> {
        let mut programs = PLACES.iter().map(|place| Path::new(place).join("mmdebstrap"));
        // absence: the error says which program was not found
        let program = programs
            .find(|path| path.try_exists().unwrap_or(false))
            .ok_or(BootstrapError::NoProgram)?;
        // process: programs of the host
        let mut command = std::process::Command::new(program);
        // It does not read the host's configuration of apt, but its apt does look at the environment.
        if std::env::var_os(PROXY).is_none()
            && let Some(proxy) = proxy()
        {
            command.env(PROXY, proxy);
        }
        let mut child = command
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(if quiet { Stdio::null() } else { Stdio::inherit() })
            .spawn()
            .map_err(BootstrapError::Run)?;
        let output = child.stdout.take();
        let output = output.ok_or_else(|| BootstrapError::Run(std::io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self { child, output })
    }

    /// Waits for it. What it still has to say after the archive's end is read, so that it is not cut off.
    fn finish(mut self) -> Result<(), BootstrapError> {
        std::io::copy(&mut self.output.by_ref(), &mut std::io::sink()).map_err(BootstrapError::Run)?;
        let status = tote_sys::await_program(&mut self.child).map_err(BootstrapError::Run)?;
        if status.success() {
            Ok(())
        } else {
            Err(BootstrapError::Failed(status))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies() {
        assert_eq!(
            quoted("PROXY='http://p.example:3128'\n").as_deref(),
            Some("http://p.example:3128")
        );
        for none in ["", "PROXY=''\n", "PROXY='DIRECT'\n", "PROXY='a'\''b'\n"] {
            assert_eq!(quoted(none), None, "{none}");
        }
    }

    #[test]
    fn command_lines() {
        let options = BootstrapOptions {
            packages: vec!["git".to_owned(), "g++".to_owned()],
            variant: "minbase".to_owned(),
            mirror: Some("http://one.example/debian".to_owned()),
            ..BootstrapOptions::default()
        };
        assert_eq!(
            words("sid", &options).unwrap().join(" "),
            "--variant=minbase --format=tar --skip=output/dev --include=git,g++ sid - http://one.example/debian"
        );
        assert!(words("--setup-hook=x", &options).is_err());
        let hostile = BootstrapOptions {
            packages: vec!["a,--x".to_owned()],
            ..options
        };
        assert!(words("sid", &hostile).is_err());
    }
}
