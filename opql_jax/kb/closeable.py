"""Objects that release what they hold when they are closed, and say so to whoever uses them afterwards."""

from typing import TYPE_CHECKING

from opql_jax.core.errors import InputError


class Closeable:
    """An object that can be closed, with its parts that are closeable: it then refers to nothing, and any use of it is an InputError."""

    def close(self) -> None:
        """Releases all that it refers to; closing it again does nothing."""
        attributes = vars(self)
        # A list first: another thread may add a cached property meanwhile.
        parts = [part for part in list(attributes.values()) if isinstance(part, Closeable)]
        attributes.clear()  # first, so that another thread is told
        attributes['_is_closed'] = True
        for part in parts:
            part.close()

    if not TYPE_CHECKING:  # where it would give a type to any name

        def __getattr__(self, name: str):  # which Python calls where there is no such attribute
            if '_is_closed' in vars(self) and not name.startswith('__'):
                raise InputError('this knowledge base was closed: open it again')
            raise AttributeError(f'{type(self).__name__} has no attribute {name!r}')
