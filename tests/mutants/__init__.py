"""The planted faults: what is wrong with a verifier, once, and what each of the project's checks is shown of it.

* step: one plain way to draft and verify; parts: wrong parts. catalogue: MUTANTS, each a name, what it breaks, the parts exchanged.
* rules, runs: faults that only a selection rule or a stream of random numbers can have, written out.
* audit, plugin: a mutant as a sampler behind a server, and inside the plugin for vLLM.

`PYTHONPATH=tests python -m mutants` prints the table. The survey has injected faults of its own (`proofs_checks/survey`), the
vectors theirs (`proofs_checks/vectors/faults.py`, historic ones among them): both are shown with their pages, without the tests.
"""
