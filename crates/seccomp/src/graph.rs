//! Filters as graphs of decisions, and their conversion to programs.
//!
//! Equal nodes exist once, so decisions that calls, rules or architectures have in common are shared. A node is made
//! after the nodes it leads to: ids are a topological order, and a program is the nodes by falling id. This fits
//! classic BPF, which jumps forwards only.

use crate::instruction::{AND, Comparison, Instruction, JUMP, LOAD, RETURN};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Index of a node in its graph.
pub(crate) type Id = usize;

/// Decision; A is the accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Node {
    /// Answers with this value.
    Return(u32),
    /// Loads the word at that offset into A.
    Load(u32, Id),
    /// Keeps the bits of the mask in A.
    And(u32, Id),
    /// Compares A with a constant: the node to go to if that holds, and if not.
    Test(Comparison, u32, Id, Id),
}

/// Decisions made so far.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    ids: HashMap<Node, Id, BuildHasherDefault<Mixer>>,
}

/// Hasher of nodes, a few small numbers each. The library's own one takes most of the time of a compilation.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.cast_unsigned() as u64);
    }
}

impl Graph {
    /// Returns the number of different decisions.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    fn add(&mut self, node: Node) -> Id {
        *self.ids.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        })
    }

    /// Answers with that value.
    pub(crate) fn returns(&mut self, value: u32) -> Id {
        self.add(Node::Return(value))
    }

    /// Loads the word at an offset; left out if the next nodes do not use it.
    pub(crate) fn load(&mut self, offset: u32, next: Id) -> Id {
        match self.nodes[next] {
            Node::Return(_) | Node::Load(..) => next,
            Node::And(..) | Node::Test(..) => self.add(Node::Load(offset, next)),
        }
    }

    /// Masks the accumulator.
    pub(crate) fn and(&mut self, mask: u32, next: Id) -> Id {
        match self.nodes[next] {
            Node::Return(_) | Node::Load(..) => next,
            Node::And(..) | Node::Test(..) => self.add(Node::And(mask, next)),
        }
    }

    /// Compares the accumulator with a constant.
    pub(crate) fn test(&mut self, comparison: Comparison, k: u32, yes: Id, no: Id) -> Id {
        match (comparison, k) {
            _ if yes == no => yes,
            (Comparison::GreaterEqual, 0) => yes,
            (Comparison::Greater, u32::MAX) | (Comparison::AnyBit, 0) => no,
            _ => self.add(Node::Test(comparison, k, yes, no)),
        }
    }

    /// Returns where to continue for `target` if the accumulator already holds the word at `loaded`.
    pub(crate) fn past_load(&self, target: Id, loaded: u32) -> Id {
        match self.nodes[target] {
            Node::Load(offset, next) if offset == loaded => next,
            _ => target,
        }
    }

    /// Returns the program that starts at `root`.
    pub(crate) fn assemble(&self, root: Id) -> Vec<Instruction> {
        let reachable = self.reachable(root);
        let mut program = Backwards::new(self.nodes.len());
        for (id, node) in self.nodes.iter().enumerate().take(root + 1) {
            if reachable[id] {
                program.place(&self.nodes, id, *node);
            }
        }
        program.instructions.reverse();
        program.instructions
    }

    fn reachable(&self, root: Id) -> Vec<bool> {
        let mut reachable = vec![false; self.nodes.len()];
        reachable[root] = true;
        for id in (0..=root).rev() {
            if !reachable[id] {
                continue;
            }
            match self.nodes[id] {
                Node::Return(_) => {}
                Node::Load(_, next) | Node::And(_, next) => reachable[next] = true,
                Node::Test(_, _, yes, no) => {
                    reachable[yes] = true;
                    reachable[no] = true;
                }
            }
        }
        reachable
    }
}

/// Program that grows from its end to its start.
struct Backwards {
    /// Instructions, the last one first.
    instructions: Vec<Instruction>,
    /// Index in `instructions` of each node: of the copy, or of the long jump to it, that is nearest to the program's
    /// start.
    nearest: Vec<usize>,
}

impl Backwards {
    fn new(nodes: usize) -> Self {
        Self {
            instructions: Vec::with_capacity(nodes + 16),
            nearest: vec![usize::MAX; nodes],
        }
    }

    /// Returns how many instructions lie between the one placed next and a node's.
    fn distance(&self, id: Id) -> usize {
        self.instructions.len() - 1 - self.nearest[id]
    }

    /// Appends an instruction other than a comparison.
    fn push(&mut self, code: u16, k: u32) {
        self.instructions.push(Instruction {
            code,
            jt: 0,
            jf: 0,
            k,
        });
    }

    /// Appends a long jump to a node, or the node itself if it is an answer: that costs the same and saves an
    /// execution step.
    fn bring_near(&mut self, nodes: &[Node], id: Id) {
        match nodes[id] {
            Node::Return(value) => self.push(RETURN, value),
            _ => {
                let distance = u32::try_from(self.distance(id)).unwrap_or(u32::MAX);
                self.push(JUMP, distance);
            }
        }
        self.nearest[id] = self.instructions.len() - 1;
    }

    fn place(&mut self, nodes: &[Node], id: Id, node: Node) {
        match node {
            Node::Return(value) => self.push(RETURN, value),
            Node::Load(k, next) => self.place_before(nodes, LOAD, k, next),
            Node::And(k, next) => self.place_before(nodes, AND, k, next),
            Node::Test(comparison, k, yes, no) => self.place_test(nodes, comparison as u16, k, yes, no),
        }
        self.nearest[id] = self.instructions.len() - 1;
    }

    /// Places a comparison, whose jumps have eight bits. A target that is farther is brought near, which moves the
    /// other one away.
    fn place_test(&mut self, nodes: &[Node], code: u16, k: u32, yes: Id, no: Id) {
        loop {
            match (u8::try_from(self.distance(yes)), u8::try_from(self.distance(no))) {
                (Ok(jt), Ok(jf)) => return self.instructions.push(Instruction { code, jt, jf, k }),
                (Err(_), _) => self.bring_near(nodes, yes),
                (_, Err(_)) => self.bring_near(nodes, no),
            }
        }
    }

    /// Places an instruction that cannot jump: its successor has to be next.
    fn place_before(&mut self, nodes: &[Node], code: u16, k: u32, next: Id) {
        if self.distance(next) > 0 {
            self.bring_near(nodes, next);
        }
        self.push(code, k);
    }
}
