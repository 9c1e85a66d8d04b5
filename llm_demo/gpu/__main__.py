"""`python -m llm_demo.gpu`."""

from llm_demo.gpu.command import main

if __name__ == "__main__":
    main()
