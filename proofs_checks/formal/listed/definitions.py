"""Errors in the definitions that the theorems are about: each must make a bridge fail, whatever the theorems say then."""

from .theorem import Planted

# In rules.v.
ONE_TOKEN_ERRORS = (
    Planted.computed(
        "drafts selected in reverse order",
        "falls 1 [seq cut l i (foldr maxn 0%N x) | i <- x].",
        "rev (falls 1 (rev [seq cut l i (foldr maxn 0%N x) | i <- x])).",
        "rules",
    ),
    Planted.computed(
        "the correction of a selected draft draws from p",
        "| z <- zip x choice] (norm (excess p m) p).",
        "| z <- zip x choice] p.",
        "rules",
    ),
    Planted.computed(
        "the envelope takes the larger maximum",
        "least (upto i) (down (size s - i)).",
        "most (upto i) (down (size s - i)).",
        "rules",
    ),
    Planted.computed(
        "recursive rejection keeps the first target",
        "(rcons h y) (norm (excess p q) p) x' in",
        "(rcons h y) (if true then p else norm (excess p q) p) x' in",
        "rules",
    ),
    Planted.computed(
        "drafts drawn without replacement stay in q",
        "  norm (fun y => if y \\in h then 0 else q y) (norm",
        "  norm q (norm",
        "rules",
    ),
    Planted.computed("K-SEQ takes its tests off once", "taken g p q y * share)) p).", "taken g p q y)) p).", "rules"),
)
HYBRID_ERRORS = (
    Planted.computed(
        "given tokens count as draws",
        "let drawn := optimal p q r in",
        "let drawn := optimal p q (size tops + r)%N in",
        "rules",
    ),
)
# In path_rules.v.
PATH_ERRORS = (
    Planted.computed(
        "the ladder forgets the weight", "least N 1 (w * p h y / m y).", "least N 1 (p h y / m y).", "path_rules"
    ),
    Planted.computed(
        "the correction is not weighted",
        "T -> A := excess N tokens (fun y => w * p h y) m.",
        "T -> A := excess N tokens (p h) m.",
        "path_rules",
    ),
    Planted.computed(
        "the test leaves out 1 - w",
        "(left_over h w m) in if rest + (1 - w) <=? 0 then 1 else rest / (rest + (1 - w)).",
        "(left_over h w m) in rest.",
        "path_rules",
    ),
    Planted.computed(
        "Traversal hands on the whole target",
        "traversal_emits (norm N tokens left r) w'",
        "traversal_emits r w'",
        "path_rules",
    ),
    Planted.computed("the root's target at every node", "p h", "p [::]", "path_rules"),
    Planted.computed("Joint selects for p", "let wp := fun y => w * p h y in", "let wp := p h in", "path_rules"),
    Planted.computed(
        "paths with another token live on", "| x <- xs & ohead x == Some y].", "| x <- xs].", "path_rules"
    ),
)
# In tree_rules.v.
TREE_ERRORS = (
    Planted.computed(
        "a node's weight is 1 after a refusal",
        "(test N tokens (fun _ => s.2) [::] s.1 Q, following",
        "(1, following",
        "tree_rules",
    ),
    Planted.computed(
        "children are tested without the weight",
        "next_weight N (fun _ => s.2) [::] s.1 Q y.",
        "next_weight N (fun _ => s.2) [::] 1 Q y.",
        "tree_rules",
    ),
)
# In sweep_rules.v.
LEVEL_ERRORS = (
    Planted.computed(
        "what a place lost is not booked",
        "rest st j - rate st j * (now - seen st j)",
        "rest st j - 0 * (now - seen st j)",
        "sweep_rules",
    ),
    Planted.computed(
        "a place keeps its rate when a neighbour dies", "(put (rate st) j (loss st j))", "(rate st)", "sweep_rules"
    ),
    Planted.computed(
        "who lives to the end has no level", "then leveled all i st else st.", "then st else st.", "sweep_rules"
    ),
)
# In rules.v: the optimum, and what K-SEQ's factor is about.
OPTIMUM_ERRORS = (
    Planted.computed(
        "some draft in H in the place of all",
        "[seq x <- drafts k | all (mem H) x]",
        "[seq x <- drafts k | has (mem H) x]",
        "rules",
    ),
    Planted.computed("H holds no token or all", "in sets ++ [seq y :: H | H <- sets] else", "in sets else", "rules"),
    Planted.computed("K-SEQ's tests leave out the factor", "least (q y) (p y / g).", "least (q y) (p y).", "rules"),
)
# In tree_rules.v and path_rules.v: what is drafted, and the caps.
DRAFTING_ERRORS = (
    Planted.computed(
        "a coin is never tossed",
        "add N (mul N t (drafted_mean value d1 f)) (mul N (sub N (one N) t) (drafted_mean value d2 f))",
        "drafted_mean value d1 f",
        "tree_rules",
    ),
    Planted.computed("a tree holds its youngest branch only", " || holds elder u else", " else", "tree_rules"),
    Planted.computed(
        "a child is added beside its place",
        "0%N :: a', Child elder Q' y below => Child elder Q' y (add_child a' Q x below)",
        "0%N :: a', Child elder Q' y below => Child (add_child a' Q x elder) Q' y below",
        "tree_rules",
    ),
    Planted.computed(
        "caps by the target alone",
        "let w' := least N (drafted (rcons h c)) (w * p h c) in",
        "let w' := w * p h c in",
        "path_rules",
    ),
)
