"""Knowledge bases of plain text in other programs: LangChain, LlamaIndex and MCP.

Retrievers of the first two, and a server.
"""
