//! Questions before something is removed.

use crate::tell::print;
use tote_options::Parsed;

/// True if `--force` is given or the user agrees. A missing answer counts as no.
pub(crate) fn agreed(parsed: &Parsed, warning: &str) -> bool {
    if parsed.flag("force") {
        return true;
    }
    print(&format!(
        "WARNING! {warning}\nAre you sure you want to continue? [y/N] "
    ));
    let mut answer = String::new();
    drop(std::io::stdin().read_line(&mut answer));
    matches!(answer.trim(), "y" | "Y" | "yes")
}
