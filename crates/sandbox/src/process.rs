//! From a finished root to the program.

use crate::capability;
use crate::error::PlanError;
use crate::plan::{Builder, Lifetime, Stdin, cstring};
use rustix::mount::MountAttrFlags;
use std::ffi::CString;
use tote_spec::Process;
use tote_sys::{AsPid1, Attributes, Exec, Op, Program};

/// The path that is searched where the environment has none, as execvp(3) would.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Builder<'_> {
    /// What is done to the root before it becomes the root: parameters, masks, and at the end read-only where asked.
    pub(crate) fn inside_the_root(&mut self) -> Result<(), PlanError> {
        let spec = self.request.spec;
        if !self.files_written {
            self.files("")?;
        }
        if let Some(name) = &spec.hostname {
            self.push(Op::HostName(cstring("hostname", name)?));
        }
        if let Some(name) = &spec.domainname {
            self.push(Op::DomainName(cstring("domainname", name)?));
        }
        if let Some(process) = &spec.process {
            if process.terminal {
                let size = process
                    .console_size
                    .map_or((24, 80), |size| (size.height, size.width));
                self.push(Op::Console {
                    size,
                    owner: process.user.uid,
                });
            }
            if process.cwd != "/" {
                self.push(Op::MakeDir {
                    path: cstring("process.cwd", &process.cwd)?,
                    mode: 0o755,
                });
            }
        }
        if let Some(linux) = &spec.linux {
            for (key, value) in &linux.sysctl {
                let path = cstring("linux.sysctl", &sysctl_path(key))?;
                self.push(Op::Proc {
                    path,
                    value: value.clone().into_bytes(),
                    optional: false,
                });
            }
            for path in &linux.masked_paths {
                self.push(Op::Mask(cstring("linux.maskedPaths", path)?));
            }
            for path in &linux.readonly_paths {
                self.push(Op::ReadOnly(cstring("linux.readonlyPaths", path)?));
            }
        }
        if spec.root.as_ref().is_some_and(|root| root.readonly) {
            let path = cstring("root.path", ".")?;
            self.push(Op::Remount {
                path,
                attributes: Attributes::set(MountAttrFlags::MOUNT_ATTR_RDONLY),
            });
        }
        Ok(())
    }

    /// From the new root to the program.
    pub(crate) fn process(&mut self) -> Result<(), PlanError> {
        let Some(process) = &self.request.spec.process else {
            return Err(PlanError::Missing("process"));
        };
        self.limits(process)?;
        if matches!(self.request.stdin, Stdin::Null) && !process.terminal {
            self.push(Op::NoStdin);
        }
        self.push(Op::Umask(process.user.umask.unwrap_or(0o022)));
        let of_parent = self.request.lifetime == Lifetime::OfParent;
        if self.request.init {
            if of_parent {
                self.push(Op::DieWithParent);
            }
            self.push(Op::Pid1(AsPid1 {
                name: cstring("name", "tote-init")?,
            }));
        }
        self.push(Op::Session);
        self.push(Op::CloseFrom(3 + self.request.preserve_fds));
        self.push(Op::WorkingDir(cstring("process.cwd", &process.cwd)?));
        // After the last write below /proc/self, whose files are root's from here on.
        self.push(Op::Hide);
        let privilege = self.privilege(process)?;
        self.push(Op::Privilege(privilege));
        if of_parent {
            self.push(Op::DieWithParent); // a change of ids has undone any earlier one
        }
        let exec = self.exec(process)?;
        self.push(Op::Exec(Box::new(exec)));
        Ok(())
    }

    fn limits(&mut self, process: &Process) -> Result<(), PlanError> {
        let facts = &self.request.facts;
        let may_raise = facts.bounding & capability::SYS_RESOURCE != 0 && !self.in_user_namespace();
        for rlimit in &process.rlimits {
            let Some(resource) = tote_sys::resource_by_name(&rlimit.kind) else {
                return Err(PlanError::Value {
                    property: "process.rlimits.type",
                    value: rlimit.kind.clone(),
                    expected: "a resource of setrlimit(2)",
                });
            };
            let ceiling = if may_raise {
                u64::MAX
            } else {
                (facts.hard_limit)(resource).unwrap_or(u64::MAX)
            };
            let (soft, hard) = (rlimit.soft.min(ceiling), rlimit.hard.min(ceiling));
            if (soft, hard) != (rlimit.soft, rlimit.hard) {
                let name = rlimit.kind.to_ascii_lowercase();
                let name = name.strip_prefix("rlimit_").unwrap_or(&name).to_owned();
                self.warnings.push(format!(
                    "ulimit {name} is lowered to {ceiling}, the limit of this process"
                ));
            }
            self.push(Op::Rlimit { resource, soft, hard });
        }
        if let Some(value) = process.oom_score_adj {
            let least = self.request.facts.oom_score_adj;
            let value = if value < least && !may_raise {
                self.warnings.push(format!(
                    "oom score {value} is raised to {least}, that of this process"
                ));
                least
            } else {
                value
            };
            let path = cstring("process.oomScoreAdj", "self/oom_score_adj")?;
            self.push(Op::Proc {
                path,
                value: value.to_string().into_bytes(),
                optional: false,
            });
        }
        Ok(())
    }

    fn exec(&self, process: &Process) -> Result<Exec, PlanError> {
        let Some(command) = process.args.first() else {
            return Err(PlanError::Missing("process.args"));
        };
        let texts = |what: &'static str, texts: &[String]| -> Result<Vec<CString>, PlanError> {
            texts.iter().map(|text| cstring(what, text)).collect()
        };
        let candidates = if command.contains('/') {
            vec![cstring("process.args", command)?]
        } else {
            let path = process
                .env
                .iter()
                .find_map(|line| line.strip_prefix("PATH="))
                .unwrap_or(DEFAULT_PATH);
            let dirs = path.split(':').filter(|_| !command.is_empty());
            dirs.map(|dir| {
                cstring(
                    "process.args",
                    &format!("{}/{command}", if dir.is_empty() { "." } else { dir }),
                )
            })
            .collect::<Result<_, _>>()?
        };
        Ok(Exec {
            candidates,
            program: Program::new(
                texts("process.args", &process.args)?,
                texts("process.env", &process.env)?,
            ),
            never: self.request.facts.own_executable,
        })
    }
}

/// `net.ipv4.ip_forward` as a path below `/proc`; where a slash comes first, dots are part of a name (sysctl(8)).
fn sysctl_path(key: &str) -> String {
    let slash_first = key.find(['.', '/']).is_some_and(|at| key.as_bytes()[at] == b'/');
    let path: String = if slash_first {
        key.to_owned()
    } else {
        key.chars()
            .map(|letter| match letter {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect()
    };
    format!("sys/{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctl_keys() {
        for (key, path) in [
            ("net.ipv4.ip_forward", "sys/net/ipv4/ip_forward"),
            (
                "net/ipv4/conf/eth0.1/forwarding",
                "sys/net/ipv4/conf/eth0.1/forwarding",
            ),
            (
                "net.ipv4.conf.eth0/1.forwarding",
                "sys/net/ipv4/conf/eth0.1/forwarding",
            ),
            ("kernel.shmmax", "sys/kernel/shmmax"),
        ] {
            assert_eq!(sysctl_path(key), path);
        }
    }
}
