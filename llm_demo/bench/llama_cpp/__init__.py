"""Comparison with llama.cpp: its server in a separate process, with the embedded draft as a GGUF file, interleaved with ot_draft."""
