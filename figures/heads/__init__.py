"""Trees drafted by two heads of the bundled target."""
