//! The unprivileged user that rootless candidates run as.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A line of passwd(5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Home directory.
    pub home: PathBuf,
}

impl Account {
    /// Finds the account `name`, or makes it with useradd(8); an account made here is kept. Root only.
    pub fn ensure(name: &str) -> Result<Self> {
        if let Some(account) = Self::look_up(|account| account.name == name)? {
            ensure!(account.uid != 0, "{name} is root, not an unprivileged user");
            return Ok(account);
        }
        let made = Command::new("useradd")
            .arg("--create-home")
            .arg(name)
            .output()
            .context("run useradd")?;
        ensure!(
            made.status.success(),
            "useradd {name}: {}",
            String::from_utf8_lossy(&made.stderr).trim()
        );
        match Self::look_up(|account| account.name == name)? {
            Some(account) => Ok(account),
            None => bail!("useradd made {name}, but /etc/passwd does not have it"),
        }
    }

    /// Finds the account with this user id.
    pub fn of_uid(uid: u32) -> Result<Self> {
        Self::look_up(|account| account.uid == uid)?
            .with_context(|| format!("user id {uid} is not in /etc/passwd"))
    }

    fn look_up(wanted: impl Fn(&Account) -> bool) -> Result<Option<Self>> {
        let text = fs::read_to_string("/etc/passwd").context("read /etc/passwd")?;
        Ok(text.lines().filter_map(parse).find(wanted))
    }
}

/// Parses a line of passwd(5): `name:password:uid:gid:comment:home:shell`. `None` for any other text.
fn parse(line: &str) -> Option<Account> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty())?.to_owned();
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let home = PathBuf::from(fields.nth(1)?);
    fields.next()?;
    Some(Account { name, uid, gid, home })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwd_lines() {
        let account = Account {
            name: "web".into(),
            uid: 1001,
            gid: 1002,
            home: "/home/web".into(),
        };
        assert_eq!(parse("web:x:1001:1002:Web,,,:/home/web:/bin/sh"), Some(account));
        for line in [
            "",
            "web",
            "web:x:1001",
            "web:x:a:1:c:/h:/s",
            ":x:1:1::/h:/s",
            "web:x:-1:1::/h:/s",
            "+::::::",
        ] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }
}
