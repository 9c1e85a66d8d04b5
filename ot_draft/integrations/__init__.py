"""Rules inside vLLM, SGLang and transformers: one module each, loaded only if it is used."""
