"""Rules inside vLLM and transformers: one module each, loaded only if it is used."""
