//! Tables about `/etc` of the host image: files that are written afresh, files that are copied, and files that
//! never are.

use std::path::Path;

/// Files that are written afresh, as path and content, so that the host's users, names and networks do not get in.
pub(super) const WRITTEN: [(&str, &str); 5] = [
    ("etc/passwd", PASSWD),
    ("etc/group", GROUP),
    ("etc/hosts", HOSTS),
    ("etc/nsswitch.conf", NSSWITCH),
    ("etc/profile", PROFILE),
];

/// Symbolic links of every host image, path and target.
pub(super) const LINKED: [(&str, &str); 3] = [
    ("etc/mtab", "../proc/self/mounts"),
    ("var/run", "/run"),
    ("var/lock", "/run/lock"),
];

/// Files that are copied from the host's `/etc` if they exist, because programs below `/usr` need them. A trailing
/// `*` stands for any end of the name. Settings in which administrators keep credentials (git, pip, npm, maven's
/// `settings.xml`) are left out on purpose.
pub(super) const COPIED: [&str; 55] = [
    // The dynamic linker.
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    // Certificates and cryptography, in Debian's and Fedora's places.
    "ca-certificates.conf",
    "crypto-policies",
    "pki/ca-trust",
    "pki/java",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/ct_log_list.cnf",
    "pki/tls/openssl.cnf",
    "pki/tls/openssl.d",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    // The name of the distribution.
    "alpine-release",
    "arch-release",
    "debian_version",
    "fedora-release",
    "lsb-release",
    "os-release",
    "redhat-release",
    "system-release",
    // Language and time.
    "default/locale",
    "locale.alias",
    "locale.conf",
    "localtime",
    "timezone",
    // The C library's tables.
    "ethertypes",
    "gai.conf",
    "host.conf",
    "netconfig",
    "protocols",
    "rpc",
    "services",
    // Parts of programs that distributions keep in /etc.
    "R",
    "alternatives",
    "bash.bashrc",
    "fonts",
    "groff",
    "inputrc",
    "java*",
    "login.defs",
    "magic",
    "magic.mime",
    "manpath.config",
    "maven/logging",
    "maven/m2.conf",
    "mime.types",
    "perl",
    "python*",
    "shells",
    "terminfo",
    "vim",
    "xml",
];

/// Directories of certificates: the only places where a `.pem` file is expected to be public.
const CERTIFICATES: [&str; 5] = [
    "ssl/certs",
    "ssl/cert.pem",
    "pki/ca-trust",
    "pki/tls/certs",
    "pki/tls/cert.pem",
];

/// True if the name of a path below `/etc` suggests a secret, whatever its mode says, or the host's identity:
/// Debian's `snakeoil` certificate contains the host's name.
pub(super) fn is_denied(path: &Path) -> bool {
    let public = CERTIFICATES.iter().any(|place| path.starts_with(place));
    path.iter().any(|name| {
        let name = name.to_string_lossy().to_ascii_lowercase();
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| name.ends_with(suffix));
        let holds = |words: &[&str]| words.iter().any(|word| name.contains(word));
        starts(&["shadow", "gshadow", "sudoers", "krb5.keytab", "machine-id", "ssh"])
            || ends(&[".key", ".keytab", ".p12", ".pfx", ".gpg"])
            || holds(&["private", "secret", "passw", "credential", "token", "snakeoil"])
            || (!public && ends(&[".pem"]))
    })
}

/// True if a file contains a private key in PEM, possibly beside its certificate.
pub(super) fn holds_private_key(content: &[u8]) -> bool {
    const MARK: &[u8] = b"PRIVATE KEY-----";
    content.windows(MARK.len()).any(|window| window == MARK)
}

/// Debian's static users (base-passwd), which images of all other distributions work with as well.
const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
sys:x:3:3:sys:/dev:/usr/sbin/nologin
sync:x:4:65534:sync:/bin:/bin/sync
games:x:5:60:games:/usr/games:/usr/sbin/nologin
man:x:6:12:man:/var/cache/man:/usr/sbin/nologin
lp:x:7:7:lp:/var/spool/lpd:/usr/sbin/nologin
mail:x:8:8:mail:/var/mail:/usr/sbin/nologin
news:x:9:9:news:/var/spool/news:/usr/sbin/nologin
uucp:x:10:10:uucp:/var/spool/uucp:/usr/sbin/nologin
proxy:x:13:13:proxy:/bin:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
backup:x:34:34:backup:/var/backups:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
";

const GROUP: &str = "\
root:x:0:
daemon:x:1:
bin:x:2:
sys:x:3:
adm:x:4:
tty:x:5:
disk:x:6:
lp:x:7:
mail:x:8:
news:x:9:
uucp:x:10:
man:x:12:
proxy:x:13:
kmem:x:15:
dialout:x:20:
fax:x:21:
voice:x:22:
cdrom:x:24:
floppy:x:25:
tape:x:26:
sudo:x:27:
audio:x:29:
dip:x:30:
www-data:x:33:
backup:x:34:
operator:x:37:
list:x:38:
irc:x:39:
src:x:40:
shadow:x:42:
utmp:x:43:
video:x:44:
sasl:x:45:
plugdev:x:46:
staff:x:50:
games:x:60:
users:x:100:
nogroup:x:65534:
";

/// hosts(5) without the container's own name, which the engine adds.
const HOSTS: &str = "\
127.0.0.1	localhost
::1	localhost ip6-localhost ip6-loopback
fe00::	ip6-localnet
ff00::	ip6-mcastprefix
ff02::1	ip6-allnodes
ff02::2	ip6-allrouters
";

/// Files and DNS only: the host's directory services (sss, ldap, systemd) are daemons that the container cannot
/// reach.
const NSSWITCH: &str = "\
passwd:    files
group:     files
shadow:    files
hosts:     files dns
networks:  files
protocols: files
services:  files
ethers:    files
rpc:       files
";

const PROFILE: &str = "\
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
if [ -n \"$PS1\" ] && [ -n \"$BASH\" ] && [ -r /etc/bash.bashrc ]; then
	. /etc/bash.bashrc
fi
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_denied_by_name() {
        for (path, denied) in [
            ("shadow", true),
            ("shadow-", true),
            ("gshadow", true),
            ("sudoers.d/admin", true),
            ("ssh/ssh_config", true),
            ("ssl/private/x.crt", true),
            ("ssl/server.pem", true),
            ("ssl/certs/server.key", true),
            ("machine-id", true),
            ("krb5.keytab", true),
            ("ssl/certs/ssl-cert-snakeoil.pem", true),
            ("java-17-openjdk/management/jmxremote.password", true),
            ("pki/tls/private", true),
            ("pki/rpm.pem", true),
            ("ssl/certs/ISRG_Root_X1.pem", false),
            ("pki/ca-trust/extracted/pem/tls-ca-bundle.pem", false),
            ("ssl/cert.pem", false),
            ("ssl/openssl.cnf", false),
            ("alternatives/keytool", false),
            ("ld.so.cache", false),
            ("java-17-openjdk/security/java.security", false),
        ] {
            assert_eq!(is_denied(Path::new(path)), denied, "{path}");
        }
    }

    #[test]
    fn nothing_that_is_copied_is_denied_or_written_too() {
        for path in COPIED {
            assert!(!is_denied(Path::new(path)), "{path}");
            assert!(
                WRITTEN
                    .iter()
                    .all(|(written, _)| *written != format!("etc/{path}")),
                "{path}"
            );
        }
    }

    #[test]
    fn private_keys_are_recognised_by_content() {
        assert!(holds_private_key(b"x\n-----BEGIN RSA PRIVATE KEY-----\nMII"));
        assert!(!holds_private_key(b"-----BEGIN CERTIFICATE-----\nMII"));
        assert!(!holds_private_key(b""));
    }
}
