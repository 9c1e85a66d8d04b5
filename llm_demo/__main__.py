"""`python -m llm_demo`: the same as `ot-draft decode`."""

from ot_draft.cli.decode.command import decode

if __name__ == "__main__":
    decode(prog_name="python -m llm_demo")
