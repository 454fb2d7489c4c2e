//! Programs of a session that are not the tools' own: the choice of a shell, and small commands.

use super::prompt::{Prompt, quoted, shown};
use super::seen::PLACE;
use tote_sandbox::WrittenFile;

/// Directory of the small commands among the tools; first in PATH.
pub(super) const COMMANDS: &str = "/.tote/bin";

/// Directory of the small commands in a session whose root is the container's tree; before the tools in PATH.
pub(super) const COMMANDS_ASIDE: &str = "/.tote/.bin";

/// Beginnings of variables by which a program of the tools would load a file of the container, were it started with them.
const OF_LINKERS: [&str; 5] = ["LD_", "GLIBC_TUNABLES=", "GCONV_PATH=", "LOCPATH=", "NLSPATH="];

/// Shells that a user may ask for; `auto` is the most comfortable one of the tools.
pub const SHELLS: [&str; 5] = ["auto", "bash", "fish", "sh", "zsh"];

/// Returns the command of a session without one: a shell, which carries out `script` if there is one. `preferred` is the
/// caller's own shell, and a shell that is typed at gets the caller's `prompt`.
pub(super) fn command(
    shell: Option<&str>,
    script: Option<&str>,
    preferred: Option<&str>,
    prompt: &Prompt,
) -> Vec<String> {
    let script = script.map(|script| ["-c", script]).into_iter().flatten();
    let script: Vec<String> = script.map(str::to_owned).collect();
    let prompted = |shell: &str| {
        let options = Some(prompt.options(shell)).filter(|_| script.is_empty());
        let words = options.unwrap_or_default().into_iter();
        std::iter::once(shell.to_owned()).chain(words).collect::<Vec<_>>()
    };
    if let Some(shell) = shell.filter(|shell| *shell != "auto") {
        return [prompted(shell), script].concat();
    }
    let preferred = preferred.and_then(|path| path.rsplit('/').next());
    let first = SHELLS[1..].iter().find(|shell| Some(**shell) == preferred);
    let others = ["bash", "zsh", "fish"].into_iter();
    let others = others.filter(|shell| Some(shell) != first);
    let choice: String = first
        .into_iter()
        .copied()
        .chain(others)
        .map(|shell| {
            let words = quoted(&prompted(shell));
            format!("command -v {shell} >/dev/null 2>&1 && exec {words} \"$@\"; ")
        })
        .collect();
    let choice = format!("{choice}exec sh \"$@\"");
    let words = ["/bin/sh", "-c", &choice, "sh"].map(str::to_owned);
    [&words[..], &script].concat()
}

/// The commands `tote exec`, which runs a program of the container in the container's own root, and `entrypoint`, which
/// shows or runs what the container would run, `install` and `uninstall`. `env` are the variables of the container's programs, `command` is its
/// command, and `complaints` say what is wrong with it. `setter` is the container's env(1): only behind the change of the root, the variables
/// for the dynamic linker are those of a program of the container.
pub(crate) fn commands(
    (env, setter): (&[String], Option<&str>),
    command: &[String],
    complaints: &[String],
) -> [WrittenFile; 4] {
    let mut env = env.to_vec();
    if !env.iter().any(|line| line.starts_with("PATH=")) {
        env.push(format!("PATH={}", tote_bundle::DEFAULT_PATH));
    }
    let start = match setter {
        Some(setter) => format!("\"$chroot\" {PLACE} {setter} {}", quoted(&env)),
        None => {
            env.retain(|line| !OF_LINKERS.iter().any(|start| line.starts_with(start)));
            format!("env {} \"$chroot\" {PLACE}", quoted(&env))
        }
    };
    let tote = format!(
        "#!/bin/sh\n\
         if [ \"$1\" != exec ] || [ $# -lt 2 ]; then\n\
         \techo 'usage in a session: tote exec COMMAND [ARG...]' >&2\n\
         \texit 125\n\
         fi\n\
         shift\n\
         chroot=$(command -v chroot) || {{ echo 'tote exec: the tools have no chroot' >&2; exit 126; }}\n\
         exec {start} \"$@\"\n"
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
            format!("printf '%s\\n' {}", quoted(&[shown(command)])),
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

/// The command `gdb`, which has the tools' gdb look for the files of the container's processes where the session has them: their own
/// mount namespace it may not enter. `dir` is the directory of the command, `shell` the tools' shell, and `root` has the container's tree.
pub(super) fn debugger(dir: &str, shell: &str, root: &str) -> WrittenFile {
    let text = format!(
        "#!{shell}\n\
         rest=:$PATH:\n\
         path=${{rest%%:{dir}:*}}:${{rest#*:{dir}:}}\n\
         path=${{path#:}}\n\
         gdb=$(PATH=${{path%:}}; command -v gdb) || {{ echo 'gdb: the tools have none' >&2; exit 127; }}\n\
         exec \"$gdb\" -iex 'set sysroot {root}' \"$@\"\n"
    );
    WrittenFile {
        path: format!("{dir}/gdb"),
        mode: 0o755,
        content: text.into_bytes(),
    }
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
        let none = Prompt::default();
        let choice = |shell, script, preferred| command(shell, script, preferred, &none).join(" ");
        let order = |text: &str| -> Vec<String> {
            let parts = text.split("command -v ").skip(1);
            parts
                .filter_map(|part| part.split(' ').next().map(str::to_owned))
                .collect()
        };
        assert_eq!(order(&choice(None, None, None)), ["bash", "zsh", "fish"]);
        let zsh = choice(Some("auto"), None, Some("/usr/bin/zsh"));
        assert_eq!(order(&zsh), ["zsh", "bash", "fish"]);
        assert_eq!(
            order(&choice(None, None, Some("/bin/tcsh"))),
            ["bash", "zsh", "fish"]
        );
        assert_eq!(choice(Some("fish"), Some("ls | wc"), None), "fish -c ls | wc");
        assert!(choice(None, Some("ls"), None).ends_with("exec sh \"$@\" sh -c ls"));
    }

    #[test]
    fn a_shell_that_is_typed_at_has_the_callers_prompt() {
        let prompt = Prompt::of(
            Some("mine> ".to_owned()),
            Some(b"function fish_prompt; end".to_vec()),
        );
        let of = |shell, script| command(Some(shell), script, None, &prompt).join(" ");
        assert_eq!(of("bash", None), "bash --rcfile /.tote/prompt.bash");
        assert_eq!(of("fish", None), "fish -C source /.tote/prompt.fish");
        assert_eq!(of("zsh", None), "zsh");
        assert_eq!(of("bash", Some("ls")), "bash -c ls", "a text has no prompt");
        let chosen = command(None, None, None, &prompt).join(" ");
        assert!(
            chosen.contains("exec 'bash' '--rcfile' '/.tote/prompt.bash' \"$@\""),
            "{chosen}"
        );
    }

    #[test]
    fn variables_of_the_container_are_set_behind_its_root() {
        let env = ["A=it's".to_owned(), "LD_PRELOAD=/evil.so".to_owned()];
        let script = |setter| {
            let [tote, ..] = commands((&env, setter), &[], &[]);
            String::from_utf8(tote.content).unwrap()
        };
        let all = "'A=it'\\''s' 'LD_PRELOAD=/evil.so' 'PATH=/usr/local/sbin:";
        let within = script(Some("/bin/env"));
        assert!(
            within.contains(&format!("exec \"$chroot\" /target /bin/env {all}")),
            "{within}"
        );
        let before = script(None);
        assert!(
            before.contains("exec env 'A=it'\\''s' 'PATH=") && !before.contains("LD_PRELOAD"),
            "{before}"
        );
    }

    #[test]
    fn a_command_does_not_steer_a_terminal() {
        let words = [
            "/bin/sh\x1b[2J".to_owned(),
            "it's\n\u{9b}".to_owned(),
            "it's\n".to_owned(),
        ];
        assert_eq!(
            shown(&words),
            "$'/bin/sh\\x1b[2J' $'it\\'s\\n\\xc2\\x9b' 'it'\\''s\n'"
        );
        assert_eq!(super::super::prompt::visible("a\x1b\n"), "a\\u{1b}\\n");
    }

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted(&["it's".to_owned(), "$x".to_owned()]), "'it'\\''s' '$x'");
    }
}
