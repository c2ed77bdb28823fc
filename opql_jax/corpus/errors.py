"""The base of every error that bad input raises; it stands in the lowest room, so that all others can use it."""


class InputError(ValueError):
    """Data, a setting or a file cannot be used; the message says what, where, and what to do. Binaries print it as one line."""
