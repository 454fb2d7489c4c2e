//! Hooks of `config.json`, point by point.

use crate::OciError;
use tote_runtime::{HookSpec, run_hook};
use tote_spec::Hook;

/// Converts hooks for the runtime crate.
pub(crate) fn specs(hooks: &[Hook]) -> Vec<HookSpec<'_>> {
    hooks
        .iter()
        .map(|hook| HookSpec {
            path: &hook.path,
            args: &hook.args,
            env: &hook.env,
            timeout: hook
                .timeout
                .filter(|seconds| *seconds > 0)
                .and_then(|seconds| u32::try_from(seconds).ok()),
        })
        .collect()
}

/// Runs all hooks of a point in order, in the runtime's own namespaces; stops at the first that fails.
pub(crate) fn run(point: &'static str, hooks: &[Hook], state: &[u8]) -> Result<(), OciError> {
    for (number, hook) in specs(hooks).into_iter().enumerate() {
        run_hook(hook, state).map_err(|source| OciError::Hook {
            point,
            number,
            source,
        })?;
    }
    Ok(())
}

/// Runs all hooks of a point after which nothing can be undone. A failing hook becomes a warning, and stops neither
/// the next hook nor the container.
pub(crate) fn run_all(point: &'static str, hooks: &[Hook], state: &[u8], warn: &mut dyn FnMut(String)) {
    for (number, hook) in specs(hooks).into_iter().enumerate() {
        if let Err(source) = run_hook(hook, state) {
            let failed = OciError::Hook {
                point,
                number,
                source,
            };
            warn(crate::error::chain(&failed));
        }
    }
}
