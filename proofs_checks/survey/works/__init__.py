"""The works: one file for each that needs a rule of its own, and one for those that are instances of the library's."""
