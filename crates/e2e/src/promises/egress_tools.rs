//! Tools of programmers under an egress policy that allows their mirror, by TLS and by ssh, in the world of [`super::egress`].

use super::egress::prints;
use super::networks::NEEDS;
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result};

pub(super) const TESTS: &[Test] = &[
    test("egress_tools::git_and_npm_fetch_by_https", HTTPS, https)
        .slow(3)
        .waits(),
    test(
        "egress_tools::cargo_fetches_from_a_registry_by_https",
        CARGO,
        cargo,
    )
    .slow(3)
    .waits(),
    test("egress_tools::git_fetches_by_ssh", SSH, ssh).slow(2),
];

const HTTPS: &[Need] = &with([
    Need::Program("git"),
    Need::Program("/usr/bin/python3"),
    Need::Program("openssl"),
    Need::Program("npm"),
]);
const CARGO: &[Need] = &with([
    Need::Program("/usr/bin/python3"),
    Need::Program("openssl"),
    Need::Toolchain,
]);
const SSH: &[Need] = &with([Need::Program("git"), Need::Program("ssh"), Need::Program("sshd")]);

/// The needs of all networks, and more. The sum of their numbers cannot be said here: what is not used is [`Need::Root`] once more.
const fn with<const MORE: usize>(more: [Need; MORE]) -> [Need; NEEDS.len() + 4] {
    let mut all = [Need::Root; NEEDS.len() + 4];
    let mut place = 0;
    while place < NEEDS.len() {
        all[place] = NEEDS[place];
        place += 1;
    }
    let mut place = 0;
    while place < MORE {
        all[NEEDS.len() + place] = more[place];
        place += 1;
    }
    all
}

/// A mirror at port 8443 of both hosts, with a certificate for all names of `.test` by an authority in `ca.pem`; what it serves is in
/// `$FILE.www`, which a container sees at `/mirror`, private key included.
const MIRROR: &str = r#"
mkdir -p "$FILE.www/pub"; cd "$FILE.www"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 9 -subj /CN=authority 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out request.pem -subj /CN=mirror 2>/dev/null
printf 'subjectAltName=DNS:good.test,DNS:evil.test,IP:198.51.100.8\n' > names
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 9 -extfile names -out cert.pem 2>/dev/null
cat > serve.py <<'END'
import functools, http.server, ssl, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="pub")
server = http.server.ThreadingHTTPServer((sys.argv[1], 8443), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); context.load_cert_chain("cert.pem", "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False); server.serve_forever()
END
serve() {
  for address in 198.51.100.9 198.51.100.8; do nsenter -t $server -n /usr/bin/python3 serve.py $address >/dev/null 2>&1 & teller="$teller $!"; done
  while [ "$(in_server grep -c ':20FB 00000000:0000 0A' /proc/net/tcp)" != 2 ]; do sleep 0.02; done
}
"#;

fn https(cx: &Context) -> Result<()> {
    let script = r#"
(cd pub; git init -q --bare repo.git; git init -q ../work; git -C ../work -c user.name=a -c user.email=a@b commit -q --allow-empty -m cloned
git -C ../work push -q ../pub/repo.git HEAD:refs/heads/one; git -C repo.git symbolic-ref HEAD refs/heads/one; git -C repo.git update-server-info
mkdir package; echo 'console.log("installed")' > package/index.js; echo '{"name":"leaf","version":"1.0.0"}' > package/package.json
tar czf leaf-1.0.0.tgz package; sum=$(sha512sum leaf-1.0.0.tgz | cut -d ' ' -f 1 | perl -ne 'chomp; print pack "H*", $_' | base64 -w 0)
for host in good.test evil.test; do mkdir $host
  echo "{\"name\":\"leaf\",\"dist-tags\":{\"latest\":\"1.0.0\"},\"versions\":{\"1.0.0\":{\"name\":\"leaf\",\"version\":\"1.0.0\",\"dist\":{\"tarball\":\"https://$host:8443/leaf-1.0.0.tgz\",\"integrity\":\"sha512-$sum\"}}}}" > $host/leaf
done)
serve
for host in good.test evil.test; do
  tote run --rm --egress allow:good.test:8443 -v "$FILE.www:/mirror:ro" -e HOME=/tmp "$IMAGE" sh -c 'cd /tmp
GIT_SSL_CAINFO=/mirror/ca.pem git clone -q https://$1:8443/repo.git clone >/dev/null 2>&1 && git -C clone log --format=%s || echo $1 not cloned
mkdir to; cd to; npm install --cafile=/mirror/ca.pem --fetch-retries=0 --no-audit --no-fund --no-update-notifier --registry=https://$1:8443/$1/ leaf >/tmp/said 2>&1
node -e "require(\"leaf\")" 2>/dev/null || { echo $1 not installed; [ $1 != good.test ] || cat /tmp/said; }' - $host
done
"#;
    let lines = "cloned\ninstalled\nevil.test not cloned\nevil.test not installed\n";
    prints(cx, &format!("{MIRROR}{script}"), lines)
}

/// A sparse registry, as crates.io is one.
fn cargo(cx: &Context) -> Result<()> {
    let toolchain = crate::need::toolchain().context("a toolchain, which the test needs")?;
    let script = r#"
(cd pub; mkdir -p leaf-1.0.0/src; printf '[package]\nname = "leaf"\nversion = "1.0.0"\nedition = "2021"\n' > leaf-1.0.0/Cargo.toml; echo 'pub fn leaf() {}' > leaf-1.0.0/src/lib.rs
tar czf leaf.crate leaf-1.0.0; sum=$(sha256sum leaf.crate | cut -d ' ' -f 1)
for host in good.test evil.test; do mkdir -p $host/le/af
  echo "{\"dl\":\"https://$host:8443/{crate}.crate\"}" > $host/config.json
  echo "{\"name\":\"leaf\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"$sum\",\"features\":{},\"yanked\":false}" > $host/le/af/leaf
done)
serve
for host in good.test evil.test; do
  tote run --rm --egress allow:good.test:8443 -v "$FILE.www:/mirror:ro" -v "$toolchain:/toolchain:ro" -e HOME=/tmp -e PATH=/toolchain/bin:/usr/bin:/bin "$IMAGE" sh -c 'mkdir -p /tmp/to/src; cd /tmp/to; touch src/lib.rs
printf "[package]\nname = \"to\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[dependencies]\nleaf = { version = \"1\", registry = \"mirror\" }\n" > Cargo.toml
export CARGO_HOME=/tmp/home CARGO_HTTP_CAINFO=/mirror/ca.pem CARGO_NET_RETRY=0 CARGO_REGISTRIES_MIRROR_INDEX=sparse+https://$1:8443/$1/
if cargo fetch -q 2>/tmp/said; then ls $CARGO_HOME/registry/cache/*/; elif [ $1 = good.test ]; then cat /tmp/said; else grep -o "download of config.json failed" /tmp/said | head -n 1; fi' - $host
done
"#;
    let lines = "leaf-1.0.0.crate\ndownload of config.json failed\n";
    let toolchain = toolchain.display();
    prints(cx, &format!("{MIRROR}toolchain='{toolchain}'\n{script}"), lines)
}

fn ssh(cx: &Context) -> Result<()> {
    let script = r#"
mkdir -p "$FILE.www"; cd "$FILE.www"; chmod 755 .
git init -q --bare repo.git; git init -q work; git -C work -c user.name=a -c user.email=a@b commit -q --allow-empty -m cloned
git -C work push -q ../repo.git HEAD:refs/heads/one; git -C repo.git symbolic-ref HEAD refs/heads/one
ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f user
cat > sshd_config <<END
HostKey $FILE.www/host
AuthorizedKeysFile $FILE.www/user.pub
PidFile none
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
UseDNS no
END
# A directory that sshd asks for; this mount namespace ends with the test.
mount -t tmpfs none /run; mkdir -m 755 /run/sshd
nsenter -t $server -n /usr/sbin/sshd -D -f "$FILE.www/sshd_config" >/dev/null 2>&1 & teller="$teller $!"
while ! in_server grep -q ':0016 00000000:0000 0A' /proc/net/tcp; do sleep 0.02; done
sed 's/^/* /' host.pub > known
for host in good.test evil.test 198.51.100.8; do
  tote run --rm --egress allow:tcp:good.test:22 -v "$FILE.www:/mirror:ro" "$IMAGE" sh -c 'cd /tmp; cp /mirror/user key; chmod 600 key
export GIT_SSH_COMMAND="ssh -i /tmp/key -o UserKnownHostsFile=/mirror/known -o BatchMode=yes -o ConnectTimeout=5"
git clone -q ssh://root@$1$2/repo.git clone >/dev/null 2>/tmp/said && git -C clone log --format=%s || { echo $1 not cloned; [ $1 != good.test ] || cat /tmp/said; }' - $host "$FILE.www"
done
"#;
    let lines = "cloned\nevil.test not cloned\n198.51.100.8 not cloned\n";
    prints(cx, script, lines)
}
