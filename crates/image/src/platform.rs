use crate::text::{null_default, shown};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Platform of an image: operating system, architecture, and the architecture's variant.
///
/// The words are those of the Go language (`amd64`, `arm64`, `386`). A parsed value is normalised as containerd
/// does: `linux/x86_64` is `linux/amd64`, and `arm64/v8` is `arm64`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Platform {
    /// Architecture, such as `amd64` or `arm64`.
    pub architecture: String,
    /// Operating system, nearly always `linux`.
    pub os: String,
    /// Windows's build number.
    #[serde(
        rename = "os.version",
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_default"
    )]
    pub os_version: String,
    /// Features that Windows must have.
    #[serde(
        rename = "os.features",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub os_features: Vec<String>,
    /// Variant, such as `v7`; empty for the usual one.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub variant: String,
}

/// Why a text is not a platform.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlatformError {
    /// The text has another form than `OS`, `ARCH`, `OS/ARCH` or `OS/ARCH/VARIANT`.
    #[error("platform {0} is not of the form OS/ARCH or OS/ARCH/VARIANT, as in linux/arm64/v8")]
    Malformed(String),
    /// A single word that is neither an operating system nor an architecture.
    #[error("platform {0}: no such operating system or architecture; write OS/ARCH, as in linux/arm64")]
    Unknown(String),
}

const SYSTEMS: &[&str] = &[
    "aix",
    "android",
    "darwin",
    "dragonfly",
    "freebsd",
    "illumos",
    "ios",
    "js",
    "linux",
    "netbsd",
    "openbsd",
    "plan9",
    "solaris",
    "wasip1",
    "windows",
    "zos",
];

const ARCHITECTURES: &[&str] = &[
    "386", "amd64", "arm", "arm64", "loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64", "ppc64le",
    "riscv64", "s390x", "sparc64", "wasm",
];

impl Platform {
    /// Returns the platform that this program was built for.
    #[must_use]
    pub fn host() -> Self {
        let architecture = match std::env::consts::ARCH {
            "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
            "powerpc64" => "ppc64",
            "loongarch64" => "loong64",
            "x86" => "386",
            other => other,
        };
        Self::of("linux", architecture, "")
    }

    /// Builds a platform from its parts, normalised.
    #[must_use]
    pub fn of(os: &str, architecture: &str, variant: &str) -> Self {
        let os = match os.to_ascii_lowercase().as_str() {
            "macos" => "darwin".to_owned(),
            "" => "linux".to_owned(),
            other => other.to_owned(),
        };
        let (architecture, variant) =
            normalized(&architecture.to_ascii_lowercase(), &variant.to_ascii_lowercase());
        Self {
            architecture,
            os,
            variant,
            ..Self::default()
        }
    }

    /// Normalises a platform that came out of a document, as containerd does.
    #[must_use]
    pub fn normalized(&self) -> Self {
        Self {
            os_version: self.os_version.clone(),
            os_features: self.os_features.clone(),
            ..Self::of(&self.os, &self.architecture, &self.variant)
        }
    }

    /// Returns how well an image for the platform `image` runs here: 0 is best, `None` is not at all.
    ///
    /// The rules are containerd's: an older variant of the same architecture runs, a newer one does not; amd64 also
    /// runs 386, and arm64 also runs arm, both after everything else.
    #[must_use]
    pub fn rank(&self, image: &Self) -> Option<u32> {
        let (wanted, image) = (self.normalized(), image.normalized());
        if wanted.os != image.os {
            return None;
        }
        let here = version(&wanted.architecture, &wanted.variant);
        let there = version(&image.architecture, &image.variant);
        let number = |(major, minor): Version| u32::from(major) << 8 | u32::from(minor);
        let older = |here: Version, there: Version| number(here).checked_sub(number(there));
        match (wanted.architecture.as_str(), image.architecture.as_str()) {
            (a, b) if a == b => match (here, there) {
                (Some(here), Some(there)) => older(here, there),
                _ => (wanted.variant == image.variant).then_some(0),
            },
            ("amd64", "386") => Some(OTHER_ARCHITECTURE),
            ("arm64", "arm") => older((8, 0), there?).map(|rank| OTHER_ARCHITECTURE + rank),
            _ => None,
        }
    }

    /// True if an image for `image` is one that a request for this platform means: the same architecture, and the
    /// same or an older variant. An image of another architecture that merely runs here is not.
    #[must_use]
    pub fn means(&self, image: &Self) -> bool {
        self.rank(image).is_some_and(|rank| rank < OTHER_ARCHITECTURE)
    }

    /// True if an image for `image` runs here.
    #[must_use]
    pub fn runs(&self, image: &Self) -> bool {
        self.rank(image).is_some()
    }
}

/// Rank of another architecture that runs too; worse than every variant of the right one.
const OTHER_ARCHITECTURE: u32 = 1_000_000;

/// Major and minor number of a variant.
type Version = (u8, u8);

/// Parses a variant into a number that can be compared; `None` if the variants of the architecture have no order.
fn version(architecture: &str, variant: &str) -> Option<Version> {
    let default = match architecture {
        "amd64" => "v1",
        "arm64" => "v8",
        "arm" => "v7",
        _ => return None,
    };
    let variant = if variant.is_empty() { default } else { variant };
    let number = variant.strip_prefix('v')?;
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn normalized(architecture: &str, variant: &str) -> (String, String) {
    let (architecture, variant) = match (architecture, variant) {
        ("i386", _) => ("386", ""),
        ("x86_64" | "x86-64" | "amd64", "v1") => ("amd64", ""),
        ("x86_64" | "x86-64" | "amd64", variant) => ("amd64", variant),
        ("aarch64" | "arm64", "8" | "v8" | "v8.0") => ("arm64", ""),
        ("aarch64" | "arm64", "9" | "v9.0") => ("arm64", "v9"),
        ("aarch64" | "arm64", variant) => ("arm64", variant),
        ("armhf", _) => ("arm", "v7"),
        ("armel", _) => ("arm", "v6"),
        ("arm", "" | "7") => ("arm", "v7"),
        ("arm", "5") => ("arm", "v5"),
        ("arm", "6") => ("arm", "v6"),
        ("arm", "8") => ("arm", "v8"),
        other => other,
    };
    (architecture.to_owned(), variant.to_owned())
}

impl FromStr for Platform {
    type Err = PlatformError;

    fn from_str(text: &str) -> Result<Self, PlatformError> {
        let malformed = || PlatformError::Malformed(shown(text));
        let is_word = |word: &&str| {
            !word.is_empty()
                && word.len() <= 32
                && word
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
        };
        let words: Vec<&str> = text.splitn(4, '/').collect();
        if !words.iter().all(is_word) {
            return Err(malformed());
        }
        match words[..] {
            [word] => {
                let system = Self::of(word, "", "").os;
                let (architecture, variant) = normalized(&word.to_ascii_lowercase(), "");
                if SYSTEMS.contains(&system.as_str()) {
                    let host = Self::host();
                    Ok(Self::of(&system, &host.architecture, &host.variant))
                } else if ARCHITECTURES.contains(&architecture.as_str()) {
                    Ok(Self::of("linux", &architecture, &variant))
                } else {
                    Err(PlatformError::Unknown(shown(text)))
                }
            }
            [os, architecture] => Ok(Self::of(os, architecture, "")),
            [os, architecture, variant] => Ok(Self::of(os, architecture, variant)),
            _ => Err(malformed()),
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |text: &str| {
            if text.is_empty() {
                "unknown".to_owned()
            } else {
                shown(text)
            }
        };
        write!(f, "{}/{}", part(&self.os), part(&self.architecture))?;
        if self.variant.is_empty() {
            return Ok(());
        }
        write!(f, "/{}", shown(&self.variant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_and_normalised() {
        for (text, printed) in [
            ("linux/amd64", "linux/amd64"),
            ("linux/x86_64", "linux/amd64"),
            ("Linux/AMD64/v1", "linux/amd64"),
            ("linux/amd64/v3", "linux/amd64/v3"),
            ("linux/arm64/v8", "linux/arm64"),
            ("linux/aarch64", "linux/arm64"),
            ("arm64", "linux/arm64"),
            ("armhf", "linux/arm/v7"),
            ("arm", "linux/arm/v7"),
            ("linux/arm/5", "linux/arm/v5"),
            ("linux/i386", "linux/386"),
            ("macos/arm64", "darwin/arm64"),
            ("linux/anything", "linux/anything"),
        ] {
            let platform: Platform = text.parse().unwrap();
            assert_eq!(platform.to_string(), printed, "{text}");
            assert_eq!(platform.to_string().parse(), Ok(platform), "{text}");
        }
        assert_eq!("linux".parse(), Ok(Platform::host()));
        for text in [
            "",
            "/",
            "linux/",
            "/amd64",
            "a/b/c/d",
            "linux/a b",
            "nonsense",
            "linux/é",
        ] {
            assert!(text.parse::<Platform>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_runs_where_best_first() {
        for (here, images) in [
            ("linux/amd64", &["linux/amd64", "linux/386"][..]),
            (
                "linux/amd64/v3",
                &["linux/amd64/v3", "linux/amd64/v2", "linux/amd64", "linux/386"],
            ),
            (
                "linux/arm64",
                &[
                    "linux/arm64",
                    "linux/arm/v8",
                    "linux/arm/v7",
                    "linux/arm/v6",
                    "linux/arm/v5",
                ],
            ),
            (
                "linux/arm64/v9",
                &[
                    "linux/arm64/v9",
                    "linux/arm64/v8.2",
                    "linux/arm64",
                    "linux/arm/v8",
                ],
            ),
            ("linux/arm/v7", &["linux/arm", "linux/arm/v6", "linux/arm/v5"]),
            ("linux/riscv64", &["linux/riscv64"]),
        ] {
            let here: Platform = here.parse().unwrap();
            let ranks: Vec<_> = images
                .iter()
                .map(|image| here.rank(&image.parse().unwrap()))
                .collect();
            assert!(ranks.iter().all(Option::is_some), "{here}: {ranks:?}");
            assert!(ranks.is_sorted(), "{here}: {ranks:?}");
        }
    }

    #[test]
    fn what_is_meant() {
        for (asked, image, expected) in [
            ("linux/amd64", "linux/amd64", true),
            ("linux/amd64/v2", "linux/amd64", true),
            ("linux/amd64", "linux/amd64/v2", false),
            ("linux/amd64", "linux/386", false),
            ("linux/arm64/v8", "linux/arm64", true),
            ("linux/arm64", "linux/arm/v7", false),
            ("linux/riscv64", "linux/amd64", false),
        ] {
            let (asked, image): (Platform, Platform) = (asked.parse().unwrap(), image.parse().unwrap());
            assert_eq!(asked.means(&image), expected, "{asked} {image}");
        }
    }

    #[test]
    fn what_does_not_run() {
        for (here, image) in [
            ("linux/amd64", "linux/arm64"),
            ("linux/amd64", "linux/amd64/v2"),
            ("linux/amd64", "windows/amd64"),
            ("linux/arm/v6", "linux/arm/v7"),
            ("linux/arm64", "linux/arm64/v9"),
            ("linux/386", "linux/amd64"),
            ("linux/amd64", "unknown/unknown"),
        ] {
            let here: Platform = here.parse().unwrap();
            assert!(!here.runs(&image.parse().unwrap()), "{here} {image}");
        }
    }
}
