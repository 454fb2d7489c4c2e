use super::context::Context;
use super::error::SpecError;
use crate::capability;
use crate::environment::Environment;
use crate::image::{DEFAULT_PATH, ImageConfig, command_line};
use crate::options::RunOptions;
use crate::path::clean_absolute;
use std::collections::BTreeSet;
use tote_spec::{Capabilities, Process, Rlimit, User};

/// Builds the container's first process.
pub(super) fn process(
    options: &RunOptions,
    image: &ImageConfig,
    context: &Context<'_>,
    hostname: &str,
) -> Result<Process, SpecError> {
    let rlimits = options.ulimits.values().map(|ulimit| Rlimit {
        kind: ulimit.kernel_name(),
        hard: ulimit.hard,
        soft: ulimit.soft,
    });
    Ok(Process {
        terminal: options.tty,
        console_size: context.terminal_size.filter(|_| options.tty),
        user: user(context, options.umask)?,
        args: args(options, image)?,
        env: environment(options, image, context, hostname),
        cwd: working_directory(options, image)?,
        capabilities: Some(capabilities(options, context.user.uid)),
        rlimits: rlimits.collect(),
        no_new_privileges: options.security.no_new_privileges,
        apparmor_profile: options.security.apparmor.clone(),
        oom_score_adj: options.oom_score_adj,
        ..Process::default()
    })
}

fn user(context: &Context<'_>, umask: Option<u32>) -> Result<User, SpecError> {
    let (uid, gid) = (context.user.uid, context.user.gid);
    let unmapped = |kind, id, file| Err(SpecError::NotMapped { kind, id, file });
    if !context.maps_uid(uid) {
        return unmapped("user", uid, "subuid");
    }
    if let Some(gid) = std::iter::once(&gid)
        .chain(context.added_gids)
        .find(|gid| !context.maps_gid(**gid))
    {
        return unmapped("group", *gid, "subgid");
    }
    let mut user = User {
        uid,
        gid,
        umask,
        ..User::default()
    };
    if !context.setgroups {
        return if context.added_gids.is_empty() {
            Ok(user)
        } else {
            Err(SpecError::Setgroups)
        };
    }
    // The primary group comes first, so that no setgid(2) can shed it (CVE-2022-36109). A group of the image's
    // group(5) that is not mapped is dropped: the user did not ask for it.
    let member = context
        .user
        .additional_gids
        .iter()
        .filter(|gid| context.maps_gid(**gid));
    let mut seen = BTreeSet::new();
    user.additional_gids = std::iter::once(&gid)
        .chain(member)
        .chain(context.added_gids)
        .copied()
        .filter(|gid| seen.insert(*gid))
        .collect();
    Ok(user)
}

fn args(options: &RunOptions, image: &ImageConfig) -> Result<Vec<String>, SpecError> {
    let command = command_line(options.entrypoint.as_deref(), &options.command, image);
    if command.is_empty() {
        return Err(SpecError::NoCommand);
    }
    Ok(command)
}

fn working_directory(options: &RunOptions, image: &ImageConfig) -> Result<String, SpecError> {
    match (&options.workdir, image.working_dir.as_str()) {
        (Some(workdir), _) => Ok(workdir.clone()),
        (None, "") => Ok("/".to_owned()),
        (None, workdir) => clean_absolute(workdir).ok_or_else(|| SpecError::Workdir(workdir.to_owned())),
    }
}

/// Merges the defaults, the image's variables, the files and `--env`, each over those before; sets `HOME` if none
/// of them did.
fn environment(
    options: &RunOptions,
    image: &ImageConfig,
    context: &Context<'_>,
    hostname: &str,
) -> Vec<String> {
    let mut environment = Environment::default();
    if !options.env_base.unset_all {
        environment.set(format!("PATH={DEFAULT_PATH}"));
        environment.set(format!("HOSTNAME={hostname}"));
        if options.tty {
            environment.set("TERM=xterm".to_owned());
        }
        for entry in options.env_base.of_host.iter().chain(&image.env) {
            environment.set(entry.clone());
        }
    }
    for name in &options.env_base.unset {
        environment.remove(name);
    }
    environment.set_all(&options.env, context.environment);
    let unwanted = options.env_base.unset_all || options.env_base.unset.iter().any(|name| name == "HOME");
    if !unwanted && !environment.contains("HOME") {
        environment.set(format!("HOME={}", context.user.home));
    }
    environment.into_vec()
}

/// Computes the capability sets. Root holds all of the bounding set. Another user holds only those of `--cap-add`,
/// and needs them in the ambient set, as with podman: without it the kernel would take them away at exec. The
/// inheritable set holds nothing else (CVE-2022-24769).
fn capabilities(options: &RunOptions, uid: u32) -> Capabilities {
    let owned = |set: &[&str]| set.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let bounding = capability::tweak(&options.cap_add, &options.cap_drop, options.privileged);
    if uid == 0 {
        return Capabilities {
            bounding: owned(&bounding),
            effective: owned(&bounding),
            permitted: owned(&bounding),
            ..Capabilities::default()
        };
    }
    let held = owned(&capability::for_user(&options.cap_add, &bounding));
    Capabilities {
        bounding: owned(&bounding),
        effective: held.clone(),
        inheritable: held.clone(),
        permitted: held.clone(),
        ambient: held,
    }
}
