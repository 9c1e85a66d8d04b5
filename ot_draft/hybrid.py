"""How many top tokens hybrid drafting should fix, chosen from q alone."""
from .arrays import Array


def top_by_stand_in(q: Array, k: int) -> Array:
    raise NotImplementedError
