//! The options of `update`.

use super::Failure;
use std::io::Read as _;
use tote_oci::{OciError, UpdateOptions};
use tote_options::Parsed;

/// Maximum size in bytes of a text with limits.
const LONGEST: u64 = 1 << 20;

pub(crate) fn options(parsed: &Parsed) -> Result<UpdateOptions, Failure> {
    let mut options = UpdateOptions::default();
    if let Some(path) = parsed.value("resources").filter(|path| !path.is_empty()) {
        let mut text = String::new();
        let read = if path == "-" {
            std::io::stdin().take(LONGEST).read_to_string(&mut text)
        } else {
            std::fs::File::open(path).and_then(|file| file.take(LONGEST).read_to_string(&mut text))
        };
        read.map_err(|error| OciError::Usage(format!("read {}: {error}", path.to_string_lossy())))?;
        options.resources = Some(text);
        return Ok(options);
    }
    let text = |option: &str| -> Result<Option<String>, Failure> {
        Ok(parsed
            .text(option)?
            .filter(|text| !text.is_empty())
            .map(ToOwned::to_owned))
    };
    options.blkio_weight = parsed.number("blkio-weight")?;
    options.pids_limit = parsed.number("pids-limit")?;
    let cpu = &mut options.cpu;
    cpu.period = parsed.number("cpu-period")?;
    cpu.quota = parsed.number("cpu-quota")?;
    cpu.burst = parsed.number("cpu-burst")?;
    cpu.shares = parsed.number("cpu-share")?;
    cpu.realtime_period = parsed.number("cpu-rt-period")?;
    cpu.realtime_runtime = parsed.number("cpu-rt-runtime")?;
    cpu.idle = parsed.number("cpu-idle")?;
    cpu.cpus = text("cpuset-cpus")?;
    cpu.mems = text("cpuset-mems")?;
    let bytes = |option: &str| parsed.converted(option, bytes);
    let memory = &mut options.memory;
    memory.limit = bytes("memory")?;
    memory.reservation = bytes("memory-reservation")?;
    memory.swap = bytes("memory-swap")?;
    memory.kernel_tcp = bytes("kernel-memory-tcp")?;
    Ok(options)
}

/// Parses a number of bytes, with an optional unit as docker's.
fn bytes(text: &str) -> Result<i64, &'static str> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let expected = "a number of bytes is expected, as in 1073741824, 1024m or 1g";
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches('b').trim_end_matches('i');
    let shift = match digits.bytes().last() {
        Some(b'k') => 10,
        Some(b'm') => 20,
        Some(b'g') => 30,
        Some(b't') => 40,
        _ => 0,
    };
    let digits = if shift > 0 {
        &digits[..digits.len() - 1]
    } else {
        digits
    };
    let number: i64 = digits.parse().map_err(|_| expected)?;
    number.checked_mul(1 << shift).ok_or(expected)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes() {
        for (text, number) in [
            ("-1", -1),
            ("0", 0),
            ("10", 10),
            ("1k", 1024),
            ("2M", 2 << 20),
            ("1GiB", 1 << 30),
        ] {
            assert_eq!(bytes(text), Ok(number), "{text}");
        }
        for bad in ["", "k", "1x", "99999999999999999999", "9999999999t", "1.5g"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }
}
