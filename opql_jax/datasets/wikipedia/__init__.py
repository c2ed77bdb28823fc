"""MediaWiki dumps, read and written."""
