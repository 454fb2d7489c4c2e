//! `tote bench`.

use crate::bench;
use tote_options::{Command, Completes, Example, ExitStatus, Parsing, Positional};

/// `tote bench`.
pub(super) static BENCH: Command = Command {
    usage: "COMMAND [OPTION...]",
    details: "\
Measures this engine beside others that the machine has: podman, docker, containerd, LXC, crun, runc, bubblewrap, \
systemd-nspawn and a plain process. It is a program of its own, `tote-bench`, which stands beside this one; `tote bench --help` \
is this text, `tote bench help` lists its options.

`candidates`
: List the candidates: which can run here, and why others cannot

`experiments`
: List what is measured

`setup`
: Make all that the candidates need, run each once, and remove it again

`run`
: Measure. A run that was killed goes on with `--resume`

`ablate`
: Measure this engine as it is beside itself with one measure more or less

`report`
: Write the newest results as Markdown, HTML, JSON and CSV

`history`
: Compare the results of several measurements

`import`
: Read the JSON files of the thesis's benchmark tool

`teardown`
: Remove what a killed run has left",
    positionals: &[
        Positional {
            name: "COMMAND",
            required: true,
            many: false,
            completes: Completes::Words(&[
                "candidates", "experiments", "setup", "run", "ablate", "report", "history", "import", "teardown", "help",
            ]),
        },
        Positional {
            name: "OPTION",
            required: false,
            many: true,
            completes: Completes::File,
        },
    ],
    parsing: Parsing::StopAtFirstPositional,
    examples: &[
        Example { about: "A comparison in minutes, and its page", line: "tote bench run --quick && tote bench report" },
        Example {
            about: "Two engines, one experiment",
            line: "tote bench run --candidates tote,podman --experiments hello-world",
        },
    ],
    exit_status: &[
        ExitStatus { status: "0", about: "All was measured, and was sound" },
        ExitStatus { status: "1", about: "Runs failed, or a candidate left something behind" },
        ExitStatus { status: "2", about: "There is no result" },
        ExitStatus { status: "125", about: "`tote-bench` could not be executed" },
    ],
    ..Command::new("bench", "Measure container engines side by side", bench::bench)
};
