use crate::controllers::Controllers;
use std::borrow::Cow;

/// Value for a control file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) controllers: Controllers,
    pub(crate) file: Cow<'static, str>,
    pub(crate) value: String,
    /// User's name of the limit: the word in a warning.
    pub(crate) limit: &'static str,
    pub(crate) absent: Absent,
    /// File with the usage; a value below it is refused.
    pub(crate) usage: Option<&'static str>,
}

/// Treatment of a missing file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The limit is lost.
    Fail,
    /// The kernel has nothing to limit.
    Ignore,
    /// Another file has the same meaning, perhaps on another scale.
    Instead(&'static str, String),
}

/// Writes for one version, in the order in which they are made.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    pub(crate) list: Vec<Write>,
    wanted: Controllers,
}

impl Writes {
    /// Collects writes for `wanted` only; those for other controllers are dropped.
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
