"""A web page and an HTTP API over a knowledge base of plain text (extra `app`): `opql explore films.kb`."""
