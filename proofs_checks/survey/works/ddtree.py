"""DDTree and JetSpec: trees of a diffusion or parallel head's tokens, walked by the target's own draws."""

from ..record import NAIVE_TREE, Form, Work, greedy

RESTS = "one draw per node, compared with its children; exact checks"
WORKS = (
    Work("ddtree", "DDTree", "2604.12989", "code", "lossless", "none beyond the target's sample",
         (Form("tree", NAIVE_TREE, RESTS),), "liranringel/ddtree ddtree.py@c96427a, follow_verified_tree"),
    Work("jetspec", "JetSpec", "", "code of the tree walk", "lossless", "none beyond the target's sample",
         (Form("tree, temperature above 0", NAIVE_TREE, RESTS, when="tree_accept"),
          greedy("tree on the GPU", when="gpu_tree_accept, which takes the argmax of every node")),
         "hao-ai-lab/JetSpec jetspec/tree/_core/accept.py@2c7b3fa"),
)  # fmt: skip
