"""Exceptions that binaries print as one line instead of a traceback."""


class InputError(ValueError):
    """Data, a setting or a file cannot be used; the message says what is wrong, where, and what to do."""


class Preempted(SystemExit):
    """The process was asked to stop (SIGTERM) and has saved its state; the same command continues from there.

    Binaries exit with `CODE`, upon which the scripts in launch/ run the command again.
    """

    CODE = 75  # EX_TEMPFAIL of sysexits.h

    def __init__(self, message: str):
        super().__init__(self.CODE)
        self.message = message
