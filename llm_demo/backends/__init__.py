"""Inference engines other than torch: OpenVINO and llama.cpp, which pyproject.toml registers as backends of `ot_draft`."""

ROUNDED, EXACT, LLAMA_CPP = "openvino", "openvino-float", "llama.cpp"
BACKENDS = "torch", ROUNDED, EXACT, LLAMA_CPP
