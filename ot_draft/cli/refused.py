"""How a command refuses wrong input."""

import click


class Refused(click.ClickException):
    """Wrong input: one line on stderr, exit status 2."""

    exit_code = 2
