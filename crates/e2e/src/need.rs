//! Needs of a test: declared in the table, probed here, never decided inside a test.

use crate::cgroup;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Search path of programs. A container gets the same path by default, so programs that are found here are also found
/// in a container of the host's files.
const SEARCH_PATH: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// Requirement of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Run by root.
    Root,
    /// Run by an ordinary user.
    Unprivileged,
    /// Presence of `newuidmap`, and a range for this user in `/etc/subuid`.
    SubIds,
    /// More than one user id inside: root has them, another user needs [`Need::SubIds`].
    ManyIds,
    /// Right to make a cgroup that limits this controller: root on v1 or v2, or a delegated v2 cgroup.
    Controller(&'static str),
    /// Mounted version 1 hierarchy with this controller.
    CgroupV1(&'static str),
    /// Mounted version 2 hierarchy with any controller.
    CgroupV2Controllers,
    /// Version 2 cgroup below which this user may make others that limit memory.
    CgroupV2Delegated,
    /// Absence of [`Need::CgroupV2Delegated`].
    NoDelegation,
    /// Program on the search path.
    Program(&'static str),
    /// Support for binfmt_misc in user namespaces.
    OwnInterpreters,
    /// Answer of the first mirror of the host's apt, or of its proxy.
    PackageMirror,
    /// Rust's compiler and cargo in one directory, as rustup has them.
    Toolchain,
    /// Kernel of at least this version.
    Kernel(u32, u32),
    /// Kernel that can make links of this kind.
    LinkKind(&'static str),
    /// Absence of [`Need::LinkKind`].
    NoLinkKind(&'static str),
    /// Right to make a user namespace (root needs none).
    Userns,
    /// Directory `/usr/local/etc` that belongs to root and is readable for all.
    LocalOfRoot,
    /// Build of tote with fault points beside this program; `cargo xtask test` puts one there.
    FaultPoints,
    /// Unpacked package of a kernel for virtual machines beside this program; `cargo xtask test` puts one there.
    GuestKernel,
    /// Server of directories for virtual machines.
    Virtiofsd,
    /// Third party's program beside this one, in the directory of that name; `cargo xtask test` fetches it from its registry.
    Client(&'static str),
}

/// Returns the path of a tote that tests can kill at fault points.
pub(crate) fn mortal() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.with_file_name("tote-mortal"))
}

/// Returns the path of an unpacked package with a kernel for virtual machines.
pub(crate) fn guest_kernel() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.with_file_name("guest-kernel"))
}

/// Returns the directory of a third party's program.
pub(crate) fn client(name: &str) -> Option<PathBuf> {
    let clients = std::env::current_exe().ok()?.with_file_name("clients");
    Some(clients.join(name)).filter(|path| path.is_dir())
}

impl Need {
    /// True if this machine and this user meet the need.
    pub(crate) fn met(self) -> bool {
        match self {
            Self::Root => is_root(),
            Self::Unprivileged => !is_root(),
            Self::SubIds => !is_root() && has_sub_ids(),
            Self::ManyIds => is_root() || has_sub_ids(),
            Self::Controller(name) => is_root() && cgroup::has_controller(name) || cgroup::delegated(name),
            Self::CgroupV1(name) => cgroup::v1_mount(name).is_some(),
            Self::CgroupV2Controllers => cgroup::v2_has_controllers(),
            Self::CgroupV2Delegated => cgroup::delegated("memory"),
            Self::NoDelegation => !cgroup::delegated("memory"),
            Self::Program(name) => program(name).is_some(),
            Self::OwnInterpreters => {
                let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
                known.lines().any(|line| line.ends_with("\tbinfmt_misc")) && Self::Kernel(6, 7).met()
            }
            Self::PackageMirror => crate::mirror::answers(),
            Self::Toolchain => toolchain().is_some(),
            Self::LinkKind(kind) => has_links_of(kind),
            Self::NoLinkKind(kind) => !has_links_of(kind),
            Self::Kernel(major, minor) => kernel() >= Some((major, minor)),
            Self::Userns => is_root() || userns_allowed(),
            Self::LocalOfRoot => Path::new("/usr/local/etc")
                .metadata()
                .is_ok_and(|found| found.is_dir() && found.uid() == 0 && found.mode() & 0o5 == 0o5),
            Self::FaultPoints => mortal().is_some_and(|path| path.is_file()),
            Self::Virtiofsd => ["/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd"]
                .iter()
                .any(|path| Path::new(path).exists()),
            Self::Client(name) => client(name).is_some(),
            Self::GuestKernel => guest_kernel().is_some_and(|path| path.join("boot").is_dir()),
        }
    }

    /// True if `required` (the value of `TOTE_TEST_REQUIRE`) demands this need.
    ///
    /// `all` demands everything that a machine can offer, but not the identity of the user: no run is both root's and
    /// an ordinary user's.
    pub(crate) fn required_by(self, required: &str) -> bool {
        let name = self.to_string();
        let identity = matches!(
            self,
            Self::Root | Self::Unprivileged | Self::NoDelegation | Self::NoLinkKind(_)
        );
        required
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .any(|item| {
                item == name
                    || (item == "all" && !identity)
                    || name.strip_prefix(item).is_some_and(|rest| rest.starts_with(':'))
            })
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => write!(f, "root"),
            Self::Unprivileged => write!(f, "unprivileged"),
            Self::SubIds => write!(f, "subids"),
            Self::ManyIds => write!(f, "many-ids"),
            Self::Controller(name) => write!(f, "controller:{name}"),
            Self::CgroupV1(name) => write!(f, "cgroup-v1:{name}"),
            Self::CgroupV2Controllers => write!(f, "cgroup-v2-controllers"),
            Self::CgroupV2Delegated => write!(f, "cgroup-v2-delegated"),
            Self::NoDelegation => write!(f, "no-delegation"),
            Self::Program(name) => write!(f, "program:{name}"),
            Self::OwnInterpreters => write!(f, "binfmt_misc of a user namespace (kernel 6.7)"),
            Self::PackageMirror => write!(f, "package-mirror"),
            Self::Kernel(major, minor) => write!(f, "kernel:{major}.{minor}"),
            Self::Toolchain => write!(f, "toolchain: rustc and cargo of rustup"),
            Self::LinkKind(kind) => write!(f, "link-kind:{kind}"),
            Self::NoLinkKind(kind) => write!(f, "a kernel without links of {kind}"),
            Self::Userns => write!(f, "userns"),
            Self::LocalOfRoot => write!(f, "local-of-root: a /usr/local/etc of root's"),
            Self::FaultPoints => write!(f, "fault points: tote-mortal beside tote-e2e"),
            Self::Virtiofsd => write!(f, "virtiofsd: the server of directories for virtual machines"),
            Self::Client(name) => write!(f, "client:{name}"),
            Self::GuestKernel => write!(f, "guest-kernel: a kernel's package, unpacked beside tote-e2e"),
        }
    }
}

/// True if this run is root's.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// True if limits can be raised and processes be exempt from the out-of-memory killer: CAP_SYS_RESOURCE.
pub(crate) fn may_raise_limits() -> bool {
    const SYS_RESOURCE: u64 = 1 << 24;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|set| set & SYS_RESOURCE != 0)
}

/// Finds a program on the default search path.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    SEARCH_PATH
        .iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.exists())
}

fn has_sub_ids() -> bool {
    let uid = rustix::process::getuid().as_raw();
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let passwd = read("/etc/passwd");
    program("newuidmap").is_some()
        && program("newgidmap").is_some()
        && ["/etc/subuid", "/etc/subgid"]
            .iter()
            .all(|file| has_range(&read(file), uid, &passwd))
}

/// True if a subuid(5) file gives this user a range; it may name the user by number or by name.
fn has_range(subids: &str, uid: u32, passwd: &str) -> bool {
    let uid = uid.to_string();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then_some(name)
    });
    subids
        .lines()
        .filter_map(|line| line.split(':').next())
        .any(|owner| owner == uid || Some(owner) == name)
}

/// Asks ip(8) for a link without what it needs, in a network namespace of its own.
fn has_links_of(kind: &str) -> bool {
    let words = ["--net", "ip", "link", "add", "probe", "type", kind];
    let asked = std::process::Command::new("unshare").args(words).output();
    asked.is_ok_and(|out| {
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        !said.contains("Unknown device type") && !said.contains("Operation not")
    })
}

/// Returns the directory of the compiler and of cargo.
pub(crate) fn toolchain() -> Option<PathBuf> {
    let words = ["--print", "sysroot"];
    let asked = std::process::Command::new("rustc").args(words).output().ok()?;
    let root = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    root.join("bin/cargo").is_file().then_some(root)
}

fn kernel() -> Option<(u32, u32)> {
    release(&std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?)
}

fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn userns_allowed() -> bool {
    let status = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "true"])
        .output();
    status.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::{Need, has_range, release};

    #[test]
    fn what_is_required() {
        let table = [
            (Need::Program("gcc"), "all", true),
            (Need::Program("gcc"), "userns, program:gcc", true),
            (Need::Program("gcc"), "program", true),
            (Need::Program("gcc"), "prog", false),
            (Need::Program("gcc"), "", false),
            (Need::CgroupV1("memory"), "cgroup-v1", true),
            (Need::CgroupV1("memory"), "cgroup-v1:cpu", false),
            (Need::Root, "all", false),
            (Need::Root, "root", true),
        ];
        for (need, required, expected) in table {
            assert_eq!(need.required_by(required), expected, "{need} by {required:?}");
        }
    }

    #[test]
    fn ranges_and_releases() {
        let passwd = "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n";
        assert!(has_range("alice:100000:65536\n", 1000, passwd));
        assert!(has_range("1000:100000:65536\n", 1000, passwd));
        assert!(!has_range("bob:100000:65536\n", 1000, passwd));
        assert_eq!(release("6.18.44-x"), Some((6, 18)));
        assert_eq!(release("six"), None);
    }
}
