//! `tote vm …`.

use crate::{exit, tell, vm};
use tote_options::{Command, Completes, Example, Group, Opt, Positional, Section};

/// `tote vm`.
pub(crate) static VM: Command = Command {
    usage: "COMMAND",
    details: "\
Virtual machines of containers: `tote run --isolation vm IMAGE` starts a container in a small one, with a kernel of its own. \
It needs QEMU, and once `tote vm setup`.",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&SETUP],
    }],
    ..Command::new("vm", "Prepare virtual machines for containers", tell::help)
};

static SETUP: Command = Command {
    usage: "[OPTIONS] [SOURCE]",
    details: "\
Makes a kernel ready for virtual machines: takes the ELF file out of its image, finds exactly the modules that a guest needs, and \
keeps both in the state root. It says what it has done. Guests use the kernel that was made ready last.

SOURCE is a package of Debian (`linux-image-*.deb`), or a directory with `boot/` and `lib/modules/`; without it, it is this \
machine, of which the newest installed kernel is taken. In each, kernels for virtual machines (`-cloud-`) come first. With \
`--modules`, SOURCE is the image of a kernel itself.",
    options: &[&Group {
        title: "Kernel",
        options: &[
            Opt::value("modules", "DIR", "Directory of the modules, whose name is the release, of the image SOURCE")
                .completes(Completes::Dir),
            Opt::flag("quiet", "Print only the name of the kernel").short('q'),
        ],
    }],
    positionals: &[Positional {
        name: "SOURCE",
        required: false,
        many: false,
        completes: Completes::File,
    }],
    examples: &[
        Example {
            about: "The kernel that the distribution makes for virtual machines, installed",
            line: "apt-get install linux-image-cloud-amd64 && tote vm setup",
        },
        Example {
            about: "The same out of its package, which is not installed",
            line: "tote vm setup linux-image-6.1.0-56-cloud-amd64_6.1.192-2_amd64.deb",
        },
    ],
    ..Command::new("setup", "Make a kernel ready for virtual machines", |parsed| {
        exit::refused(vm::setup(parsed))
    })
};
