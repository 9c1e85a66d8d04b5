"""llama.cpp beside our own decoding: its server in a process of its own, our draft as a GGUF file, both in turns in one run."""
