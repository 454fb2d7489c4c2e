//! `tote debug`: packages among the tools, layers that are kept, and the owner of what a session writes.

use super::debug::debug;
use super::exec::{over, running};
use super::life::done;
use super::stored::image;
use crate::context::Context;
use crate::exchange::patience;
use crate::invocation::Invocation;
use crate::need::Need::{ManyIds, Program, Root, Unprivileged};
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use std::fs;
use std::os::unix::fs::MetadataExt as _;

pub(super) const TESTS: &[Test] = &[
    test(
        "debug_keep::packages_are_installed_among_the_tools",
        &[ManyIds, Program("apt-get"), Program("dpkg-deb")],
        packages,
    ),
    test(
        "debug_keep::a_package_is_there_in_the_next_session",
        &[ManyIds, Program("apt-get"), Program("dpkg-deb")],
        package_kept,
    ),
    test(
        "debug_keep::a_session_sees_the_packets_of_a_container",
        &[Program("perl")],
        packets,
    ),
    test("debug_keep::a_kept_layer_goes_with_its_container", &[], kept),
    test(
        "debug_keep::killed_a_session_leaves_its_layer_usable",
        &[],
        killed,
    ),
    test("debug_keep::mistakes_are_named", &[], mistakes),
    test(
        "debug_keep::files_belong_to_a_user_of_this_machine",
        &[Root],
        effective,
    ),
    test(
        "debug_keep::users_of_this_machine_have_ids_in_a_container",
        &[Unprivileged],
        effective_of_user,
    ),
];

/// Makes a tree with this machine's apt and dpkg, and in it a repository with one package.
const TOOLS: &str = r#"
set -e
root=$1; mkdir -p $root; cd $root
mkdir -p usr/bin usr/sbin usr/lib usr/lib64 && for name in bin sbin lib lib64; do ln -s usr/$name $name; done
put() { for file; do test -e ".$file" && continue; mkdir -p ".${file%/*}"; cp "$file" ".$file"; done; }
for program in sh apt-get dpkg dpkg-deb dpkg-split tar rm diff cat cut grep ldconfig start-stop-daemon chroot; do
  path=$(PATH=/usr/sbin:/usr/bin:/sbin:/bin command -v $program)
  put "$path" $(ldd "$path" | grep -o '/[^ ]*' || true)
done
for file in /usr/lib/apt/methods/file /usr/lib/apt/methods/copy /usr/lib/apt/methods/store; do
  put "$file" $(ldd "$file" | grep -o '/[^ ]*')
done
for file in /usr/share/dpkg/cputable /usr/share/dpkg/tupletable /usr/share/dpkg/ostable; do put $file; done
mkdir -p etc/apt/apt.conf.d etc/apt/preferences.d var/lib/dpkg/info var/lib/dpkg/updates var/lib/dpkg/triggers var/lib/apt/lists/partial var/cache/apt/archives/partial var/log/apt tmp repo
: > var/lib/dpkg/status
echo 'deb [trusted=yes] file:/repo ./' > etc/apt/sources.list
mkdir -p build/DEBIAN build/usr/bin
printf 'Package: extra\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n' > build/DEBIAN/control
printf '#!/bin/sh\necho extra tool\n' > build/usr/bin/extra; chmod 755 build/usr/bin/extra
dpkg-deb -Znone --root-owner-group --build build repo/extra.deb >/dev/null
{ cat build/DEBIAN/control; printf 'Filename: ./extra.deb\nSize: %s\nSHA256: %s\n\n' $(stat -c %s repo/extra.deb) $(sha256sum < repo/extra.deb | cut -d ' ' -f 1); } > repo/Packages
rm -r build
"#;

fn packages(cx: &Context) -> Result<()> {
    let dir = cx.directory("apt")?;
    Invocation::new(["sh", "-c", TOOLS, "-", &dir])
        .output()?
        .exits(0)?;
    let tools = format!("rootfs:{dir}");
    let container = running(cx, &["--network", "none"])?;
    // The output of the package manager does not disturb that of the command.
    let install = ["--tools", &tools, "--install", "extra", "c"];
    debug(cx, &[&install[..], &["extra"]].concat())?.prints("extra tool\n")?;
    debug(cx, &[&install[..], &["sh", "-c", "exit 7"]].concat())?.exits(7)?;
    debug(
        cx,
        &["--tools", &tools, "c", "sh", "-c", "install extra >&2; extra"],
    )?
    .prints("extra tool\n")?;
    let away = "uninstall extra >&2 && test ! -e /usr/bin/extra && echo gone";
    debug(cx, &[&install[..], &["sh", "-c", away]].concat())?.prints("gone\n")?;
    // It is gone afterwards, and the tools' own tree has not got it.
    debug(cx, &["--tools", &tools, "c", "extra"])?.refuses(127, &["extra"])?;
    debug(
        cx,
        &["--tools", &tools, "--install", "no-such-package", "c", "true"],
    )?
    .exits(125)?
    .has_err("no-such-package")?;
    let busybox = cx.image();
    debug(cx, &["--tools", &busybox, "--install", "extra", "c", "true"])?
        .exits(125)?
        .has_err("apt-get")?;
    over(container)
}

/// The tools are an image, which stays as it is.
fn package_kept(cx: &Context) -> Result<()> {
    let (dir, archive) = (cx.directory("apt")?, cx.path("apt.tar")?);
    Invocation::new(["sh", "-c", TOOLS, "-", &dir])
        .output()?
        .exits(0)?;
    Invocation::new(["tar", "-C", &dir, "-cf", &archive, "."])
        .output()?
        .exits(0)?;
    done(cx, &["import", &archive, "apt"])?;
    create(cx)?;
    let tools = ["--tools", "apt", "--keep"];
    debug(
        cx,
        &[&tools[..], &["--install", "extra", "k", "sh", "-c", ":"]].concat(),
    )?
    .prints("")?;
    debug(cx, &[&tools[..], &["k", "extra"]].concat())?.prints("extra tool\n")?;
    debug(cx, &["--tools", "apt", "k", "extra"])?.refuses(127, &["extra"])?;
    done(cx, &["rm", "-f", "k"])?;
    Ok(())
}

/// Hears all packets of the loopback device, until one that it has sent comes by. The numbers are those of AF_PACKET, SOCK_RAW and ETH_P_ALL.
const HEARS: &str = r#"
use Socket; alarm 30;
socket(my $all, 17, 3, 0x0300) or die "packets: $!\n";
socket(my $out, PF_INET, SOCK_DGRAM, 0) or die "datagram: $!\n";
send($out, "a needle", 0, sockaddr_in(9, inet_aton("127.0.0.1"))) or die "send: $!\n";
do { recv($all, my $packet, 65536, 0) // die "hear: $!\n"; $found = index($packet, "a needle") } while $found < 0;
print "after $found bytes of headers\n";
"#;

/// Recipe 8 of `docs/debug-recipes.md`, by the call that tcpdump(8) makes.
fn packets(cx: &Context) -> Result<()> {
    let container = running(cx, &["--network", "none", "--cap-drop", "NET_RAW"])?;
    let perl = ["c", "perl", "-e", HEARS];
    // Those of Ethernet, IPv4 and UDP.
    debug(cx, &[&["--privileged"], &perl[..]].concat())?.prints("after 42 bytes of headers\n")?;
    debug(cx, &perl)?
        .has_err("packets: Operation not permitted")?
        .fails()?;
    over(container)
}

fn create(cx: &Context) -> Result<()> {
    let name = cx.image();
    done(cx, &["run", "-d", "--name", "k", &name, "sleep", "1000"])?;
    Ok(())
}

fn kept(cx: &Context) -> Result<()> {
    create(cx)?;
    image(cx, "box", &["ENV A=1"])?;
    let boxed = ["--keep", "--tools", "box", "k"];
    debug(
        cx,
        &[
            &boxed[..],
            &["sh", "-c", "echo kept > /bin/new; chmod 755 /bin/new"],
        ]
        .concat(),
    )?
    .exits(0)?;
    debug(cx, &[&boxed[..], &["cat", "/bin/new"]].concat())?.prints("kept\n")?;
    // Other tools have a layer of their own, and sessions without the option have none.
    debug(
        cx,
        &[
            "--keep",
            "k",
            "sh",
            "-c",
            "test ! -e /bin/new && echo host > /etc/own",
        ],
    )?
    .exits(0)?;
    debug(cx, &["--tools", "box", "k", "test", "!", "-e", "/bin/new"])?.exits(0)?;
    debug(cx, &["--keep", "k", "cat", "/etc/own"])?.prints("host\n")?;
    let listed = debug(cx, &["--kept", "k"])?;
    let listed = listed.out();
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    ensure!(
        names.contains(&"box") && names.contains(&"host") && names.len() == 2,
        "{names:?}"
    );
    // The container does not see it, neither while it runs nor in its changes.
    let changes = done(cx, &["diff", "k"])?;
    ensure!(!changes.contains("new") && !changes.contains("own"), "{changes}");
    debug(cx, &["--forget", "k"])?.prints("")?;
    debug(cx, &["--kept", "k"])?.prints("")?;
    debug(cx, &[&boxed[..], &["test", "!", "-e", "/bin/new"]].concat())?.exits(0)?;
    // It outlives a stop, and goes with the container.
    debug(
        cx,
        &[&boxed[..], &["sh", "-c", "mkdir /a; echo again > /a/b"]].concat(),
    )?
    .exits(0)?;
    done(cx, &["stop", "-t", "0", "k"])?;
    debug(cx, &[&boxed[..], &["cat", "/a/b"]].concat())?.prints("again\n")?;
    done(cx, &["container", "prune", "-f"])?;
    let left = fs::read_dir(cx.root().join("containers"))?.count();
    ensure!(left == 0, "{left} directories are left");
    Ok(())
}

fn killed(cx: &Context) -> Result<()> {
    create(cx)?;
    let words = [
        "debug",
        "--keep",
        "k",
        "sh",
        "-c",
        "echo one > /etc/one; echo up; exec sleep 1000",
    ];
    let mut session = cx.tote(&words).spawn()?;
    session.expect("up\n")?;
    debug(cx, &["--keep", "k", "true"])?.refuses(125, &["k", "another session"])?;
    debug(cx, &["--forget", "k"])?.refuses(125, &["another session"])?;
    let own = processes::descendants(session.pid());
    session.signal(Signal::KILL)?;
    session.wait()?;
    for process in own {
        let pidfd = processes::pidfd(process.pid)?;
        processes::wait_end(&pidfd, "a process of the session", patience())?;
        waitpid(Pid::from_raw(process.pid), WaitOptions::empty())?;
    }
    debug(cx, &["--keep", "k", "cat", "/etc/one"])?.prints("one\n")?;
    done(cx, &["rm", "-f", "k"])?;
    Ok(())
}

fn mistakes(cx: &Context) -> Result<()> {
    let container = running(cx, &["--rm"])?;
    debug(cx, &["--keep", "c", "true"])?.refuses(125, &["c", "stays"])?;
    let target = format!("pid:{}", processes::container_init(container.pid())?);
    debug(cx, &["--keep", &target, "true"])?.refuses(125, &[&target])?;
    debug(cx, &["--view", "target", "--install", "x", "c", "true"])?
        .refuses(125, &["--install", "--view target"])?;
    debug(cx, &["--kept", "none-such"])?.refuses(1, &["none-such"])?;
    debug(cx, &["--effective-user", "no-such-user", "c", "true"])?.refuses(125, &["no-such-user"])?;
    debug(cx, &["--effective-user", "root", "-u", "0", "c", "true"])?.refuses(125, &["--user"])?;
    over(container)?;
    create(cx)?;
    let directory = cx.image();
    debug(cx, &["--keep", "--tools", &directory, "k", "true"])?.refuses(125, &["this machine's"])?;
    done(cx, &["rm", "-f", "k"])?;
    Ok(())
}

fn effective(cx: &Context) -> Result<()> {
    let data = cx.directory("data")?;
    let container = running(cx, &["-v", &format!("{data}:/data")])?;
    let session = ["--effective-user", "daemon", "c", "sh", "-c"];
    let script = "echo x > /target/data/file && mkdir -p /target/data/dir && chmod 600 /target/data/file";
    debug(cx, &[&session[..], &[script]].concat())?.exits(0)?;
    let found = fs::metadata(format!("{data}/file"))?;
    ensure!(
        (found.uid(), found.gid()) == (1, 1),
        "{}:{}",
        found.uid(),
        found.gid()
    );
    ensure!(fs::metadata(format!("{data}/dir"))?.uid() == 1);
    // In the container's own layer as well, where an id-mapped mount is not to be had; and root's files can be changed.
    let script = "echo x > /target/etc/by; stat -c %u:%g /target/etc/by; echo y >> /target/etc/hostname && rm /target/etc/by";
    debug(cx, &[&session[..], &[script]].concat())?.prints("1:1\n")?;
    // The tools name the user, whom the container does not know.
    let script = "id -un; id -gn; grep -c daemon /target/etc/passwd /target/etc/group";
    debug(cx, &[&session[..], &[script]].concat())?
        .has_out("daemon\ndaemon\n/target/etc/passwd:0\n/target/etc/group:0\n")?;
    over(container)
}

/// The caller is root in their own containers, and other users of the machine have no id there.
fn effective_of_user(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let own = rustix::process::geteuid().as_raw().to_string();
    debug(cx, &["--effective-user", &own, "c", "id", "-u"])?.prints("0\n")?;
    debug(cx, &["--effective-user", "daemon", "c", "true"])?.refuses(125, &["daemon", "no id"])?;
    over(container)
}

pub(super) fn no_helper(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let children = || -> Result<Vec<i32>> {
        let all = processes::descendants(i32::try_from(std::process::id())?);
        Ok(all.iter().map(|process| process.pid).collect())
    };
    // Orphans become children of this process.
    let before = children()?;
    debug(cx, &["--effective-user", "daemon", "c", "true"])?.exits(0)?;
    ensure!(children()? == before, "the session has left a process");
    over(container)
}
