//! Templates of virtual machines in lists.

use crate::listing::Listing;
use crate::text::{ago, size};
use serde_json::{Value, json};
use tote_engine::VmTemplateRow;

/// Lists templates.
#[must_use]
pub fn vm_templates(rows: &[VmTemplateRow]) -> Listing {
    Listing {
        headings: &[
            ("ID", "TEMPLATE ID"),
            ("Kernel", "KERNEL"),
            ("Memory", "MEMORY"),
            ("Processors", "CPUS"),
            ("Size", "SIZE"),
            ("Fits", "FITS"),
            ("CreatedSince", "CREATED"),
            ("CreatedAt", "CREATED AT"),
        ],
        columns: "{{printf \"%.12s\" .ID}}\t{{.Kernel}}\t{{.Memory}}\t{{.Processors}}\t{{.Size}}\t{{.Fits}}\t{{.CreatedSince}}".to_owned(),
        rows: rows.iter().map(line).collect(),
        ..Listing::default()
    }
}

fn line(row: &VmTemplateRow) -> Value {
    let template = &row.template;
    let created = tote_engine::moment(template.created);
    json!({
        "ID": template.id,
        "Kernel": template.kernel,
        "Memory": format!("{}MiB", template.memory),
        "Processors": template.processors.to_string(),
        "Size": size(row.size),
        "Fits": row.fits.to_string(),
        "CreatedSince": ago(&created),
        "CreatedAt": crate::text::moment(&created),
    })
}
