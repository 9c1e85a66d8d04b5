"""`python -m llm_demo.bench.trees`."""

from llm_demo.bench.trees.command import main

if __name__ == "__main__":
    main()
