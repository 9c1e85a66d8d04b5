"""The best way to spend N drafted nodes, measured on real models over a range of draft quality: `python -m llm_demo.bench.trees`."""
