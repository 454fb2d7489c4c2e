use crate::controllers::Controllers;
use std::borrow::Cow;

/// One value for one control file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) controllers: Controllers,
    pub(crate) file: Cow<'static, str>,
    pub(crate) value: String,
    /// What a user calls it: the word in a warning.
    pub(crate) limit: &'static str,
    pub(crate) absent: Absent,
    /// Refuse a value below what this file says is in use.
    pub(crate) usage: Option<&'static str>,
}

/// What to do where the kernel has no such file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The limit is lost.
    Fail,
    /// There is nothing to limit.
    Ignore,
    /// Another file has the same meaning, perhaps on another scale.
    Instead(&'static str, String),
}

/// The writes for one version, in the order in which they are made.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    pub(crate) list: Vec<Write>,
    wanted: Controllers,
}

impl Writes {
    /// Collects for `wanted` only; what other controllers are given is dropped.
    pub(crate) fn for_controllers(wanted: Controllers) -> Self {
        Self {
            list: Vec::new(),
            wanted,
        }
    }

    pub(crate) fn wants(&self, controllers: Controllers) -> bool {
        self.wanted.intersects(controllers)
    }

    pub(crate) fn push(
        &mut self,
        controllers: Controllers,
        limit: &'static str,
        file: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
    ) {
        self.push_or(controllers, limit, file, value, Absent::Fail);
    }

    pub(crate) fn push_or(
        &mut self,
        controllers: Controllers,
        limit: &'static str,
        file: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
        absent: Absent,
    ) {
        if self.wants(controllers) {
            let (file, value) = (file.into(), value.into());
            self.list.push(Write {
                controllers,
                file,
                value,
                limit,
                absent,
                usage: None,
            });
        }
    }
}
