//! `--driver-opt`: options of a container's link in a network, by docker's names.

use crate::mount::csv;

/// Key of the name that the link has in the container.
const NAME: &str = "com.docker.network.endpoint.ifname";

/// Key of the kernel's settings of the link.
const SETTINGS: &str = "com.docker.network.endpoint.sysctls";

/// Part of a setting's name that stands for the name of the link.
const LINK: &str = "IFNAME";

/// Longest name of a link that the kernel takes, in bytes.
const LONGEST: usize = 15;

/// Why a text is not an option of a link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkOptionError {
    /// A key that is unknown.
    #[error("unknown option {0:?} of a container's link: there are {NAME} and {SETTINGS}")]
    Key(String),
    /// A name that no link in a container can have.
    #[error("invalid name of a link {0:?}: give at most {LONGEST} letters and digits, and not lo")]
    Name(String),
    /// A setting that is not one of the link's.
    #[error(
        "invalid setting of a link {0:?}: give net.ipv4.conf.IFNAME.NAME=VALUE, or one of net.ipv6 or net.mpls"
    )]
    Setting(String),
    /// Quotes that do not match.
    #[error(transparent)]
    Quotes(#[from] crate::CsvError),
}

/// Options of a container's link in a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkOptions {
    /// Name of the link in the container; `None` for the network's prefix and a number.
    pub name: Option<String>,
    /// Settings of the link, in the order in which they are made.
    pub settings: Vec<LinkSetting>,
}

/// Setting of a link in the kernel, such as `net.ipv4.conf.IFNAME.log_martians=1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSetting {
    /// `ipv4`, `ipv6` or `mpls`.
    family: &'static str,
    /// `conf` or `neigh`.
    group: &'static str,
    /// Name within the directory of the link.
    name: String,
    /// Value as it is written.
    pub value: String,
}

impl LinkSetting {
    /// Returns the file of the setting of a link of that name, below `/proc/sys`.
    #[must_use]
    pub fn file(&self, link: &str) -> String {
        format!("net/{}/{}/{link}/{}", self.family, self.group, self.name)
    }

    fn parse(text: &str) -> Result<Self, LinkOptionError> {
        let wrong = || LinkOptionError::Setting(text.to_owned());
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        let parts: Vec<_> = key.split('.').collect();
        let ["net", family, group, link, name] = parts[..] else {
            return Err(wrong());
        };
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        // docker's client writes what it passes on in small letters.
        let is_valid = link.eq_ignore_ascii_case(LINK) && !name.is_empty() && name.bytes().all(is_plain);
        if !is_valid || value.is_empty() || value.chars().any(|char| char.is_control() || char == '"') {
            return Err(wrong());
        }
        let known = |all: &[&'static str], one: &str| all.iter().copied().find(|known| *known == one);
        Ok(Self {
            family: known(&["ipv4", "ipv6", "mpls"], family).ok_or_else(wrong)?,
            group: known(&["conf", "neigh"], group).ok_or_else(wrong)?,
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}

impl std::fmt::Display for LinkSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            family,
            group,
            name,
            value,
        } = self;
        write!(f, "net.{family}.{group}.{LINK}.{name}={value}")
    }
}

impl LinkOptions {
    /// Takes options as docker's client does: `KEY=VALUE`, several with commas between them, and in double quotes if there is a comma in one.
    ///
    /// # Errors
    /// [`LinkOptionError`].
    pub fn add_line(&mut self, line: &str) -> Result<(), LinkOptionError> {
        csv::split(line)?.iter().try_for_each(|field| self.add(field))
    }

    /// Takes one option, `KEY=VALUE`. The last name wins; settings accumulate.
    ///
    /// # Errors
    /// [`LinkOptionError`].
    pub(crate) fn add(&mut self, text: &str) -> Result<(), LinkOptionError> {
        match text.split_once('=') {
            Some((NAME, name)) => {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
                let is_valid = !["", ".", "..", "lo", "all", "default"].contains(&name)
                    && name.len() <= LONGEST
                    && name.bytes().all(is_plain);
                if !is_valid {
                    return Err(LinkOptionError::Name(name.to_owned()));
                }
                self.name = Some(name.to_owned());
            }
            Some((SETTINGS, settings)) => {
                for setting in settings.split(',') {
                    self.settings.push(LinkSetting::parse(setting)?);
                }
            }
            _ => return Err(LinkOptionError::Key(text.to_owned())),
        }
        Ok(())
    }

    /// Returns the options by docker's keys.
    #[must_use]
    pub fn pairs(&self) -> Vec<(&'static str, String)> {
        let settings: Vec<_> = self.settings.iter().map(ToString::to_string).collect();
        let settings = (!settings.is_empty()).then(|| (SETTINGS, settings.join(",")));
        let name = self.name.clone().map(|name| (NAME, name));
        name.into_iter().chain(settings).collect()
    }

    /// Returns the options as fields of the long form of `--network`, each after a comma.
    #[must_use]
    pub fn fields(&self) -> String {
        // No name and no setting has a quote in it.
        let field = |(key, value)| format!(",\"driver-opt={key}={value}\"");
        self.pairs().into_iter().map(field).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_written_back() {
        let mut options = LinkOptions::default();
        options
            .add_line("com.docker.network.endpoint.ifname=lan0")
            .unwrap();
        let settings =
            "net.ipv4.conf.IFNAME.log_martians=1,net.ipv6.neigh.ifname.base_reachable_time_ms=20 0";
        options
            .add_line(&format!("\"com.docker.network.endpoint.sysctls={settings}\""))
            .unwrap();
        assert_eq!(options.name.as_deref(), Some("lan0"));
        let files: Vec<_> = options.settings.iter().map(|one| one.file("lan0")).collect();
        assert_eq!(
            files,
            [
                "net/ipv4/conf/lan0/log_martians",
                "net/ipv6/neigh/lan0/base_reachable_time_ms"
            ]
        );
        let text = format!("name=web{}", options.fields());
        let mode: crate::NetworkMode = text.parse().unwrap();
        assert_eq!(mode.attachments()[0].options, options, "{text}");
        assert_eq!(options.pairs().len(), 2);
        assert_eq!(LinkOptions::default().fields(), "");
    }

    #[test]
    fn others_are_refused() {
        for (text, words) in [
            ("", "unknown option"),
            ("color=red", "unknown option \"color=red\""),
            ("com.docker.network.endpoint.ifname=", "invalid name"),
            ("com.docker.network.endpoint.ifname=lo", "invalid name"),
            ("com.docker.network.endpoint.ifname=..", "invalid name"),
            ("com.docker.network.endpoint.ifname=a/b", "invalid name"),
            (
                "com.docker.network.endpoint.ifname=a123456789012345",
                "invalid name",
            ),
            ("com.docker.network.endpoint.sysctls=", "invalid setting"),
            (
                "com.docker.network.endpoint.sysctls=net.ipv4.conf.eth0.forwarding=1",
                "invalid setting",
            ),
            (
                "com.docker.network.endpoint.sysctls=net.ipv4.ip_forward=1",
                "invalid setting",
            ),
            (
                "com.docker.network.endpoint.sysctls=kernel.a.b.IFNAME.c=1",
                "invalid setting",
            ),
            (
                "com.docker.network.endpoint.sysctls=net.ipv4.conf.IFNAME./=1",
                "invalid setting",
            ),
            (
                "com.docker.network.endpoint.sysctls=net.ipv4.conf.IFNAME.forwarding",
                "invalid setting",
            ),
            (
                "com.docker.network.endpoint.sysctls=net.ipv4.conf.IFNAME.forwarding=",
                "invalid setting",
            ),
            ("\"com.docker.network.endpoint.ifname=a", "unterminated"),
        ] {
            let error = LinkOptions::default().add_line(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }
}
