"""How work ends before its time; in the lowest room, so that all others can use it."""


class InputError(ValueError):
    """Data, a setting or a file cannot be used; the message says what, where, and what to do. Binaries print it as one line."""


class Stopped(SystemExit):
    """A SIGTERM asked the process to stop, which clusters send before they take a machine away; what can be kept is on disk.

    Binaries print the message and exit with CODE, upon which the scripts in launch/ run the same command again.
    """

    CODE = 75  # EX_TEMPFAIL of sysexits.h

    def __init__(self, message: str):
        super().__init__(self.CODE)
        self.message = message
