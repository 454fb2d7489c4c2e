//! A filter as a graph of decisions, and the graph as a program.
//!
//! Equal nodes exist once, so what several calls, rules or architectures have in common is shared. A node is made after
//! the nodes it leads to: ids are a topological order, and a program is the nodes by falling id. Classic BPF jumps
//! forwards only, which is exactly that.

use crate::instruction::{AND, Comparison, Instruction, JUMP, LOAD, RETURN};
use std::collections::HashMap;

/// A node's place in its graph.
pub(crate) type Id = usize;

/// One decision; A is the accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Node {
    /// The filter's answer.
    Return(u32),
    /// A becomes the word at that offset.
    Load(u32, Id),
    /// A keeps the bits of the mask.
    And(u32, Id),
    /// A compared with a constant: where to go if that is so, and if not.
    Test(Comparison, u32, Id, Id),
}

/// The decisions made so far.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    ids: HashMap<Node, Id>,
}

impl Graph {
    /// How many different decisions there are.
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

    /// Loads the word at an offset; left out where what follows does not look at it.
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

    /// Where to go on to `target` from a place where the accumulator already holds the word at `loaded`.
    pub(crate) fn past_load(&self, target: Id, loaded: u32) -> Id {
        match self.nodes[target] {
            Node::Load(offset, next) if offset == loaded => next,
            _ => target,
        }
    }

    /// The program that starts at `root`.
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

/// A program that grows from its end to its start.
struct Backwards {
    /// The last instruction first.
    instructions: Vec<Instruction>,
    /// Where in `instructions` each node is: the copy, or the long jump to it, that is nearest to the program's start.
    nearest: Vec<usize>,
}

impl Backwards {
    fn new(nodes: usize) -> Self {
        Self {
            instructions: Vec::with_capacity(nodes + 16),
            nearest: vec![usize::MAX; nodes],
        }
    }

    /// How many instructions lie between the one placed next and a node's.
    fn distance(&self, id: Id) -> usize {
        self.instructions.len() - 1 - self.nearest[id]
    }

    /// An instruction that is no comparison.
    fn push(&mut self, code: u16, k: u32) {
        self.instructions.push(Instruction {
            code,
            jt: 0,
            jf: 0,
            k,
        });
    }

    /// A long jump to a node, or the node itself where it is an answer: that costs the same and takes one step less.
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

    /// A comparison, whose jumps have eight bits. What is farther is brought near; that moves the other target away.
    fn place_test(&mut self, nodes: &[Node], code: u16, k: u32, yes: Id, no: Id) {
        loop {
            match (u8::try_from(self.distance(yes)), u8::try_from(self.distance(no))) {
                (Ok(jt), Ok(jf)) => return self.instructions.push(Instruction { code, jt, jf, k }),
                (Err(_), _) => self.bring_near(nodes, yes),
                (_, Err(_)) => self.bring_near(nodes, no),
            }
        }
    }

    /// An instruction that cannot jump: what follows has to be next.
    fn place_before(&mut self, nodes: &[Node], code: u16, k: u32, next: Id) {
        if self.distance(next) > 0 {
            self.bring_near(nodes, next);
        }
        self.push(code, k);
    }
}
