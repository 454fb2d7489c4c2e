//! Errors of virtual machines.

use std::path::PathBuf;

/// Why a container cannot be in a virtual machine.
#[derive(Debug, thiserror::Error)]
pub enum VmFault {
    /// The state root has no kernel for guests.
    #[error("cannot start a virtual machine: there is no kernel for it yet")]
    NoKernel,
    /// The kernel for guests was made ready by a tote that needed other modules.
    #[error("cannot start a virtual machine: another version of tote has made the kernel for it ready")]
    OldKernel,
    /// This machine has no VMM.
    #[error("cannot start a virtual machine: this machine has no {0}")]
    NoVmm(&'static str),
    /// This machine has no server of files for guests.
    #[error("cannot share directories with a virtual machine: this machine has no virtiofsd")]
    NoServer,
    /// The kernel for guests has no module for 9p.
    #[error("cannot share directories by 9p: the kernel for virtual machines has no 9p")]
    NoNineP,
    /// The server of files cannot leave the caller's groups.
    #[error(
        "cannot share directories with a virtual machine: virtiofsd has to leave this user's groups, which takes ranges of ids"
    )]
    Groups,
    /// A file that is neither a directory nor an ordinary file.
    #[error("cannot share {0} with a virtual machine: it is neither a directory nor an ordinary file")]
    Special(PathBuf),
    /// The processor cannot be used by virtual machines.
    #[error("cannot use accel=kvm: {0}")]
    NoKvm(String),
    /// The pod of a container has no machine.
    #[error(
        "cannot give a container of a pod a virtual machine of its own: a machine has all containers of its pod"
    )]
    NoPod,
    /// The image is not one of the store.
    #[error(
        "cannot use this image in a virtual machine: its files are the host's; only images of the store can be a disk"
    )]
    NotStored,
    /// An option that has no meaning, or none yet, in a virtual machine.
    #[error("cannot use {option} with --isolation vm: {reason}")]
    Option {
        /// The option, with its value where that matters.
        option: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// The memory does not suffice for a kernel.
    #[error("cannot start a virtual machine with {given} MiB of memory: it needs {least} at least")]
    Memory {
        /// Memory that was asked for.
        given: u64,
        /// Least memory.
        least: u64,
    },
    /// A command that reaches into a container.
    #[error(
        "cannot {attempt} container {container}: it is in a virtual machine, whose processes and files are not this machine's"
    )]
    Apart {
        /// The attempt.
        attempt: &'static str,
        /// Name of the container.
        container: String,
    },
    /// A kernel cannot be made ready.
    #[error("cannot make a guest's kernel ready")]
    Kernel(#[from] tote_kernel::KernelError),
    /// A file of virtual machines cannot be used.
    #[error("cannot {attempt} {path}")]
    File {
        /// The attempt, as a verb.
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The attendant's own files are not as tote writes them.
    #[error("cannot read the description of the virtual machine")]
    Description(#[source] serde_json::Error),
    /// The guest does not do what it is asked for.
    #[error("the virtual machine does not answer: {0}")]
    Guest(String),
    /// A process that the guest cannot start, or that was lost, with docker's exit code.
    #[error("{0}")]
    Exec(String, u8),
    /// A plan that came to a process of the sandbox is not as tote writes it.
    #[error("cannot read piece {0} of the plan")]
    Piece(usize),
    /// The attendant cannot begin.
    #[error(transparent)]
    Vmm(#[from] tote_vmm::VmmError),
}

impl VmFault {
    /// Returns the reason that a visitor has given.
    pub fn said(said: &[u8]) -> String {
        let said = String::from_utf8_lossy(said);
        let said = said.trim_end();
        said.strip_prefix("tote: ").unwrap_or(said).to_owned()
    }

    /// The error of an attempt on a file.
    pub fn file(attempt: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            attempt,
            path,
            source,
        }
    }
}

tote_records::part!(VmFault);
impl tote_records::PartError for VmFault {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Exec(_, code) => *code,
            _ => 125,
        }
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NoKernel => {
                "tote vm setup takes the kernel of this machine, tote vm setup FILE.deb that of a package: apt-get download linux-image-6.1.0-56-cloud-amd64 or a newer one"
            }
            Self::OldKernel => "run tote vm setup again, as the first time",
            Self::NoVmm(_) => {
                "apt-get install qemu-system-x86, or the package of that program in another distribution"
            }
            Self::NoServer => {
                "apt-get install virtiofsd, or qemu-system-common in Debian 12; -v disk:NAME:/path needs none, nor does 9p, which the kernel of linux-image-amd64 has"
            }
            Self::NoNineP => {
                "run tote vm setup with a kernel that has it, such as that of Debian's linux-image-amd64; those of linux-image-cloud-amd64 have none"
            }
            Self::Groups => {
                "add this user to /etc/subuid and /etc/subgid (usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER) and install uidmap"
            }
            Self::NoKvm(_) => "leave out accel=kvm: QEMU translates then, which is slower and needs no right",
            Self::NoPod => {
                "give --isolation vm to tote pod create, or --pod new:NAME in the place of --pod NAME"
            }
            Self::Kernel(tote_kernel::KernelError::NoKernel(_)) => {
                "apt-get install linux-image-cloud-amd64, or give a package: apt-cache depends linux-image-cloud-amd64 names it, apt-get download fetches it"
            }
            Self::Apart { .. } => {
                "exec, debug, cp, diff, commit, export, top, logs, stop, kill and wait work as ever"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }
}
