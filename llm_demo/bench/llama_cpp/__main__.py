"""`python -m llm_demo.bench.llama_cpp`."""

from llm_demo.bench.llama_cpp.command import main

if __name__ == "__main__":
    main()
