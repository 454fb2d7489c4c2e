//! Failed operations of a plan: their words, their kinds, and remedies for them.

use tote_sandbox::Plan;
use tote_sys::{Errno, Op, Source, reason};

/// A failed operation.
#[derive(Debug)]
pub struct Step {
    /// Operation in words that begin with a verb, as in the plan.
    pub words: String,
    /// Kind of the operation, by which remedies are found.
    pub kind: StepKind,
    /// Words of runc for an operation that makes a mount of the spec.
    pub mounting: Option<String>,
    /// Error number of the operation.
    pub errno: Errno,
    /// Further text of the kernel; for a program, the missing interpreter.
    pub text: String,
    /// Name of the program if the operation is the last one: executing it.
    pub program: Option<String>,
}

/// Kind of an operation, as far as remedies for its errors differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// The program is executed.
    Execute,
    /// A new instance of overlayfs is mounted.
    MountOverlay,
    /// A new instance of procfs is mounted.
    MountProc,
    /// A new instance of another file system is mounted.
    MountOther,
    /// A part of a tree is mounted under an id map.
    BindMapped,
    /// A part of a tree is mounted without an id map.
    Bind,
    /// A file of the container gets its content.
    WriteFile,
    /// A parameter below `/proc` is written.
    WriteParameter,
    /// A namespace is made.
    Namespace,
    /// A directory, a device node or a terminal is made, or a path becomes read-only.
    Make,
    /// The working directory is entered.
    Enter,
    /// Any other operation: its errors have no remedy of their own.
    Other,
}

impl StepKind {
    /// Returns the kind of an operation.
    #[must_use]
    pub fn of(op: &Op) -> Self {
        match op {
            Op::Exec(_) => Self::Execute,
            Op::Mount(mount) => match &mount.source {
                Source::New { fs, .. } if fs.as_bytes() == b"overlay" => Self::MountOverlay,
                Source::New { fs, .. } if fs.as_bytes() == b"proc" => Self::MountProc,
                Source::New { .. } => Self::MountOther,
                Source::Clone(source) if source.idmap => Self::BindMapped,
                _ => Self::Bind,
            },
            Op::File { .. } => Self::WriteFile,
            Op::Proc { .. } => Self::WriteParameter,
            Op::Unshare(_) | Op::NewTime(_) => Self::Namespace,
            Op::MakeDir { .. } | Op::Device(_) | Op::ReadOnly(_) | Op::Console { .. } => Self::Make,
            Op::WorkingDir(_) => Self::Enter,
            _ => Self::Other,
        }
    }
}

impl Step {
    /// Puts a child's report into words, by the operation's index. A look for the program reports its execution.
    #[must_use]
    pub fn new(plan: &Plan, op: usize, errno: Errno, text: String) -> Self {
        let op = match plan.ops.get(op) {
            Some(Op::FindProgram) => plan.ops.last(),
            other => other,
        };
        let program = op.and_then(|op| match op {
            Op::Exec(exec) => exec
                .program
                .args()
                .first()
                .map(|name| name.to_string_lossy().into_owned()),
            _ => None,
        });
        let words = op.map_or_else(
            || "set up the container".to_owned(),
            |op| tote_sandbox::describe(op).to_string(),
        );
        Self {
            kind: op.map_or(StepKind::Other, StepKind::of),
            words,
            mounting: op.and_then(tote_sandbox::mounting),
            errno,
            text,
            program,
        }
    }

    /// Returns advice for the user, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        use StepKind::{
            Bind, BindMapped, Enter, Execute, Make, MountOther, MountOverlay, MountProc, Namespace,
            WriteFile, WriteParameter,
        };
        let is_named_with_blanks = self.program.as_deref().is_some_and(|name| name.contains(' '));
        Some(match (self.kind, self.errno) {
            (_, Errno::NOENT) if is_named_with_blanks => {
                "the quotes make one word of the program and its arguments: leave them out; --entrypoint takes the program alone"
            }
            (Execute, Errno::NOENT) if !self.text.is_empty() => {
                "the program is there, but its loader is not: add that file to the image, or link the program statically"
            }
            (Execute, Errno::NOEXEC) => {
                "a script without a #! line, or a program for another machine: packages qemu-user-static and binfmt-support let this one execute those, or take an image for this one with --platform"
            }
            (MountOverlay | MountProc | MountOther, Errno::NOSPC) => {
                "the limit of mounts is reached: raise fs.mount-max"
            }
            (MountOverlay | MountProc | MountOther, Errno::NODEV) => "this kernel lacks that file system",
            (_, Errno::NOSYS) => "this kernel is too old: tote needs Linux 5.12",
            (MountOverlay, Errno::INVAL) => {
                "the state root may itself be on overlayfs, or the kernel too old for overlay in a user namespace (5.11): use --root DIR on another file system"
            }
            (BindMapped, Errno::INVAL | Errno::PERM | Errno::OPNOTSUPP) => {
                "this file system has no id-mapped mounts, without which root would see the private files in it: run as a user, or take an image in its place"
            }
            (MountProc, Errno::PERM) => {
                "the kernel gives a new /proc only where the host's own is not covered: inside another container, run that one with --security-opt systempaths=unconfined"
            }
            (MountOverlay | MountProc | MountOther | Bind | BindMapped, Errno::LOOP) => {
                "the image has a symbolic link where a directory must be"
            }
            (MountOverlay | MountProc | MountOther | Bind | BindMapped, Errno::NOTDIR) => {
                "the image has a file where a directory must be, or the other way round"
            }
            (MountOverlay | MountProc | MountOther | Bind | BindMapped, Errno::XDEV) => {
                "the kernel refuses mounts on files of /proc, except on a few that only describe the machine"
            }
            (MountOverlay | MountProc | MountOther | Bind | BindMapped, Errno::ROFS) => {
                "that place is in what is mounted read-only, and nothing can be made there to mount on: make the file or directory in the source of that mount first"
            }
            (WriteFile | WriteParameter | Make, Errno::ROFS) => {
                "unless it is read-only on purpose, overlayfs found no room for a directory of its own: see 'df' and 'df -i' of the state root"
            }
            (Enter, Errno::XDEV) => "that directory is outside the container",
            (WriteParameter, Errno::NOENT) if self.words.contains("/proc/sys/") => {
                "this kernel has no such parameter in a namespace"
            }
            (Namespace, Errno::NOSPC) => {
                "raise user.max_net_namespaces and the other limits below /proc/sys/user"
            }
            _ => return None,
        })
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(program) = &self.program else {
            write!(f, "cannot {}: {}", self.words, reason(self.errno))?;
            return if self.text.is_empty() {
                Ok(())
            } else {
                write!(f, " ({})", self.text)
            };
        };
        // docker and containerd look for these words to tell 126 from 127.
        match self.errno {
            Errno::NOENT if !self.text.is_empty() => {
                write!(
                    f,
                    "exec: {program:?}: its interpreter {} is not in the container: no such file or directory",
                    self.text
                )
            }
            Errno::NOENT if program.contains('/') => {
                write!(f, "exec: {program:?}: stat {program}: no such file or directory")
            }
            Errno::NOENT => write!(f, "exec: {program:?}: executable file not found in $PATH"),
            Errno::ACCESS if self.text.is_empty() => write!(f, "exec: {program:?}: permission denied"),
            Errno::ACCESS => write!(f, "exec: {program:?}: permission denied: {}", self.text),
            Errno::NOEXEC => write!(f, "exec: {program:?}: exec format error"),
            errno => write!(f, "exec: {program:?}: {}", reason(errno)),
        }
    }
}
