"""Prints the planted faults: what each breaks, its name, and the forms that it is shown in."""

from .catalogue import MUTANTS

for mutant in MUTANTS:
    print(f"{mutant.breaks:12s} {mutant.name:52s} {', '.join(mutant.found)}")
