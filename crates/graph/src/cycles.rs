//! Strongly connected components, those that are referenced first: Tarjan's algorithm without recursion.

/// Returns the components of a graph given by the successors of each node; a component comes after those that it
/// leads to.
pub(crate) fn components(successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let count = successors.len();
    let (mut index, mut low) = (vec![UNSEEN; count], vec![0; count]);
    let (mut on_stack, mut stack, mut found) = (vec![false; count], Vec::new(), Vec::new());
    let mut next = 0;
    for root in 0..count {
        if index[root] != UNSEEN {
            continue;
        }
        // Nodes on the way, each with the number of its successors that were looked at.
        let mut way = vec![(root, 0)];
        while let Some((node, done)) = way.pop() {
            if done == 0 {
                (index[node], low[node]) = (next, next);
                next += 1;
                stack.push(node);
                on_stack[node] = true;
            } else {
                let child = successors[node][done - 1];
                if on_stack[child] {
                    low[node] = low[node].min(low[child]);
                }
            }
            if let Some(&child) = successors[node].get(done) {
                way.push((node, done + 1));
                if index[child] == UNSEEN {
                    way.push((child, 0));
                }
                continue;
            }
            if low[node] == index[node] {
                let mut component = Vec::new();
                while let Some(member) = stack.pop() {
                    on_stack[member] = false;
                    component.push(member);
                    if member == node {
                        break;
                    }
                }
                found.push(component);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reaches(successors: &[Vec<usize>], from: usize, to: usize) -> bool {
        let mut seen = vec![false; successors.len()];
        let mut queue = vec![from];
        while let Some(node) = queue.pop() {
            if node == to {
                return true;
            }
            if !std::mem::replace(&mut seen[node], true) {
                queue.extend(&successors[node]);
            }
        }
        false
    }

    proptest! {
        #[test]
        fn nodes_are_together_if_they_reach_each_other(
            edges in prop::collection::vec((0usize..12, 0usize..12), 0..40)
        ) {
            let mut successors = vec![Vec::new(); 12];
            for (from, to) in edges {
                successors[from].push(to);
            }
            let found = components(&successors);
            let place = |node: usize| found.iter().position(|part| part.contains(&node)).unwrap();
            prop_assert_eq!(found.iter().map(Vec::len).sum::<usize>(), 12);
            for one in 0..12 {
                for other in 0..12 {
                    let both = reaches(&successors, one, other) && reaches(&successors, other, one);
                    prop_assert_eq!(both, place(one) == place(other));
                    if reaches(&successors, one, other) {
                        prop_assert!(place(other) <= place(one));
                    }
                }
            }
        }
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let count = 200_000;
        let successors: Vec<_> = (0..count)
            .map(|at| if at + 1 < count { vec![at + 1] } else { vec![] })
            .collect();
        assert_eq!(components(&successors).len(), count);
    }
}
