//! `tote run`: from a request to the end of the container.

use crate::live::Live;
use crate::prepare::{Prepared, discard};
use crate::{EngineError, Home, process};
use std::time::Duration;
use tote_bundle::RunOptions;
use tote_runtime::{Foreground, Observer, Outcome, Timings};
use tote_spec::Spec;
use tote_sys::best_effort;

/// How a container in the foreground ended, and what to tell about it.
#[derive(Debug)]
pub struct Finished {
    /// docker's exit code.
    pub exit_code: u8,
    /// One line for people, where the exit code alone would leave them guessing.
    pub reason: Option<String>,
}

/// Runs a prepared container to its end. What it leaves is what was asked to stay.
///
/// # Errors
/// [`EngineError`]; nothing of the container is left then.
pub fn run(
    home: &Home,
    prepared: Prepared,
    mut timings: Option<&mut Timings>,
    warn: &mut dyn FnMut(String),
) -> Result<Finished, EngineError> {
    let Prepared {
        id,
        options,
        image,
        image_id,
        spec,
        writable,
        plan,
        cgroup,
        ids,
        stdio,
        record,
        _source,
        _held,
    } = prepared;
    let Some(mut record) = record else {
        return Err(EngineError::NoContainer(id.to_string()));
    };
    plan.warnings.iter().cloned().for_each(&mut *warn);
    let mut live = Live {
        writable,
        ..live(&options, &spec, image, image_id)
    };
    // Off the way to the program: written while the new process mounts.
    let mut born = |pid: u32, groups: Option<String>| {
        live.pid = Some(pid);
        live.start_time = process::start_time(pid);
        live.cgroup = groups;
        // Without it the container is still found by its id; only its process id is not.
        best_effort(record.write(&live));
    };
    // And this while the program runs.
    let mut runs = || {
        crate::live::sweep(home);
    };
    let follow = options.tty && rustix::termios::isatty(rustix::stdio::stdin());
    let raw = if follow && options.interactive {
        Some(tote_runtime::RawMode::enter()?)
    } else {
        None
    };
    let foreground = Foreground {
        plan: &plan,
        cgroup: cgroup.as_ref(),
        maps: ids.maps.as_ref().filter(|_| plan.user_namespace.is_none()),
        stdio,
        interactive: options.interactive,
        follow_size: follow,
        timeout: options.timeout.filter(|timeout| *timeout != Duration::ZERO),
        cpu_time: options.cpu_time.filter(|limit| *limit != Duration::ZERO),
    };
    let observer = Observer {
        born: &mut born,
        runs: &mut runs,
        warn,
    };
    let result = tote_runtime::run(foreground, timings.as_deref_mut(), observer);
    drop(raw);
    if options.rm || result.is_err() {
        discard(home, &id, live.name.as_deref(), record);
    } else {
        crate::kept::write(home, &id, &spec, &live, result.as_ref().ok())?;
        record.remove();
    }
    if let Some(timings) = timings {
        timings.mark("parent: forget the container");
    }
    let (outcome, ooms) = result?;
    Ok(finished(outcome, ooms, &options))
}

/// What is known of a container before it runs.
fn live(options: &RunOptions, spec: &Spec, image: String, image_id: Option<String>) -> Live {
    Live {
        name: options.name.as_ref().map(ToString::to_string),
        image,
        image_id,
        command: spec
            .process
            .as_ref()
            .map_or_else(Vec::new, |process| process.args.clone()),
        stop_signal: options.stop_signal.map(|signal| signal.to_string()),
        rm: options.rm,
        driver: options.driver.clone(),
        ..Live::default()
    }
}

fn finished(outcome: Outcome, ooms: u64, options: &RunOptions) -> Finished {
    let oom = (ooms > 0).then(|| {
        let limit = if options.memory > 0 {
            format!(" (limit {} bytes)", options.memory)
        } else {
            String::new()
        };
        format!("out of memory{limit}: the kernel killed {ooms} of the container's processes")
    });
    match outcome {
        Outcome::Exited(code) => Finished {
            exit_code: u8::try_from(code & 0xff).unwrap_or(1),
            reason: oom,
        },
        Outcome::Signaled(signal) => Finished {
            exit_code: u8::try_from(128 + signal).unwrap_or(255),
            reason: oom,
        },
        Outcome::TimedOut => Finished {
            exit_code: 124,
            reason: options
                .timeout
                .map(|limit| format!("the time limit of {} s is over", limit.as_secs_f64())),
        },
        Outcome::CpuTimeOver => Finished {
            exit_code: 124,
            reason: options
                .cpu_time
                .map(|limit| format!("the processor time of {} s is used up", limit.as_secs_f64())),
        },
    }
}
