"""Errors in the definitions that the theorems are about: each must make a bridge fail, whatever the theorems say then."""

from .theorem import Planted

# In rules.v.
ONE_TOKEN_ERRORS = (
    Planted(
        "drafts selected in reverse order",
        "falls 1 [seq cut l i (foldr maxn 0%N x) | i <- x].",
        "rev (falls 1 (rev [seq cut l i (foldr maxn 0%N x) | i <- x])).",
        "rules",
    ),
    Planted(
        "the correction of a selected draft draws from p",
        "| z <- zip x choice] (norm (excess p m) p).",
        "| z <- zip x choice] p.",
        "rules",
    ),
    Planted(
        "the envelope takes the larger maximum",
        "least (upto i) (down (size s - i)).",
        "most (upto i) (down (size s - i)).",
        "rules",
    ),
    Planted(
        "recursive rejection keeps the first target",
        "(rcons h y) (norm (excess p q) p) x' in",
        "(rcons h y) (if true then p else norm (excess p q) p) x' in",
        "rules",
    ),
    Planted(
        "drafts drawn without replacement stay in q",
        "  norm (fun y => if y \\in h then 0 else q y) (norm",
        "  norm q (norm",
        "rules",
    ),
    Planted("K-SEQ takes its tests off once", "taken g p q y * share)) p).", "taken g p q y)) p).", "rules"),
)
HYBRID_ERRORS = (
    Planted(
        "given tokens count as draws",
        "let drawn := optimal p q r in",
        "let drawn := optimal p q (size tops + r)%N in",
        "rules",
    ),
)
# In path_rules.v.
PATH_ERRORS = (
    Planted("the ladder forgets the weight", "least N 1 (w * p h y / m y).", "least N 1 (p h y / m y).", "path_rules"),
    Planted(
        "the correction is not weighted",
        "T -> A := excess N tokens (fun y => w * p h y) m.",
        "T -> A := excess N tokens (p h) m.",
        "path_rules",
    ),
    Planted(
        "the test leaves out 1 - w",
        "(left_over h w m) in if rest + (1 - w) <=? 0 then 1 else rest / (rest + (1 - w)).",
        "(left_over h w m) in rest.",
        "path_rules",
    ),
    Planted(
        "Traversal hands on the whole target",
        "traversal_emits (norm N tokens left r) w'",
        "traversal_emits r w'",
        "path_rules",
    ),
    Planted("the root's target at every node", "p h", "p [::]", "path_rules"),
    Planted("Joint selects for p", "let wp := fun y => w * p h y in", "let wp := p h in", "path_rules"),
    Planted("paths with another token live on", "| x <- xs & ohead x == Some y].", "| x <- xs].", "path_rules"),
)
# In tree_rules.v.
TREE_ERRORS = (
    Planted(
        "a node's weight is 1 after a refusal",
        "(test N tokens (fun _ => s.2) [::] s.1 Q, following",
        "(1, following",
        "tree_rules",
    ),
    Planted(
        "children are tested without the weight",
        "next_weight N (fun _ => s.2) [::] s.1 Q y.",
        "next_weight N (fun _ => s.2) [::] 1 Q y.",
        "tree_rules",
    ),
)
# In sweep_rules.v.
LEVEL_ERRORS = (
    Planted(
        "what a place lost is not booked",
        "rest st j - rate st j * (now - seen st j)",
        "rest st j - 0 * (now - seen st j)",
        "sweep_rules",
    ),
    Planted(
        "a place keeps its rate when a neighbour dies", "(put (rate st) j (loss st j))", "(rate st)", "sweep_rules"
    ),
    Planted("who lives to the end has no level", "then leveled all i st else st.", "then st else st.", "sweep_rules"),
)
