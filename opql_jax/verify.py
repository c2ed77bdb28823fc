"""Checks every file of folders: `python -m opql_jax.verify FOLDER ...`.

Exits 1 naming the files that are damaged.
"""

import sys

from opql_jax.core import preemption, terminal


def main(folders: list[str]) -> int:
    """The exit code: 2 without folders, 1 if something is wrong."""
    from opql_jax.core.errors import InputError, error_message
    from opql_jax.kb.verify import verify

    if not folders or {'-h', '--help'} & set(folders):
        print(__doc__)
        return 2 if not folders else 0
    wrong = []
    for folder in folders:
        try:
            wrong += verify(folder, print)
        except InputError as error:
            wrong.append(error_message(error))
    for message in wrong:
        print(f'error: {message}', file=sys.stderr)
    print(f'{len(wrong)} wrong' if wrong else 'all is as the manifests say')
    return 1 if wrong else 0


if __name__ == '__main__':
    preemption.exit_on_signals()
    with terminal.escaped_output():
        sys.exit(main(sys.argv[1:]))
