"""opql_jax: a virtual knowledge base of open predicate relations, built from entity-linked text."""
