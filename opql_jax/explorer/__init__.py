"""A web page and HTTP API over a knowledge base of text (extra `app`): `opql explore films.kb`."""
