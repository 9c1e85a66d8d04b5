"""Rules inside vLLM, SGLang, transformers and evalscope: one module each, loaded only if it is used."""
