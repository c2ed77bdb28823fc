"""`python -m opql_jax.cli` is `opql`."""

from opql_jax.cli import main

if __name__ == '__main__':
    main()
