"""`python -m llm_demo.distil`."""

from llm_demo.distil.command import main

if __name__ == "__main__":
    main()
