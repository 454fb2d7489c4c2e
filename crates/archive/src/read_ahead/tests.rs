use super::*;

/// A reader that gives bytes in small pieces, and then an error or an end.
struct Pieces {
    left: usize,
    fails: bool,
}

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && self.fails {
            return Err(Error::other("as planned"));
        }
        let count = out.len().min(self.left).min(10_000);
        out[..count].fill(7);
        self.left -= count;
        Ok(count)
    }
}

fn endless() -> Pieces {
    Pieces {
        left: usize::MAX,
        fails: false,
    }
}

/// Lets `consume` read an input that a thread of its own reads ahead, then one that is read by turns.
fn both_ways<R: Read + Send>(input: impl Fn() -> R, consume: impl Fn(ReadAhead<R>)) {
    for (reader, reading) in [ReadAhead::by_thread(input()), ReadAhead::by_turns(input())] {
        let has_thread = !reader.reads;
        std::thread::scope(|scope| {
            let ended = Arc::clone(&reader.shared);
            scope.spawn(move || match has_thread {
                true => reading.all(),
                false => {
                    while !ended.queue.state().has_ended {
                        reading.some();
                    }
                }
            });
            consume(reader);
        });
    }
}

#[test]
fn everything_comes_and_then_the_end() {
    for left in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 10 * CHUNK + 5] {
        let pieces = |fails| move || Pieces { left, fails };
        both_ways(pieces(false), |mut reader| {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            assert!(bytes.len() == left && bytes.iter().all(|byte| *byte == 7));
            assert_eq!(reader.read(&mut [0]).unwrap(), 0);
            assert_eq!(reader.finish().unwrap().left, 0);
        });
        both_ways(pieces(true), |mut reader| {
            let mut bytes = Vec::new();
            let error = reader.read_to_end(&mut bytes).unwrap_err();
            assert_eq!(error.to_string(), "as planned");
            assert_eq!(bytes.len(), left);
            assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        });
    }
}

#[test]
fn nobody_else_has_to_read() {
    let (mut reader, reading) = ReadAhead::by_turns(&[7; CHUNK + 1][..]);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), CHUNK + 1);
    assert!(!reading.some(), "the input has ended");
}

#[test]
fn no_more_is_read_ahead_than_there_is_space() {
    let (mut reader, reading) = ReadAhead::by_turns(endless());
    let read = std::iter::repeat_with(|| reading.some()).take_while(|read| *read);
    assert_eq!(read.count(), CHUNKS);
    reader.read_exact(&mut [0; CHUNK]).unwrap();
    assert!(!reading.some(), "the chunk may still be lent");
    reader.read_exact(&mut [0]).unwrap();
    assert!(reading.some() && !reading.some());
}

#[test]
fn nobody_has_to_read_to_the_end() {
    both_ways(endless, |mut reader| {
        reader.read_exact(&mut [0; 100]).unwrap();
        assert!(reader.finish().unwrap().left > 0);
    });
    // This one does not ask for the input.
    both_ways(endless, |mut reader| reader.read_exact(&mut [0; 100]).unwrap());
}

#[test]
fn a_reader_that_panics_ends_the_input() {
    struct Panicking;
    impl Read for Panicking {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            panic!("as planned")
        }
    }
    let (mut reader, reading) = ReadAhead::by_thread(Panicking);
    let thread = std::thread::spawn(move || reading.all());
    assert!(reader.read(&mut [0]).is_err());
    assert!(thread.join().is_err() && reader.finish().is_err());
}

#[test]
fn pieces_are_the_input_in_its_order() {
    let bytes: Vec<u8> = (0..12 * CHUNK + 7).map(|at| (at % 251) as u8).collect();
    both_ways(
        || &*bytes,
        |mut reader| {
            let (mut kept, mut at) = (Vec::new(), 0);
            while at < bytes.len() {
                if reader.lent() == MOST_LENT {
                    reader.forget_lent();
                    kept.clear();
                }
                let piece = reader.lend(100_000).unwrap();
                assert!(!piece.is_empty() && piece[..] == bytes[at..at + piece.len()]);
                at += piece.len();
                kept.push(piece);
            }
            assert!(reader.lend(1).unwrap().is_empty());
        },
    );
}

#[test]
fn a_chunk_whose_pieces_are_kept_is_not_used_again() {
    both_ways(endless, |mut reader| {
        let kept: Vec<Piece> = (0..MOST_LENT).map(|_| reader.lend(u64::MAX).unwrap()).collect();
        assert_eq!(reader.lent(), MOST_LENT);
        // Others come meanwhile.
        for _ in 0..3 * CHUNKS {
            assert_eq!(reader.lend(u64::MAX).unwrap().len(), CHUNK);
        }
        assert!(kept.iter().all(|piece| piece.iter().all(|byte| *byte == 7)));
        let spaces: std::collections::HashSet<_> = kept.iter().map(|piece| piece.as_ptr()).collect();
        assert_eq!(spaces.len(), MOST_LENT);
        drop(kept);
        assert!(reader.finish().unwrap().left > 0);
    });
}
