"""Compile every kernel for a GPU of compute capability 9.0, without one: names on stdout. `--resources DIRECTORY` keeps cubins."""

from __future__ import annotations

import sys
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from llm_demo.gpu import layer_kernels
from ot_draft.fast.kernels import draft_level, draw, excess, trees
from ot_draft.fast.kernels import optimal as classes

POINTERS = {
    "*i64": "drafts token parents tokens fixed length nodes following slots scored without_law",
    "*i32": "begins",
    "*fp64": "kink curve",
    "*bf16": "states norm x residual weight summed normed gate_up out qkv cos sin queries keys values",
    "fp32": "epsilon temperature even",
    "i32": "n p_step q_step k span first shift blocks draws size depth columns fixed_rows parents_row tokens_row p_tree p_node q_tree"
    " q_node rows states_row first_node parts uniforms_row top_count width count heads groups turns_row slots_row memory_row memory_head",
}
TYPES = {name: kind for kind, names in POINTERS.items() for name in names.split()}
ONE_WARP = {
    "_excess_sums": 1,
    "_class_masses": 2,
    "_curves": 2,
    "_levels": 1,
    "_kinks": 1,
    "_traverse": 8,
    "_walk": 8,
    "_draw_children": 8,
}
SIZES = {
    "K": 8,
    "C": 256,
    "PARTS": 64,
    "BLOCK": 512,
    "BLOCKS": 256,
    "FIRST": False,
    "LAST": True,
    "NODES": 64,
    "LENGTH": 8,
    "FIXED": -1,
    "ADDS": True,
    "NORMS": True,
    "HALF": 64,
    "ROWS": 16,
    "CHUNK": 64,
    "SUBSET": True,
    "GREEDY": False,
}
SMALL_BLOCKS = {
    "_excess_sums": 128,
    "_class_masses": 64,
    "_block_sums": 1024,
    "_draw": 1024,
    "_traverse": 2048,
    "_walk": 2048,
    "_scores": 64,
    "_draw_children": 1024,
    "_add_norm": 4096,
    "_rotate_and_write": 64,
}


def kernels() -> list[tuple[triton.JITFunction, dict[str, object]]]:
    """What is launched, with the constants of one launch: the steps twice, between passes and at the end."""
    steps = [excess._k_seq_step, excess._recursive_step]
    once = [excess._excess_sums, excess._residual, draw._block_sums, draw._draw]
    once += [
        classes._class_masses,
        classes._curves,
        classes._levels,
        classes._kinks,
        classes._choose,
        classes._selected,
        classes._couple,
    ]
    laws = [(trees._traverse, {"LAW": law}) for law in (0, 3)]
    walks = [(trees._walk, {"RULE": rule, "LAW": law}) for rule, law in ((0, 0), (1, 1))]
    layers = [layer_kernels._add_norm, layer_kernels._silu_mul, layer_kernels._rotate_and_write]
    once += [*layers, draft_level._scores]
    levels = [(draft_level._draw_children, {"LAW": law, "GREEDY": law == 0}) for law in range(3)]
    between = [(kernel, {"LAST": False}) for kernel in steps]
    return [*((kernel, {}) for kernel in once + steps), *between, *laws, *walks, *levels]


def main() -> None:
    for kernel, changes in kernels():
        name, names = kernel.__name__, kernel.arg_names
        constants = {arg: value for arg, value in (SIZES | changes).items() if arg in names}
        if "BLOCK" in constants:
            constants["BLOCK"] = SMALL_BLOCKS.get(name, constants["BLOCK"])
        types = {arg: "constexpr" if arg in constants else TYPES.get(arg, "*fp32") for arg in names}
        source = ASTSource(kernel, types, {(names.index(arg),): value for arg, value in constants.items()})
        options = {"num_warps": ONE_WARP.get(name, 4), "enable_fp_fusion": False}
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
        if len(sys.argv) > 1:
            Path(sys.argv[-1], f"{name}.cubin").write_bytes(made.asm["cubin"])
        print(name)


if __name__ == "__main__":
    main()
