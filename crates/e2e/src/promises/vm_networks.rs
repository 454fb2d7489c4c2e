//! Networks of containers that are in virtual machines: the guest has the container's addresses. Each test has a machine of its own, see
//! [`super::networks`].

use super::networks::prints;
use super::networks_rootless::shows as shows_user;
use super::ports::WORDS;
use super::vm::{QEMU, kernel, prepare};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const OF_ROOT: &[Need] = &[
    QEMU,
    Need::GuestKernel,
    Need::Root,
    Need::Program("unshare"),
    Need::Program("nsenter"),
    Need::Program("ip"),
    Need::Program("nft"),
    Need::Program("perl"),
    Need::Program("busybox"),
];

pub(super) const OF_USERS: &[Need] = &[
    QEMU,
    Need::GuestKernel,
    Need::Root,
    Need::Userns,
    Need::Program("unshare"),
    Need::Program("nsenter"),
    Need::Program("setpriv"),
    Need::Program("ip"),
    Need::Program("nft"),
    Need::Program("perl"),
    Need::Program("busybox"),
    Need::Program("pasta"),
    Need::Program("pgrep"),
];

pub(super) const TESTS: &[Test] = &[
    test("vm::a_guest_has_the_containers_address", OF_ROOT, root).slow(6),
    test("vm::a_guest_has_the_networks_of_users", OF_USERS, user).slow(6),
];

/// Words of guests and other containers to each other; `$IMAGE` is an ordinary image, `app` one of the store.
const SAID: &str = r#"
# What the server says. Pasta may lose the end of a connection that both sides close at once.
HEAR='exec 3>&1; exec busybox nc -w 9 198.51.100.9 80 -e sh -c "cat >&3"'
tote network create web >/dev/null
tote run -d --name guest --network web --isolation vm -p 8080:80 app busybox nc -ll -p 80 -e echo hello >/dev/null
# It is heard as soon as the guest is up.
until [ "$(ask 127.0.0.1 8080)" = hello ]; do sleep 0.1; done
tote run --rm --network web "$IMAGE" busybox nc -w 9 guest 80 </dev/null
tote run --rm --network web --isolation vm app sh -c "busybox nc -w 9 guest 80 </dev/null; hostname -i | grep -c '^10\.'; $HEAR"
[ "$(tote exec guest cat /sys/class/net/eth0/address)" = "$(tote inspect -f '{{range .NetworkSettings.Networks}}{{.MacAddress}}{{end}}' guest)" ] && echo its own
tote run --rm --network none --isolation vm app ls /sys/class/net
tote rm -f guest >/dev/null
"#;

/// Output of that.
const HEARD: &str = "hello\nhello\n1\n198.51.100.2\nits own\nlo\n";

fn root(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let script = r#"
in_server busybox nc -w 9 198.51.100.2 8080 </dev/null 2>/dev/null || echo closed
tote run -d --name other --isolation vm --network bridge -p 8081:80 --egress none app busybox nc -ll -p 80 -e echo hello >/dev/null
until [ "$(in_server busybox nc -w 3 198.51.100.2 8081 </dev/null)" = hello ]; do sleep 0.1; done
tote exec other busybox nc -w 2 198.51.100.9 80 </dev/null 2>/dev/null || echo refused
tote rm -f other >/dev/null
"#;
    prints(
        cx,
        &format!("{WORDS}{SAID}{script}"),
        &format!("{HEARD}closed\nrefused\n"),
    )
}

fn user(cx: &Context) -> Result<()> {
    user_says(cx, SAID, HEARD)
}

/// Has a user say this, who has the kernel and the image `app`.
pub(super) fn user_says(cx: &Context, said: &str, heard: &str) -> Result<()> {
    let archive = super::stored::archive(cx, "app")?;
    let script = format!(
        "cp {archive} /mnt/app.tar; cp -r {kernel} /mnt/kernel; chmod -R a+rX /mnt/kernel /mnt/app.tar\n\
         tote vm setup -q /mnt/kernel >/dev/null\ntote import /mnt/app.tar app >/dev/null\n{said}",
        kernel = kernel()?
    );
    shows_user(cx, &script, heard)
}
