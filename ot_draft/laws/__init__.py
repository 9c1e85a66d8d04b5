"""Draft laws: the joint law of the k drafts given q. One file a law; `ALL` lists one instance of every law."""

from .base import IID, DraftLaw, Hub, Hybrid, WithoutReplacement, outside

__all__ = ["IID", "DraftLaw", "Hub", "Hybrid", "WithoutReplacement", "outside"]
