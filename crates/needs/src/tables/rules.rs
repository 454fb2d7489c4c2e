//! Files that belong together, although no program names them.

/// Rule: where a file of `when` is kept, those of `keep` are kept as well. Both are patterns of paths: `*` stands for any
/// text without a slash, `**` for any text; `<*name>` and `<**name>` are the same with a name, whose text `<name>` repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Name of the rule, for reports.
    pub name: &'static str,
    /// Files that need the others; none for a rule that always holds.
    pub when: &'static [&'static str],
    /// Files that are kept.
    pub keep: &'static [&'static str],
}

/// Names in the text of a library that do not mean that it needs the other one: the library, and the beginning of the name.
pub(crate) static UNLIKELY: [(&str, &str); 2] = [
    // getaddrinfo(3) loads it for international names, and only where a program asks for that.
    ("libc.so.6", "libidn2.so"),
    // Only audit2why(1) looks into policies by it.
    ("libselinux.so.1", "libsepol.so"),
];

/// Number of rules in the table.
const COUNT: usize = 28;

/// All rules.
pub static RULES: [Rule; COUNT] = [
    Rule {
        name: "accounts",
        when: &[],
        keep: &[
            "etc/passwd",
            "etc/group",
            "etc/shadow",
            "etc/gshadow",
            "etc/shells",
            "etc/login.defs",
        ],
    },
    Rule {
        name: "system",
        when: &[],
        keep: &[
            "etc/os-release",
            "usr/lib/os-release",
            "etc/*-release",
            "etc/*_version",
            "etc/environment",
        ],
    },
    Rule {
        name: "network",
        when: &[],
        keep: &[
            "etc/nsswitch.conf",
            "etc/hosts",
            "etc/hostname",
            "etc/resolv.conf",
            "etc/host.conf",
            "etc/gai.conf",
            "etc/protocols",
            "etc/services",
            "etc/networks",
        ],
    },
    Rule {
        name: "dynamic linker",
        when: &[],
        keep: &[
            "etc/ld.so.cache",
            "etc/ld.so.conf",
            "etc/ld.so.conf.d/**",
            "etc/ld.so.preload",
            "etc/ld-musl-*",
        ],
    },
    Rule {
        name: "NSS",
        when: &["<**dir>/libc.so.6", "<**dir>/libc-2.*.so"],
        keep: &[
            "<dir>/libnss_files*",
            "<dir>/libnss_dns*",
            "<dir>/libnss_compat*",
            "<dir>/libresolv*",
            "<dir>/libgcc_s*",
        ],
    },
    Rule {
        name: "NSS",
        when: &["etc/nsswitch.conf"],
        keep: &[
            "usr/lib/*/libnss_files*",
            "usr/lib/*/libnss_dns*",
            "lib/*/libnss_files*",
            "lib/*/libnss_dns*",
        ],
    },
    Rule {
        name: "CA certificates",
        when: &[],
        keep: &[
            "etc/ssl/certs/ca-certificates.crt",
            "etc/ssl/cert.pem",
            "etc/ssl/ca-bundle.pem",
            "etc/pki/tls/certs/**",
            "etc/pki/ca-trust/extracted/**",
        ],
    },
    Rule {
        name: "TLS",
        when: &["**/libcrypto.so*", "**/libssl.so*", "**/libgnutls.so*"],
        keep: &[
            "etc/ssl/openssl.cnf",
            "etc/ssl/certs/**",
            "etc/gnutls/**",
            "usr/lib/ssl/*",
            "usr/lib/ssl3/**",
            "usr/share/ca-certificates/**.crt",
            "usr/local/share/ca-certificates/**.crt",
        ],
    },
    Rule {
        name: "TLS",
        when: &["<**dir>/libcrypto.so<*version>"],
        keep: &[
            "<dir>/ossl-modules/*",
            "<dir>/engines<version>/*",
            "<dir>/engines-*/*",
        ],
    },
    Rule {
        name: "time zones",
        when: &[],
        keep: &[
            "etc/localtime",
            "etc/timezone",
            "usr/share/zoneinfo/UTC",
            "usr/share/zoneinfo/Etc/UTC",
            "usr/share/zoneinfo/GMT",
            "usr/share/zoneinfo/Etc/GMT",
            "usr/share/zoneinfo/zone*.tab",
            "usr/share/zoneinfo/leap*",
        ],
    },
    Rule {
        name: "locale",
        when: &[],
        keep: &[
            "usr/lib/locale/C.utf8/**",
            "usr/lib/locale/C.UTF-8/**",
            "usr/share/locale/locale.alias",
            "etc/locale.alias",
            "etc/locale.conf",
            "etc/default/locale",
        ],
    },
    Rule {
        name: "character sets",
        when: &["<**dir>/libc.so.6"],
        keep: &[
            "<dir>/gconv/gconv-modules*",
            "<dir>/gconv/gconv-modules.d/*",
            "<dir>/gconv/UTF-*.so",
            "<dir>/gconv/UNICODE.so",
            "<dir>/gconv/ISO8859-1.so",
            "<dir>/gconv/ISO8859-15.so",
            "<dir>/gconv/CP1252.so",
        ],
    },
    Rule {
        name: "terminals",
        when: &["**/libtinfo.so*", "**/libncurses*.so*"],
        keep: &[
            "*/terminfo/*/linux",
            "*/terminfo/*/xterm*",
            "*/terminfo/*/screen*",
            "*/terminfo/*/tmux*",
            "*/terminfo/*/vt100",
            "*/terminfo/*/dumb",
            "usr/share/terminfo/*/xterm*",
            "usr/share/terminfo/*/dumb",
            "usr/lib/terminfo/*/xterm*",
            "usr/lib/terminfo/*/dumb",
        ],
    },
    Rule {
        name: "PAM",
        when: &["<**dir>/libpam.so.0*"],
        keep: &[
            "etc/pam.conf",
            "etc/pam.d/**",
            "etc/security/**",
            "<dir>/security/pam_*.so",
        ],
    },
    Rule {
        name: "SASL",
        when: &["<**dir>/libsasl2.so*"],
        keep: &["<dir>/sasl2/**"],
    },
    Rule {
        name: "Python",
        when: &["<**dir>/__pycache__/<*name>.*.pyc"],
        keep: &["<dir>/<name>.py"],
    },
    Rule {
        name: "Python",
        when: &["<**lib>/python3<*version>/**"],
        keep: &[
            "<lib>/python3<version>/os.py",
            "<lib>/python3<version>/encodings/**.py",
            "<lib>/python3<version>/encodings/**.pyc",
            "<lib>/python3<version>/lib-dynload/_*json*",
            "<lib>/python3<version>/traceback.py",
            "<lib>/python3<version>/__pycache__/traceback.*",
            "<lib>/python3<version>/linecache.py",
            "<lib>/python3<version>/__pycache__/linecache.*",
            "<lib>/python3<version>/__pycache__/tokenize.*",
            "<lib>/python3<version>/tokenize.py",
        ],
    },
    Rule {
        name: "Python",
        when: &["<**dir>-packages/<*package>/**"],
        keep: &[
            "<dir>-packages/<package>-*.dist-info/METADATA",
            "<dir>-packages/<package>-*.dist-info/entry_points.txt",
            "<dir>-packages/<package>-*.egg-info/PKG-INFO",
            "<dir>-packages/*.pth",
        ],
    },
    Rule {
        name: "Python",
        when: &["<**env>/bin/python*"],
        keep: &["<env>/pyvenv.cfg"],
    },
    Rule {
        name: "Perl",
        when: &["<**dir>/perl-base/**"],
        keep: &[
            "<dir>/perl-base/Carp*",
            "<dir>/perl-base/Carp/**",
            "<dir>/perl-base/warnings*",
            "<dir>/perl-base/utf8*",
            "<dir>/perl-base/unicore/**",
            "<dir>/perl-base/PerlIO/**",
            "<dir>/perl-base/auto/PerlIO/**",
            "etc/perl/**",
        ],
    },
    Rule {
        name: "Perl",
        when: &["<**dir>/perl5/**", "<**dir>/perl/5*/**"],
        keep: &["etc/perl/**"],
    },
    Rule {
        name: "Node",
        when: &["<**dir>/node_modules/<*package>/**"],
        keep: &["<dir>/node_modules/<package>/package.json"],
    },
    Rule {
        name: "Node",
        when: &["<**dir>/node_modules/@<*scope>/<*package>/**"],
        keep: &["<dir>/node_modules/@<scope>/<package>/package.json"],
    },
    Rule {
        name: "Ruby",
        when: &["<**lib>/ruby/<*version>/**"],
        keep: &[
            "<lib>/ruby/<version>/rubygems**.rb",
            "<lib>/ruby/<version>/**/enc/**",
            "<lib>/ruby/gems/<version>/specifications/**",
            "usr/share/rubygems-integration/**.gemspec",
        ],
    },
    Rule {
        name: "Java",
        when: &["<**home>/lib/server/libjvm.so"],
        keep: &[
            "<home>/release",
            "<home>/conf/**",
            // Others, for pictures, fonts and sound, bring dozens of libraries along; where a run loads them, they stay.
            "<home>/lib/libj2*.so",
            "<home>/lib/libjaas.so",
            "<home>/lib/libjava.so",
            "<home>/lib/libjimage.so",
            "<home>/lib/libjli.so",
            "<home>/lib/libjsig.so",
            "<home>/lib/lib*net.so",
            "<home>/lib/libnio.so",
            "<home>/lib/libzip.so",
            "<home>/lib/libverify.so",
            "<home>/lib/libmanagement*.so",
            "<home>/lib/libinstrument.so",
            "<home>/lib/libprefs.so",
            "<home>/lib/librmi.so",
            "<home>/lib/libsyslookup.so",
            "<home>/lib/j*",
            "<home>/lib/modules",
            "<home>/lib/security/**",
            "<home>/lib/*.properties",
            "<home>/lib/tzdb.dat",
            "<home>/lib/server/lib*",
            "etc/java*/**",
        ],
    },
    Rule {
        name: "Apache",
        when: &["**/sbin/apache2", "**/mod_ssl.so"],
        // With TLS it looks whether this is there, and does not begin otherwise.
        keep: &["usr/share/apache2/ask-for-passphrase"],
    },
    Rule {
        name: "MariaDB",
        when: &[
            "**/sbin/mariadbd",
            "**/sbin/mysqld",
            "**/bin/mysqld",
            "**/bin/mariadbd",
        ],
        keep: &[
            "usr/share/mysql/*.sql",
            "usr/share/mysql/english/**",
            "usr/share/mysql/charsets/**",
            "usr/share/mariadb/*.sql",
            "usr/share/mariadb/english/**",
            "usr/lib/mysql/plugin/auth_pam_tool_dir/**",
        ],
    },
    Rule {
        name: "PHP",
        when: &["**/php-fpm*", "**/bin/php*", "**/libphp*.so"],
        keep: &[
            "etc/php/**.ini",
            "etc/php/**.conf",
            "usr/local/etc/php/**.ini",
            "usr/local/etc/php-fpm*/**.conf",
        ],
    },
];
