//! `tote vm …`.

use super::repeated::FORMAT;
use crate::{exit, tell, vm, vm_template};
use tote_options::{Command, Completes, Example, Group, Opt, Positional, Section};

/// `tote vm`.
pub(crate) static VM: Command = Command {
    usage: "COMMAND",
    details: "\
Virtual machines of containers: `tote run --isolation vm IMAGE` starts a container in a small one, with a kernel of its own. \
It needs QEMU, and once `tote vm setup`.",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&SETUP, &TEMPLATE],
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

static TEMPLATE: Command = Command {
    usage: "COMMAND",
    details: "\
A template is a virtual machine that was saved when its guest was ready and had seen nothing of a container. A start whose machine is \
the same goes on from it instead of booting: with the kernel that is in use, this tote, this QEMU, as much memory, as many processors, no shared \
directories, four disks and one network at most. `tote inspect` says which one (`VirtualMachine.Template`), and `--isolation vm=template=no` boots.",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&CREATE, &LS, &PRUNE, &RM],
    }],
    ..Command::new("template", "Start virtual machines without booting", tell::help)
};

static CREATE: Command = Command {
    usage: "[OPTIONS]",
    details: "\
Boots a machine, saves it, and prints the name of the template. A template that is there already stays. A change of this machine, \
a newer tote for instance, needs a new template: `tote vm template ls` shows which ones fit.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::value(
                "memory",
                "SIZE",
                "Memory of the machines: 512m, as `--isolation vm` has it",
            )
            .short('m'),
            Opt::value("cpus", "NUMBER", "Number of their processors: 1"),
        ],
    }],
    examples: &[Example {
        about: "Start containers with 256 MiB in a quarter of the time",
        line: "tote vm template create -m 256m && tote run --rm --isolation vm=memory=256m debian uname -r",
    }],
    ..Command::new("create", "Make a template", |parsed| {
        exit::refused(vm_template::create(parsed))
    })
};

static LS: Command = Command {
    aliases: &["list"],
    usage: "[OPTIONS]",
    options: &[&Group {
        title: "",
        options: &[FORMAT, Opt::flag("quiet", "Print only names").short('q')],
    }],
    ..Command::new("ls", "List templates", |parsed| {
        exit::own(vm_template::list(parsed))
    })
};

static PRUNE: Command = Command {
    usage: "",
    ..Command::new("prune", "Remove templates that fit no start any more", |parsed| {
        exit::own(vm_template::prune(parsed))
    })
};

static RM: Command = Command {
    aliases: &["remove"],
    usage: "TEMPLATE [TEMPLATE...]",
    details: "The name may be cut where no other one begins with the same. Containers that run keep what they have.",
    positionals: &[Positional {
        name: "TEMPLATE",
        required: true,
        many: true,
        completes: Completes::None,
    }],
    ..Command::new("rm", "Remove templates", |parsed| {
        exit::own(vm_template::remove(parsed))
    })
};
