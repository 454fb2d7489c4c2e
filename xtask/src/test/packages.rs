//! Programs that the tests run beside the engine, and the Debian packages that have them.

use super::is_root;
use crate::elf;
use crate::musl;
use crate::program::{program, succeed};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// A program that tests need.
struct Need {
    program: &'static str,
    package: &'static str,
    /// Required linkage; some tests need a static executable.
    linked: Linkage,
    why: &'static str,
}

#[derive(PartialEq)]
enum Linkage {
    Any,
    Static,
}

const fn need(program: &'static str, package: &'static str, why: &'static str) -> Need {
    let linked = Linkage::Any;
    Need {
        program,
        package,
        linked,
        why,
    }
}

const NEEDS: &[Need] = &[
    need(
        "bwrap",
        "bubblewrap",
        "a peer whose sandbox options are compared with ours",
    ),
    need("crun", "crun", "a peer that takes the same bundles"),
    need(
        "runc",
        "runc",
        "the reference runtime: a test that it fails is a wrong test",
    ),
    need(
        "newuidmap",
        "uidmap",
        "maps a range of ids for rootless containers",
    ),
    Need {
        linked: Linkage::Static,
        ..need("busybox", "busybox-static", "the whole content of the test image")
    },
    need(
        "systemd-analyze",
        "systemd",
        "checks the units that tote writes; nothing of it is started",
    ),
    need(
        "gcc",
        "gcc",
        "compiles the hostile programs that tests run inside",
    ),
    need(
        "python3",
        "python3",
        "an interpreter that runs from the host's /usr",
    ),
    need(
        "pip3",
        "python3-pip",
        "a client of a mirror that an egress policy allows",
    ),
    need("perl", "perl", "an interpreter that runs from the host's /usr"),
    need(
        "node",
        "nodejs",
        "a runtime with threads and a JIT, for seccomp and limits",
    ),
    need(
        "git",
        "git",
        "lists the files that tidy checks, and works inside a sandbox",
    ),
    need(
        "mkfs.btrfs",
        "btrfs-progs",
        "a file system for the storage drivers",
    ),
    need("mkfs.xfs", "xfsprogs", "a file system for the storage drivers"),
    need("mkfs.ext4", "e2fsprogs", "the disks of the loop driver"),
    need("mkfs.erofs", "erofs-utils", "the images of the erofs driver"),
    need(
        "qemu-system-x86_64",
        "qemu-system-x86",
        "runs the virtual machines of containers",
    ),
    need("strace", "strace", "counts the system calls of a start"),
    need("ip", "iproute2", "looks at network namespaces from outside"),
    need(
        "pasta",
        "passt",
        "connects the networks of users other than root with the machine",
    ),
    need(
        "nft",
        "nftables",
        "compares the rules of the packet filter, and loads those of other firewalls",
    ),
    need("iptables", "iptables", "the rules of an older firewall"),
    need(
        "iptables-legacy",
        "iptables",
        "rules of a firewall that nf_tables does not show",
    ),
    need("gdb", "gdb", "a tool that `tote debug` brings into a container"),
    need("vim", "vim", "a tool that `tote debug` brings into a container"),
    need(
        "apt-get",
        "apt",
        "installs packages among the tools of `tote debug`",
    ),
    need("dpkg-deb", "dpkg", "makes a package for the same"),
    need("pgrep", "procps", "looks for processes of a user"),
    need("npm", "npm", "a client of a mirror that an egress policy allows"),
    need(
        "sshd",
        "openssh-server",
        "the mirror of git by ssh that an egress policy allows",
    ),
    need("ssh", "openssh-client", "its client"),
    need("openssl", "openssl", "makes the certificates of registries"),
    need("mmdebstrap", "mmdebstrap", "makes images of Debian's packages"),
    need("setpriv", "util-linux", "becomes the user without rights"),
    need("useradd", "passwd", "makes the user without rights"),
];

/// Other engines, whose containers `tote debug` enters. Debian starts some of them when they are installed, and their firewalls
/// change the machine's, so they are installed only for continuous integration, whose machine serves nothing else.
const ENGINES: &[Need] = &[
    need(
        "podman",
        "podman",
        "an engine whose containers `tote debug` enters",
    ),
    need(
        "systemd-nspawn",
        "systemd-container",
        "an engine whose containers `tote debug` enters",
    ),
    need(
        "dockerd",
        "docker.io",
        "an engine whose containers `tote debug` enters",
    ),
    need(
        "containerd",
        "containerd",
        "an engine whose containers `tote debug` enters",
    ),
    need(
        "lxc-start",
        "lxc",
        "an engine whose containers `tote debug` enters",
    ),
];

/// Installs missing programs as root on a Debian, and otherwise names them.
///
/// A failed installation is not an error here: the tests that need the program are skipped or fail, and report it.
pub(super) fn prepare() -> Result<()> {
    prepare_with(&[])
}

/// Does so for the shipped binary, which is built with one more program.
pub(crate) fn prepare_shipped() -> Result<()> {
    prepare_with(&[need(
        musl::COMPILER,
        "musl-tools",
        "compiles the C code of the shipped binary",
    )])
}

fn prepare_with(more: &[Need]) -> Result<()> {
    let missing = || missing(more);
    let found = missing();
    if found.is_empty() {
        return Ok(());
    }
    let os_release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    if is_root()? && is_debian(&os_release) {
        install(&found);
    }
    for need in missing() {
        println!(
            "missing: {} (Debian package {}): {}",
            need.program, need.package, need.why
        );
    }
    Ok(())
}

/// Directories of programs in Debian's packages. `PATH` is not used, because another user, and a container with the
/// host's `/usr`, must find the programs too.
const DIRECTORIES: &[&str] = &["/usr/bin", "/usr/sbin", "/bin", "/sbin"];

fn missing(more: &[Need]) -> Vec<&Need> {
    let lacks = |need: &&Need| find(need.program, need.linked == Linkage::Static).is_none();
    let engines = std::env::var_os("CI").map_or(&[][..], |_| ENGINES);
    NEEDS.iter().chain(engines).chain(more).filter(lacks).collect()
}

fn find(name: &str, only_static: bool) -> Option<PathBuf> {
    let files = DIRECTORIES
        .iter()
        .map(|directory| Path::new(directory).join(name));
    let mut files = files.filter(|file| file.metadata().is_ok_and(|found| found.is_file()));
    files.find(|file| !only_static || is_static(file))
}

fn is_static(file: &Path) -> bool {
    std::fs::read(file).is_ok_and(|bytes| matches!(elf::interpreter(&bytes), Ok(None)))
}

/// True if `/etc/os-release` is that of Debian or of a distribution made from it.
fn is_debian(os_release: &str) -> bool {
    os_release
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(key, _)| matches!(*key, "ID" | "ID_LIKE"))
        .flat_map(|(_, value)| value.trim_matches('"').split_whitespace())
        .any(|id| id == "debian" || id == "ubuntu")
}

/// Installs packages; fetches new lists of packages only if the present ones do not suffice.
fn install(missing: &[&Need]) {
    let packages: Vec<_> = missing.iter().map(|need| need.package).collect();
    println!("installing Debian packages: {}", packages.join(" "));
    let first = apt_get(&["install", "--no-install-recommends"], &packages);
    let result = first.or_else(|_| {
        println!("updating the lists of Debian packages");
        apt_get(&["update"], &[])?;
        apt_get(&["install", "--no-install-recommends"], &packages)
    });
    if let Err(error) = result {
        eprintln!("xtask: {error:#}");
    }
}

fn apt_get(command: &[&str], packages: &[&str]) -> Result<()> {
    succeed(
        program("apt-get")
            .args(["--quiet", "--quiet", "--yes", "-o", "DPkg::Lock::Timeout=120"])
            .args(command)
            .args(packages)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions() {
        for (text, debian) in [
            ("NAME=\"Debian GNU/Linux\"\nID=debian\n", true),
            ("ID=ubuntu\nID_LIKE=debian\n", true),
            ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", true),
            ("ID=fedora\nNAME=debian\n", false),
            ("ID=\"alpine\"", false),
            ("", false),
        ] {
            assert_eq!(is_debian(text), debian, "{text}");
        }
    }

    /// Programs of packages that every Debian has, and of packages in the table that have several programs.
    const BESIDE: &[&str] = &[
        "btrfs",
        "chrt",
        "ctr",
        "dpkg",
        "find",
        "grep",
        "sha256sum",
        "flock",
        "losetup",
        "nsenter",
        "prlimit",
        "script",
        "sort",
        "tar",
        "taskset",
        "tc",
        "true",
        "unshare",
    ];

    /// Without this, a program that is missing in the table is found only by a look at the skipped tests of a new machine.
    #[test]
    fn every_program_that_a_test_needs_is_installed() {
        let promises = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/e2e/src/promises");
        let mut dirs = vec![promises];
        let mut named = 0;
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(&dir).unwrap() {
                let entry = entry.unwrap();
                let path = entry.path();
                if entry.file_type().unwrap().is_dir() {
                    dirs.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                for found in text.split("Program(\"").skip(1) {
                    let name = found.split('"').next().unwrap();
                    // A test that needs the distribution's own program gives its path.
                    let name = name.trim_start_matches("/usr/bin/");
                    let known = BESIDE.contains(&name)
                        || (NEEDS.iter().chain(ENGINES)).any(|need| need.program == name);
                    assert!(known, "{}: no package of the table has {name}", path.display());
                    named += 1;
                }
            }
        }
        assert!(named > 50, "found only {named} needs of programs");
    }

    #[test]
    fn programs_are_found_where_packages_put_them() {
        assert!(find("sh", false).is_some());
        assert!(find("no-such-program", false).is_none());
        assert!(!is_static(Path::new("/etc/passwd")), "not an ELF file");
    }
}
