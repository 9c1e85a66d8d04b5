"""Conversion of the embedded draft to a GGUF file, which llama.cpp and transformers read like any other model.

The embedded draft scores a subset of the vocabulary. A GGUF model has one vocabulary, so that the head of the file is the target's whole
embedding: it costs more to compute, and the distribution has some probability outside the subset. On the subset the two distributions are
proportional, up to the rounding of the layers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ot_draft.decoding import CannotDecode

TYPES = ("q8_0", "f16")  # of the layers' matrices
EMBEDDING = "token_embd.weight"


def write_draft(target: Path, layers: Path, out: Path, kind: str = TYPES[0]) -> None:
    """Write the draft of a file of layers, as `load_draft` reads it, for the target of a GGUF file.

    Settings, tokenizer and embedding are copied from the target. Norms are float32, matrices of type `kind`. Raises CannotDecode if the
    layers do not match the target.
    """
    import gguf
    from safetensors.torch import load_file

    reader = gguf.GGUFReader(target)
    architecture = reader.fields["general.architecture"].contents()
    if architecture != "llama":
        raise CannotDecode(
            f"target must be a Llama, got {target.name} of architecture {architecture!r}. Use another file."
        )
    tensors = {name: tensor.float().numpy() for name, tensor in load_file(layers).items()}
    del tensors["vocabulary_subset"]
    count = 1 + max(int(name.split(".")[2]) for name in tensors if ".layers." in name)
    writer = gguf.GGUFWriter(out, architecture)
    try:
        _settings(reader, writer, count, len(tensors["model.layers.0.mlp.gate_proj.weight"]), kind)
        embedding = next(tensor for tensor in reader.tensors if tensor.name == EMBEDDING)
        writer.add_tensor(EMBEDDING, embedding.data, raw_dtype=embedding.tensor_type)
        for name, tensor in tensors.items():
            _add(writer, _gguf_name(name, count, layers), _rotary_pairs(name, tensor, reader), kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def weights(file: Path) -> tuple[int, int, str]:
    """Return the number of weights of a GGUF file, their bytes, and their types, those with most bytes first."""
    import gguf

    sizes: dict[str, int] = {}
    tensors = gguf.GGUFReader(file).tensors
    for tensor in tensors:
        sizes[tensor.tensor_type.name] = sizes.get(tensor.tensor_type.name, 0) + int(tensor.n_bytes)
    types = sorted(sizes, key=lambda name: -sizes[name])
    return sum(int(tensor.n_elements) for tensor in tensors), sum(sizes.values()), " ".join(types)


def _settings(reader: Any, writer: Any, count: int, width: int, kind: str) -> None:
    """Copy all fields of the target's file; those that describe the layers are the draft's."""
    import gguf

    own = {
        "llama.block_count": count,
        "llama.feed_forward_length": width,
        "general.name": "draft",
        "general.file_type": gguf.LlamaFileType[f"MOSTLY_{kind.upper()}"].value,
    }
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue  # written by the writer itself
        value = own.get(name, field.contents())
        array = field.types[0] == gguf.GGUFValueType.ARRAY
        writer.add_key_value(name, value, field.types[0], sub_type=field.types[-1] if array else None)


def _gguf_name(name: str, count: int, layers: Path) -> str:
    import gguf

    known = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, count).get_name(name, try_suffixes=(".weight",))
    if known is None:
        raise CannotDecode(f"draft {layers.name} has a tensor {name!r}, which a Llama does not have. Use another file.")
    return str(known)


def _rotary_pairs(name: str, tensor: np.ndarray, reader: Any) -> np.ndarray:
    """Reorder the rows of q and k: RoPE pairs neighbouring rows of a head in llama.cpp, and rows half a head apart in transformers."""
    heads = {"q_proj": "llama.attention.head_count", "k_proj": "llama.attention.head_count_kv"}
    field = next((field for part, field in heads.items() if part in name), None)
    if field is None:
        return tensor
    halves = tensor.reshape(reader.fields[field].contents(), 2, -1, tensor.shape[-1])
    return halves.swapaxes(1, 2).reshape(tensor.shape)


def _add(writer: Any, name: str, tensor: np.ndarray, kind: str) -> None:
    import gguf

    wanted = gguf.GGMLQuantizationType.F32 if tensor.ndim == 1 else gguf.GGMLQuantizationType[kind.upper()]
    try:
        writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(tensor), wanted), raw_dtype=wanted)
    except (ValueError, gguf.quants.QuantError) as error:
        raise CannotDecode(f"{name} cannot be written as {kind}: {error}. Use f16.") from None
