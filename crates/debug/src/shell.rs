//! Programs of a session that are not the tools' own: the choice of a shell, and four small commands.

use super::view::PLACE;
use tote_sandbox::WrittenFile;

/// Directory of the small commands among the tools; first in PATH.
pub(super) const COMMANDS: &str = "/.tote/bin";

/// Shells that a user may ask for; `auto` is the most comfortable one of the tools.
pub const SHELLS: [&str; 5] = ["auto", "bash", "fish", "sh", "zsh"];

/// Returns the command of a session without one: a shell, which carries out `script` if there is one. `preferred` is the
/// caller's own shell.
pub(crate) fn command(shell: Option<&str>, script: Option<&str>, preferred: Option<&str>) -> Vec<String> {
    let script = script.map(|script| ["-c", script]).into_iter().flatten();
    let words: Vec<&str> = match shell.filter(|shell| *shell != "auto") {
        Some(shell) => std::iter::once(shell).chain(script).collect(),
        None => {
            let preferred = preferred.and_then(|path| path.rsplit('/').next());
            let first = SHELLS[1..].iter().find(|shell| Some(**shell) == preferred);
            let order: Vec<&str> = first
                .into_iter()
                .chain(
                    ["bash", "zsh", "fish"]
                        .iter()
                        .filter(|shell| Some(*shell) != first),
                )
                .copied()
                .collect();
            let choice = format!(
                "for shell in {}; do command -v $shell >/dev/null 2>&1 && exec $shell \"$@\"; done; exec sh \"$@\"",
                order.join(" ")
            );
            let words = ["/bin/sh", "-c", &choice, "sh"].map(str::to_owned).into_iter();
            return words.chain(script.map(str::to_owned)).collect();
        }
    };
    words.into_iter().map(str::to_owned).collect()
}

/// Quotes words for a shell.
fn quoted(words: &[String]) -> String {
    let quote = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// The commands `tote exec`, which runs a program of the container in the container's own root, and `entrypoint`, which
/// shows or runs what the container would run, `install` and `uninstall`. `env` are the container's variables, `command` is its command, and
/// `complaints` say what is wrong with it.
pub(crate) fn commands(path: Option<&str>, command: &[String], complaints: &[String]) -> [WrittenFile; 4] {
    let path = quoted(&[path.unwrap_or(tote_bundle::DEFAULT_PATH).to_owned()]);
    let tote = format!(
        "#!/bin/sh\n\
         if [ \"$1\" != exec ] || [ $# -lt 2 ]; then\n\
         \techo 'usage in a session: tote exec COMMAND [ARG...]' >&2\n\
         \texit 125\n\
         fi\n\
         shift\n\
         chroot=$(command -v chroot) || {{ echo 'tote exec: the tools have no chroot' >&2; exit 126; }}\n\
         PATH={path}\n\
         export PATH\n\
         exec \"$chroot\" {PLACE} \"$@\"\n"
    );
    let lint = match complaints {
        [] => "echo 'nothing to complain about'".to_owned(),
        complaints => format!("printf '%s\\n' {}; exit 1", quoted(complaints)),
    };
    let (shown, run) = if command.is_empty() {
        let unknown = "echo 'entrypoint: the command of this container is not known' >&2; exit 1".to_owned();
        (unknown.clone(), unknown)
    } else {
        let words = quoted(command);
        (
            format!("printf '%s\\n' {}", quoted(std::slice::from_ref(&words))),
            format!("exec {COMMANDS}/tote exec {words}"),
        )
    };
    let entrypoint = format!(
        "#!/bin/sh\n\
         case \"$1\" in\n\
         '' | --print) {shown} ;;\n\
         --lint) {lint} ;;\n\
         --run) {run} ;;\n\
         *) echo 'usage: entrypoint [--print|--lint|--run]' >&2; exit 125 ;;\n\
         esac\n"
    );
    let packages = [("install", INSTALL), ("uninstall", UNINSTALL)];
    let [install, uninstall] = packages.map(|(name, text)| (name, text.to_owned()));
    [("tote", tote), ("entrypoint", entrypoint), install, uninstall].map(|(name, text)| WrittenFile {
        path: format!("{COMMANDS}/{name}"),
        mode: 0o755,
        content: text.into_bytes(),
    })
}

/// Installs packages among the tools by the first package manager that they have. Its output goes to standard error.
/// Downloads have no user of their own here, and nothing is asked.
const INSTALL: &str = r#"#!/bin/sh
set -e
if command -v apt-get >/dev/null 2>&1; then
    export DEBIAN_FRONTEND=noninteractive
    apt() { apt-get -qq -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0 "$@"; }
    # Lists of an earlier session may do.
    apt install -y --no-install-recommends "$@" >/dev/null 2>&1 || { apt update && apt install -y --no-install-recommends "$@"; }
elif command -v apk >/dev/null 2>&1; then
    apk add --no-progress "$@"
elif command -v dnf >/dev/null 2>&1; then
    dnf install -y -q "$@"
elif command -v microdnf >/dev/null 2>&1; then
    microdnf install -y "$@"
else
    echo 'install: the tools have none of apt-get, apk and dnf' >&2
    exit 125
fi
"#;

/// Removes such packages again.
const UNINSTALL: &str = r#"#!/bin/sh
if command -v apt-get >/dev/null 2>&1; then
    export DEBIAN_FRONTEND=noninteractive
    exec apt-get -qq -y -o Dpkg::Use-Pty=0 remove "$@"
elif command -v apk >/dev/null 2>&1; then
    exec apk del --no-progress "$@"
elif command -v dnf >/dev/null 2>&1; then
    exec dnf remove -y -q "$@"
elif command -v microdnf >/dev/null 2>&1; then
    exec microdnf remove -y "$@"
fi
echo 'uninstall: the tools have none of apt-get, apk and dnf' >&2
exit 125
"#;

/// Returns a command that installs packages first, and ends with 125 if that fails.
pub(super) fn installing(packages: &[String], command: Vec<String>) -> Vec<String> {
    let script = format!(
        "{COMMANDS}/install {} </dev/null >&2 || exit 125; exec \"$@\"",
        quoted(packages)
    );
    let words = ["/bin/sh", "-c", &script, "sh"].map(str::to_owned);
    words.into_iter().chain(command).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_shell_comes_first() {
        let choice = |shell, script, preferred| command(shell, script, preferred).join(" ");
        assert!(choice(None, None, None).contains("in bash zsh fish;"));
        assert!(choice(Some("auto"), None, Some("/usr/bin/zsh")).contains("in zsh bash fish;"));
        assert!(choice(None, None, Some("/bin/tcsh")).contains("in bash zsh fish;"));
        assert_eq!(choice(Some("fish"), Some("ls | wc"), None), "fish -c ls | wc");
        assert!(choice(None, Some("ls"), None).ends_with("sh -c ls"));
    }

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted(&["it's".to_owned(), "$x".to_owned()]), "'it'\\''s' '$x'");
    }
}
