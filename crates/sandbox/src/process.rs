//! Operations from a finished root to the program.

use crate::capability;
use crate::error::PlanError;
use crate::path::clean;
use crate::plan::{Builder, Lifetime, SecurityModule, Stdin, clone_flag, cstring};
use crate::sysctl;
use rustix::mount::MountAttrFlags;
use std::ffi::CString;
use tote_spec::{NamespaceType, Process};
use tote_sys::{AsPid1, Attributes, Exec, Namespace, Op, Privilege, Program};

/// Path that is searched if the environment has none, as execvp(3) would.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Name of a PID 1 of tote's own, once it has the rights of its container.
// process: init
pub const INIT_NAME: &str = "tote-init";

impl Builder<'_> {
    /// Plans changes inside the root before it becomes the root: files, parameters, masks.
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
                    plain: false,
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
                let path = cstring("linux.sysctl", &sysctl::path(key))?;
                self.push(Op::Proc {
                    path,
                    value: value.clone().into_bytes(),
                    optional: false,
                });
            }
            let mut masked = Vec::new();
            for path in &linux.masked_paths {
                let cleaned = clean(path);
                if !masked.contains(&cleaned) {
                    self.push(Op::Mask(cstring("linux.maskedPaths", path)?));
                    masked.push(cleaned);
                }
            }
            for path in &linux.readonly_paths {
                self.push(Op::ReadOnly(cstring("linux.readonlyPaths", path)?));
            }
        }
        Ok(())
    }

    /// Makes mounts read-only, once everything is in them.
    pub(crate) fn read_only(&mut self) -> Result<(), PlanError> {
        for path in std::mem::take(&mut self.read_only_later) {
            let attributes = Attributes::set(MountAttrFlags::MOUNT_ATTR_RDONLY);
            self.push(Op::Remount { path, attributes });
        }
        if self.request.spec.root.as_ref().is_some_and(|root| root.readonly) {
            let path = cstring("root.path", ".")?;
            self.push(Op::Remount {
                path,
                attributes: Attributes::set(MountAttrFlags::MOUNT_ATTR_RDONLY),
            });
        }
        Ok(())
    }

    /// Plans the operations from the new root to the program.
    pub(crate) fn process(&mut self) -> Result<(), PlanError> {
        let Some(process) = &self.request.spec.process else {
            return Err(PlanError::Missing("process"));
        };
        self.limits(process)?;
        if matches!(self.request.stdin, Stdin::Null) && !process.terminal {
            self.push(Op::NoStdin);
        }
        self.push(Op::Umask(process.user.umask.unwrap_or(0o022)));
        if self.descends {
            return self.descent(process);
        }
        let of_parent = self.request.lifetime == Lifetime::OfParent;
        let privilege = self.privilege(process)?;
        // PID 1 of tote's own may be looked at from the moment that the program runs, so it has no more rights by then.
        let splits_last = self.request.init && Self::splits_last(process, &privilege);
        if self.request.init && !splits_last {
            if of_parent {
                self.push(Op::DieWithParent);
            }
            self.init()?;
        }
        self.schedule(process)?;
        self.label(process)?;
        self.keyring(&privilege)?;
        if !splits_last {
            self.push(Op::Session);
        }
        self.push(Op::CloseFrom(3 + self.request.preserve_fds));
        self.push(Op::WorkingDir(cstring("process.cwd", &process.cwd)?));
        // This comes after the last write below /proc/self, whose files are root's from here on.
        self.push(Op::Hide);
        self.push(Op::Privilege(privilege));
        if of_parent {
            self.push(Op::DieWithParent); // a change of ids has undone any earlier one
        }
        if splits_last {
            self.init()?;
            self.push(Op::Session);
            if of_parent {
                self.push(Op::DieWithParent); // of the init, whose end ends the program only in a PID namespace of its own
            }
        }
        let exec = program(process, self.request.facts.own_executable)?;
        self.push(Op::Exec(Box::new(exec)));
        Ok(())
    }

    /// Does the same for a PID namespace with other processes, which can see the new process from its birth on and
    /// may have the right to look into it: everything that they lack is given away before. Only the session has to be
    /// started inside.
    fn descent(&mut self, process: &Process) -> Result<(), PlanError> {
        let privilege = self.privilege(process)?;
        let splits_last = self.request.init && Self::splits_last(process, &privilege);
        let last = Self::descends_last(process, &privilege) && (splits_last || !self.request.init);
        if last {
            self.schedule(process)?;
        }
        self.label(process)?;
        self.keyring(&privilege)?;
        let first_closed = 3 + self.request.preserve_fds;
        self.push(Op::CloseFrom(first_closed));
        self.push(Op::WorkingDir(cstring("process.cwd", &process.cwd)?));
        // This comes after the last write below /proc/self, whose files are root's from here on.
        self.push(Op::Hide);
        if let Some(fd) = self.joined.pid.take() {
            let kind = clone_flag(NamespaceType::Pid);
            self.push(Op::Join(Namespace { kind, fd }));
        }
        let of_parent = self.request.lifetime == Lifetime::OfParent;
        let (before, after) = if last {
            (Some(Op::Privilege(privilege)), None)
        } else {
            (None, Some(Op::Privilege(privilege)))
        };
        self.ops.extend(before);
        self.push(Op::Descend { first_closed });
        let (before, after) = if splits_last { (after, None) } else { (None, after) };
        if before.is_some() {
            self.schedule(process)?;
        }
        self.ops.extend(before);
        if of_parent && self.request.init {
            self.push(Op::DieWithParent);
        }
        self.init()?;
        if after.is_some() {
            self.schedule(process)?;
        }
        self.push(Op::Session);
        self.ops.extend(after);
        if of_parent {
            self.push(Op::DieWithParent);
        }
        let exec = program(process, self.request.facts.own_executable)?;
        self.push(Op::Exec(Box::new(exec)));
        Ok(())
    }

    /// Plans a PID 1 of tote's own, if one was asked for.
    fn init(&mut self) -> Result<(), PlanError> {
        if self.request.init {
            self.push(Op::Pid1(AsPid1 {
                name: cstring("name", INIT_NAME)?,
            }));
        }
        Ok(())
    }

    fn schedule(&mut self, process: &Process) -> Result<(), PlanError> {
        for op in crate::schedule(self.request.spec, process)? {
            self.push(op);
        }
        if self.request.all_processors {
            self.push(Op::Affinity(Box::default()));
        }
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
        // In a user namespace the parent sets it.
        if let Some(value) = process.oom_score_adj.filter(|_| !self.parent_acts()) {
            let text = value.to_string().into_bytes();
            if value < self.request.facts.oom_score_adj && !may_raise {
                // The kernel keeps a lower bound that it does not tell: the value that a privileged process has set
                // last.
                self.push(Op::LowerOomScore(text));
            } else {
                self.push(Op::Proc {
                    path: cstring("process.oomScoreAdj", "self/oom_score_adj")?,
                    value: text,
                    optional: false,
                });
            }
        }
        Ok(())
    }

    /// Sets the label by which the security module treats the program.
    fn label(&mut self, process: &Process) -> Result<(), PlanError> {
        let given = |label: &Option<String>| label.clone().filter(|label| !label.is_empty());
        let module = self.request.facts.security_module;
        if let Some(profile) = given(&process.apparmor_profile) {
            if module != SecurityModule::AppArmor {
                return Err(PlanError::Invalid(
                    "apparmor: config provided but apparmor not supported".to_owned(),
                ));
            }
            self.attribute("self/attr/apparmor/exec", format!("exec {profile}"))?;
        }
        if let Some(label) = given(&process.selinux_label) {
            if module != SecurityModule::SeLinux {
                return Err(PlanError::Invalid(
                    "selinux label is specified in config, but selinux is disabled or not supported"
                        .to_owned(),
                ));
            }
            self.attribute("self/attr/exec", label)?;
        }
        Ok(())
    }

    fn attribute(&mut self, path: &str, value: String) -> Result<(), PlanError> {
        let path = cstring("path", path)?;
        self.push(Op::Proc {
            path,
            value: value.into_bytes(),
            optional: false,
        });
        Ok(())
    }

    /// Plans the session keyring. Processes in the container may search it as its possessor or, in a user namespace,
    /// where the owner's id means something else, as any user.
    fn keyring(&mut self, privilege: &Privilege) -> Result<(), PlanError> {
        /// KEY_USR_SEARCH and KEY_OTH_SEARCH, linux/key.h.
        const SEARCH: (u32, u32) = (0x0008_0000, 0x0000_0008);
        let Some(name) = self.request.keyring else {
            return Ok(());
        };
        let permissions = if self.in_user_namespace() {
            SEARCH.1
        } else {
            SEARCH.0
        };
        let name = cstring("keyring", name)?;
        // The caller's keyring stays if there is no room for another one: for detached containers of the OCI runtime,
        // whose callers have no keys to lose, and for programs that cannot ask for keys.
        let optional = self.request.lifetime == Lifetime::Detached
            || !crate::privilege::lets_through(privilege, &[("keyctl", 0)]);
        self.push(Op::Keyring {
            name,
            permissions,
            optional,
        });
        Ok(())
    }
}

/// Prepares the last operation of a process: its program, and where to look for it.
///
/// `never` are device and inode of an executable that must not be run.
///
/// # Errors
/// [`PlanError`] for missing arguments, and for zero bytes in them.
pub fn program(process: &Process, never: Option<(u64, u64)>) -> Result<Exec, PlanError> {
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
        file: None,
        candidates,
        program: Program::new(
            texts("process.args", &process.args)?,
            texts("process.env", &process.env)?,
        ),
        never,
    })
}
