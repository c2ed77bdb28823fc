"""MediaWiki dumps, such as Wikipedia's.

`reader` for `prepare`, `dump` for XML files, `wikitext` and `titles` for their contents.
"""
