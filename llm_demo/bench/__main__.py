"""`python -m llm_demo.bench`."""

from llm_demo.bench.command import main

if __name__ == "__main__":
    main()
