//! LZ4 as the kernel uses it for its own image: the legacy frame, which no library of ours reads.
//!
//! A magic number, then blocks: the length of each in four bytes, and at most 8 MiB of content. The format of a block is
//! <https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>.

/// First bytes of a legacy frame.
pub(crate) const MAGIC: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];

/// Content of a block at most.
const BLOCK: usize = 8 << 20;

/// Decompresses a frame, up to a limit in bytes. What follows the last block is ignored: the kernel puts the size there.
/// `None` if it is not such a frame.
pub(crate) fn decompress(frame: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut rest = frame.strip_prefix(&MAGIC)?;
    let mut out = Vec::new();
    while let Some((length, blocks)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || length > blocks.len() {
            break;
        }
        let (block, next) = blocks.split_at(length);
        let before = out.len();
        push_block(block, &mut out, limit.min(before + BLOCK))?;
        rest = next;
    }
    Some(out)
}

fn push_block(block: &[u8], out: &mut Vec<u8>, limit: usize) -> Option<()> {
    let begin = out.len();
    let mut rest = block;
    while let Some((token, after)) = rest.split_first() {
        rest = after;
        let literals = length(usize::from(token >> 4), &mut rest)?;
        let (copied, after) = rest.split_at_checked(literals)?;
        out.extend_from_slice(copied);
        rest = after;
        if out.len() > limit {
            return None;
        }
        // The last sequence has no match.
        if rest.is_empty() {
            return Some(());
        }
        let (offset, after) = rest.split_first_chunk::<2>()?;
        rest = after;
        let offset = usize::from(u16::from_le_bytes(*offset));
        let matched = length(usize::from(token & 15), &mut rest)?.checked_add(4)?;
        let from = out.len().checked_sub(offset).filter(|from| *from >= begin)?;
        if offset == 0 || matched > limit.checked_sub(out.len())? {
            return None;
        }
        if offset >= matched {
            out.extend_from_within(from..from + matched);
        } else {
            // The match overlaps what it makes.
            for at in from..from + matched {
                out.push(out[at]);
            }
        }
    }
    Some(())
}

/// Adds the further bytes of a length whose first four bits are all ones.
fn length(first: usize, rest: &mut &[u8]) -> Option<usize> {
    let mut length = first;
    if first < 15 {
        return Some(length);
    }
    loop {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        length = length.checked_add(usize::from(*byte))?;
        if *byte != 255 {
            return Some(length);
        }
    }
}
