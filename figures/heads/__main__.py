"""`python -m figures.heads`."""

from figures.heads.table import main

if __name__ == "__main__":
    main()
